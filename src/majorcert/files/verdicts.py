"""Verdicts on disk: JSON lines, a header and one row for each image."""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from majorcert.core.threat import Bools, Patch
from majorcert.core.verdict import Verdict, Witness
from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import check_room, parse_json, plain_size, reason

FORMAT = "majorcert-verdict"
VERSION = 1
ARGUMENTS = ("", "theorem1", "theorem2", "margin", "local")
MAX_CELLS = 2**32
"""Placements of all images together; a file that declares more is refused before memory is taken."""
MAX_MAP = 2**22
"""Placements of one image."""
MAX_LINE = 2**24
"""Bytes of one row."""


def save_verdict(verdict: Verdict, path: str | PathLike[str]) -> None:
    """Write a header with the provenance, then a row for each image; whole or not at all."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "method": verdict.method,
        "patch": [verdict.patch.height, verdict.patch.width],
        "placements": None if verdict.safe is None else list(verdict.safe.shape[1:]),
        "n": len(verdict),
        "defenders": [dict(defender) for defender in verdict.defenders],
    }
    with replacing(path) as beside, beside.open("w", encoding="utf-8") as file:
        for row in (header, *(_row(verdict, i) for i in range(len(verdict)))):
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _row(verdict: Verdict, i: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "image": int(verdict.images[i]),
        "predicted": int(verdict.predicted[i]),
        "certified": bool(verdict.certified[i]),
        "by": str(verdict.by[i]),
    }
    if (witness := verdict.witnesses[i]) is not None:
        row["witness"] = asdict(witness)
    if verdict.safe is not None and not verdict.safe[i].all():
        row["safe"] = _pack(verdict.safe[i])
    return row


def load_verdict(path: str | PathLike[str]) -> Verdict:
    """Read what `save_verdict` wrote."""
    if not Path(path).is_file():
        what = "a folder; give one of the verdicts in it" if Path(path).is_dir() else "no such verdict file"
        raise StoreError(f"{path}: {what}; `majorcert certify` or Verdict.save writes one")
    try:
        plain_size(path)
        with Path(path).open("rb") as file:
            n_rows = sum(1 for _ in _lines(file)) - 1
            file.seek(0)
            rows = (parse_json(line) for line in _lines(file))
            header: Any = next(rows, None)
            if header is None:
                raise StoreError(f"{path}: not a verdict file, it is empty")
            if header["format"] != FORMAT or header["version"] != VERSION:
                raise StoreError(f"{path}: not a verdict of version {VERSION}")
            if n_rows != header["n"]:
                raise StoreError(f"{path}: truncated, it has {n_rows} of {header['n']} rows")
            return _from_rows(header, n_rows, rows)
    except (
        OSError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        OverflowError,
        zlib.error,
    ) as error:
        raise StoreError(f"{path}: not a verdict file, or damaged ({reason(error)})") from error


def _pack(safe: Bools) -> str:
    return base64.b64encode(zlib.compress(np.packbits(safe).tobytes())).decode()


def _unpack(text: str, shape: tuple[int, int]) -> Bools:
    n_bytes = (shape[0] * shape[1] + 7) // 8
    bits = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), n_bytes + 1)
    if len(bits) != n_bytes:
        raise ValueError(f"a map of {len(bits)} bytes where {n_bytes} are expected")
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=shape[0] * shape[1]).reshape(shape).astype(bool)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise ValueError(f"a line of {MAX_LINE} bytes or more")
        yield line


def _whole(value: Any) -> int:
    """A whole number that fits in an array; JSON's true, 1.5 and 10**30 are refused."""
    if type(value) is not int or not -1 <= value < 2**62:
        raise ValueError(f"expected a whole number, got {str(value)[:40]}")
    return value


def _from_rows(header: dict[str, Any], n_rows: int, rows: Iterable[dict[str, Any]]) -> Verdict:
    shape = header["placements"]
    if shape is not None:
        down, across = (_whole(side) for side in shape)
        if min(down, across) < 1 or down * across > MAX_MAP or n_rows * down * across > MAX_CELLS:
            raise ValueError(f"maps of {down}x{across} placements for {n_rows} images")
        check_room(n_rows * down * across, "its maps")
        shape = (down, across)
    safe = None if shape is None else np.ones((n_rows, *shape), dtype=bool)
    images, predicted, certified, by = [], [], [], []
    witnesses: list[Witness | None] = []
    for i, row in enumerate(rows):
        if type(row["certified"]) is not bool or type(row["predicted"]) is not int or row["by"] not in ARGUMENTS:
            raise ValueError(f"row {i} is not one of a label, true or false, and an argument")
        if safe is not None and "safe" in row:
            safe[i] = _unpack(row["safe"], shape)
        images.append(_whole(row["image"]))
        predicted.append(_whole(row["predicted"]))
        certified.append(row["certified"])
        by.append(row["by"])
        witnesses.append(_witness(row["witness"]) if row.get("witness") is not None else None)
    if not all(isinstance(defender, dict) for defender in header["defenders"]):
        raise ValueError("the defenders are not described")
    return Verdict(
        predicted=np.array(predicted, dtype=np.int64),
        certified=np.array(certified, dtype=bool),
        by=np.array(by, dtype="<U8"),
        safe=safe,
        witnesses=tuple(witnesses),
        images=np.array(images, dtype=np.int64),
        patch=Patch(*header["patch"]),
        method=str(header["method"]),
        defenders=tuple(header["defenders"]),
    )


def _witness(found: dict[str, Any]) -> Witness:
    top, left = (_whole(n) for n in found["placement"])
    return Witness((top, left), _whole(found["rival"]), tuple(_whole(label) for label in found["forced"]))
