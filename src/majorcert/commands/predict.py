"""`majorcert predict`: image files to labels, each with what is proved of it."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from majorcert.commands.options import RULE, Allow, Bounded, Device, Json, Promise, Promised, Rule, SkipBad, Slack
from majorcert.files.asked_patches import distinct, known_bound, read_patches
from majorcert.files.photo import Photos
from majorcert.reports.prediction_text import as_table, closing, remarks
from majorcert.reports.predictions import Question, masked_apart, predictions
from majorcert.reports.promises import promised
from majorcert.reports.terminal import bar, remark, say_json, say_table


def predict(
    image: Annotated[list[Path], typer.Argument(help="Image files of any size and mode, and folders of such.")],
    ensemble: Annotated[
        list[str] | None,
        typer.Option(help="A run or ensemble folder, 'cifar10' (the default) or 'imagenet'; repeatable."),
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            "--patch",
            help="'2%' of the photo, '75x100px' of its pixels (HEIGHTxWIDTH), or '5' and '2x7' in pixels of the image "
            "that the networks see; repeatable. By default 2%, and 5 for networks that see at most 32x32.",
        ),
    ] = None,
    promise: Promised = Promise.RECOVERY,
    slack: Slack = 0,
    method: Annotated[Rule | None, typer.Option(help=f"{RULE} By default as the ensemble was saved.")] = None,
    bounded: Bounded = True,
    pool: Annotated[bool, typer.Option("--pool", hidden=True, help="Now --method pool.")] = False,
    device: Device = "auto",
    precision: Annotated[str | None, typer.Option(help="As `vote` takes it; by default bfloat16 on CUDA.")] = None,
    allow: Allow = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Classify image files, and say of each label whether any patch of the given size could change it.

    A photo is decoded, then resized to what the networks see. A patch on the decoded photo is converted to all that it
    can change there, wherever it lies, and each certificate is told in photo pixels too.

    Example: majorcert predict cat.jpg --ensemble runs --patch 2% --patch 75x100px

    Without --ensemble it is the one for CIFAR-10's ten classes that comes with majorcert. A --patch in pixels of the
    networks' image is a bound as well: where an ensemble has defenders that must know one, they predict, unless pools
    are asked for, or --no-bound. 'imagenet' is a classifier for a thousand classes (install the extra `imagenet`),
    behind masks that cover the patches asked for.
    """
    import torch

    from majorcert.nets.ensemble import Ensemble
    from majorcert.nets.imagenet import is_pretrained
    from majorcert.nets.protect import guarded, protect
    from majorcert.nets.sources.photo import photo_files, read_photos

    how: dict[str, Any] = {"device": device, "precision": precision}
    pools = pool or method in (Rule.POOL, Rule.MASKED_POOL)  # which those that must know a bound cannot
    more: dict[str, Any] = {"bound": known_bound(patch or []) if bounded and not pools else None, "allow": allow or ()}
    names = ensemble or ["cifar10"]
    masked = any(map(is_pretrained, names))
    loaded = [
        Ensemble([protect(each, 1, **how)]) if is_pretrained(each) else Ensemble.load(each, **more, **how)
        for each in names
    ]
    pooled = pools or (method is None and len(loaded) == 1 and loaded[0].pooled)
    together = Ensemble([defender for each in loaded for defender in each.defenders], pooled=pooled)
    promised(promise, slack, 1 if pooled else len(together.defenders))  # what cannot be is told before photos are read
    asked = distinct(patch or (["5"] if max(together.image_size) <= 32 else ["2%"]), together.image_size)
    resizing, files, found = together.resizing, photo_files(image), list[dict[str, Any]]()
    reading: dict[str, Any] = {"skip_bad": skip_bad, "told": remark}
    question = Question(asked, resizing, together.class_names, promise, slack)
    with bar("predicting") as shown:
        for photos in read_photos(files, together.image_size, together.channels, resizing, **reading):
            for some in [[photo] for photo in photos] if masked else [photos]:
                pixels = torch.from_numpy(np.stack([photo.pixels for photo in some]))
                sizes = [(photo.path, photo.size) for photo in some]
                if masked:
                    patches = read_patches(asked, together.image_size, Photos(frozenset([some[0].size]), resizing))
                    telling: Any = {"told": lambda label, path=some[0].path: remark(f"{path}: {label}")}
                    evidence = guarded(together, pixels, patches, promise=promise.value, progress=shown.show, **telling)
                else:
                    evidence = together.evidence(pixels, promise=promise.value)
                tell_of = masked_apart if method == Rule.MASKED_POOL else predictions
                found += tell_of(evidence, sizes, question)
                shown.show(len(found), len(files), f"{len(found):,} of {len(files):,} photos")
    if not ensemble:
        masks = "" if patch else "; --patch 5 lets its masks answer, which must know that no patch is larger"
        remark(f"by the ensemble for the ten classes of CIFAR-10 that comes along; --ensemble takes another{masks}")
    for told in remarks(found):
        remark(told)
    if json:
        say_json(found)
        return
    say_table(*as_table(found, together.image_size, question))
    for told in closing(found, together.image_size, question):
        remark(told)
