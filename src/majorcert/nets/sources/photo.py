"""What a certificate about the resized image says of the photo, counted from the filter that resizes.

Photos are brought to the networks' size by Pillow's bilinear filter. A network pixel is a weighted mean of the photo
pixels whose centres lie within the width of a pixel (of the coarser of the two grids) of its own; all others weigh
nothing. So a patch on the decoded photo changes only the network pixels whose support it meets: a rectangle again.
"""

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize, Patch

Places = npt.NDArray[np.int64]


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
