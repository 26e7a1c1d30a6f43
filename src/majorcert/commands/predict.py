"""`majorcert predict`: image files to labels, each with what is proved of it."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from majorcert.commands.options import Device, Json, SkipBad
from majorcert.commands.terminal import patches_of, remark, say_json, say_table
from majorcert.core.largest import largest_patch
from majorcert.core.majority import majorcert
from majorcert.errors import DataError


def predict(
    image: Annotated[list[Path], typer.Argument(help="PNG or JPEG files of any size and mode.")],
    ensemble: Annotated[
        list[str] | None,
        typer.Option(help="An ensemble or run folder, or the name of a bundled one; repeatable. By default cifar10."),
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option("--patch", help="Side of a square or HEIGHTxWIDTH, in pixels; repeatable. By default 5."),
    ] = None,
    device: Device = "auto",
    precision: Annotated[str | None, typer.Option(help="'float32' or 'bfloat16'; by default bfloat16 on CUDA.")] = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Classify image files, and say of each label whether any patch of the given size could change it.

    Example: majorcert predict cat.jpg --ensemble runs --patch 5

    Without --ensemble it is the one for CIFAR-10's ten classes that comes with majorcert.
    """
    import torch

    from majorcert.nets.defender import Ensemble
    from majorcert.nets.sources.folder import read_image

    patches = patches_of(patch or ["5"])
    loaded = [Ensemble.load(each, device=device, precision=precision) for each in ensemble or ["cifar10"]]
    together = Ensemble([defender for each in loaded for defender in each.defenders])
    for size in patches:
        size.n_placements(together.image_size)
    paths, pixels = [], []
    for path in image:
        try:
            pixels.append(read_image(path, together.image_size, together.channels))
            paths.append(path)
        except DataError as error:
            if not skip_bad:
                raise
            remark(f"skipped: {error}")
    if not paths:
        raise DataError("there is no image left to classify")
    ballots = together.ballots(torch.from_numpy(np.stack(pixels)))
    verdicts = [majorcert(ballots, size) for size in patches]
    largest = largest_patch(ballots)
    names = together.class_names
    found: list[dict[str, Any]] = [
        {
            "image": str(path),
            "label": names[verdicts[0].predicted[k]],
            "certified": {str(verdict.patch): bool(verdict.certified[k]) for verdict in verdicts},
            "largest": int(largest[k]),
            "defenders": {
                f"{place}:{each.strategy}": names[each.label[k]] for place, each in enumerate(ballots, start=1)
            },
        }
        for k, path in enumerate(paths)
    ]
    if json:
        say_json(found)
        return
    height, width = together.image_size
    remark(f"patch sizes are in pixels of the {height}x{width} image that the networks see")
    say_table(
        ["image", "label", *(f"certified {size}" for size in patches), "largest certified"],
        [
            [
                row["image"],
                row["label"],
                *("yes" if holds else "no" for holds in row["certified"].values()),
                f"{row['largest']}x{row['largest']}" if row["largest"] else "none",
            ]
            for row in found
        ],
    )
