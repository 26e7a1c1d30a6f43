"""`majorcert demo`: from nothing to a certified table, on the digits that scikit-learn carries."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from majorcert.commands.terminal import remark
from majorcert.commands.train import train
from majorcert.commands.vote import vote
from majorcert.core.ballots import Ballots
from majorcert.core.majority import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.files.truth import read_truth, truth_beside
from majorcert.reports.contents import Contents
from majorcert.reports.drawing import image_text, safe_text, side_by_side
from majorcert.reports.page import write_report
from majorcert.reports.rows import WORDS, Row, rows
from majorcert.reports.table import rows_text

PATCHES = (Patch(1), Patch(2), Patch(3))
DRAWN = Patch(2)
EXPLAINED = """
Accuracies in percent. Clean: predicted correctly. Certified: predicted correctly, and no patch of that size, wherever
it is and whatever it shows, can change the label.
"""


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
    names = [str(ballots.strategy) for ballots in evidence]
    table = rows(dict(zip(names, evidence, strict=True)), truth, PATCHES)
    typer.echo(rows_text(table))
    typer.echo(EXPLAINED)
    typer.echo("\n".join(compared(table)) + "\n")
    verdict = majorcert(evidence, DRAWN)
    for image in examples(verdict, truth):
        typer.echo(drawn(test.images[image].numpy(), verdict, image, int(truth[image]), names) + "\n")
    page = out / "report.html"
    pictures = test.images.numpy()
    write_report(page, Contents(evidence, PATCHES, truth=truth, pictures=pictures), title="Handwritten digits")
    seconds = time.perf_counter() - begun
    typer.echo(f"Everything is in {out}/ and took {seconds:.0f} seconds. Open {page} in a browser to look around.")


def compared(table: Sequence[Row]) -> list[str]:
    """For each patch, MajorCert beside the best of its defenders alone, whichever of them comes out ahead."""
    lines = []
    for patch in PATCHES:
        here = [row for row in table if row.patch == str(patch)]
        (together,) = [row for row in here if row.method == WORDS["majorcert-exact"]]
        alone = max((row for row in here if row.method == WORDS["drs-local"]), key=lambda row: row.certified)
        lines.append(
            f"Against {patch} patches MajorCert certifies {together.n_certified_and_correct} of {together.n} images, "
            f"and the best single defender, {alone.who}, {alone.n_certified_and_correct}."
        )
    return lines


def examples(verdict: Verdict, truth: Ints) -> list[int]:
    """Three images that are predicted correctly: a certified one, one nearly safe and the least safe of all."""
    n_unsafe = np.zeros(len(verdict)) if verdict.safe is None else (~verdict.safe).sum(axis=(1, 2))
    order = [int(image) for image in np.argsort(n_unsafe, kind="stable") if verdict.predicted[image] == truth[image]]
    unsafe = [image for image in order if n_unsafe[image]]
    return list(dict.fromkeys([*order[:1], *unsafe[:1], *unsafe[-1:]]))


def drawn(pixels: npt.NDArray[np.uint8], verdict: Verdict, image: int, truth: int, names: Sequence[str]) -> str:
    """The image, the placements at which the patch could change its label, and the first of them in words."""
    safe = verdict.safe[image] if verdict.safe is not None else np.ones((1, 1), dtype=bool)
    said = f"image {verdict.images[image]}: a {truth}, predicted {verdict.predicted[image]}"
    witness = verdict.witness(image)
    if witness is None:
        lines = [f"{said}, certified: no {verdict.patch} patch", f"at any of the {safe.size} places can change it"]
    else:
        forced = ", ".join(f"{name} says {label}" for name, label in zip(names, witness.forced, strict=True))
        top, left = witness.placement
        lines = [
            f"{said}, NOT certified: {int((~safe).sum())} of {safe.size} places (##)",
            f"are unsafe for the top-left pixel of a {verdict.patch} patch.",
            f"At row {top}, column {left} it is not ruled out that",
            f"{forced}.",
        ]
    return side_by_side(image_text(pixels), safe_text(safe), lines)
