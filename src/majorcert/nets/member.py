"""A defender as an ensemble sees it, whatever its kind: what it says of images, what it is, and how it is saved."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import safetensors.torch
import torch
from torch import Tensor, nn

from majorcert.core.detection import detect
from majorcert.core.majority import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import ImageSize, Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.largest import largest_patch
from majorcert.errors import DataError, ModelError
from majorcert.errors.checks import checked_size
from majorcert.errors.frozen import filled
from majorcert.files.photo import Resizing
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.compact import Bits, compact, state_of
from majorcert.nets.company import Network
from majorcert.nets.data import Dataset
from majorcert.nets.hiding import Hiding
from majorcert.nets.images import Images, as_tensor, sha256
from majorcert.nets.models import ModelConfig, first_of, foreign
from majorcert.nets.own import as_listed
from majorcert.nets.recording import Recording
from majorcert.nets.resizing import resizing_of
from majorcert.nets.rules import VOTES
from majorcert.nets.views import View, in_channels

Promise = Literal["recovery", "detection"]


class Member(ABC):
    """A network with a rule that makes one label of what it says of many views."""

    model: Network
    """any callable from views to logits; a torch module is copied and put in eval mode"""
    strategy: Hiding
    view: View
    threshold: float | None
    rule: str
    image_size: ImageSize
    channels: int
    class_names: tuple[str, ...]
    blueprint: Blueprint | None
    """what rebuilds the model; without it the defender cannot be saved"""
    how: Mapping[str, Any]
    """precision, batch_size and compiled, as they were asked for"""
    predicts_cheaply: ClassVar[bool] = False
    """does `predict` look at far fewer views than `evidence`?"""

    def _describe(
        self,
        image_size: ImageSize,
        *,
        threshold: float | None = None,
        rule: str = VOTES,
        channels: int = 3,
        class_names: Sequence[str] | None = None,
        config: ModelConfig | None = None,
        factory: str | None = None,
        training: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        precision: str | None = None,
        batch_size: int | None = None,
        compiled: bool = False,
        **kind: Any,
    ) -> None:
        """Fill in what a new defender is, and make what looks at images; `kind` is its model, strategy and view."""
        if isinstance(kind["model"], nn.Module):
            kind["model"] = deepcopy(kind["model"]).eval()
        how = {"precision": precision, "batch_size": batch_size, "compiled": compiled}
        about: dict[str, Any] = {"threshold": threshold, "image_size": checked_size(image_size), "channels": channels}
        filled(self, **kind, **about, rule=rule, how=how)
        names, blueprint = checked_names(class_names, self._place(device, config)), None
        if factory is not None:
            config = foreign(factory, in_channels(self.view, channels), len(names))
        if config is not None:
            about |= {"strategy": self.strategy, "view": self.view, "class_names": names, "model": config}
            blueprint = Blueprint(**about, rule=rule, training=dict(training or {}))
        filled(self, class_names=names, blueprint=blueprint)

    @abstractmethod
    def _place(self, device: torch.device | str, config: ModelConfig | None) -> int:
        """Make what looks at images, with a copy of the network on the device; the classes that it tells apart."""

    def to(self, device: torch.device | str) -> Self:
        """The same on another device; a precision and a batch size that were not asked for suit that device."""
        moved = copy(self)
        moved._place(device, None if self.blueprint is None else self.blueprint.model)
        return moved

    @abstractmethod
    def recording(self, *, scores: bool = False, certify_only: bool = False) -> Recording:
        """How evidence of this defender is made, and what is kept beside it or left out."""

    def __repr__(self) -> str:
        height, width = self.image_size
        told = f"{self.strategy}, {len(self.class_names)} classes, images of {height}x{width}"
        return f"{type(self).__name__}({told})"

    def facts(self) -> dict[str, Any]:
        """What evidence says of this defender, as plain JSON."""
        return {
            "strategy": str(self.strategy),
            "image_size": list(self.image_size),
            "n_classes": len(self.class_names),
            "class_names": list(self.class_names),
            **self.recording().facts,
            **self.fingerprints(),
        }

    @property
    def resizing(self) -> Resizing:
        """How photos are brought to its size: as those were that it learned from."""
        return resizing_of({} if self.blueprint is None else self.blueprint.training)

    def evidence(self, images: Images, *, promise: Promise | None = None) -> Evidence:
        """What label and certificate follow from: vote once, and ask `mc.certify` and its kin as often as you like.

        Images are (N, C, H, W) tensors or (N, H, W, C) arrays, (N, H, W) if grey; uint8, or floats from 0 to 1.

        Args:
            promise: all that will be asked for; of masks, what it does not depend on is not looked at.
        """
        tensor = self._tensor(images)
        return self.recording().of(tensor, {**self.facts(), "images_sha256": sha256(tensor)})

    def certify(self, images: Images, patch: Patch) -> Verdict:
        """Whether any placement of the patch could change the label that `predict` gives to each image."""
        return majorcert([self.evidence(images, promise="recovery")], patch)

    def detect(self, images: Images, patch: Patch, *, slack: int = 0) -> Verdict:
        """The label of each image, whether it raises an alert, and whether a patch could change it without one."""
        return detect([self.evidence(images, promise="detection")], patch, slack=slack)

    def largest_patch(self, images: Images) -> Ints:
        """(images,) the side of the largest square patch that each image is certified against."""
        return largest_patch([self.evidence(images, promise="recovery")])

    def vote(
        self, dataset: Dataset, path: str | Path, *, scores: bool = False, certify_only: bool = False, **options: Any
    ) -> None:
        """Record the evidence of a data set in a store; options are those of `Recording.write`.

        Args:
            scores: of votes, keep the scores too, as float16.
            certify_only: of masks, leave out what no label and no certificate depends on.
        """
        self.check_fit(dataset)
        recording = self.recording(scores=scores, certify_only=certify_only)
        recording.write(dataset, path, origin=self.fingerprints(), **options)

    @classmethod
    def load(cls, folder: str | Path, *, allow: str | Sequence[str] = (), **how: Any) -> Self:
        """The defender that `save` or `majorcert train` wrote; damaged or foreign files are refused.

        Args:
            allow: functions of your own, "package.module:function", that may be called to make its network.
            how: `device`, `precision`, `batch_size` and `compiled`, as for `Defender`.
        """
        known = Blueprint.read(Path(folder))
        about = {"image_size": known.image_size, "channels": known.channels, "class_names": known.class_names}
        network = known.network(Path(folder), as_listed(allow))
        made: Any = cls
        defender = made(network, str(known.strategy), **cls._further(known), **about, config=known.model, **how)
        # With the fingerprint of the file, whatever type the weights are stored in.
        return filled(defender, blueprint=known)

    @classmethod
    def _further(cls, known: Blueprint) -> dict[str, Any]:
        """What else a defender of this kind is made with."""
        return {}

    def predict(self, images: Images) -> Ints:
        """(images,) the label of each image."""
        return self.evidence(images).label

    @cached_property
    def weights_sha256(self) -> str | None:
        """Fingerprint of the weights, the same as of the file that `save` writes; None for a plain callable."""
        if self.blueprint is not None and self.blueprint.weights_sha256:
            return self.blueprint.weights_sha256
        if not isinstance(self.model, nn.Module):
            return None
        return hashlib.sha256(safetensors.torch.save(state_of(self.model))).hexdigest()

    def fingerprints(self) -> dict[str, str | None]:
        """What tells this network from any other: its weights, and how they are put together."""
        known = {
            "weights_sha256": self.weights_sha256,
            "network_sha256": None if self.blueprint is None else self.blueprint.network_sha256,
        }
        transformer = self.blueprint is not None and first_of(self.blueprint.model).name == "vit"
        return {**known, "network": "vit"} if transformer else known

    def save(self, folder: str | Path, *, bits: Bits = 32) -> None:
        """Write weights.safetensors and defender.json, which rebuild this defender.

        Args:
            bits: of each weight: 16 (half floats) or 8 (whole numbers, with a unit for each output channel) take less
                room, and what is loaded is rounded so. Let what is kept vote.
        """
        if self.blueprint is None or not isinstance(self.model, nn.Module):
            raise ModelError(
                "a defender is saved with the ModelConfig that its network was built from, config=..., or with the "
                "function of your own that makes such a module, factory='package.module:function'"
            )
        self.blueprint.write(Path(folder), compact(self.model, bits))

    def _tensor(self, images: Images) -> Tensor:
        return as_tensor(images, self.channels, self.image_size, self.resizing)

    def check_fit(self, dataset: Dataset) -> None:
        """Refuse images of other classes, channels or sizes than the network is for."""
        if dataset.class_names != self.class_names:
            raise DataError(
                f"{dataset.name} has the classes {_few(dataset.class_names)}, the defender was made for "
                f"{_few(self.class_names)}"
            )
        expected, got = (self.channels, *self.image_size), (dataset.channels, *dataset.image_size)
        if got != expected:
            raise DataError(
                f"{dataset.name}: the defender takes images of {expected[0]} channels, {expected[1]}x{expected[2]}; "
                f"got {got[0]} channels, {got[1]}x{got[2]}"
            )


def checked_names(class_names: Any, n_classes: int) -> tuple[str, ...]:
    """The names of the classes, their numbers if there are none; as many as the network tells apart."""
    names = tuple(str(name) for name in class_names or range(n_classes))
    if len(names) != n_classes:
        raise ModelError(f"the network tells {n_classes} classes apart, got {len(names)} class names")
    return names


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
