"""Verdicts: what was proved of each image, why, and where the proof fails."""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, Patch
from majorcert.errors import EvidenceError, StoreError
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


@dataclass(frozen=True)
class Witness:
    """Why an image is not certified: a patch here could make the defenders say this, and the label would change."""

    placement: tuple[int, int]
    """(top, left) of the patch"""
    rival: int
    """a label that then beats the ensemble's clean label, or ties with it and wins the tie"""
    forced: tuple[int, ...]
    """what each defender is made to say"""


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """One row for each image: the label, whether no patch can change it, and by which argument."""

    predicted: Ints
    certified: Bools
    by: npt.NDArray[np.str_]
    """"theorem1", "theorem2", "margin", "local", or "" where not certified"""
    safe: Bools | None
    """(images, placement rows, placement columns); None for a margin, which does not look at placements"""
    witnesses: tuple[Witness | None, ...]
    images: Ints
    """the place of each image in its data set"""
    patch: Patch
    method: str
    defenders: tuple[Mapping[str, Any], ...]
    """the provenance of the evidence"""

    def __len__(self) -> int:
        return len(self.predicted)

    def __repr__(self) -> str:
        return f"Verdict({int(self.certified.sum())} of {len(self)} images certified, {self.patch}, {self.method})"

    def witness(self, i: int) -> Witness | None:
        """The first placement at which the i-th image is not safe; None when it is certified, and for a margin."""
        return self.witnesses[i]

    def save(self, path: str | Path) -> None:
        """Write JSON lines: a header with the provenance, then a row for each image; whole or not at all."""
        header = {
            "format": FORMAT,
            "version": VERSION,
            "method": self.method,
            "patch": [self.patch.height, self.patch.width],
            "placements": None if self.safe is None else list(self.safe.shape[1:]),
            "n": len(self),
            "defenders": [dict(defender) for defender in self.defenders],
        }
        with replacing(path) as beside, beside.open("w", encoding="utf-8") as file:
            for row in (header, *(self._row(i) for i in range(len(self)))):
                file.write(json.dumps(row, separators=(",", ":")) + "\n")

    def _row(self, i: int) -> dict[str, Any]:
        row: dict[str, Any] = {
            "image": int(self.images[i]),
            "predicted": int(self.predicted[i]),
            "certified": bool(self.certified[i]),
            "by": str(self.by[i]),
        }
        if (witness := self.witnesses[i]) is not None:
            row["witness"] = asdict(witness)
        if self.safe is not None and not self.safe[i].all():
            row["safe"] = _pack(self.safe[i])
        return row

    @classmethod
    def load(cls, path: str | Path) -> "Verdict":
        """Read what `save` wrote."""
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


class Score(NamedTuple):
    """Accuracy against the truth, as fractions of `n` images."""

    clean: float
    """predicted correctly"""
    certified: float
    """predicted correctly and certified"""
    n: int


class Summary(NamedTuple):
    """How many images were certified, by which argument, and how many of them correctly."""

    n: int
    n_certified: int
    n_correct: int
    n_certified_and_correct: int
    by: dict[str, int]
    """images certified by each argument"""
    by_and_correct: dict[str, int]


def score(verdict: Verdict, truth: npt.ArrayLike) -> Score:
    """Clean and certified accuracy; both are 0 of no images."""
    correct = verdict.predicted == _truth_of(verdict, truth)
    n = len(verdict)
    return Score(int(correct.sum()) / max(n, 1), int((correct & verdict.certified).sum()) / max(n, 1), n)


def summary(verdict: Verdict, truth: npt.ArrayLike) -> Summary:
    """The counts behind a table: by which argument images were certified, and how many of those are correct."""
    correct = verdict.predicted == _truth_of(verdict, truth)
    return Summary(
        n=len(verdict),
        n_certified=int(verdict.certified.sum()),
        n_correct=int(correct.sum()),
        n_certified_and_correct=int((correct & verdict.certified).sum()),
        by=dict(Counter(verdict.by[verdict.certified].tolist())),
        by_and_correct=dict(Counter(verdict.by[verdict.certified & correct].tolist())),
    )


def _truth_of(verdict: Verdict, truth: npt.ArrayLike) -> npt.NDArray[Any]:
    labels = np.asarray(truth)
    if labels.size and labels.dtype.kind not in "iu":
        raise EvidenceError(f"true labels are whole numbers, got {labels.dtype}")
    if labels.shape != verdict.predicted.shape:
        raise EvidenceError(f"expected the true label of each of {len(verdict)} images, got shape {labels.shape}")
    return labels


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
