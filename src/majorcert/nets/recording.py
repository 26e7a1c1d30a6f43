"""Recording: streams the images of a data set through a defender of any kind into an evidence store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from majorcert.core.reach import Evidence
from majorcert.files.writer import EvidenceWriter
from majorcert.nets.data import Dataset
from majorcert.nets.resizing import recorded
from majorcert.nets.scorer import Health
from majorcert.nets.shards import Clock, Progress, fetched, fill, fitting_chunk, own

Arrays = Sequence[npt.NDArray[Any]]
Looked = tuple[Health, *tuple[Tensor, ...]]
"""The health of what comes out, and what comes out, perhaps still being computed."""


@dataclass(frozen=True)
class Recording:
    """What a defender looks at, and the evidence that this is."""

    facts: Mapping[str, Any]  # what the evidence says of the defender
    n_views: int  # that it looks at of one image
    nothing: Arrays  # what comes out of no images
    look: Callable[[Tensor, Callable[[int], None] | None], Looked]
    """starts the device on some images, and tells how many views are done"""
    made: Callable[..., Evidence]
    """of such arrays; `images` and `provenance` are told"""
    chunk: int | None = None  # images at a time; by default as many as have some ten thousand views
    beside: Callable[[Arrays], dict[str, npt.NDArray[Any]] | None] = lambda _: None
    """what is kept with the evidence"""

    def of(
        self, images: Tensor, provenance: Mapping[str, Any], progress: Callable[[int], None] | None = None
    ) -> Evidence:
        """The evidence of any number of images, of which a few at a time are on the device."""
        found, step = [self.nothing], self.chunk or fitting_chunk(self.n_views)
        for start in range(0, len(images), step):
            wait = fetched(*self.look(images[start : start + step], progress))
            found.append(wait())
        arrays = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        return self.made(*arrays, provenance={**self.facts, **provenance})

    def write(
        self,
        dataset: Dataset,
        path: str | Path,
        *,
        origin: Mapping[str, Any] | None = None,
        chunk: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Write the evidence of every image of the data set to a store, or go on where an earlier run stopped.

        Args:
            origin: further provenance, such as the SHA-256 of the weights.
            chunk: images in one chunk; by default as many as have some ten thousand views.
            rank: which of `world_size` processes this is; each does its own chunks of the same store.
        """
        provenance = {**self.facts, **_told_of(dataset), **(origin or {})}
        numbers = None if dataset.numbers is None else dataset.numbers.numpy()

        def made(arrays: Arrays, images: slice = slice(0)) -> Evidence:
            return self.made(*arrays, images=None if numbers is None else numbers[images], provenance=provenance)

        like, beside = made(self.nothing), self.beside(self.nothing)
        chunk = chunk or self.chunk or fitting_chunk(self.n_views)
        writer = EvidenceWriter.open(path, like, len(dataset), beside=beside, numbers=numbers, chunk=chunk)
        mine = own(writer, rank, world_size)
        clock = Clock(sum(images.stop - images.start for images in mine) * self.n_views, progress)

        def compute(images: slice) -> Callable[[], None]:
            due = clock.done + (images.stop - images.start) * self.n_views
            wait = fetched(*self.look(dataset.images[images], clock.advance))
            if clock.done < due:
                clock.advance(due - clock.done)

            def write() -> None:
                arrays = wait()
                writer.write(images, made(arrays, images), self.beside(arrays))

            return write

        fill(mine, compute)


def _told_of(dataset: Dataset) -> dict[str, Any]:
    return {
        "class_names": list(dataset.class_names),
        **dataset.origin(),
        "split_size": dataset.split_size or len(dataset),
        **recorded(dataset),
    }
