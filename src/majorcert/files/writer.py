"""Writing ballots piece by piece: evidence larger than memory, made by several processes, or interrupted."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import ABSTAIN, Ballots
from majorcert.core.plurality import Ints
from majorcert.core.regions import Strategy
from majorcert.core.regions import strategy as read_strategy
from majorcert.core.threat import ImageSize
from majorcert.core.threshold import label_type
from majorcert.errors import StoreError
from majorcert.files.onechunk import Draft
from majorcert.files.store import Store


@dataclass(frozen=True)
class BallotsWriter:
    """An evidence store that is being filled, one chunk of images at a time.

    >>> writer = BallotsWriter.open(path, n_images=10_000, n_votes=3, strategy=..., image_size=..., n_classes=10)
    >>> for images in writer.missing():
    ...     writer.write(images, labels_of(images))
    """

    store: Store | Draft
    template: Ballots
    """no images, but all the facts that each chunk must agree with"""
    n_votes: int

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        n_images: int,
        n_votes: int,
        strategy: Strategy | str,
        image_size: ImageSize,
        n_classes: int,
        provenance: Mapping[str, Any] | None = None,
        scores: bool = False,
        distance: bool = False,
        chunk: int = 512,
    ) -> "BallotsWriter":
        """Start a store, or go on with one of the very same provenance; `n_votes` is the most labels in one ballot.

        A new store of a single chunk is put in its place when that is written; until then there is nothing.
        """
        strategy = read_strategy(strategy) if isinstance(strategy, str) else strategy
        n_ablations = strategy.n_ablations(image_size)
        template = Ballots(
            np.empty((0, n_ablations, n_votes), dtype=np.int8),
            strategy=strategy,
            image_size=image_size,
            n_classes=n_classes,
            provenance=provenance,
        )
        arrays: dict[str, tuple[tuple[int, ...], Any]] = {
            "labels": ((n_images, n_ablations, n_votes), label_type(n_classes))
        }
        if scores:
            arrays["scores"] = ((n_images, n_ablations, n_classes), np.float16)
        if distance:
            arrays["distance"] = ((n_images, n_ablations), np.float16)
        store = Draft.or_store(path, arrays, template.provenance, chunk)
        return cls(store, template, n_votes)

    @property
    def images_per_chunk(self) -> int:
        return self.store.images_per_chunk

    def missing(self) -> list[slice]:
        """The chunks of images that are still to be written, in order."""
        return self.store.missing()

    def write(
        self,
        images: slice,
        labels: npt.ArrayLike,
        scores: npt.NDArray[Any] | None = None,
        distance: npt.NDArray[Any] | None = None,
    ) -> None:
        """Check and write the ballots of one chunk, with their scores and distances when the store keeps them."""
        self._check_chunk(images)
        part = Ballots(
            labels,
            strategy=self.template.strategy,
            image_size=self.template.image_size,
            n_classes=self.template.n_classes,
            distance=distance,
        )
        if part.labels.shape[2] > self.n_votes or len(part) != images.stop - images.start:
            raise StoreError(
                f"{self.store.path}: expected {images.stop - images.start} images with at most {self.n_votes} votes "
                f"a ballot, got labels of shape {part.labels.shape}"
            )
        arrays: dict[str, npt.NDArray[Any]] = {"labels": _widened(part.labels, self.n_votes)}
        if scores is not None:
            if scores.shape != (*part.labels.shape[:2], self.template.n_classes):
                raise StoreError(f"{self.store.path}: expected the scores of these ballots, got shape {scores.shape}")
            arrays["scores"] = scores.astype(np.float16)
        if ("distance" in self.store) != (part.distance is not None):
            wanted = "the distances of these ballots, got none" if part.distance is None else "no distances, got some"
            raise StoreError(f"{self.store.path}: expected {wanted}; a store keeps them for all images or for none")
        if part.distance is not None:
            arrays["distance"] = part.distance
        self.store.write(images, arrays)

    def _check_chunk(self, images: slice) -> None:
        """A chunk is written whole, so that what is there can be told from what is not."""
        chunk = self.images_per_chunk
        whole = slice(images.start, min(images.start + chunk, self.store.n_images))
        if images.start % chunk or images.step not in (None, 1) or images.stop != whole.stop:
            raise StoreError(f"{self.store.path}: chunks of {chunk} images are written whole, got {images}")


def _widened(labels: Ints, n_votes: int) -> Ints:
    if labels.shape[2] == n_votes:
        return labels
    room = ((0, 0), (0, 0), (0, n_votes - labels.shape[2]))
    return np.pad(labels, room, constant_values=ABSTAIN)
