"""A verdict shown in a terminal: methods compared in words, and a few images drawn with what could be done to them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.core.majority import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.reports.drawing import image_text, safe_text, side_by_side
from majorcert.reports.rows import WORDS, Row, rows, safe_map
from majorcert.reports.table import rows_text

EXPLAINED = """
Accuracies in percent. Clean: predicted correctly. Certified: predicted correctly, and no patch of that size, wherever
it is and whatever it shows, can change the label.
"""


def story(evidence: Sequence[Ballots], truth: Ints, pictures: npt.NDArray[np.uint8], patches: Sequence[Patch]) -> str:
    """A table of all methods, MajorCert beside its members, and three images drawn with a patch of the second size."""
    names = [str(ballots.strategy) for ballots in evidence]
    table = rows(dict(zip(names, evidence, strict=True)), truth, patches)
    verdict = majorcert(evidence, patches[1])
    images = [
        drawn(pictures[image], verdict, image, int(truth[image]), names) + "\n" for image in examples(verdict, truth)
    ]
    return "\n".join([rows_text(table), EXPLAINED, "\n".join(compared(table)) + "\n", *images])


def compared(table: Sequence[Row]) -> list[str]:
    """For each patch, MajorCert beside the pool and the best of its defenders alone, whichever comes out ahead."""
    lines = []
    for patch in dict.fromkeys(row.patch for row in table):
        here = [row for row in table if row.patch == patch]
        together, pooled = ({row.method: row for row in here}[WORDS[each]] for each in ("majorcert-exact", "pool"))
        alone = max((row for row in here if row.method == WORDS["drs-local"]), key=lambda row: row.certified)
        lines.append(
            f"Against {patch} patches MajorCert certifies {together.n_certified_and_correct} of {together.n} images, "
            f"the pool of their votes {pooled.n_certified_and_correct}, and the best single defender, {alone.who}, "
            f"{alone.n_certified_and_correct}."
        )
    return lines


def examples(verdict: Verdict, truth: Ints) -> list[int]:
    """Three images that are predicted correctly: a certified one, one nearly safe and the least safe of all."""
    n_unsafe = (~safe_map(verdict)).sum(axis=(1, 2))
    order = [int(image) for image in np.argsort(n_unsafe, kind="stable") if verdict.predicted[image] == truth[image]]
    unsafe = [image for image in order if n_unsafe[image]]
    return list(dict.fromkeys([*order[:1], *unsafe[:1], *unsafe[-1:]]))


def drawn(pixels: npt.NDArray[np.uint8], verdict: Verdict, image: int, truth: int, names: Sequence[str]) -> str:
    """The image, the placements at which the patch could change its label, and the first of them in words."""
    safe, witness = safe_map(verdict)[image], verdict.witness(image)
    said = f"image {verdict.images[image]}: a {truth}, predicted {verdict.predicted[image]}"
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
