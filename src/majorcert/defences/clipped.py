"""Clipped scores (Clipped BagNet): bounded scores of every ablation, added up (docs/soundness.md has the proof).

An ablation gives each label its probability, 0 to `one` points, whatever is painted on it. So a patch takes at most all
points of the touched ones from everybody, and gives as many as there can be to one label: the mathematics of votes, in
points.
"""

from dataclasses import dataclass

import numpy as np

from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import Evidence, Reach
from majorcert.core.tally import Candidates, contenders
from majorcert.core.threat import Bools, Patch
from majorcert.defences.scores import Scores
from majorcert.errors import EvidenceError
from majorcert.errors.frozen import filled, taken

MOST_POINTS = 2**31 - 1
"""Of a label, so that an int32 holds what they stand for."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ClippedScores(Evidence):
    """A defender that says the label with most points, of which no ablation gives more than `one`."""

    scores: Scores
    points: Ints
    """(images, classes) all points of each label"""
    label: Ints
    """(images,) the label with most of them, the smallest of those that tie"""

    def __init__(self, scores: Scores) -> None:
        if not isinstance(scores, Scores):
            raise EvidenceError(f"clipped scores are made of scores, mc.Scores, got {type(scores).__name__}")
        most = int(scores.points.max(initial=0))
        if most > scores.one or scores.points.shape[1] * scores.one > MOST_POINTS:
            raise EvidenceError(
                f"clipped scores are 0 to {scores.one} points, and of all ablations up to {MOST_POINTS}; got {most} of "
                f"{scores.points.shape[1]} ablations"
            )
        points = scores.points.sum(axis=1, dtype=np.int64)
        filled(self, scores=scores, points=points, label=plurality(points), n_classes=scores.n_classes)
        provenance = {**scores.provenance, "kind": "clipped"}
        filled(self, image_size=scores.image_size, images=scores.images, provenance=provenance)

    def __repr__(self) -> str:
        return (
            f"ClippedScores({len(self)} images, {self.scores.strategy}, {self.n_classes} classes, /{self.scores.one})"
        )

    def __getitem__(self, images: slice | Ints) -> "ClippedScores":
        return taken(self, images, "scores", "images", "points", "label")

    def abstained(self) -> Bools:
        return np.asarray(~self.points.any(axis=1))

    def reach(self, patch: Patch) -> Reach:
        """The labels that a patch can make it say, at every placement; every rival is compared, not the runner-up."""
        touched = self.scores.strategy.touched(patch, self.image_size)
        return self._elected(patch, self.scores.one * touched.n_touched())

    def without(self, patch: Patch, slack: int = 0) -> Reach:
        """The labels that may win without the touched ablations, when every label may be given `slack` points."""
        return self._elected(patch, np.full((1, 1), slack))

    def _elected(self, patch: Patch, gain: Ints) -> Reach:
        touched = self.scores.strategy.touched(patch, self.image_size)
        candidates = Candidates.of(self.points, self.label)
        by_label = self.scores.points.transpose(0, 2, 1)
        listed = np.take_along_axis(by_label, np.maximum(candidates.listed, 0)[:, :, None], axis=1)
        kept = listed.sum(axis=2, dtype=np.int64)[:, :, None, None] - touched.sums(listed)
        return candidates.elected(kept, gain[None], touched.rows, touched.columns)

    def certified_alone(self, patch: Patch) -> Bools:
        """(images,) by the reach at every placement, looked at only where the lead alone does not settle it."""
        certified = contenders(self.points, self.label, 2 * self._most(patch)).sum(axis=1) == 1
        doubtful = np.flatnonzero(~certified)
        some = self[doubtful]
        certified[doubtful] = some.reach(patch).only(some.label).all(axis=(1, 2))
        return certified

    def stays_alone(self, patch: Patch, slack: int = 0) -> Bools:
        """(images,) does it lead by the slack, and more than any placement could take from it?"""
        return np.asarray(contenders(self.points, self.label, slack + self._most(patch)).sum(axis=1) == 1)

    def _most(self, patch: Patch) -> int:
        """Points that a placement can take from a label, or give to one."""
        return self.scores.one * int(self.scores.strategy.touched(patch, self.image_size).n_touched().max())
