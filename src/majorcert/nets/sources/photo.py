"""Photos to classify: as the networks see them, and how large they were."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError
from majorcert.files.photo import SQUASHED, Resizing
from majorcert.nets.sources.decode import KINDS, is_photo, read_photo
from majorcert.nets.sources.workers import attempted

AT_ONCE = 8
"""Photos that are held, and predicted, at a time: under masks, half a minute of work on a CPU."""


@dataclass(frozen=True, eq=False)
class Photo:
    """An image file as the networks see it, and how large it was."""

    path: Path
    pixels: npt.NDArray[np.uint8]  # (channels, height, width)
    size: ImageSize


def photo_files(given: Sequence[Path]) -> list[Path]:
    """The files that are given, and for each folder all the images in it and below."""
    found: list[Path] = []
    for path in given:
        inside = sorted(filter(is_photo, path.rglob("*"))) if path.is_dir() else [path]
        if not inside:
            raise DataError(f"there is no image in the folder {path}; expected files of {KINDS}")
        found += inside
    return found


def read_photos(
    paths: Sequence[Path],
    image_size: ImageSize,
    channels: int,
    resizing: Resizing = SQUASHED,
    *,
    skip_bad: bool = False,
    told: Callable[[str], None] = lambda sentence: None,
) -> Iterator[list[Photo]]:
    """The photos in the networks' size, some at a time; what is wrong with those that are left out is told."""

    def read(path: Path) -> Photo:
        return Photo(path, *read_photo(path, image_size, channels, resizing))

    n_read = 0
    for start in range(0, len(paths), AT_ONCE):
        photos = []
        for found in attempted(read, paths[start : start + AT_ONCE]):
            if isinstance(found, Photo):
                photos.append(found)
            elif skip_bad:
                told(f"skipped: {found}")
            else:
                raise DataError(f"{found}; --skip-bad leaves out what cannot be read")
        n_read += len(photos)
        if photos:
            yield photos
    if not n_read:
        raise DataError("there is no image left to classify")
