"""The files of an evidence store in a folder, looked at before any of them is decoded.

A compressed chunk says itself how much it holds, and decoding takes that much memory; a zarr.json may name other
codecs; links may lead elsewhere. So nothing is decoded but what majorcert itself would have written.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from majorcert.errors import StoreError
from majorcert.files.untrusted import plain_size, read_json, reason

MAX_CHUNKS = 2**17
"""Files in one array; a store that declares more is refused before they are listed."""
MAX_CHUNK_BYTES = 2**30
"""A chunk is decoded in one piece; a file that declares a larger one is refused before memory is taken."""
CODECS = (["bytes", "zstd", "crc32c"], ["transpose", "bytes", "zstd", "crc32c"])
PART, PART_SECONDS = ".partial", 3600
"""How Zarr calls a chunk while it is being written, and how long one may be before it counts as left behind."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def made_at(path: str | PathLike[str]) -> tuple[int, int] | None:
    """What tells a store in a folder from one that is put there later; None for a URL, or if it is gone."""
    if "://" in str(path):
        return None
    try:
        found = (Path(path) / "zarr.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def check_folder(path: str | PathLike[str], *, writable: bool) -> None:
    """Refuse what is no folder with a zarr.json; and links, if it is to be written to: they may lead anywhere."""
    if not Path(path).is_dir():
        raise StoreError(f"{path}: cannot read the evidence store; it is a file, and a store is a folder")
    if not (Path(path) / "zarr.json").exists():
        stores = [f"{path}/{each}" for each in ("*.zarr", "*/*.zarr") if any(Path(path).glob(each))]
        hint = f"give the stores in it, {' '.join(stores)}" if stores else "`majorcert vote` writes one"
        raise StoreError(f"{path}: cannot read the evidence store; it is a folder without zarr.json; {hint}")
    for folder in (Path(path), *(child for child in Path(path).iterdir() if child.is_dir())):
        _check_metadata(folder)
    if writable:
        for found in (Path(folder) / name for folder, *names in os.walk(path) for name in (*names[0], *names[1])):
            if found.is_symlink():
                raise StoreError(f"{found}: a link in an evidence store, which is not written through; remove it")
            if found.suffix == PART:
                _remove_old(found)


def _remove_old(part: Path) -> None:
    """Remove what a killed writer left of a chunk: a living one is done with it in seconds."""
    with suppress(OSError):
        if time.time() - part.stat().st_mtime > PART_SECONDS:
            part.unlink()


def _check_metadata(folder: Path) -> None:
    """Refuse a zarr.json that is no plain JSON of a sensible size; one that is missing is left to the reader."""
    metadata = folder / "zarr.json"
    try:
        read_json(metadata)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise StoreError(f"{metadata}: cannot read the evidence store ({reason(error)})") from None


def check_codecs(path: str, name: str, array: Any) -> None:
    """Refuse an array that is packed in any other way than evidence is."""
    found = [codec.to_dict() for codec in array.metadata.codecs]
    plain = [codec["name"] for codec in found] in CODECS and array.metadata.storage_transformers == ()
    little = all(codec.get("configuration", {}).get("endian", "little") == "little" for codec in found)
    keys = array.metadata.chunk_key_encoding.to_dict()
    if not plain or not little or keys != {"name": "default", "configuration": {"separator": "/"}}:
        raise StoreError(f"{path}: refused, {name!r} is packed in another way than majorcert packs evidence")


def check_chunks(folder: Path, n_bytes: int, numbers: Iterable[int], n_axes: int) -> None:
    """Refuse a chunk that would unpack to anything but the bytes that the array declares; a missing one is no fault."""
    for number in numbers:
        chunk = folder.joinpath("c", str(number), *["0"] * (n_axes - 1))
        try:
            size = plain_size(chunk)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise StoreError(f"{chunk}: cannot read the evidence store ({reason(error)})") from None
        with chunk.open("rb") as file:
            declared = _unpacked_size(file.read(18))
        if declared != n_bytes or size > n_bytes + n_bytes // 128 + 1024:
            raise StoreError(
                f"{chunk}: cannot read the evidence store; the chunk is damaged, it unpacks to "
                f"{'an unknown number of' if declared is None else declared} bytes and not to {n_bytes}"
            )


def _unpacked_size(head: bytes) -> int | None:
    """What the header of a Zstandard frame says that it holds; None if it does not say, or is none (RFC 8878)."""
    if len(head) < 6 or not head.startswith(ZSTD_MAGIC):
        return None
    descriptor = head[4]
    single = descriptor >> 5 & 1
    n_size = (single, 2, 4, 8)[descriptor >> 6]
    start = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    if not n_size or len(head) < start + n_size:
        return None
    return int.from_bytes(head[start : start + n_size], "little") + (256 if n_size == 2 else 0)
