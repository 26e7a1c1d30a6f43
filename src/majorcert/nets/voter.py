"""From images to votes: every view of every image through the network, and what the scores vote for."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from majorcert.core.reach import Evidence
from majorcert.core.regions import Strategy
from majorcert.core.threat import ImageSize
from majorcert.errors import BallotsError, EvidenceError
from majorcert.nets.company import Network
from majorcert.nets.device import brought
from majorcert.nets.hiding import check_view
from majorcert.nets.recording import Arrays, Looked, Recording
from majorcert.nets.rules import VOTES, check_rule, evidence_of, facts_of
from majorcert.nets.scorer import Health, Scorer
from majorcert.nets.sight import check_sight
from majorcert.nets.tensor_votes import distance_of, most_votes, votes_of
from majorcert.nets.views import Cutter, View, in_channels, to_unit


class Votes(NamedTuple):
    """What the views of some images vote for, on the device."""

    labels: Tensor  # (images, ablations, votes), ascending, then ABSTAIN
    distance: Tensor  # (images, ablations), float32: how far each ballot was from changing
    scores: Tensor | None  # (images, ablations, classes), float32
    health: Health  # to be checked before the votes are believed


@dataclass(frozen=True, eq=False)
class Voter:
    """A scorer of views, how they are cut, and from which score on they vote; make it with `Voter.of`."""

    scorer: Scorer
    cutter: Cutter
    threshold: float | None
    rule: str = VOTES  # what makes evidence of the scores, as in `rules`

    @classmethod
    def of(
        cls,
        network: Network,
        strategy: Strategy,
        view: View,
        threshold: float | None,
        *,
        image_size: ImageSize,
        channels: int,
        rule: str = VOTES,
        **how: Any,
    ) -> "Voter":
        """Put a copy of the network on the device, ready to vote.

        Args:
            threshold: a score, from 0 to 1, at or over which a view votes for a label; None: for the top label alone.
            rule: as in `rules`.
            how: config, device, precision, batch_size and compiled, as for `Scorer.of`.
        """
        if threshold is not None and not (math.isfinite(threshold) and 0 <= threshold <= 1):
            percent = f"; for {threshold:g} percent it is {threshold / 100:g}" if 1 < threshold <= 100 else ""
            raise BallotsError(
                f"a threshold is a number of 0 or more, at most 1, or None for the top label; got {threshold}{percent}"
            )
        check_rule(rule)
        check_view(strategy, view)
        cutter = Cutter.of(strategy, view, image_size)
        scorer = Scorer.of(
            network,
            (in_channels(view, channels), *cutter.view_size),
            views_per_image=cutter.n_views,
            map_size=cutter.map_size,
            **how,
        )
        if view == "whole":
            check_sight(scorer, strategy, image_size)
        return cls(scorer, cutter.to(scorer.device), threshold, rule)

    @property
    def network(self) -> Network:
        return self.scorer.network

    @property
    def device(self) -> torch.device:
        return self.scorer.device

    @property
    def n_classes(self) -> int:
        return self.scorer.n_classes

    @property
    def n_votes(self) -> int:
        return most_votes(self.threshold, self.n_classes)

    def facts(self) -> dict[str, Any]:
        """What the ballots depend on beside the weights and the images, as plain JSON."""
        own = {"threshold": self.threshold, "view": self.cutter.view, **facts_of(self.rule)}
        return {**own, **self.scorer.facts()}

    def vote(
        self, images: Tensor, *, keep_scores: bool = False, progress: Callable[[int], None] | None = None
    ) -> Votes:
        """The votes of uint8 or float (N, C, H, W) images, still on the device and perhaps still being computed.

        Args:
            progress: called after each tile with the number of views in it.
        """
        images = brought(images, self.device)
        labels, distances, scores = [], [], []

        def use(probabilities: Tensor) -> None:
            labels.append(votes_of(probabilities, self.threshold, self.n_votes))
            distances.append(distance_of(probabilities, self.threshold))
            if keep_scores:
                scores.append(probabilities)
            if progress is not None:
                progress(len(probabilities))

        n_views = len(images) * self.cutter.n_views
        health = self.scorer.score(n_views, lambda start, stop: self._views(images, start, stop), use)
        with torch.inference_mode():
            shape = len(images), self.cutter.n_ablations, -1
            kept = torch.cat(scores).view(shape) if scores else None
            return Votes(torch.cat(labels).view(shape), torch.cat(distances).view(shape[:2]), kept, health)

    def scores(self, images: Tensor) -> Tensor:
        """(images, ablations, classes) of uint8 or float images, once they are known to come from a fit network."""
        votes = self.vote(images, keep_scores=True)
        votes.health.check()
        assert votes.scores is not None, "scores were to be kept"
        return votes.scores

    def recording(self, *, scores: bool = False, certify_only: bool = False) -> Recording:
        """How votes are recorded, or what another rule makes of the scores of every view."""
        if certify_only:
            raise EvidenceError("every ballot counts for a certificate; --certify-only is for masks")
        size, n_ablations, by_votes = self.cutter.image_size, self.cutter.n_ablations, self.rule == VOTES
        keep_scores = scores or not by_votes

        def look(images: Tensor, progress: Callable[[int], None] | None) -> Looked:
            cast = self.vote(images, keep_scores=keep_scores, progress=progress)
            if cast.scores is None:
                return cast.health, cast.labels, cast.distance
            return cast.health, cast.labels, cast.distance, cast.scores.half() if by_votes else cast.scores

        def made(labels: Any, distance: Any, kept: Any = None, **about: Any) -> Evidence:
            about |= {"strategy": self.cutter.strategy, "image_size": size, "n_classes": self.n_classes}
            return evidence_of(self.rule, labels, distance, kept, **about)

        def beside(cast: Arrays) -> dict[str, npt.NDArray[Any]] | None:
            return {"scores": cast[2].astype(np.float16)} if scores and by_votes else None

        widths: list[tuple[Any, tuple[int, ...]]] = [(np.int8, (self.n_votes,)), (np.float32, ())]
        widths += [(np.float32, (self.n_classes,))] if keep_scores else []
        nothing = [np.empty((0, n_ablations, *width), kind) for kind, width in widths]
        return Recording(self.facts(), n_ablations, nothing, look, made, beside=beside)

    def _views(self, images: Tensor, start: int, stop: int) -> Tensor:
        """The views from one number up to another: all of the first image, then of the second, and so on."""
        n_views, dtype = self.cutter.n_views, self.scorer.dtype
        first, last = start // n_views, (stop - 1) // n_views
        sheet = self.cutter.sheet(to_unit(images[first : last + 1], dtype))
        pair = torch.arange(start, stop, device=self.device)
        return self.cutter.take(sheet, pair // n_views - first, pair % n_views)
