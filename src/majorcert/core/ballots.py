"""Ballots: the recorded votes of one defender on many images, the evidence that certificates are made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import NO_LABEL, Evidence, Reach
from majorcert.core.regions import Strategy
from majorcert.core.regions import strategy as read_strategy
from majorcert.core.tally import Bound, Candidates, contenders, count_votes, kept_votes, rewritable
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.errors import BallotsError
from majorcert.errors.checks import array_of, checked_ballots, checked_record, checked_size, whole
from majorcert.errors.frozen import filled, taken

ABSTAIN = NO_LABEL
"""Fills a ballot that votes for fewer labels than there is room for."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ballots(Evidence):
    """What every ablation of every image votes for: (images, ablations, k) labels, ABSTAIN fills the rest."""

    labels: Ints
    strategy: Strategy
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
        checked = checked_ballots(labels, n_classes, ABSTAIN, strategy, size)
        votes = count_votes(checked, n_classes)
        facts = {"strategy": str(strategy), "image_size": list(size), "n_classes": n_classes}
        record = checked_record(checked.shape[:2], images, provenance, distance, **facts)
        filled(self, labels=checked, strategy=strategy, image_size=size, n_classes=n_classes, **record)
        filled(self, votes=votes, label=plurality(votes))

    @classmethod
    def from_scores(cls, scores: npt.ArrayLike, *, threshold: float | None, **about: Any) -> "Ballots":
        """Votes from (images, ablations, classes) scores: every label at or over the threshold; None: the top one.

        Args:
            about: `strategy`, `image_size` and what else `Ballots` takes.
        """
        from majorcert.files import scoring

        return cls(**scoring.ballots_of(array_of(scores), threshold, **about))

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"Ballots({len(self)} images of {height}x{width}, {self.strategy}, {self.n_classes} classes)"

    def __getitem__(self, images: slice | Ints) -> Self:
        return taken(self, images, "labels", "images", "distance", "fragile", "votes", "label")

    def counts(self) -> Ints:
        """(images, classes) the votes that each label got."""
        return self.votes

    def solid(self) -> Ints:
        """(images, ablations, k) the ballots with the fragile ones empty."""
        return self.labels if self.fragile is None else np.where(self.fragile[:, :, None], ABSTAIN, self.labels)

    def solid_votes(self) -> Ints:
        """(images, classes) the same without the fragile ballots."""
        return self.votes if self.fragile is None else count_votes(self.solid(), self.n_classes)

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
        touched = self.strategy.touched(patch, self.image_size)
        candidates = Candidates.of(self.solid_votes() * self._contenders(patch, slack), self.label)
        gain = rewritable(self.fragile, touched) + (touched.n_touched() if slack is None else slack)
        kept = kept_votes(self.solid(), candidates.listed, touched)
        return candidates.elected(kept, gain, touched.rows, touched.columns, bound)

    def margin_certified(self, patch: Patch) -> Bools:
        """(images,) does the winner lead by more than any placement could take from it and give to one rival?"""
        return self._contenders(patch).sum(axis=1) == 1

    certified_alone = margin_certified

    def stays_alone(self, patch: Patch, slack: int = 0) -> Bools:
        """(images,) does the winner lead by the slack, and more than any placement could take from it?"""
        return self._contenders(patch, slack).sum(axis=1) == 1

    def _contenders(self, patch: Patch, slack: int | None = None) -> Bools:
        """(images, classes) who may win. Fragile ballots give nothing to the winner, and each may go to the rival."""
        n_touched = int(self.strategy.touched(patch, self.image_size).n_touched().max())
        n_fragile = 0 if self.fragile is None else self.fragile.sum(axis=1)
        gained = n_fragile + n_touched + (n_touched if slack is None else slack)
        return contenders(self.solid_votes(), self.label, gained)
