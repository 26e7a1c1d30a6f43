"""Verdicts on disk: JSON lines, a header and one row for each image."""

import base64
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from majorcert.core.threat import Bools, Patch
from majorcert.core.verdict import Verdict, Witness
from majorcert.errors import MajorcertError, StoreError
from majorcert.files.atomic import replacing
from majorcert.files.seal import plain_provenance
from majorcert.files.untrusted import check_room, decoded, plain_size, reason

MAX_CELLS = 2**32
"""Placements of all images together; a file that declares more is refused before memory is taken."""
MAX_MAP = 2**22
"""Placements of one image."""
MAX_LINE = 2**24
"""Bytes of one row."""

Whole = Annotated[int, msgspec.Meta(ge=-1, lt=2**62)]
Side = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]


class Header(msgspec.Struct, tag_field="format", tag="majorcert-verdict", omit_defaults=True):
    version: Literal[1]
    method: str
    patch: tuple[Side, Side]
    placements: tuple[Side, Side] | None
    n: Whole
    defenders: list[dict[str, Any]]
    promise: Literal["recovery", "detection", "unwavering", "top-k"] = "recovery"
    slack: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = 0


class Reason(msgspec.Struct):
    """A witness, whose numbers fit in arrays."""

    placement: tuple[Whole, Whole]
    rival: Whole
    forced: tuple[Whole, ...]


class Row(msgspec.Struct, omit_defaults=True):
    image: Whole
    predicted: Whole
    certified: bool
    by: Literal["", "theorem1", "theorem2", "margin", "local", "detection", "unwavering", "top-k"]
    witness: Reason | None = None
    safe: str | None = None  # the map of an image that is not safe everywhere, packed
    alert: bool | None = None
    holds: Literal["unwavering", "recovery", "detection", "none"] | None = None


def save_verdict(verdict: Verdict, path: str | PathLike[str]) -> None:
    """Write a header with the provenance, then a row for each image; whole or not at all."""
    defenders = plain_provenance([dict(defender) for defender in verdict.defenders], path)
    header = Header(
        version=1,
        method=verdict.method,
        patch=(verdict.patch.height, verdict.patch.width),
        placements=None if verdict.safe is None else verdict.safe.shape[1:],
        n=len(verdict),
        defenders=defenders,
        promise=verdict.promise,
        slack=verdict.slack,
    )
    with replacing(path) as beside, beside.open("wb") as file:
        for line in (header, *(_row(verdict, i) for i in range(len(verdict)))):
            file.write(msgspec.json.encode(line) + b"\n")


def _row(verdict: Verdict, i: int) -> Row:
    return Row(
        image=int(verdict.images[i]),
        predicted=int(verdict.predicted[i]),
        certified=bool(verdict.certified[i]),
        by=str(verdict.by[i]),  # type: ignore[arg-type]
        witness=None if (found := verdict.witnesses[i]) is None else Reason(**asdict(found)),
        safe=None if verdict.safe is None or verdict.safe[i].all() else _packed(verdict.safe[i]),
        alert=None if verdict.alert is None else bool(verdict.alert[i]),
        holds=None if verdict.holds is None else str(verdict.holds[i]),  # type: ignore[arg-type]
    )


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
            lines = _lines(file)
            header = decoded(next(lines, b""), Header)
            if n_rows != header.n:
                raise ValueError(f"truncated, it has {n_rows} of {header.n} rows")
            return _verdict(header, [_read_row(i, line) for i, line in enumerate(lines)])
    except (OSError, ValueError, zlib.error, MajorcertError) as error:
        raise StoreError(f"{path}: not a verdict file of version 1, or damaged ({reason(error)})") from error


def _read_row(i: int, line: bytes) -> Row:
    try:
        return decoded(line, Row)
    except ValueError as error:
        raise ValueError(f"row {i}: {error}") from None


def _verdict(header: Header, rows: Sequence[Row]) -> Verdict:
    safe = None if header.placements is None else _all_safe(header.n, *header.placements)
    for i, row in enumerate(rows):
        if safe is not None and row.safe is not None:
            safe[i] = _unpacked(row.safe, safe.shape[1:])
    found = (row.witness for row in rows)
    return Verdict(
        predicted=np.array([row.predicted for row in rows], dtype=np.int64),
        certified=np.array([row.certified for row in rows], dtype=bool),
        by=np.array([row.by for row in rows], dtype="<U10"),
        safe=safe,
        witnesses=tuple(None if each is None else Witness(each.placement, each.rival, each.forced) for each in found),
        images=np.array([row.image for row in rows], dtype=np.int64),
        patch=Patch(*header.patch),
        method=header.method,
        defenders=tuple(header.defenders),
        promise=header.promise,
        alert=_alert(header, rows),
        slack=header.slack,
        holds=_holds(header, rows),
    )


def _alert(header: Header, rows: Sequence[Row]) -> Bools | None:
    """The alerts of a verdict of detection; one of recovery knows none."""
    if any((row.alert is None) == (header.promise == "detection") for row in rows):
        raise ValueError(f"a verdict of {header.promise} with rows of another promise")
    return np.array([bool(row.alert) for row in rows], dtype=bool) if header.promise == "detection" else None


def _holds(header: Header, rows: Sequence[Row]) -> npt.NDArray[np.str_] | None:
    """The strongest promise of each image; of unwavering alone, and not in older files."""
    found = [row.holds for row in rows if row.holds is not None]
    if found and (len(found) < len(rows) or header.promise != "unwavering"):
        raise ValueError(f"a verdict of {header.promise} in which {len(found)} rows say what holds")
    return np.array(found, dtype="<U10") if found else None


def _all_safe(n_images: int, down: int, across: int) -> Bools:
    if down * across > MAX_MAP or n_images * down * across > MAX_CELLS:
        raise ValueError(f"maps of {down}x{across} placements for {n_images} images")
    check_room(n_images * down * across, "its maps")
    return np.ones((n_images, down, across), dtype=bool)


def _packed(safe: Bools) -> str:
    return base64.b64encode(zlib.compress(np.packbits(safe).tobytes())).decode()


def _unpacked(text: str, shape: tuple[int, ...]) -> Bools:
    n_cells = shape[0] * shape[1]
    n_bytes = (n_cells + 7) // 8
    bits = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), n_bytes + 1)
    if len(bits) != n_bytes:
        raise ValueError(f"a map of {len(bits)} bytes where {n_bytes} are expected")
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=n_cells).reshape(shape).astype(bool)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise ValueError(f"a line of {MAX_LINE} bytes or more")
        yield line


def save_all(verdicts: Sequence[Verdict], out: Path) -> None:
    """One verdict as the file itself; several into a folder, numbered."""
    if len(verdicts) == 1:
        verdicts[0].save(out)
        return
    if out.is_file():
        raise StoreError(f"{out}: there are {len(verdicts)} verdicts to write, so it must be a folder, not a file")
    for number, verdict in enumerate(verdicts, start=1):
        verdict.save(out / f"{number:02d}-{verdict.method}-{verdict.patch}.jsonl")
