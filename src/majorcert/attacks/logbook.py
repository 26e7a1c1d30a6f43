"""The record of an attack on disk: a header and a row for each image, as JSON lines; and images as PNG files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.seal import plain
from majorcert.files.untrusted import MAX_JSON_BYTES, parse_json, read_bytes, reason

FORMAT = "majorcert-attack"
Row = dict[str, Any]


class Logbook:
    """The rows that are there, and what they are about; the file is always whole."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        """Open the file or begin it; one that is about something else is refused."""
        self.path = path
        self.about: dict[str, Any] = plain(about)
        self.rows: list[Row] = []
        self.seconds = 0.0
        nearest = next(place for place in path.absolute().parents if place.exists())
        if not nearest.is_dir():
            raise StoreError(f"{nearest}: is a file, and a folder for the attack was to be written; give another one")
        if path.exists():
            self._read()

    def add(self, rows: list[Row], seconds: float) -> None:
        """Write the file anew with more rows."""
        self.rows = [*self.rows, *rows]
        self.seconds = round(self.seconds + seconds, 3)
        header = {"format": FORMAT, "version": 1, "about": self.about, "seconds": self.seconds}
        with replacing(self.path) as beside, beside.open("w", encoding="utf-8") as file:
            for line in (header, *self.rows):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def _read(self) -> None:
        try:
            lines = read_bytes(self.path, MAX_JSON_BYTES).splitlines() or [b""]
            header, *rows = (parse_json(line) for line in lines)
            if (header["format"], header["version"]) != (FORMAT, 1):
                raise ValueError("it is of another format or version")
            about, self.seconds = dict(header["about"]), float(header["seconds"])
            self.rows = [{**row, "image": int(row["image"])} for row in rows]
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{self.path}: not the record of an attack, or damaged ({reason(error)}); remove it"
            ) from None
        for key in [*self.about, *sorted(about.keys() - self.about.keys())]:
            if about.get(key) != self.about.get(key):
                raise StoreError(
                    f"{self.path} is the record of another attack: {key} was {about.get(key)!r}, now it is "
                    f"{self.about.get(key)!r}; give another folder, or the same settings to go on"
                )


def write_png(path: Path, image: Tensor) -> None:
    """Write a (C, H, W) uint8 image of 1 or 3 channels, without loss."""
    from PIL import Image

    pixels = image[0] if len(image) == 1 else image.permute(1, 2, 0)
    with replacing(path) as beside:
        Image.fromarray(np.ascontiguousarray(pixels.cpu().numpy())).save(beside, format="PNG")
