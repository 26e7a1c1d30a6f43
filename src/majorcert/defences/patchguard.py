"""PatchGuard: robust masking of one defender's scores, with an exact certificate (docs/soundness.md has the proof).

The defender looks, for each label, for the window of ablations that speaks loudest for it, leaves that window out, and
says the label with most points left. A window is what one placement of the mask patch touches, whatever its shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.drs import drs
from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import Reach, distinct_rows
from majorcert.core.regions import Touched
from majorcert.core.threat import ImageSize, Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.scores import Scores
from majorcert.defences.windows import distinct_windows, left_standing, masked_reach
from majorcert.errors import EvidenceError

FINEST_SHARE = 1000
"""A masking threshold is taken as the nearest fraction with a denominator up to this, so that it is exact."""
CHUNK_POINTS = 2**21
"""About how many numbers one array holds at a time; results do not depend on it."""


def patchguard(scores: Scores | Ballots, patch: Patch, *, threshold: float = 0.0, mask: Patch | None = None) -> Verdict:
    """Certify one defender that masks, for each label, the window that speaks loudest for it.

    Sound because a patch changes only the ablations of one window: that window's own evidence for a wrong label is
    never left standing, and taking all its evidence from the right label is the worst that can be done to that one.

    Args:
        scores: points of every ablation; of ballots every vote is one point, as in PatchGuard's released code.
        threshold: the share of a label's points that a window must exceed to be masked (0: always).
        mask: the patch size that the defender guards against, which its predictions depend on; `patch` if not given.
    """
    evidence = MaskedScores(
        Scores.of_votes(scores) if isinstance(scores, Ballots) else scores, mask or patch, threshold
    )
    return replace(drs(evidence, patch, bound="local"), method="pg-drs")


@dataclass(frozen=True, eq=False)
class MaskedScores:
    """A defender that masks: evidence that can stand alone or join any ensemble."""

    scores: Scores
    mask: Patch
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1 or self._share >= 1:
            raise EvidenceError(f"a masking threshold is a share of 0 or more and under 1, got {self.threshold}")
        self.mask.n_placements(self.image_size)

    @property
    def n_classes(self) -> int:
        return self.scores.n_classes

    @property
    def image_size(self) -> ImageSize:
        return self.scores.image_size

    @property
    def images(self) -> Ints:
        return self.scores.images

    @property
    def provenance(self) -> Mapping[str, Any]:
        return {**self.scores.provenance, "mask": str(self.mask), "mask_threshold": str(self._share)}

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, images: slice | Ints) -> "MaskedScores":
        part = MaskedScores(self.scores[images], self.mask, self.threshold)
        if "label" in self.__dict__:
            part.__dict__["label"] = self.label[images]
        return part

    @cached_property
    def label(self) -> Ints:
        """(images,) the label with most points after masking, the smallest of those that tie."""
        windows = distinct_windows(self._touched)
        step = max(1, CHUNK_POINTS // (self.n_classes * len(windows.rows) * len(windows.columns)))
        parts = (self.scores.points[start : start + step] for start in range(0, len(self), step))
        left = [left_standing(part, windows, self._share)[2] for part in parts]
        return plurality(np.concatenate([np.zeros((0, self.n_classes), np.int64), *left]))

    def reach(self, patch: Patch) -> Reach:
        """The labels that a patch can make this defender say, if the mask can cover it; every label if not."""
        n_tops, n_lefts = patch.n_placements(self.image_size)
        row_cell, column_cell = (distinct_rows(factor)[1] for factor in (self._touched.rows, self._touched.columns))
        if patch.height <= self.mask.height and patch.width <= self.mask.width:
            members = masked_reach(self.scores.points, self.label, distinct_windows(self._touched), self._share)
        else:
            row_cell, column_cell = np.zeros(n_tops, dtype=np.intp), np.zeros(n_lefts, dtype=np.intp)
            members = np.ones((len(self), self.n_classes, 1, 1), dtype=bool)
        return Reach(
            listed=np.tile(np.arange(self.n_classes), (len(self), 1)),
            members=members,
            below=np.zeros((len(self), *members.shape[2:]), dtype=np.int64),
            # A smaller patch lies inside the mask at the same corner, or at the last one that the image has room for,
            # so all that it can do is in reach there.
            rows=row_cell[np.minimum(np.arange(n_tops), len(row_cell) - 1)],
            columns=column_cell[np.minimum(np.arange(n_lefts), len(column_cell) - 1)],
        )

    @property
    def _touched(self) -> Touched:
        return self.scores.strategy.touched(self.mask, self.image_size)

    @property
    def _share(self) -> Fraction:
        return Fraction(self.threshold).limit_denominator(FINEST_SHARE)
