"""The record of an attack as it grows, and its images as PNG files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.attack_rows import Header, Row, read_rows, write_rows
from majorcert.files.seal import plain


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
        write_rows(self.path, Header(1, self.about, self.seconds), self.rows)

    def _read(self) -> None:
        header, self.rows = read_rows(self.path)
        about, self.seconds = header.about, header.seconds
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
