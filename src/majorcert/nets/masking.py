"""Double masking (PatchCleanser): a network that looks at an image under masks that hide any patch of a known size."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from majorcert.core.plurality import Ints
from majorcert.core.threat import ImageSize
from majorcert.defences.masking import MaskPairs, Masks
from majorcert.errors import EvidenceError
from majorcert.errors.frozen import filled
from majorcert.files.scoring import rounded_down
from majorcert.nets.company import Network
from majorcert.nets.images import Images, sha256
from majorcert.nets.masked import MaskCutter
from majorcert.nets.masker import Masker, Table, Told
from majorcert.nets.member import Member, Promise
from majorcert.nets.models import ModelConfig
from majorcert.nets.recording import Arrays, Looked, Recording
from majorcert.nets.shards import fitting_chunk

LEFT_OUT = {None: {}, "recovery": {"certify_only": True}, "detection": {"detect_only": True}}
"""What evidence says of itself, by what it was asked for alone."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MaskingDefender(Member):
    """One classifier of masked images; its label is what double masking makes of those under one and two masks.

    >>> defender = MaskingDefender(network, "masks:5/3", image_size=(32, 32))
    >>> defender.certify(images, Patch(5)).certified
    """

    strategy: Masks
    masker: Masker
    predicts_cheaply = True

    def __init__(self, model: Network, masks: Masks | str, *, image_size: ImageSize, **about: Any) -> None:
        """Args as for `Defender`; every view has one label, that of the top score."""
        hiding = Masks.parse(masks) if isinstance(masks, str) else masks
        self._describe(image_size, model=model, strategy=hiding, view="masked", **about)

    def _place(self, device: torch.device | str, config: ModelConfig | None) -> int:
        about: dict[str, Any] = {"image_size": self.image_size, "channels": self.channels, **self.how}
        filled(self, masker=Masker.of(self.model, self.strategy, config=config, device=device, **about))
        return self.masker.scorer.n_classes

    def recording(self, *, scores: bool = False, certify_only: bool = False) -> Recording:
        if scores:
            raise EvidenceError("of double masking labels are kept, and no scores; leave out the scores")
        return self._recording("recovery" if certify_only else None)

    def _recording(self, promise: Promise | None, told: Told | None = None) -> Recording:
        facts = {"strategy": str(self.strategy), **self.masker.facts(), **LEFT_OUT[promise]}
        tables: dict[Promise | None, Callable[..., Table]] = {
            None: self.masker.table,
            "recovery": partial(self.masker.table_to_certify, told=told),
            "detection": partial(self.masker.table_to_detect, told=told),
        }

        def look(images: Tensor, progress: Callable[[int], None] | None) -> Looked:
            table = tables[promise](images, progress)
            return table.health, table.labels, table.distance

        size, n_classes, n = self.image_size, self.masker.scorer.n_classes, self.masker.n_masks

        def made(labels: Any, distance: Any, **about: Any) -> MaskPairs:
            kind: dict[str, Any] = {"masks": self.strategy, "image_size": size, "n_classes": n_classes}
            return MaskPairs(labels, distance=rounded_down(distance), **kind, **about)

        nothing: Arrays = [np.empty((0, n, n), np.int8), np.empty((0, n), np.float32)]
        return Recording(facts, self.masker.n_pairs, nothing, look, made)

    def evidence(self, images: Images, *, promise: Promise | None = None) -> MaskPairs:
        return self.pairs(images, promise=promise)

    def pairs(
        self,
        images: Images,
        *,
        promise: Promise | None = None,
        progress: Callable[[int], None] | None = None,
        told: Told | None = None,
    ) -> MaskPairs:
        """The label of every image under every pair of masks, each row with its least distance.

        Args:
            promise: leave out pairs that neither the label nor this promise depends on.
            progress: called after each tile with the number of views in it.
            told: given a promise, called with the labels as soon as they are known.
        """
        tensor = self._tensor(images)
        about = {**self.facts(), "images_sha256": sha256(tensor)}
        return cast(MaskPairs, self._recording(promise, told).of(tensor, about, progress))

    def predict(self, images: Images) -> Ints:
        """(images,) the label of each image: one mask at a time, and two where the labels under one differ."""
        parts = self._tensor(images).split(fitting_chunk(self.masker.n_masks))  # type: ignore[no-untyped-call]
        return np.concatenate([np.empty(0, np.int64), *(self.masker.predict(some) for some in parts)])

    def behind(self, masks: Masks) -> "MaskingDefender":
        """The same network behind other masks."""
        cutter = MaskCutter.of(masks, self.image_size).to(self.masker.scorer.device)
        known = None if self.blueprint is None else replace(self.blueprint, strategy=masks)
        return filled(copy(self), strategy=masks, masker=replace(self.masker, cutter=cutter), blueprint=known)
