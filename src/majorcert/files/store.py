"""Evidence on disk: a Zarr v3 group of arrays whose first axis is the images, with its provenance as attributes.

A chunk of images is written whole or not at all, so a killed writer loses nothing that was finished, and several
processes may write different chunks. What was never written is recognised when it is read; a checksum beside every
chunk tells what was damaged since.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.errors import StoreError
from majorcert.files.atomic import found_again, replacing
from majorcert.files.chunks import MAX_CHUNK_BYTES, MAX_CHUNKS, check_chunks, check_codecs, check_folder, made_at
from majorcert.files.kinds import BALLOTS, KINDS, Array, Arrays, Kind
from majorcert.files.packing import Packing
from majorcert.files.seal import FORMAT, SEAL, VERSION, fingerprint, plain, seal_of, sealed, unsealed
from majorcert.files.untrusted import check_room, cleaned, reason

UNWRITTEN = -2
"""What an integer array holds where nothing was written yet; no label has this value."""
MAX_IMAGES = 2**24
Layout = Mapping[str, tuple[tuple[int, ...], Any]]
"""Shape and type of each array."""


@dataclass(frozen=True)
class Store:
    """An open evidence store. One array leads, of ballots the `labels`: a chunk is there once it is in that one."""

    path: str
    group: Any
    """the zarr.Group behind it"""
    kind: Kind
    _arrays: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """the zarr.Arrays that were opened, so that their declarations are read and checked once"""
    _made: tuple[int, int] | None = None
    """number and time of its zarr.json, which is written once: by them the store is known again"""

    @classmethod
    def create(
        cls, path: str | PathLike[str], arrays: Layout, attributes: Mapping[str, Any], packing: Packing
    ) -> "Store":
        """Lay out a store for arrays of the given shapes and types, and nothing in it."""
        import zarr
        from zarr.codecs import Crc32cCodec, TransposeCodec, ZstdCodec

        with explained(path, "write"):
            group = zarr.create_group(str(path), attributes=sealed(attributes, list(arrays)), overwrite=False)
            for name, (shape, dtype) in arrays.items():
                chunks = (packing.images_per_chunk(shape, np.dtype(dtype).itemsize), *shape[1:])
                order = packing.orders.get(name)
                filters = [] if order is None else [TransposeCodec(order=order)]
                group.create_array(
                    name,
                    shape=shape,
                    dtype=dtype,
                    chunks=chunks,
                    fill_value=UNWRITTEN if np.dtype(dtype).kind == "i" else np.nan,
                    filters=filters,
                    compressors=[ZstdCodec(level=packing.level), Crc32cCodec()],
                    attributes={"sha256": fingerprint(name, shape, np.dtype(dtype), chunks, filters)},
                    config={"write_empty_chunks": True},
                )
        return cls(str(path), group, _kind_of(path, attributes))

    @classmethod
    def create_or_open(
        cls, path: str | PathLike[str], arrays: Layout, attributes: Mapping[str, Any], packing: Packing
    ) -> "Store":
        """Go on with the store at that path, if it was laid out for the very same thing; else lay out a new one.

        Several processes may call this at once: the layout is made beside and moved into place, and the first one wins.
        Behind a URL nothing can be moved: there the first process must be done with this before others start.
        """
        _check_come_back(path, attributes)
        if "://" in str(path):
            if not _is_group(path):
                cls.create(path, arrays, attributes, packing)
        elif not Path(path).exists():
            with replacing(path, first_wins=True) as beside:
                cls.create(beside, arrays, attributes, packing)
        store = cls.open(path, writable=True)
        with explained(path, "read"):
            found = {name: (array.shape, array.dtype) for name, array in store.group.arrays()}
        wanted = {name: (tuple(shape), np.dtype(dtype)) for name, (shape, dtype) in arrays.items()}
        differing = sorted(
            key for key in {*store.attributes, *attributes} if store.attributes.get(key) != attributes.get(key)
        )
        if found != wanted or differing:
            what = ", ".join(differing) or "its arrays"
            if "images_sha256" in differing:
                what += ": it is of other images, perhaps of another --limit"
            raise StoreError(
                f"{path}: holds other evidence (differs in {what}); delete it or choose another path, as by --out"
            )
        return store

    @classmethod
    def open(cls, path: str | PathLike[str], *, writable: bool = False) -> "Store":
        """Open an existing store; what is not one, or of another version, is refused."""
        import zarr

        if "://" not in str(path) and not found_again(path):
            raise StoreError(f"{path}: no such evidence store; `majorcert vote` or Ballots.save writes one")
        if "://" not in str(path):
            check_folder(path, writable=writable)
        made = made_at(path)
        with explained(path, "read"):
            mode: Any = "r+" if writable else "r"
            group = zarr.open_group(str(path), mode=mode, zarr_format=3, use_consolidated=False)
            attributes: dict[str, Any] = group.attrs.asdict()
            found = attributes.get("format"), attributes.get("version")
        if found[0] != FORMAT:
            raise StoreError(f"{path}: a Zarr group, but not majorcert evidence (its format says {found[0]!r})")
        if found[1] != VERSION:
            raise StoreError(f"{path}: evidence of version {found[1]!r}, this majorcert reads version {VERSION}")
        seal = attributes.pop(SEAL, None)
        with explained(path, "read"):
            plain(attributes)
            if seal is not None and seal != seal_of(attributes, seal["arrays"]):
                raise StoreError(f"{path}: cannot read the evidence store; it is damaged, its attributes were changed")
        return cls(str(path), group, _kind_of(path, attributes), _made=made)

    @property
    def attributes(self) -> dict[str, Any]:
        return unsealed(self.group.attrs.asdict())

    def array(self, name: str) -> Any:
        """The zarr.Array of that name, after its declared type and sizes were checked."""
        array, column = self._opened(name), self.kind.every.get(name)
        if column is None or array.dtype.kind not in column.types or array.ndim != column.n_axes:
            raise StoreError(f"{self.path}: damaged, {name!r} is declared as {array.dtype} {array.shape}")
        return array

    def _opened(self, name: str) -> Any:
        if name not in self._arrays:
            self._arrays[name] = self._checked(name)
        return self._arrays[name]

    def _checked(self, name: str) -> Any:
        with explained(self.path, "read"):
            array = self.group.get(name)
            if array is None or not hasattr(array, "shape"):
                raise StoreError(f"{self.path}: damaged, its array {name!r} is missing")
            if array.chunks[1:] != array.shape[1:]:
                raise StoreError(f"{self.path}: damaged, {name!r} is declared as {array.dtype} {array.shape}")
        if math.prod(array.chunks) * array.dtype.itemsize > MAX_CHUNK_BYTES:
            raise StoreError(f"{self.path}: refused, {name!r} declares chunks of over {MAX_CHUNK_BYTES} bytes")
        n_images, n_chunks = array.shape[0], -(-array.shape[0] // max(1, array.chunks[0]))
        if n_images > MAX_IMAGES or n_chunks > MAX_CHUNKS:
            raise StoreError(
                f"{self.path}: refused, {name!r} declares {n_images} images in {n_chunks} chunks, and at most "
                f"{MAX_IMAGES} in {MAX_CHUNKS} are read"
            )
        with explained(self.path, "read"):
            check_codecs(self.path, name, array)
            empty = array.fill_value == UNWRITTEN if array.dtype.kind == "i" else np.isnan(array.fill_value)
            expected = fingerprint(name, array.shape, array.dtype, array.chunks, array.metadata.codecs)
            if not empty or array.attrs.get("sha256", expected) != expected:
                raise StoreError(f"{self.path}: damaged, {name!r} is not laid out as it was when it was made")
        return array

    def __contains__(self, name: str) -> bool:
        seal = self.group.attrs.get(SEAL)
        if seal is not None:
            return name in seal["arrays"]
        with explained(self.path, "read"):
            return name in self.group

    @property
    def n_images(self) -> int:
        return int(self.array(self.kind.leading).shape[0])

    @property
    def images_per_chunk(self) -> int:
        return int(self.array(self.kind.leading).chunks[0])

    def missing(self) -> list[slice]:
        """The chunks of images that were never written."""
        n_images, chunk = self.n_images, self.images_per_chunk
        parts = [slice(start, min(start + chunk, n_images)) for start in range(0, n_images, chunk)]
        with explained(self.path, "read"):
            if self.array(self.kind.leading).nchunks_initialized == 0:
                return parts
        return [part for part in parts if not self._written(part)]

    def _written(self, images: slice) -> bool:
        """Whether a chunk is there, in all arrays; what is damaged is refused, not written again."""
        if unwritten(self.read(self.kind.leading, images).flat[:1]).all():
            return False
        with explained(self.path, "read"):
            names = [name for name, _ in self.group.arrays()]
        for name in names:
            self.read(name, images)
        return True

    def check_unchanged(self) -> None:
        """Refuse to go on if another store was put at this path since it was opened: they would be mixed."""
        if self._made is not None and self._made != made_at(self.path):
            raise StoreError(f"{self.path}: another store was put in its place meanwhile; start again")

    def write(self, images: slice, arrays: Arrays) -> None:
        """Write one or several whole chunks. The leading array goes last: where it is, everything is."""
        self.check_unchanged()
        with explained(self.path, "write"):
            for name in sorted(arrays, key=self.kind.leading.__eq__):
                self._opened(name)[images] = arrays[name]

    def read(self, name: str, images: slice = slice(None)) -> Array:
        """A part of an array, as it is on disk."""
        array, column = self.array(name), self.kind.every[name]
        wanted = range(array.shape[0])[images]
        forwards = wanted if wanted.step > 0 else wanted[::-1]  # Zarr reads in no other direction
        part = slice(forwards.start, forwards.stop, forwards.step) if wanted else slice(0, 0)
        with explained(self.path, "read"):
            n_bytes = math.prod(array.chunks) * array.dtype.itemsize
            numbers = range(part.start // array.chunks[0], -(-part.stop // array.chunks[0]))
            check_room(len(numbers) * n_bytes * column.room, f"{name!r} (read fewer images at a time)")
            if "://" not in self.path:
                check_chunks(Path(self.path) / name, n_bytes, numbers, array.ndim)
            found = np.asarray(array[part])
            return found if forwards == wanted else found[::-1]


def unwritten(array: Array) -> npt.NDArray[np.bool_]:
    """Where nothing was written yet."""
    return np.asarray(np.isnan(array) if array.dtype.kind == "f" else array == UNWRITTEN)


def _kind_of(path: str | PathLike[str], attributes: Mapping[str, Any]) -> Kind:
    name = attributes.get("kind", BALLOTS.name)
    for kind in KINDS:
        if kind.name == name:
            return kind
    known = ", ".join(kind.name for kind in KINDS)
    raise StoreError(f"{path}: evidence of the kind {cleaned(name)!r}, and this majorcert reads {known}")


def _check_come_back(path: str | PathLike[str], attributes: Mapping[str, Any]) -> None:
    """A store is continued if its attributes are those that are given, so they must be read back as they are."""
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


def _is_group(path: str | PathLike[str]) -> bool:
    import zarr

    try:
        with explained(path, "read"):
            zarr.open_group(str(path), mode="r")
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return False
        raise
    return True


@contextmanager
def explained(path: str | PathLike[str], verb: str) -> Iterator[None]:
    """Whatever Zarr, a codec or the disk complains about becomes one sentence."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        hint = "" if verb == "write" else "; it is damaged, incomplete or not majorcert evidence"
        raise StoreError(f"{path}: cannot {verb} the evidence store{hint} ({reason(error)})") from error
