"""Interval bounds (IBP): a network whose label is proved by bounds on what any patch of known sizes can make of it."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from majorcert.core.plurality import Ints
from majorcert.core.threat import ImageSize
from majorcert.defences.bounds import Bounds, Sizes
from majorcert.errors import EvidenceError, ModelError
from majorcert.errors.checks import checked_size
from majorcert.errors.frozen import filled
from majorcert.files.writer import EvidenceWriter
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.bounder import Bounder
from majorcert.nets.company import Network
from majorcert.nets.data import Dataset
from majorcert.nets.images import Images, sha256
from majorcert.nets.member import Member, checked_names
from majorcert.nets.models import ModelConfig
from majorcert.nets.own import as_listed
from majorcert.nets.shards import Clock, Progress, fetched, fill, own
from majorcert.nets.vote import check_fit, origin_of

CHUNK = 250
"""Images that are bounded together: their maps take some megabytes each."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class BoundsDefender(Member):
    """One network of local features; its label is that of the largest logit, in float64.

    >>> defender = BoundsDefender(network, "bounds:5", image_size=(32, 32))
    >>> mc.certify([defender.evidence(images)], 5).certified
    """

    predicts_cheaply = True
    model: Network
    bounder: Bounder
    class_names: tuple[str, ...]
    blueprint: Blueprint | None
    how: Mapping[str, Any]

    def __init__(
        self,
        model: Network,
        sizes: Sizes | str,
        *,
        image_size: ImageSize,
        channels: int = 3,
        class_names: Sequence[str] | None = None,
        config: ModelConfig | None = None,
        training: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        precision: str | None = None,
        batch_size: int | None = None,
        compiled: bool = False,
    ) -> None:
        """Args as for `Defender`; whatever precision is asked for, bounds are computed in float64."""
        sizes, size = Sizes.parse(sizes) if isinstance(sizes, str) else sizes, checked_size(image_size)
        if compiled:
            raise ModelError("what bounds are computed of is not compiled; leave out compiled")
        bounder = Bounder.of(model, sizes, image_size=size, channels=channels, device=device)
        names, blueprint = checked_names(class_names, bounder.n_classes), None
        if config is not None:
            blueprint = Blueprint(sizes, "bounds", None, size, channels, names, config, training=dict(training or {}))
        how = {"batch_size": batch_size}
        filled(self, model=model, bounder=bounder, class_names=names, blueprint=blueprint, how=how)

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"BoundsDefender({self.strategy}, {len(self.class_names)} classes, images of {height}x{width})"

    @property
    def strategy(self) -> Sizes:
        return self.bounder.sizes

    @property
    def image_size(self) -> ImageSize:
        return self.bounder.image_size

    @property
    def channels(self) -> int:
        return self.bounder.channels

    @property
    def threshold(self) -> None:
        """The label is that of the largest logit."""

    def facts(self) -> dict[str, Any]:
        return {
            "strategy": str(self.strategy),
            "image_size": list(self.image_size),
            "n_classes": len(self.class_names),
            "class_names": list(self.class_names),
            **self.bounder.facts(),
            **self.fingerprints(),
        }

    def evidence(self, images: Images) -> Bounds:
        """The label of every image, and those that no bound excludes."""
        tensor = self._tensor(images)
        labels: list[npt.NDArray[Any]] = [np.empty(0, np.int64)]
        words: list[npt.NDArray[Any]] = [np.empty((0, *self.bounder.shape), np.int16)]
        for some in tensor.split(self.chunk):  # type: ignore[no-untyped-call]
            found = self.bounder.look(some)
            for parts, each in zip((labels, words), fetched(found.health, found.labels, found.words)(), strict=True):
                parts.append(each.numpy())
        about = {**self.facts(), "images_sha256": sha256(tensor)}
        return self._made(np.concatenate(labels), np.concatenate(words), None, about)

    def predict(self, images: Images) -> Ints:
        """(images,) the label of each image; nothing is bounded."""
        parts = self._tensor(images).split(self.chunk)  # type: ignore[no-untyped-call]
        return np.concatenate([np.empty(0, np.int64), *(self.bounder.labels(some)[0].cpu().numpy() for some in parts)])

    @property
    def chunk(self) -> int:
        return int(self.how["batch_size"] or CHUNK)

    def _made(self, labels: Any, words: Any, images: Any, about: Mapping[str, Any]) -> Bounds:
        kind: dict[str, Any] = {"sizes": self.strategy, "image_size": self.image_size}
        return Bounds(labels, words, **kind, n_classes=len(self.class_names), images=images, provenance=about)

    def vote(
        self,
        dataset: Dataset,
        path: str | Path,
        *,
        scores: bool = False,
        certify_only: bool = False,
        chunk: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        progress: Callable[[Progress], None] | None = None,
        **options: Any,
    ) -> None:
        """Record the bounds of a data set in an evidence store; options as for `nets.vote.vote`."""
        self._check_classes(dataset)
        if scores or certify_only:
            raise EvidenceError(
                "of bounds the labels are kept that they cannot exclude; leave out scores, certify_only"
            )
        check_fit((self.channels, *self.image_size, len(self.class_names)), dataset)
        about = {**origin_of(self.facts(), dataset), **self.fingerprints()}
        numbers = None if dataset.numbers is None else dataset.numbers.numpy()
        nothing = self._made(np.empty(0, np.int64), np.empty((0, *self.bounder.shape), np.int16), None, about)
        writer = EvidenceWriter.open(path, nothing, len(dataset), numbers=numbers, chunk=chunk or self.chunk)
        mine = own(writer, rank, world_size)
        clock = Clock(sum(each.stop - each.start for each in mine) * self.bounder.n_placements, progress)

        def compute(images: slice) -> Callable[[], None]:
            found = self.bounder.look(dataset.images[images], clock.advance)
            wait = fetched(found.health, found.labels, found.words)

            def write() -> None:
                labels, words = (each.numpy() for each in wait())
                writer.write(images, self._made(labels, words, None if numbers is None else numbers[images], about))

            return write

        fill(mine, compute)

    def to(self, device: torch.device | str) -> "BoundsDefender":
        """The same on another device."""
        about: dict[str, Any] = {"image_size": self.image_size, "channels": self.channels, "device": device}
        return filled(copy(self), bounder=Bounder.of(self.model, self.strategy, **about))

    @classmethod
    def load(cls, folder: str | Path, *, allow: str | Sequence[str] = (), **how: Any) -> "BoundsDefender":
        """The defender that `save` or `majorcert train` wrote; arguments as for `Defender.load`."""
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
