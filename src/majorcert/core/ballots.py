"""Ballots: the recorded votes of one defender on many images, the evidence that certificates are made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import NO_LABEL, Evidence, Reach
from majorcert.core.records import checked_distance, checked_images, checked_size, filled, taken
from majorcert.core.regions import Strategy
from majorcert.core.regions import strategy as read_strategy
from majorcert.core.tally import Bound, Candidates, count_votes, kept_votes, rewritable, solid_labels
from majorcert.core.threat import Bools, ImageSize, Patch, whole
from majorcert.errors import BallotsError

ABSTAIN = NO_LABEL
"""Fills a ballot that votes for fewer labels than there is room for."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ballots(Evidence):
    """What every ablation of every image votes for: (images, ablations, k) labels, ABSTAIN fills the rest."""

    labels: Ints
    strategy: Strategy
    image_size: ImageSize
    n_classes: int
    images: Ints
    provenance: Mapping[str, Any]
    distance: npt.NDArray[Any] | None  # (images, ablations)
    fragile: Bools | None  # (images, ablations)
    votes: Ints  # (images, classes) how many each label got
    label: Ints  # (images,) the defender's label: the plurality of its ballots

    def __init__(
        self,
        labels: npt.ArrayLike,
        *,
        strategy: Strategy | str,
        image_size: ImageSize,
        n_classes: int,
        images: npt.ArrayLike | None = None,
        provenance: Mapping[str, Any] | None = None,
        distance: npt.ArrayLike | None = None,
    ) -> None:
        strategy = read_strategy(strategy) if isinstance(strategy, str) else strategy
        size, n_classes = checked_size(image_size), whole(n_classes, "n_classes", BallotsError, least=2)
        checked = _checked(np.asarray(labels), strategy, size, n_classes)
        votes = count_votes(checked, n_classes)
        filled(
            self,
            labels=checked,
            strategy=strategy,
            image_size=size,
            n_classes=n_classes,
            images=checked_images(images, len(checked)),
            provenance={
                **{key: value for key, value in (provenance or {}).items() if key != "fragile"},
                "strategy": str(strategy),
                "image_size": list(size),
                "n_classes": n_classes,
            },
            distance=None if distance is None else checked_distance(np.asarray(distance), checked.shape[:2]),
            fragile=None,
            votes=votes,
            label=plurality(votes),
        )

    @classmethod
    def from_scores(cls, scores: npt.ArrayLike, *, threshold: float | None, **about: Any) -> "Ballots":
        """Votes from (images, ablations, classes) scores: every label at or over the threshold; None: the top one.

        Args:
            about: `strategy`, `image_size` and what else `Ballots` takes.
        """
        from majorcert.files import scoring

        return cls(**scoring.ballots_of(np.asarray(scores), threshold, **about))

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"Ballots({len(self)} images of {height}x{width}, {self.strategy}, {self.n_classes} classes)"

    def __getitem__(self, images: slice | Ints) -> Self:
        return taken(self, images, "labels", "images", "distance", "fragile", "votes", "label")

    def counts(self) -> Ints:
        """(images, classes) the votes that each label got."""
        return self.votes

    def solid_votes(self) -> Ints:
        """(images, classes) the same without the fragile ballots."""
        return (
            self.votes if self.fragile is None else count_votes(solid_labels(self.labels, self.fragile), self.n_classes)
        )

    def abstained(self) -> Bools:
        """(images,) did no ballot name any label? The defender then says label 0, by the tie rule alone."""
        return np.asarray((self.labels < 0).all(axis=(1, 2)))

    def reach(self, patch: Patch) -> Reach:
        """The labels that a patch can make this defender output, at every placement; no smaller set is true."""
        return self._elected(patch, "exact")

    def paper_reach(self, patch: Patch) -> Reach:
        """The larger set of the paper's Definition 1: rivals are compared with the clean label alone."""
        return self._elected(patch, "paper")

    def without(self, patch: Patch, slack: int = 0) -> Reach:
        """The labels that may win when touched ballots are left out and every label may be given `slack` votes."""
        return self._elected(patch, "exact", slack)

    def _elected(self, patch: Patch, bound: Bound, slack: int | None = None) -> Reach:
        touched, solid = self.strategy.touched(patch, self.image_size), solid_labels(self.labels, self.fragile)
        candidates = Candidates.of(self.solid_votes(), self.label)
        gain = rewritable(self.fragile, touched) + (touched.n_touched() if slack is None else slack)
        kept = kept_votes(solid, candidates.listed, touched)
        return candidates.elected(kept, gain, touched.rows, touched.columns, bound)

    def margin_certified(self, patch: Patch) -> Bools:
        """(images,) does the winner lead by more than any placement could take from it and give to one rival?"""
        return self._leads(2 * self._most_touched(patch))

    certified_alone = margin_certified

    def stays_alone(self, patch: Patch, slack: int = 0) -> Bools:
        """(images,) does the winner lead by the slack, and more than any placement could take from it?"""
        return self._leads(self._most_touched(patch) + slack)

    def _most_touched(self, patch: Patch) -> int:
        return int(self.strategy.touched(patch, self.image_size).n_touched().max())

    def _leads(self, handicap: int) -> Bools:
        """(images,) by so many votes. Fragile ballots give nothing to the winner, and each may go to the rival."""
        n_fragile = 0 if self.fragile is None else self.fragile.sum(axis=1)
        return Candidates.of(votes := self.solid_votes(), self.label).leads(votes, handicap + n_fragile)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a Zarr store, without a tolerance; an earlier store at that path is replaced, whole or not at all."""
        from majorcert.files import evidence

        evidence.save_evidence(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], images: slice = slice(None)) -> "Ballots":
        """Read a Zarr store, or the given slice of its images, and check it as if it were new."""
        from majorcert.files import evidence

        return evidence.load_as(cls, path, images)


def _checked(labels: npt.NDArray[Any], strategy: Strategy, image_size: ImageSize, n_classes: int) -> Ints:
    """The labels as (images, ablations, k) in the smallest type, once they are known to make sense."""
    if labels.ndim not in (2, 3) or labels.dtype.kind not in "iu" or labels.shape[2:] == (0,):
        raise BallotsError(f"expected integer labels (images, ablations, k), got {labels.dtype} {labels.shape}")
    labels = labels[:, :, None] if labels.ndim == 2 else labels
    if labels.shape[1] != (n_ablations := strategy.n_ablations(image_size)):
        made = f"{strategy} makes {n_ablations} ablations of a {image_size[0]}x{image_size[1]} image"
        raise BallotsError(
            f"{made}, got ballots of {labels.shape[1]}; check the strategy, its stride and the image size"
        )
    if labels.size and (labels.min() < ABSTAIN or labels.max() >= n_classes):
        wrong = labels.min() if labels.min() < ABSTAIN else labels.max()
        raise BallotsError(f"labels are 0 to {n_classes - 1}, or ABSTAIN ({ABSTAIN}); got {wrong}")
    ordered = np.sort(labels, axis=2)
    if ((ordered[:, :, 1:] == ordered[:, :, :-1]) & (ordered[:, :, 1:] != ABSTAIN)).any():
        raise BallotsError("a ballot names a label twice; a label may be voted for once in each ballot")
    return labels.astype(np.min_scalar_type(-n_classes))
