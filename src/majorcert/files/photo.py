"""What a patch on a photo can change of the image that the networks see, counted from the filter that resizes.

A photo is brought to the networks' size by one of Pillow's filters, one side after the other: a network pixel is a
weighted mean of the photo pixels whose centres lie within the filter's radius of its own, in pixels of the coarser of
the two grids; all others weigh nothing. So a patch on the decoded photo changes only the network pixels whose support
it meets, a rectangle again, and a certificate for that rectangle is one about the photo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize, Patch, as_patch
from majorcert.errors import DataError

Places = npt.NDArray[np.int64]
Fit = Literal["squash", "crop", "pad"]
Filter = Literal["box", "bilinear", "hamming", "bicubic", "lanczos"]
HALVES: dict[str, int] = {"box": 1, "bilinear": 2, "hamming": 2, "bicubic": 4, "lanczos": 6}
"""The radius of each filter, in halves of a pixel."""


@dataclass(frozen=True)
class Resizing:
    """How photos are brought to the networks' size.

    "squash" stretches the whole photo to it; "crop" takes the largest middle part of that shape; "pad" shrinks the
    whole photo in its own shape, and puts grey beside it.
    """

    fit: Fit = "squash"
    filter: Filter = "bilinear"

    def __post_init__(self) -> None:
        if self.fit not in get_args(Fit) or self.filter not in HALVES:
            raise DataError(
                f"photos are fitted by {', '.join(get_args(Fit))} and filtered by {', '.join(HALVES)}; "
                f"got {self.fit!r} and {self.filter!r}"
            )

    def used(self, photo_size: ImageSize, image_size: ImageSize) -> ImageSize:
        """(height, width) of the middle part of the photo that is looked at."""
        (height, width), (rows, columns) = photo_size, image_size
        if self.fit != "crop":
            return photo_size
        return min(height, _rounded(width * rows, columns)), min(width, _rounded(height * columns, rows))

    def made(self, photo_size: ImageSize, image_size: ImageSize) -> ImageSize:
        """(height, width) of what that part is resized to; the rest of the networks' image is grey."""
        (height, width), (rows, columns) = photo_size, image_size
        if self.fit != "pad":
            return image_size
        return min(rows, _rounded(height * columns, width)), min(columns, _rounded(width * rows, height))


SQUASHED = Resizing()


def _rounded(numerator: int, denominator: int) -> int:
    """A quotient to the nearest whole number of at least 1."""
    return max(1, (2 * numerator + denominator) // (2 * denominator))


@dataclass(frozen=True)
class Photos:
    """The (height, width) of the photos that images were made of, and how: what is said holds for all of them."""

    sizes: frozenset[ImageSize]
    resizing: Resizing = SQUASHED
    files: Mapping[ImageSize, str] = field(default_factory=dict, compare=False)
    """one of each size, where its name is known"""

    def patch(self, given: Any, image_size: ImageSize) -> Patch:
        """The patch on the networks' image that all that `given` can change lies in; see `patch_from_photo`."""
        return containing([patch_from_photo(given, size, image_size, self.resizing) for size in self.sizes])

    def covered(self, patch: Patch, image_size: ImageSize) -> ImageSize:
        """(height, width) in photo pixels that a certificate for `patch` covers on every one of the photos."""
        found = [patch_on_photo(patch, size, image_size, self.resizing) for size in self.sizes]
        return min(height for height, _ in found), min(width for _, width in found)


def patch_from_photo(given: Any, photo_size: ImageSize, image_size: ImageSize, resizing: Resizing = SQUASHED) -> Patch:
    """The patch on the networks' image that holds all that a patch of the photo can change, wherever it lies.

    >>> patch_from_photo("75x100px", (480, 640), (32, 32))
    Patch(height=7, width=7)

    Args:
        given: in photo pixels, as `Patch(75, 100)`, (75, 100) or "75x100px"; or "2%", the smallest square whose area
            is at least that share of the photo. What is larger than the photo is all of it.
    """
    patch = as_patch(in_pixels(given) or given, photo_size)
    used, made = resizing.used(photo_size, image_size), resizing.made(photo_size, image_size)
    height, width = (
        spread(min(side, most), most, n_made, resizing.filter)
        for side, most, n_made in zip((patch.height, patch.width), used, made, strict=True)
    )
    return Patch(height, width)


def patch_on_photo(
    patch: Any, photo_size: ImageSize, image_size: ImageSize, resizing: Resizing = SQUASHED
) -> ImageSize:
    """(height, width) in photo pixels of the largest patch that a certificate for `patch` covers; 0 if none."""
    patch = as_patch(patch, image_size)
    used, made = resizing.used(photo_size, image_size), resizing.made(photo_size, image_size)
    height, width = (
        n_photo if side >= n_made else side_on_photo(side, most, n_made, resizing.filter)
        for side, n_photo, most, n_made in zip((patch.height, patch.width), photo_size, used, made, strict=True)
    )
    return height, width


def in_pixels(given: Any) -> str | None:
    """The sides in "75x100px", a patch in photo pixels; None of anything else."""
    text = given.strip() if isinstance(given, str) else ""
    return text[:-2] if text.endswith("px") else None


def containing(patches: Sequence[Patch]) -> Patch:
    """The smallest patch that contains all of these."""
    return Patch(max(each.height for each in patches), max(each.width for each in patches))


def supports(n_photo: int, n_network: int, filter: Filter) -> tuple[Places, Places]:
    """The first and the last photo pixel of a side that each network pixel depends on.

    In halves of a pixel and multiplied out, so that all is whole numbers: photo pixel x has its centre at
    (2x + 1) * n_network, network pixel o at (2o + 1) * n_photo. At its end a filter weighs nothing, except the box.
    """
    if n_photo == n_network:  # such a side is left as it is
        return np.arange(n_photo), np.arange(n_photo)
    centres = (2 * np.arange(n_network) + 1) * n_photo
    reach = HALVES[filter] * max(n_photo, n_network) + (filter == "box")
    first = (centres - reach - n_network) // (2 * n_network) + 1
    last = -((n_network - centres - reach) // (2 * n_network)) - 1
    return np.maximum(first, 0), np.minimum(last, n_photo - 1)


def spread(side: int, n_photo: int, n_network: int, filter: Filter) -> int:
    """The most network pixels in a row whose supports meet so many photo pixels in a row, wherever these are."""
    first, last = supports(n_photo, n_network, filter)
    begin = np.arange(n_photo - side + 1)
    met = np.searchsorted(first, begin + side, "left") - np.searchsorted(last, begin, "left")
    return int(met.max())


def side_on_photo(side: int, n_photo: int, n_network: int, filter: Filter) -> int:
    """The most photo pixels in a row that never change more than `side` network pixels, wherever they are.

    To change one more, a patch must reach from the last photo pixel of some network pixel to the first one of another
    that is `side` further.
    """
    if side >= n_network:
        return n_photo
    first, last = supports(n_photo, n_network, filter)
    return min(n_photo, max(0, int((first[side:] - last[:-side]).min()))) if side else 0
