"""Certified accuracy of a whole data set, in seconds: only images whose answer is still open are looked at closely.

Every short cut is a theorem, so the counts are those of the plain verdicts: an image that is predicted wrongly never
counts; a margin (Theorem 1) implies safety at every placement; what is certified against a patch is certified
against every smaller one; and what the exact reach does not certify the paper's larger reach does not either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.core.contest import ReachKind
from majorcert.core.majority import check_together, safe_placements
from majorcert.core.plurality import Ints, plurality, plurality_of_labels, standing
from majorcert.core.tally import beats_every_rival
from majorcert.core.threat import Bools, Patch
from majorcert.defences.scores import Scores
from majorcert.defences.windows import distinct_windows, left_standing, masked_certified
from majorcert.errors import EvidenceError

CHUNK = 256
"""Images whose points are masked at a time; results do not depend on it."""


@dataclass(frozen=True, eq=False)
class Proved:
    """Which correctly predicted images are certified against one patch, by each argument."""

    theorem1: Bools
    exact: Bools
    paper: Bools
    reference: Bools
    """as the paper's released code reports it: its reach, without the last row and column of placements"""
    n_unsafe: Ints
    """(placement rows, placement columns) correctly predicted images that are not safe there (exact reach)"""


@dataclass(frozen=True, eq=False)
class Census:
    """An ensemble of voting defenders and the images that it predicts correctly. One defender is an ensemble too."""

    defenders: tuple[Ballots, ...]
    counts: tuple[Ints, ...]
    """the votes of each defender, counted once for all patches"""
    predicted: Ints
    correct: Bools

    @classmethod
    def of(cls, defenders: Sequence[Ballots], truth: npt.ArrayLike) -> "Census":
        check_together(list(defenders))
        if any(defender.fragile is not None for defender in defenders):
            raise EvidenceError("a census counts votes as they were recorded; give the ballots without a tolerance")
        counts = tuple(defender.counts() for defender in defenders)
        labels = np.stack([plurality(votes) for votes in counts], axis=1)
        for defender, label in zip(defenders, labels.T, strict=True):
            defender.__dict__["label"] = label
        predicted = plurality_of_labels(labels, defenders[0].n_classes)
        return cls(tuple(defenders), counts, predicted, predicted == np.asarray(truth))

    def theorem1(self, patch: Patch) -> Bools:
        """Correct, and most defenders say so with a margin; of one defender alone, the DRS margin."""
        n_firm = np.zeros(len(self.correct), dtype=np.int64)
        for defender, votes in zip(self.defenders, self.counts, strict=True):
            most = int(defender.strategy.touched(patch, defender.image_size).counts().max())
            n_firm += beats_every_rival(votes, defender.label, 2 * most) & (defender.label == self.predicted)
        return (2 * n_firm > len(self.defenders)) & self.correct

    def prove(self, sides: Sequence[int], reaches: Sequence[ReachKind] = ("exact", "paper")) -> dict[int, Proved]:
        """What is certified against square patches of these sides; the paper's reach is looked at only if named."""
        proved: dict[int, Proved] = {}
        exact = paper = np.zeros(len(self.correct), dtype=bool)
        for side in sorted(sides, reverse=True):
            patch = Patch(side)
            firm = self.theorem1(patch)
            exact, spared, n_unsafe = self._scan(patch, "exact", firm | exact, self.correct)
            possible = (exact | spared) if "paper" in reaches else paper
            paper, reference, _ = self._scan(patch, "paper", firm | paper, possible)
            proved[side] = Proved(firm, exact, paper, reference, n_unsafe)
        return proved

    def largest(self, proved: dict[int, Proved], limit: int) -> Ints:
        """(images,) the side of the largest square certified by the exact reach, up to `limit`; 0: none, or wrong.

        Margins say at once how far each image gets at least; from there one looks step by step, which is seldom far.
        """
        least = np.zeros(len(self.correct), dtype=np.int64)
        below = np.where(self.correct, limit + 1, 1)
        for side in range(1, limit + 1):
            known = proved[side].exact if side in proved else self.theorem1(Patch(side))
            least[known] = side
            if side in proved:
                below = np.where(known, below, np.minimum(below, side))
        while (below - least > 1).any():
            for side in range(1, limit + 1):
                images = np.flatnonzero((below - least > 1) & (least == side - 1))
                holds = self._safe(Patch(side), images, "exact").all(axis=(1, 2))
                least[images[holds]] = side
                below[images[~holds]] = side
        return least

    def _scan(self, patch: Patch, reach: ReachKind, settled: Bools, possible: Bools) -> tuple[Bools, Bools, Ints]:
        """Certified images, those that would be but for the last row and column, and where how many are unsafe."""
        images = np.flatnonzero(possible & ~settled)
        safe = self._safe(patch, images, reach)
        certified, spared = settled.copy(), settled.copy()
        certified[images] = safe.all(axis=(1, 2))
        spared[images] = safe[:, :-1, :-1].all(axis=(1, 2))
        return certified, spared, (~safe).sum(axis=0)

    def _safe(self, patch: Patch, images: Ints, reach: ReachKind) -> Bools:
        return safe_placements([defender[images] for defender in self.defenders], patch, reach=reach)


def count_masked(evidence: Scores | Ballots, patch: Patch, truth: npt.ArrayLike) -> tuple[Bools, Bools]:
    """(images,) each: what PatchGuard (threshold 0) predicts correctly, and correctly with a certificate."""
    windows = distinct_windows(evidence.strategy.touched(patch, evidence.image_size))
    labels, share = np.asarray(truth), Fraction(0)
    correct, certified = np.zeros((2, len(evidence)), dtype=bool)
    for start in range(0, len(evidence), CHUNK):
        part = evidence[start : start + CHUNK]
        points = (Scores.of_votes(part) if isinstance(part, Ballots) else part).points
        total, loudest, left = left_standing(points, windows, share)
        label, n_classes = plurality(left), points.shape[2]
        right = label == labels[start : start + CHUNK]

        images = np.arange(len(points))
        rivals = standing(total, np.arange(n_classes), n_classes)
        rivals[images, label] = -1
        # Masking and touching cost the label no more than its loudest window each, and no rival gains beyond its total.
        floor = standing((total - 2 * loudest)[images, label], label, n_classes)
        firm = right & (floor > rivals.max(axis=1))
        open_ = np.flatnonzero(right & ~firm)
        firm[open_] = masked_certified(points[open_], label[open_], windows, share)
        correct[start : start + CHUNK], certified[start : start + CHUNK] = right, firm
    return correct, certified
