"""The record of an attack on disk: a header and a row for each image, as JSON lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import MAX_JSON_BYTES, decoded, read_bytes, reason

Row = dict[str, Any]


class Header(msgspec.Struct, tag_field="format", tag="majorcert-attack"):
    """What the rows are about, and how long they took."""

    version: Literal[1]
    about: dict[str, Any]
    seconds: float


def write_rows(path: Path, header: Header, rows: Sequence[Row]) -> None:
    """Write the file anew, whole or not at all."""
    with replacing(path) as beside, beside.open("wb") as file:
        for line in (header, *rows):
            file.write(msgspec.json.encode(line) + b"\n")


def read_rows(path: Path) -> tuple[Header, list[Row]]:
    """What `write_rows` wrote; every row has the number of its image."""
    try:
        first, *others = read_bytes(path, MAX_JSON_BYTES).splitlines() or [b""]
        header, rows = decoded(first, Header), [decoded(line, Row) for line in others]
        return header, [{**row, "image": int(row["image"])} for row in rows]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: not the record of an attack, or damaged ({reason(error)}); remove it") from None
