"""`majorcert demo`: from nothing to a certified table, on the digits that scikit-learn carries."""

import time
from pathlib import Path
from typing import Annotated

import typer

from majorcert.commands.train import train
from majorcert.commands.vote import vote
from majorcert.core.ballots import Ballots
from majorcert.core.threat import Patch
from majorcert.files.truth import read_truth, truth_beside
from majorcert.reports.contents import Contents
from majorcert.reports.page import write_report
from majorcert.reports.showcase import story
from majorcert.reports.terminal import remark

PATCHES = (Patch(1), Patch(2), Patch(3))


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for everything it makes.")] = Path("demo"),
) -> None:
    """Train three defenders on handwritten digits, let them vote, certify, and show what came out.

    About a minute on two cores; started again, it uses what is there. It ends with a page to open in a browser.
    """
    import torch

    from majorcert.nets.data import load
    from majorcert.nets.ensemble_file import member_folders
    from majorcert.nets.recipes import DIGITS_STRATEGIES

    torch.set_num_threads(1)  # networks as small as these only lose time by sharing their work
    begun = time.perf_counter()
    test = load("digits", "test")
    remark(f"1. Train: {', '.join(DIGITS_STRATEGIES)} on {len(load('digits', 'trainval'))} images of 8x8 pixels.")
    train("digits", out, list(DIGITS_STRATEGIES), recipe="digits", split="trainval", device="cpu", resume=True)
    remark(f"2. Vote: all ablations of {len(test)} other images.")
    vote([str(out)], "digits", out=str(out / "evidence"), device="cpu")
    remark("3. Certify: every placement of the patch, every image.")
    typer.echo()

    stores = [out / "evidence" / f"{folder.name}.zarr" for folder in member_folders(out)]
    evidence = [Ballots.load(store) for store in stores]
    truth = read_truth(truth_beside(stores[0], evidence[0]), evidence[0])
    page, pictures = out / "report.html", test.images.numpy()
    typer.echo(story(evidence, truth, pictures, PATCHES))
    write_report(page, Contents(evidence, PATCHES, truth=truth, pictures=pictures), title="Handwritten digits")
    seconds = time.perf_counter() - begun
    typer.echo(f"Everything is in {out}/ and took {seconds:.0f} seconds. Open {page} in a browser to look around.")
