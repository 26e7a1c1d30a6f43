"""Double masking (PatchCleanser): a network that looks at an image under masks that hide any patch of a known size."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from majorcert.core.detection import detect
from majorcert.core.majority import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.threat import ImageSize, Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.largest import largest_patch
from majorcert.defences.masking import MaskPairs, Masks
from majorcert.errors.checks import checked_size
from majorcert.errors.frozen import filled
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.company import Network
from majorcert.nets.data import Dataset
from majorcert.nets.images import Images, sha256
from majorcert.nets.masked import MaskCutter
from majorcert.nets.masker import Masker
from majorcert.nets.member import Member, checked_names
from majorcert.nets.models import ModelConfig
from majorcert.nets.own import as_listed
from majorcert.nets.pairs_vote import vote_pairs
from majorcert.nets.shards import fetched, fitting_chunk


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
        training: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        **how: Any,
    ) -> None:
        """Args as for `Defender`; `how` is its precision, batch_size and compiled."""
        masks, size = Masks.parse(masks) if isinstance(masks, str) else masks, checked_size(image_size)
        masker = Masker.of(model, masks, image_size=size, channels=channels, config=config, device=device, **how)
        names, blueprint = checked_names(class_names, masker.scorer.n_classes), None
        if config is not None:
            blueprint = Blueprint(masks, "masked", None, size, channels, names, config, training=dict(training or {}))
        filled(self, model=model, masker=masker, class_names=names, blueprint=blueprint, how=how)

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"MaskingDefender({self.strategy}, {len(self.class_names)} classes, images of {height}x{width})"

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

    def facts(self) -> dict[str, Any]:
        return {
            "strategy": str(self.strategy),
            "image_size": list(self.image_size),
            "n_classes": len(self.class_names),
            "class_names": list(self.class_names),
            **self.masker.facts(),
            **self.fingerprints(),
        }

    def pairs(
        self, images: Images, *, certify_only: bool = False, progress: Callable[[int], None] | None = None
    ) -> MaskPairs:
        """The label of every image under every pair of masks, each row with its least distance.

        Args:
            certify_only: leave out pairs that no label and no certificate depends on, as `nets.pairs_vote.vote_pairs`.
            progress: called after each tile with the number of views in it.
        """
        tensor, n = self._tensor(images), self.masker.n_masks
        look = self.masker.table_to_certify if certify_only else self.masker.table
        labels: list[npt.NDArray[Any]] = [np.empty((0, n, n), np.int32)]
        distance: list[npt.NDArray[Any]] = [np.empty((0, n), np.float16)]
        for some in tensor.split(fitting_chunk(self.masker.n_pairs)):  # type: ignore[no-untyped-call]
            table = look(some, progress)
            for parts, found in zip((labels, distance), fetched(table.health, *table[:2])(), strict=True):
                parts.append(found.numpy())
        only = {"certify_only": True} if certify_only else {}
        return MaskPairs(
            np.concatenate(labels),
            masks=self.strategy,
            image_size=self.image_size,
            n_classes=len(self.class_names),
            provenance={**self.facts(), **only, "images_sha256": sha256(tensor)},
            distance=np.concatenate(distance),
        )

    evidence = pairs

    def predict(self, images: Images) -> Ints:
        """(images,) the label of each image: one mask at a time, and two where the labels under one differ."""
        parts = self._tensor(images).split(fitting_chunk(self.masker.n_masks))  # type: ignore[no-untyped-call]
        return np.concatenate([np.empty(0, np.int64), *(self.masker.predict(some) for some in parts)])

    def certify(self, images: Images, patch: Patch) -> Verdict:
        """Whether any placement of the patch could change the label that `predict` gives to each image."""
        return majorcert([self.pairs(images)], patch)

    def detect(self, images: Images, patch: Patch) -> Verdict:
        """The label of each image, whether it raises an alert, and whether a patch could change it without one."""
        return detect([self.pairs(images)], patch)

    def largest_patch(self, images: Images) -> Ints:
        """(images,) the side of the largest square patch that each image is certified against."""
        return largest_patch([self.pairs(images)])

    def vote(self, dataset: Dataset, path: str | Path, **options: Any) -> None:
        """Record the table of a data set in an evidence store; options are those of `nets.pairs_vote.vote_pairs`."""
        self._check_classes(dataset)
        vote_pairs(self.masker, dataset, path, origin=self.fingerprints(), **options)

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

    @classmethod
    def load(cls, folder: str | Path, *, allow: str | Sequence[str] = (), **how: Any) -> "MaskingDefender":
        """The defender that `save` or `majorcert train` wrote; damaged or foreign files are refused.

        Args:
            allow: functions of your own, "package.module:function", that may be called to make its network.
            how: `device`, `precision`, `batch_size` and `compiled`, as for `Defender`.
        """
        known = Blueprint.read(Path(folder))
        defender = cls(
            known.network(Path(folder), as_listed(allow)),
            str(known.strategy),
            image_size=known.image_size,
            channels=known.channels,
            class_names=known.class_names,
            config=known.model,
            **how,
        )
        # With the fingerprint of the file, whatever type the weights are stored in.
        return filled(defender, blueprint=known)
