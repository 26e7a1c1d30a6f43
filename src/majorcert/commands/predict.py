"""`majorcert predict`: image files to labels, each with what is proved of it."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from majorcert.commands.options import Device, Json, SkipBad
from majorcert.commands.terminal import remark, say_json, say_table
from majorcert.core.majority import majorcert
from majorcert.core.threat import Patch, as_patch
from majorcert.defences.largest import largest_patch


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
    from majorcert.nets.sources.photo import read_photos

    patches = [as_patch(each) for each in patch or ["5"]]
    loaded = [Ensemble.load(each, device=device, precision=precision) for each in ensemble or ["cifar10"]]
    together = Ensemble([defender for each in loaded for defender in each.defenders])
    for size in patches:
        size.n_placements(together.image_size)
    photos, skipped = read_photos(image, together.image_size, together.channels, skip_bad=skip_bad)
    for error in skipped:
        remark(f"skipped: {error}")
    ballots = together.evidence(torch.from_numpy(np.stack([photo.pixels for photo in photos])))
    verdicts, largest = [majorcert(ballots, size) for size in patches], largest_patch(ballots)
    names, (height, width) = together.class_names, together.image_size
    about = (
        f"a patch is on the decoded image after it was resized to {height}x{width}, in pixels of that image; of the "
        "photo, a certificate covers patches of at least the photo pixels that are told, painted after decoding"
    )
    found: list[dict[str, Any]] = [
        {
            "image": str(photo.path),
            "label": names[verdicts[0].predicted[k]],
            "certified": {str(verdict.patch): bool(verdict.certified[k]) for verdict in verdicts},
            "largest": int(largest[k]),
            "photo_size": list(photo.size),
            "photo_pixels": {str(size): photo.covers(size) for size in (*patches, Patch(max(1, int(largest[k]))))},
            "about": about,
            "defenders": {
                f"{at}:{each.provenance['strategy']}": names[each.label[k]] for at, each in enumerate(ballots, start=1)
            },
        }
        for k, photo in enumerate(photos)
    ]
    if json:
        say_json(found)
        return
    remark(about)
    header = ["image", "label", *(f"certified {size}" for size in patches), "largest certified"]
    say_table([*header[:2], *(f"{name} of {height}x{width}" for name in header[2:])], [_cells(row) for row in found])


def _cells(row: dict[str, Any]) -> list[str]:
    """A line of the table: sizes on the resized image, and beside them on the photo."""
    covers, side = row["photo_pixels"], f"{row['largest']}x{row['largest']}"
    shown = [f"yes, {covers[size]} on the photo" if holds else "no" for size, holds in row["certified"].items()]
    return [row["image"], row["label"], *shown, f"{side}, {covers[side]} on the photo" if row["largest"] else "none"]
