"""A defender as an ensemble sees it, whatever its kind: what it says of images, what it is, and how it is saved."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import safetensors.torch
import torch
from torch import Tensor, nn

from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import ImageSize
from majorcert.errors import DataError, ModelError
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.company import Network
from majorcert.nets.data import Dataset
from majorcert.nets.hiding import Hiding
from majorcert.nets.images import Images, as_tensor
from majorcert.nets.models import first_of


class Member(ABC):
    """A network with a rule that makes one label of what it says of many views."""

    model: Network
    """any callable from views to logits; a torch module is copied and put in eval mode"""
    class_names: tuple[str, ...]
    blueprint: Blueprint | None
    """what rebuilds the model; without it the defender cannot be saved"""
    how: Mapping[str, Any]
    """precision, batch_size and compiled, as they were asked for"""
    predicts_cheaply: ClassVar[bool] = False
    """does `predict` look at far fewer views than `evidence`?"""

    @property
    @abstractmethod
    def strategy(self) -> Hiding: ...

    @property
    @abstractmethod
    def image_size(self) -> ImageSize: ...

    @property
    @abstractmethod
    def channels(self) -> int: ...

    @property
    @abstractmethod
    def threshold(self) -> float | None: ...

    @abstractmethod
    def evidence(self, images: Images) -> Evidence:
        """What label and certificate follow from.

        Images are (N, C, H, W) tensors or (N, H, W, C) arrays, (N, H, W) if grey; uint8, or floats from 0 to 1.
        """

    @abstractmethod
    def to(self, device: torch.device | str) -> "Member":
        """The same on another device."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What evidence says of this defender, as plain JSON."""

    @abstractmethod
    def vote(self, dataset: Dataset, path: str | Path, **options: Any) -> None:
        """Record the evidence of a data set in a store."""

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
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        return hashlib.sha256(safetensors.torch.save(tensors)).hexdigest()

    def fingerprints(self) -> dict[str, str | None]:
        """What tells this network from any other: its weights, and how they are put together."""
        known = {
            "weights_sha256": self.weights_sha256,
            "network_sha256": None if self.blueprint is None else self.blueprint.network_sha256,
        }
        transformer = self.blueprint is not None and first_of(self.blueprint.model).name == "vit"
        return {**known, "network": "vit"} if transformer else known

    def save(self, folder: str | Path, *, half: bool = False) -> None:
        """Write weights.safetensors and defender.json, which rebuild this defender.

        Args:
            half: store the weights as float16, in half the space; they are loaded as float32 again.
        """
        if self.blueprint is None or not isinstance(self.model, nn.Module):
            raise ModelError(
                "a defender is saved with the ModelConfig that its network was built from: pass config=..."
            )
        weights = self.model.state_dict()
        if half:
            weights = {
                name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()
            }
        self.blueprint.write(Path(folder), weights)

    def _tensor(self, images: Images) -> Tensor:
        from majorcert.nets.resizing import resizing_of

        return as_tensor(images, self.channels, self.image_size, resizing_of([self]))

    def _check_classes(self, dataset: Dataset) -> None:
        if dataset.class_names != self.class_names:
            raise DataError(
                f"{dataset.name} has the classes {_few(dataset.class_names)}, the defender was made for "
                f"{_few(self.class_names)}"
            )


def checked_names(class_names: Any, n_classes: int) -> tuple[str, ...]:
    """The names of the classes, their numbers if there are none; as many as the network tells apart."""
    names = tuple(str(name) for name in class_names or range(n_classes))
    if len(names) != n_classes:
        raise ModelError(f"the network tells {n_classes} classes apart, got {len(names)} class names")
    return names


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
