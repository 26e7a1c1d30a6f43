"""PatchGuard: robust masking of scores or pooled votes, with an exact certificate (docs/soundness.md has the proof).

The defender looks, for each label, for the window of ablations that speaks loudest for it, leaves that window out, and
says the label with most points left. A window is what one placement of the mask patch touches, whatever its shape.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.majority import drs
from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import Evidence, Reach
from majorcert.core.regions import Touched
from majorcert.core.threat import Bools, Patch, as_patch
from majorcert.core.verdict import Verdict
from majorcert.defences.pool import Pool, described
from majorcert.defences.pooled_votes import PooledVotes
from majorcert.defences.scores import Scores
from majorcert.defences.windows import left_standing, masked_certified, masked_reach
from majorcert.errors import EvidenceError
from majorcert.errors.frozen import filled, taken

FINEST_SHARE = 1000
"""A masking threshold is taken as the nearest fraction with a denominator up to this, so that it is exact."""
MOST_POINTS = 2**62
"""Points of a label, times the classes and the denominator of a threshold: more would leave the range of integers."""
CHUNK_POINTS = 2**21
"""About how many numbers one array holds at a time; results do not depend on it."""


def patchguard(
    scores: Scores | Ballots | Pool, patch: Patch, *, threshold: float = 0.0, mask: Patch | None = None
) -> Verdict:
    """Certify one defender, or pool, that masks, for each label, the window that speaks loudest for it.

    Sound because a patch changes only the ablations of one window: that window's own evidence for a wrong label is
    never left standing, and taking all its evidence from the right label is the worst that can be done to that one.

    Args:
        scores: points of every ablation; of ballots every vote is one point, as in PatchGuard's released code; of a
            pool the points of its member, and a window is what a placement touches of all members.
        threshold: the share of a label's points that a window must exceed to be masked (0: always).
        mask: the patch size that the defender guards against, which its predictions depend on; `patch` if not given.
    """
    mask = patch if mask is None else mask
    if isinstance(scores, Pool):
        return replace(drs(MaskedPool(scores, mask, threshold), patch, bound="local"), method="pg-pool")
    points = Scores.of_votes(scores) if isinstance(scores, Ballots) else scores
    return replace(drs(MaskedScores(points, mask, threshold), patch, bound="local"), method="pg-drs")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MaskedScores(Evidence):
    """A defender that masks: evidence that can stand alone or join any ensemble."""

    scores: Scores | PooledVotes
    mask: Patch
    share: Fraction
    """the share of a label's points that a window must exceed to be masked"""
    label: Ints
    """(images,) the label with most points after masking, the smallest of those that tie"""

    def __init__(self, scores: Scores | PooledVotes, mask: Patch, threshold: float = 0.0) -> None:
        if not isinstance(scores, Scores | PooledVotes):
            raise EvidenceError(
                f"PatchGuard masks the points of scores or votes, and of {described(scores)} there are none"
            )
        mask = as_patch(mask, scores.image_size)
        fits = isinstance(threshold, int | float | np.number | Fraction) and 0 <= threshold < 1
        share = Fraction(float(threshold)).limit_denominator(FINEST_SHARE) if fits else Fraction(1)
        if share >= 1:
            raise EvidenceError(f"a masking threshold is a share of 0 or more and under 1, got {threshold!r}")
        most = scores.most()
        if int(most.sum(dtype=np.int64)) * scores.n_classes * share.denominator >= MOST_POINTS:
            raise EvidenceError(f"up to {most.sum()} points a label are too many to compare; use fewer points for a 1")
        windows, label = scores.strategy.touched(mask, scores.image_size), np.zeros(len(scores.images), dtype=np.int64)
        for images in _parts(len(label), scores.n_classes, windows):
            label[images] = plurality(left_standing(scores[images], windows, share))
        filled(
            self,
            scores=scores,
            mask=mask,
            share=share,
            n_classes=scores.n_classes,
            image_size=scores.image_size,
            images=scores.images,
            provenance={**scores.provenance, "kind": "scores", "mask": str(mask), "mask_threshold": str(share)},
            label=label,
        )

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({len(self)} images, {self.scores.strategy}, {self.n_classes} classes, mask {self.mask})"

    def __getitem__(self, images: slice | Ints) -> "MaskedScores":
        return taken(self, images, "scores", "images", "label")

    def abstained(self) -> Bools:
        return np.asarray(~self.scores.totals().any(axis=1))

    def reach(self, patch: Patch) -> Reach:
        """The labels that a patch can make this defender say, if the mask can cover it; every label if not."""
        n_tops, n_lefts = patch.n_placements(self.image_size)
        rows, columns = np.zeros(n_tops, dtype=np.intp), np.zeros(n_lefts, dtype=np.intp)
        members = np.ones((len(self), self.n_classes, 1, 1), dtype=bool)
        if self._covers(patch):
            windows = self._windows
            members = masked_reach(self.scores, self.label, windows, self.share)
            # A smaller patch lies inside the mask at the same corner, or at the last one that the image has room for,
            # so all that it can do is in reach there.
            rows = windows.rows[np.minimum(np.arange(n_tops), len(windows.rows) - 1)]
            columns = windows.columns[np.minimum(np.arange(n_lefts), len(windows.columns) - 1)]
        listed = np.tile(np.arange(self.n_classes), (len(self), 1))
        return Reach(listed, members, np.zeros((len(self), *members.shape[2:]), dtype=np.int64), rows, columns)

    def certified_alone(self, patch: Patch) -> Bools:
        """(images,) as the reach says, worked out a few images at a time and without saying what else is in reach."""
        certified, windows = np.zeros(len(self), dtype=bool), self._windows
        if self._covers(patch):
            for images in _parts(len(self), self.n_classes, windows):
                certified[images] = masked_certified(self.scores[images], self.label[images], windows, self.share)
        return certified

    def _covers(self, patch: Patch) -> bool:
        return patch.height <= self.mask.height and patch.width <= self.mask.width

    @property
    def _windows(self) -> Touched:
        return self.scores.strategy.touched(self.mask, self.image_size)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MaskedPool(MaskedScores):
    """The same of a pool: a window is what a placement touches of all members, and every vote counts its points."""

    def __init__(self, pool: Pool, mask: Patch, threshold: float = 0.0) -> None:
        super().__init__(PooledVotes(pool), mask, threshold)
        filled(self, provenance={**self.provenance, "kind": "masked-pool"})

    @property
    def members(self) -> tuple[Ballots, ...]:
        return cast(PooledVotes, self.scores).pool.members


def _parts(n_images: int, n_classes: int, windows: Touched) -> Iterator[slice]:
    """The images, a few at a time."""
    step = max(1, CHUNK_POINTS // (n_classes * windows.n_touched().size))
    yield from (slice(start, start + step) for start in range(0, n_images, step))
