"""What a certificate about the resized image says of the photo, counted from the filter that resizes.

Photos are brought to the networks' size by Pillow's bilinear filter. A network pixel is a weighted mean of the photo
pixels whose centres lie within the width of a pixel (of the coarser of the two grids) of its own; all others weigh
nothing. So a patch on the decoded photo changes only the network pixels whose support it meets: a rectangle again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize, Patch
from majorcert.errors import DataError
from majorcert.nets.sources.folder import read_photo

Places = npt.NDArray[np.int64]


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


def supports(n_photo: int, n_network: int) -> tuple[Places, Places]:
    """The first and the last photo pixel of a side that each network pixel depends on.

    In halves of a pixel and multiplied out, so that all is whole numbers: photo pixel x has its centre at
    (2x + 1) * n_network, network pixel o at (2o + 1) * n_photo, and the filter ends 2 * max(n_photo, n_network) away.
    """
    centres, reach = (2 * np.arange(n_network) + 1) * n_photo, 2 * max(n_photo, n_network)
    first = (centres - reach - n_network) // (2 * n_network) + 1
    last = -((n_network - centres - reach) // (2 * n_network)) - 1
    return np.maximum(first, 0), np.minimum(last, n_photo - 1)


def spread(side: int, n_photo: int, n_network: int) -> int:
    """The most network pixels in a row that a patch of so many photo pixels can change."""
    return next(n for n in range(1, n_network + 1) if side_on_photo(n, n_photo, n_network) >= side)


def side_on_photo(side: int, n_photo: int, n_network: int) -> int:
    """The most photo pixels in a row that never change more than `side` network pixels, wherever they are.

    To change one more, a patch must reach from the last photo pixel of some network pixel to the first one of another
    that is `side` further.
    """
    if side >= n_network:
        return n_photo
    first, last = supports(n_photo, n_network)
    return max(0, int((first[side:] - last[:-side]).min())) if side else 0


def patch_on_photo(patch: Patch, photo_size: ImageSize, image_size: ImageSize) -> ImageSize:
    """(height, width) in photo pixels of the largest patch that a certificate for `patch` covers; 0 if none."""
    return (
        side_on_photo(patch.height, photo_size[0], image_size[0]),
        side_on_photo(patch.width, photo_size[1], image_size[1]),
    )
