"""Defender: a network of views that classifies under a certificate.

What `predict` returns is the label that `certify` is about: the core derives both from the same ballots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from majorcert.core.ballots import Ballots
from majorcert.core.majority import DrsBound, drs
from majorcert.core.regions import Strategy
from majorcert.core.regions import strategy as read_strategy
from majorcert.core.threat import ImageSize, Patch
from majorcert.core.verdict import Verdict
from majorcert.errors import ModelError
from majorcert.errors.frozen import filled
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.company import Network
from majorcert.nets.images import Images
from majorcert.nets.member import Member
from majorcert.nets.models import ModelConfig
from majorcert.nets.recording import Recording
from majorcert.nets.rules import VOTES
from majorcert.nets.scorer import Precision
from majorcert.nets.shards import CHUNK_IMAGES
from majorcert.nets.views import View
from majorcert.nets.voter import Voter


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Defender(Member):
    """One strategy with one classifier of views; its label is the plurality of its ballots.

    >>> defender = Defender(network, "columns:4", "crop", 0.3, image_size=(32, 32))
    >>> defender.certify(images, Patch(5)).certified

    Args:
        model: any callable from views to logits that looks at each view alone; a torch module is copied and put in
            eval mode.
        strategy: how views are cut, as an object or as a spec: "rows:4", "columns:19/5", "blocks:12".
        view: "crop", the visible window with two channels that say where it was, or "canvas", the whole image with
            hidden pixels 0 and its complement; of fields "whole", the image itself, for a network that gives a map.
        threshold: a score, from 0 to 1, at or over which a view votes for a label; None: for its top label alone.
        image_size: (height, width) of the images.
        channels: 3 for colour images, 1 for grey ones.
        class_names: one for each logit; by default "0", "1", ...
        rule: what makes a label of the scores of all views: "votes" (their plurality), "clipped" (the largest sum),
            or "masked:5x5" (PatchGuard's, against such patches).
        config: what the model was built from, if it is one of this package; with it the defender can be saved.
        factory: the function that makes such a module, if it is your own: "package.module:function"; the same.
        training: what is recorded with it of how it was trained.
        device: "cpu", "cuda", "cuda:1", or "auto" for CUDA where there is any.
        precision: "float32", "bfloat16" or "float16"; by default bfloat16 on CUDA and float32 elsewhere.
        batch_size: views in one pass on a GPU; by default as many as suit it.
        compiled: compile the network first.
    """

    strategy: Strategy
    voter: Voter

    def __init__(
        self,
        model: Network,
        strategy: Strategy | str,
        view: View = "crop",
        threshold: float | None = 0.3,
        *,
        image_size: ImageSize,
        channels: int = 3,
        class_names: Sequence[str] | None = None,
        rule: str = VOTES,
        config: ModelConfig | None = None,
        factory: str | None = None,
        training: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        precision: Precision | None = None,
        batch_size: int | None = None,
        compiled: bool = False,
    ) -> None:
        cut = read_strategy(strategy) if isinstance(strategy, str) else strategy
        least = None if threshold is None else float(threshold)  # NumPy's numbers are no JSON
        kind: dict[str, Any] = {"model": model, "strategy": cut, "view": view, "threshold": least, "rule": rule}
        kind |= {"channels": channels, "class_names": class_names, "config": config, "factory": factory}
        kind |= {"training": training, "device": device, "precision": precision}
        self._describe(image_size, batch_size=batch_size, compiled=compiled, **kind)

    def _place(self, device: torch.device | str, config: ModelConfig | None) -> int:
        about: dict[str, Any] = {"image_size": self.image_size, "channels": self.channels, "config": config, **self.how}
        voter = Voter.of(self.model, self.strategy, self.view, self.threshold, rule=self.rule, device=device, **about)
        filled(self, voter=voter)
        return self.voter.n_classes

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"Defender({self.strategy}, {self.view}, {len(self.class_names)} classes, images of {height}x{width})"

    def recording(self, *, scores: bool = False, certify_only: bool = False) -> Recording:
        return self.voter.recording(scores=scores, certify_only=certify_only)

    def scores(self, images: Images) -> npt.NDArray[np.float32]:
        """(images, ablations, classes) the probabilities that the network gives to each view."""
        found = [np.empty((0, self.voter.cutter.n_ablations, len(self.class_names)), np.float32)]
        tensor = self._tensor(images)
        for start in range(0, len(tensor), CHUNK_IMAGES):
            found.append(self.voter.scores(tensor[start : start + CHUNK_IMAGES]).cpu().numpy())
        return np.concatenate(found)

    def ballots(self, images: Images) -> Ballots:
        """What every view of the images votes for: the evidence that `predict` and `certify` use.

        Vote once, and ask `mc.certify`, `mc.largest_patch` and `mc.detect` as often as you like.
        """
        found = self.evidence(images)
        if not isinstance(found, Ballots):
            raise ModelError(f"this is for defenders that vote, got one with the rule {self.rule!r}; use its evidence")
        return found

    def certify(self, images: Images, patch: Patch, *, bound: DrsBound = "local") -> Verdict:
        """Whether any placement of the patch could change the label that `predict` gives to each image."""
        return drs(self.evidence(images), patch, bound=bound)

    @classmethod
    def _further(cls, known: Blueprint) -> dict[str, Any]:
        return {"view": known.view, "threshold": known.threshold, "rule": known.rule}
