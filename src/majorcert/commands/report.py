"""`majorcert report`: evidence, and the images if there are any, to one HTML page. Needs torch only for images."""

from pathlib import Path
from typing import Annotated

import typer

from majorcert.commands.inputs import pictures_of
from majorcert.commands.options import (
    DataDir,
    Images,
    Patches,
    Promise,
    Promised,
    Rule,
    Ruled,
    Slack,
    SplitSeed,
    Stores,
    Truth,
)
from majorcert.files.outputs import PAGE, check_output
from majorcert.files.photo_sizes import find_photos
from majorcert.files.truth import find_truth
from majorcert.reports.asked import defenders_of, patches_of
from majorcert.reports.contents import Contents
from majorcert.reports.methods import guarded, ruled
from majorcert.reports.page import LIMIT, TITLE, write_report
from majorcert.reports.terminal import remark, stderr


def report(
    evidence: Stores,
    patch: Patches,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    promise: Promised = Promise.RECOVERY,
    slack: Slack = 0,
    method: Ruled = Rule.MAJORITY,
    images: Images = None,
    truth: Truth = None,
    title: Annotated[str, typer.Option(help="Stands at the top of the page.")] = TITLE,
    limit: Annotated[int, typer.Option(min=1, help="Images in the gallery; the overview counts all.")] = LIMIT,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
) -> None:
    """Write one self-contained page that shows what is certified, what is not, and why.

    Example: majorcert report evidence/*.zarr --images digits --patch 2 --patch 3 -o report.html
    """
    check_output(out, PAGE)
    with stderr.status("reading the evidence") as shown:
        defenders = defenders_of(evidence)
        patches = patches_of(patch, evidence[0], defenders)
        contents = Contents(
            ruled(method, defenders, patches),
            patches,
            truth=find_truth(truth, evidence[0], defenders[0], remark),
            pictures=pictures_of(images, defenders[0], data_dir, split_seed),
            verdicts=[] if promise == "detection" else guarded(evidence, patches),
            promise=promise,
            slack=slack,
            photos=find_photos(evidence[0], defenders[0]),
        )
        write_report(out, contents, title=title, limit=limit, progress=shown.update)
    typer.echo(out)
