"""Double masking (PatchCleanser): a network that looks at an image under masks that hide any patch of a known size."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from majorcert.core.plurality import Ints
from majorcert.core.threat import ImageSize
from majorcert.defences.masking import MaskPairs, Masks
from majorcert.errors.checks import checked_size
from majorcert.errors.frozen import filled
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.company import Network
from majorcert.nets.images import Images, sha256
from majorcert.nets.masked import MaskCutter
from majorcert.nets.masker import Masker
from majorcert.nets.member import Member, checked_names
from majorcert.nets.models import ModelConfig, foreign
from majorcert.nets.pairs_vote import of_pairs
from majorcert.nets.recording import Recording
from majorcert.nets.shards import fitting_chunk


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MaskingDefender(Member):
    """One classifier of masked images; its label is what double masking makes of those under one and two masks.

    >>> defender = MaskingDefender(network, "masks:5/3", image_size=(32, 32))
    >>> defender.certify(images, Patch(5)).certified
    """

    model: Network
    masker: Masker
    class_names: tuple[str, ...]
    blueprint: Blueprint | None
    how: Mapping[str, Any]
    predicts_cheaply = True

    def __init__(
        self,
        model: Network,
        masks: Masks | str,
        *,
        image_size: ImageSize,
        channels: int = 3,
        class_names: Sequence[str] | None = None,
        config: ModelConfig | None = None,
        factory: str | None = None,
        training: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        **how: Any,
    ) -> None:
        """Args as for `Defender`; `how` is its precision, batch_size and compiled."""
        masks, size = Masks.parse(masks) if isinstance(masks, str) else masks, checked_size(image_size)
        masker = Masker.of(model, masks, image_size=size, channels=channels, config=config, device=device, **how)
        names, blueprint = checked_names(class_names, masker.scorer.n_classes), None
        if factory is not None:
            config = foreign(factory, channels, len(names))
        if config is not None:
            blueprint = Blueprint(masks, "masked", None, size, channels, names, config, training=dict(training or {}))
        filled(self, model=model, masker=masker, class_names=names, blueprint=blueprint, how=how)

    @property
    def strategy(self) -> Masks:
        return self.masker.cutter.masks

    @property
    def image_size(self) -> ImageSize:
        return self.masker.cutter.image_size

    @property
    def channels(self) -> int:
        return self.masker.channels

    @property
    def threshold(self) -> None:
        """Every view has one label, that of the top score."""

    def recording(self, *, scores: bool = False, certify_only: bool = False) -> Recording:
        return of_pairs(self.masker, scores=scores, certify_only=certify_only)

    def pairs(
        self, images: Images, *, certify_only: bool = False, progress: Callable[[int], None] | None = None
    ) -> MaskPairs:
        """The label of every image under every pair of masks, each row with its least distance.

        Args:
            certify_only: leave out pairs that no label and no certificate depends on.
            progress: called after each tile with the number of views in it.
        """
        tensor = self._tensor(images)
        about = {**self.facts(), "images_sha256": sha256(tensor)}
        return cast(MaskPairs, self.recording(certify_only=certify_only).of(tensor, about, progress))

    def predict(self, images: Images) -> Ints:
        """(images,) the label of each image: one mask at a time, and two where the labels under one differ."""
        parts = self._tensor(images).split(fitting_chunk(self.masker.n_masks))  # type: ignore[no-untyped-call]
        return np.concatenate([np.empty(0, np.int64), *(self.masker.predict(some) for some in parts)])

    def behind(self, masks: Masks) -> "MaskingDefender":
        """The same network behind other masks."""
        cutter = MaskCutter.of(masks, self.image_size, self.masker.scorer.device)
        known = None if self.blueprint is None else replace(self.blueprint, strategy=masks)
        return filled(copy(self), masker=replace(self.masker, cutter=cutter), blueprint=known)

    def to(self, device: torch.device | str) -> "MaskingDefender":
        """The same on another device; a precision and a batch size that were not asked for suit that device."""
        about: dict[str, Any] = {"image_size": self.image_size, "channels": self.channels, "device": device}
        config = None if self.blueprint is None else self.blueprint.model
        return filled(copy(self), masker=Masker.of(self.model, self.strategy, config=config, **about, **self.how))
