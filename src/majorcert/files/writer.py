"""Writing evidence piece by piece: more than fits in memory, made by several processes, or interrupted."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import numpy as np

from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.errors import StoreError
from majorcert.files.evidence import attributes_of
from majorcert.files.kinds import Array, kind_of
from majorcert.files.packing import Packing
from majorcert.files.store import Layout, Store


@dataclass(frozen=True)
class EvidenceWriter:
    """An evidence store of any kind that is being filled, one chunk of images at a time.

    >>> writer = EvidenceWriter.open(path, like=nothing_yet, n_images=10_000)
    >>> for images in writer.missing():
    ...     writer.write(images, evidence_of(images))
    """

    store: Store
    layout: Layout

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        like: Evidence,
        n_images: int,
        *,
        beside: Mapping[str, Array] | None = None,
        numbers: Ints | None = None,
        chunk: int = 512,
    ) -> "EvidenceWriter":
        """Start a store, or go on with one of the very same provenance.

        Args:
            like: evidence of no images, or of any: its kind, its provenance and the shapes of its arrays are wanted.
            beside: arrays to be kept with it, such as the scores of ballots; again only their shapes are wanted.
            numbers: the place of each image in its data set, if that is not 0, 1, 2, ...
        """
        arrays = {**kind_of(like).arrays(like), **(beside or {})} | ({} if numbers is None else {"images": numbers})
        layout = {name: ((n_images, *array.shape[1:]), array.dtype) for name, array in arrays.items()}
        return cls(Store.create_or_open(path, layout, attributes_of(like), Packing(chunk)), layout)

    def missing(self) -> list[slice]:
        """The chunks of images that are still to be written, in order."""
        return self.store.missing()

    def write(self, images: slice, part: Evidence, beside: Mapping[str, Array] | None = None) -> None:
        """Write the evidence of one of the chunks that `missing` names, if its arrays are those that were laid out."""
        arrays = {**kind_of(part).arrays(part), **(beside or {})} | (
            {"images": part.images} if "images" in self.layout else {}
        )
        n_images = images.stop - images.start
        wanted = {name: ((n_images, *shape[1:]), np.dtype(dtype)) for name, (shape, dtype) in self.layout.items()}
        found = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        if found != wanted:
            raise StoreError(f"{self.store.path}: expected {_told(wanted)}, got {_told(found)}")
        self.store.write(images, arrays)


def _told(layout: Layout) -> str:
    return ", ".join(f"{name} {np.dtype(dtype)} {shape}" for name, (shape, dtype) in sorted(layout.items()))
