"""`majorcert predict`: image files to labels, each with what is proved of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from majorcert.commands.options import Device, Json, SkipBad
from majorcert.commands.terminal import patches_of, remark, say_json, say_table
from majorcert.core.largest import largest_patch
from majorcert.core.majority import majorcert
from majorcert.core.threat import ImageSize, Patch
from majorcert.errors import DataError


def predict(
    image: Annotated[list[Path], typer.Argument(help="PNG or JPEG files of any size and mode.")],
    ensemble: Annotated[
        list[str] | None,
        typer.Option(help="An ensemble or run folder, or the name of a bundled one; repeatable. By default cifar10."),
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            "--patch",
            help="Side of a square or HEIGHTxWIDTH, in pixels of the image that the networks see; repeatable. "
            "By default 5.",
        ),
    ] = None,
    device: Device = "auto",
    precision: Annotated[str | None, typer.Option(help="'float32' or 'bfloat16'; by default bfloat16 on CUDA.")] = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Classify image files, and say of each label whether any patch of the given size could change it.

    The patch is on the decoded, resized image that the networks see; each certificate is also told in photo pixels.

    Example: majorcert predict cat.jpg --ensemble runs --patch 5

    Without --ensemble it is the one for CIFAR-10's ten classes that comes with majorcert.
    """
    import torch

    from majorcert.nets.defender import Ensemble
    from majorcert.nets.sources.folder import read_photo

    patches = patches_of(patch or ["5"])
    loaded = [Ensemble.load(each, device=device, precision=precision) for each in ensemble or ["cifar10"]]
    together = Ensemble([defender for each in loaded for defender in each.defenders])
    for size in patches:
        size.n_placements(together.image_size)
    paths, pixels, photo_sizes = [], [], []
    for path in image:
        try:
            seen, photo_size = read_photo(path, together.image_size, together.channels)
        except DataError as error:
            if not skip_bad:
                raise
            remark(f"skipped: {error}")
            continue
        paths.append(path)
        pixels.append(seen)
        photo_sizes.append(photo_size)
    if not paths:
        raise DataError("there is no image left to classify")
    ballots = together.ballots(torch.from_numpy(np.stack(pixels)))
    verdicts = [majorcert(ballots, size) for size in patches]
    largest = largest_patch(ballots)
    names, about = together.class_names, _about(together.image_size)
    found: list[dict[str, Any]] = [
        {
            "image": str(path),
            "label": names[verdicts[0].predicted[k]],
            "certified": {str(verdict.patch): bool(verdict.certified[k]) for verdict in verdicts},
            "largest": int(largest[k]),
            "photo_size": list(photo_size),
            "photo_pixels": {
                str(size): _on_photo(size, photo_size, together.image_size)
                for size in (*patches, *([Patch(int(largest[k]))] if largest[k] else []))
            },
            "about": about,
            "defenders": {
                f"{place}:{each.strategy}": names[each.label[k]] for place, each in enumerate(ballots, start=1)
            },
        }
        for k, (path, photo_size) in enumerate(zip(paths, photo_sizes, strict=True))
    ]
    if json:
        say_json(found)
        return
    remark(about)
    _say(found, patches, together.image_size)


def _about(image_size: ImageSize) -> str:
    height, width = image_size
    return (
        f"a patch is on the decoded image after it was resized to {height}x{width}, in pixels of that image; of the "
        "photo, a certificate covers patches of at least the photo pixels that are told, painted after decoding"
    )


def _on_photo(patch: Patch, photo_size: ImageSize, image_size: ImageSize) -> str:
    """The same certificate in photo pixels; what is under one pixel covers no patch on the photo."""
    from majorcert.nets.sources.photo import patch_on_photo

    height, width = patch_on_photo(patch, photo_size, image_size)
    return f"{height}x{width}" if height and width else "none"


def _say(found: Sequence[dict[str, Any]], patches: Sequence[Patch], image_size: ImageSize) -> None:
    height, width = image_size
    of = f"of {height}x{width}"
    header = ["image", "label", *(f"certified {size} {of}" for size in patches), f"largest certified {of}"]
    lines = []
    for row in found:
        covers = row["photo_pixels"]
        shown = [f"yes, {covers[size]} on the photo" if holds else "no" for size, holds in row["certified"].items()]
        side = f"{row['largest']}x{row['largest']}"
        shown.append(f"{side}, {covers[side]} on the photo" if row["largest"] else "none")
        lines.append([row["image"], row["label"], *shown])
    say_table(header, lines)
