"""A store whose images fit in one chunk, written in one go: its layout and its content are put in place together.

To lay out a store through Zarr and to write a chunk of it can take a third of the time that a network takes for an
image. Here its few files are written directly, byte for byte as Zarr writes them.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.errors import StoreError
from majorcert.files.atomic import check_place, replacing
from majorcert.files.chunks import (
    MAX_CHUNK_BYTES,
    ZSTD_LEVEL,
    images_per_chunk,
    layout,
    made_at,
    plain,
    sealed,
    unsealed,
)
from majorcert.files.store import MAX_IMAGES, UNWRITTEN, Store, explained

Shapes = Mapping[str, tuple[tuple[int, ...], Any]]


@dataclass(frozen=True)
class Draft:
    """A store that is not there yet: the first write puts it in its place, and a draft alone leaves nothing behind."""

    path: str
    arrays: Shapes
    attributes: Mapping[str, Any]
    chunk: int

    @classmethod
    def or_store(cls, path: str | Path, arrays: Shapes, attributes: Mapping[str, Any], chunk: int) -> "Draft | Store":
        """A draft, if all fits in one chunk and nothing is at that path yet; else as Store.create_or_open.

        What could not be written, or not be found again as it was given, is refused now.
        """
        _check_attributes(path, attributes)
        fitting = all(_fits(shape, np.dtype(dtype).itemsize, chunk) for shape, dtype in arrays.values())
        if not fitting or "://" in str(path) or os.path.lexists(path):
            return Store.create_or_open(path, arrays, attributes, chunk)
        check_place(path)
        return cls(str(path), arrays, attributes, chunk)

    @property
    def n_images(self) -> int:
        return self.arrays["labels"][0][0]

    @property
    def images_per_chunk(self) -> int:
        return self.n_images

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def missing(self) -> list[slice]:
        """All images, or none once they were written, be it by another process."""
        done = Path(self.path).exists() and not self._store().missing()
        return [] if done else [slice(0, self.n_images)]

    def write(self, images: slice, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Put the store in its place with these arrays in it; if another process was first, write them to its store."""
        given = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        if given == {name: (tuple(shape), np.dtype(dtype)) for name, (shape, dtype) in self.arrays.items()}:
            with replacing(self.path, first_wins=True) as beside, explained(self.path, "write"):
                write_one_chunk(beside, arrays, self.attributes)
                made = made_at(beside)
            if made_at(self.path) == made:
                return
        self._store().write(images, arrays)

    def _store(self) -> Store:
        return Store.create_or_open(self.path, self.arrays, self.attributes, self.chunk)


def _fits(shape: tuple[int, ...], item_bytes: int, chunk: int) -> bool:
    """Whether all images are one chunk, and such a one as is read again."""
    allowed = shape[0] <= MAX_IMAGES and math.prod(shape) * item_bytes <= MAX_CHUNK_BYTES
    return allowed and images_per_chunk(chunk, shape, item_bytes) == shape[0]


def _check_attributes(path: str | Path, attributes: Mapping[str, Any]) -> None:
    """A store is continued if its attributes are those that are given, so they must come back as they are."""
    changed = [str(key) for key, value in attributes.items() if not _comes_back(key, value)]
    if changed:
        raise StoreError(
            f"{path}: provenance is plain JSON (lists and no tuples, no NaN) under names other than format, version "
            f"and seal; {', '.join(changed)} would not be read back as given"
        )


def _comes_back(key: str, value: Any) -> bool:
    try:
        return unsealed(plain({key: value})) == {key: value}
    except (TypeError, ValueError, RecursionError):
        return False


def write_one_chunk(folder: Path, arrays: Mapping[str, npt.NDArray[Any]], attributes: Mapping[str, Any]) -> None:
    """Make a folder that is a store of these arrays, each of them one chunk."""
    folder.mkdir()
    group = {"attributes": sealed(attributes, list(arrays)), "zarr_format": 3, "node_type": "group"}
    (folder / "zarr.json").write_bytes(_json(group))
    for name, array in arrays.items():
        place = folder / name
        place.mkdir()
        (place / "zarr.json").write_bytes(_json(_described(name, array)))
        for part in ("c", *["0"] * (array.ndim - 1)):
            place = place / part
            place.mkdir()
        (place / "0").write_bytes(_packed(array))


def _described(name: str, array: npt.NDArray[Any]) -> dict[str, Any]:
    """What Zarr writes about an array of one chunk, in its order."""
    endian = {"configuration": {"endian": "little"}} if array.itemsize > 1 else {}
    return {
        "shape": array.shape,
        "data_type": str(array.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": UNWRITTEN if array.dtype.kind == "i" else "NaN",
        "codecs": [
            {"name": "bytes", **endian},
            {"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": False}},
            {"name": "crc32c"},
        ],
        "attributes": {"sha256": layout(name, array.shape, array.dtype, array.shape, ())},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _packed(array: npt.NDArray[Any]) -> bytes:
    import google_crc32c
    from numcodecs.zstd import Zstd  # type: ignore[import-untyped]

    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    content: bytes = Zstd(level=ZSTD_LEVEL).encode(little)
    return content + google_crc32c.value(content).to_bytes(4, "little")


def _json(facts: Any) -> bytes:
    return json.dumps(facts, indent=2).encode()
