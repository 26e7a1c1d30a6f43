"""Photos to classify: as the networks see them, and how large they were."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize, Patch
from majorcert.errors import DataError
from majorcert.files.photo import patch_on_photo
from majorcert.nets.sources.decode import read_photo


@dataclass(frozen=True, eq=False)
class Photo:
    """An image file as the networks see it, and how large it was."""

    path: Path
    pixels: npt.NDArray[np.uint8]
    """(channels, height, width)"""
    size: ImageSize

    def covers(self, patch: Patch) -> str:
        """The photo pixels that a certificate for `patch` on the resized image stands for at least, such as "31x31"."""
        height, width = patch_on_photo(patch, self.size, (self.pixels.shape[1], self.pixels.shape[2]))
        return f"{height}x{width}" if height and width else "none"


def read_photos(
    paths: Sequence[Path], image_size: ImageSize, channels: int, *, skip_bad: bool = False
) -> tuple[list[Photo], list[str]]:
    """The photos in the networks' size, and what is wrong with those that were left out."""
    photos, skipped = [], []
    for path in paths:
        try:
            photos.append(Photo(path, *read_photo(path, image_size, channels)))
        except DataError as error:
            if not skip_bad:
                raise
            skipped.append(str(error))
    if not photos:
        raise DataError("there is no image left to classify")
    return photos, skipped
