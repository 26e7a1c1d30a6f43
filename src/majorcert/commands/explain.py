"""`majorcert explain`: the story of one image in the terminal. Needs torch only for images."""

from pathlib import Path
from typing import Annotated

import typer

from majorcert.commands.inputs import pictures_of
from majorcert.commands.options import (
    PATCH,
    DataDir,
    Images,
    Promise,
    Promised,
    Rule,
    Ruled,
    Slack,
    SplitSeed,
    Stores,
    Truth,
)
from majorcert.files.outputs import PNG, check_output
from majorcert.files.photo_sizes import find_files
from majorcert.files.truth import find_truth
from majorcert.reports.asked import defenders_of, patches_of
from majorcert.reports.contents import Contents
from majorcert.reports.explain import explain as story
from majorcert.reports.explain import placement_of, save_map
from majorcert.reports.methods import ruled
from majorcert.reports.terminal import remark, say


def explain(
    evidence: Stores,
    image: Annotated[int, typer.Option(help="The number of the image in its data set.")],
    patch: Annotated[str, typer.Option(help=PATCH)],
    at: Annotated[
        str | None, typer.Option(help="TOP,LEFT of the patch; by default the first unsafe placement.")
    ] = None,
    fragile: Annotated[float | None, typer.Option(help="Even if every score moves by up to this: 1e-3.")] = None,
    promise: Promised = Promise.RECOVERY,
    slack: Slack = 0,
    method: Ruled = Rule.MAJORITY,
    save: Annotated[Path | None, typer.Option(help="Save the map as a PNG file.")] = None,
    images: Images = None,
    truth: Truth = None,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
) -> None:
    """Say of one image where a patch could change its label, what each defender could be made to say, and why.

    Under --promise detection: what is left when a placement is taken out, and whether that raises an alert.

    Example: majorcert explain evidence/*.zarr --image 17 --patch 5 --save map.png
    """
    check_output(save, PNG)
    defenders = defenders_of(evidence)
    if fragile is not None:
        defenders = [each.tolerating(fragile) for each in defenders]
    (size,) = patches_of([patch], evidence[0], defenders)
    pictures = pictures_of(images, defenders[0], data_dir, split_seed)
    known = find_truth(truth, evidence[0], defenders[0], remark)
    together = ruled(method, defenders, [size])
    contents = Contents(together, [size], truth=known, pictures=pictures, promise=promise, slack=slack)
    lines, safe, scene = story(contents, image, size, None if at is None else placement_of(at))
    if file := find_files(evidence[0], defenders[0]).get(image):
        remark(f"image {image} is {file}")
    say(*lines)
    if save is not None:
        save_map(save, contents, image, size, safe, scene.placement)
