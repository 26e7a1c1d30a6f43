"""Evidence on disk: a Zarr v3 group of arrays whose first axis is the images, with its provenance as attributes.

A chunk of images is written whole or not at all, so a killed writer loses nothing that was finished, and several
processes may write different chunks. What was never written is recognised when it is read; a checksum beside every
chunk tells what was damaged since.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.atomic import replacing
from majorcert.errors import StoreError

FORMAT = "majorcert-evidence"
VERSION = 1
UNWRITTEN = -2
"""What an integer array holds where nothing was written yet; no label has this value."""
MAX_CHUNK_BYTES = 2**30
"""A chunk is decoded in one piece; a file that declares a larger one is refused before memory is taken."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Store:
    """An open evidence store. `labels` is its leading array: a chunk is there once its labels are."""

    path: str
    group: Any
    """the zarr.Group behind it"""
    _arrays: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """the zarr.Arrays that were opened, so that their declarations are read once"""

    @classmethod
    def create(
        cls,
        path: str | Path,
        arrays: Mapping[str, tuple[tuple[int, ...], Any]],
        attributes: Mapping[str, Any],
        chunk: int = 512,
    ) -> "Store":
        """Lay out a store for arrays of the given shapes and types, in chunks of `chunk` images, and nothing in it."""
        import zarr
        from zarr.codecs import Crc32cCodec, ZstdCodec

        with _explained(path, "write"):
            group = zarr.create_group(
                str(path), attributes={**attributes, "format": FORMAT, "version": VERSION}, overwrite=False
            )
            for name, (shape, dtype) in arrays.items():
                group.create_array(
                    name,
                    shape=shape,
                    dtype=dtype,
                    chunks=(_images_per_chunk(chunk, shape, np.dtype(dtype).itemsize), *shape[1:]),
                    fill_value=UNWRITTEN if np.dtype(dtype).kind == "i" else np.nan,
                    compressors=[ZstdCodec(level=9), Crc32cCodec()],
                    config={"write_empty_chunks": True},
                )
        return cls(str(path), group)

    @classmethod
    def create_or_open(
        cls,
        path: str | Path,
        arrays: Mapping[str, tuple[tuple[int, ...], Any]],
        attributes: Mapping[str, Any],
        chunk: int = 512,
    ) -> "Store":
        """Go on with the store at that path, if it was laid out for the very same thing; else lay out a new one.

        Several processes may call this at once: the layout is made beside and moved into place, and the first one wins.
        Behind a URL nothing can be moved: there the first process must be done with this before others start.
        """
        if "://" in str(path):
            if not _is_group(path):
                cls.create(path, arrays, attributes, chunk)
        elif not Path(path).exists():
            with replacing(path, first_wins=True) as beside:
                cls.create(beside, arrays, attributes, chunk)
        store = cls.open(path, writable=True)
        with _explained(path, "read"):
            store._arrays.update(store.group.arrays())
        found = {name: (array.shape, array.dtype) for name, array in store._arrays.items()}
        wanted = {name: (tuple(shape), np.dtype(dtype)) for name, (shape, dtype) in arrays.items()}
        differing = sorted(
            key for key in {*store.attributes, *attributes} if store.attributes.get(key) != attributes.get(key)
        )
        if found != wanted or differing:
            what = ", ".join(differing) or "its arrays"
            raise StoreError(f"{path}: holds other evidence (differs in {what}); delete it or choose another path")
        return store

    @classmethod
    def open(cls, path: str | Path, *, writable: bool = False) -> "Store":
        """Open an existing store; what is not one, or of another version, is refused."""
        import zarr

        if "://" not in str(path) and not Path(path).exists():
            raise StoreError(f"{path}: no such evidence store; `majorcert vote` or Ballots.save writes one")
        with _explained(path, "read"):
            group = zarr.open_group(str(path), mode="r+" if writable else "r")
            found = group.attrs.get("format"), group.attrs.get("version")
        if found[0] != FORMAT:
            raise StoreError(f"{path}: a Zarr group, but not majorcert evidence (its format says {found[0]!r})")
        if found[1] != VERSION:
            raise StoreError(f"{path}: evidence of version {found[1]!r}, this majorcert reads version {VERSION}")
        return cls(str(path), group)

    @property
    def attributes(self) -> dict[str, Any]:
        return {key: value for key, value in self.group.attrs.asdict().items() if key not in ("format", "version")}

    def array(self, name: str, kind: str, n_axes: int) -> Any:
        """The zarr.Array of that name, after its declared type and sizes were checked."""
        array = self._opened(name)
        if array is None or not hasattr(array, "shape"):
            raise StoreError(f"{self.path}: damaged, its array {name!r} is missing")
        if array.dtype.kind != kind or array.ndim != n_axes or array.chunks[1:] != array.shape[1:]:
            raise StoreError(f"{self.path}: damaged, {name!r} is declared as {array.dtype} {array.shape}")
        if np.prod([float(n) for n in array.chunks]) * array.dtype.itemsize > MAX_CHUNK_BYTES:
            raise StoreError(f"{self.path}: refused, {name!r} declares chunks of over {MAX_CHUNK_BYTES} bytes")
        return array

    def _opened(self, name: str) -> Any:
        if name not in self._arrays:
            with _explained(self.path, "read"):
                self._arrays[name] = self.group.get(name)
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self.group

    @property
    def n_images(self) -> int:
        return int(self.array("labels", "i", 3).shape[0])

    def missing(self) -> list[slice]:
        """The chunks of images that were never written."""
        labels = self.array("labels", "i", 3)
        n_images, chunk = labels.shape[0], labels.chunks[0]
        parts = [slice(start, min(start + chunk, n_images)) for start in range(0, n_images, chunk)]
        with _explained(self.path, "read"):
            if labels.nchunks_initialized == 0:
                return parts
        return [part for part in parts if self.read("labels", part, kind="i", n_axes=3).flat[0] == UNWRITTEN]

    def write(self, images: slice, arrays: Mapping[str, Array]) -> None:
        """Write one or several whole chunks. `labels` goes last: where they are, everything is."""
        with _explained(self.path, "write"):
            for name in sorted(arrays, key="labels".__eq__):
                self._opened(name)[images] = arrays[name]

    def read(self, name: str, images: slice, *, kind: str, n_axes: int) -> Array:
        """A part of an array, as it is on disk."""
        array = self.array(name, kind, n_axes)
        with _explained(self.path, "read"):
            return np.asarray(array[images])


def _is_group(path: str | Path) -> bool:
    import zarr

    try:
        with _explained(path, "read"):
            zarr.open_group(str(path), mode="r")
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return False
        raise
    return True


def _images_per_chunk(wanted: int, shape: tuple[int, ...], item_bytes: int) -> int:
    """As many as wanted, unless the chunk would be one that is refused when it is read."""
    per_image = item_bytes * int(np.prod(shape[1:], dtype=np.int64))
    return max(1, min(wanted, shape[0], MAX_CHUNK_BYTES // max(1, per_image)))


@contextmanager
def _explained(path: str | Path, verb: str) -> Iterator[None]:
    """Whatever Zarr, a codec or the disk complains about becomes one sentence."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        hint = "" if verb == "write" else "; it is damaged, incomplete or not majorcert evidence"
        raise StoreError(
            f"{path}: cannot {verb} the evidence store{hint} ({type(error).__name__}: {reason})"
        ) from error
