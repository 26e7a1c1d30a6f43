"""Interval bounds (IBP): a network whose label is proved by bounds on what any patch of known sizes can make of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from majorcert.core.plurality import Ints
from majorcert.core.threat import ImageSize
from majorcert.defences.bounds import Bounds, Sizes
from majorcert.errors import EvidenceError, ModelError
from majorcert.errors.frozen import filled
from majorcert.nets.bounder import Bounder
from majorcert.nets.company import Network
from majorcert.nets.images import Images
from majorcert.nets.member import Member
from majorcert.nets.models import ModelConfig
from majorcert.nets.recording import Arrays, Looked, Recording

CHUNK = 250
"""Images that are bounded together: their maps take some megabytes each."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class BoundsDefender(Member):
    """One network of local features; its label is that of the largest logit, in float64.

    >>> defender = BoundsDefender(network, "bounds:5", image_size=(32, 32))
    >>> mc.certify([defender.evidence(images)], 5).certified
    """

    strategy: Sizes
    bounder: Bounder
    predicts_cheaply = True

    def __init__(self, model: Network, sizes: Sizes | str, *, image_size: ImageSize, **about: Any) -> None:
        """Args as for `Defender`; whatever precision is asked for, bounds are computed in float64."""
        hiding = Sizes.parse(sizes) if isinstance(sizes, str) else sizes
        self._describe(image_size, model=model, strategy=hiding, view="bounds", **about)

    def _place(self, device: torch.device | str, config: ModelConfig | None) -> int:
        if self.how["compiled"]:
            raise ModelError("what bounds are computed of is not compiled; leave out compiled")
        filled(self, bounder=Bounder.of(self.model, self.strategy, image_size=self.image_size, device=device))
        return self.bounder.n_classes

    def recording(self, *, scores: bool = False, certify_only: bool = False) -> Recording:
        if scores or certify_only:
            raise EvidenceError(
                "of bounds the labels are kept that they cannot exclude; leave out scores, certify_only"
            )

        def look(images: Tensor, progress: Callable[[int], None] | None) -> Looked:
            found = self.bounder.look(images, progress)
            return found.health, found.labels, found.possible

        def made(labels: Any, possible: Any, **about: Any) -> Bounds:
            kind: dict[str, Any] = {"sizes": self.strategy, "image_size": self.image_size}
            return Bounds(labels, possible, **kind, n_classes=len(self.class_names), **about)

        facts, n_placements = self.bounder.facts(), self.bounder.n_placements
        nothing: Arrays = [np.empty(0, np.int64), np.empty((0, n_placements, self.bounder.n_classes), bool)]
        return Recording(facts, n_placements, nothing, look, made, chunk=self.chunk)

    def predict(self, images: Images) -> Ints:
        """(images,) the label of each image; nothing is bounded."""
        parts = self._tensor(images).split(self.chunk)  # type: ignore[no-untyped-call]
        return np.concatenate([np.empty(0, np.int64), *(self.bounder.labels(some)[0].cpu().numpy() for some in parts)])

    @property
    def chunk(self) -> int:
        return int(self.how["batch_size"] or CHUNK)
