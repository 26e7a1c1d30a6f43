"""Fields: what the cells of a local-feature network's map see, so that a map is evidence like any other.

A cell of the map is an ablation: its region is the cell's receptive field, and what it says depends on nothing else.
"""

from dataclasses import dataclass

import numpy as np

from majorcert.core.regions import Strategy
from majorcert.core.threat import Bools, ImageSize
from majorcert.errors import StrategyError
from majorcert.errors.checks import parsed, whole
from majorcert.errors.frozen import filled

WIDTH = "the width of Fields in pixels"


@dataclass(frozen=True)
class Fields(Strategy):
    """Fields of `size` rows and `width` columns (as many, if not given) around every `stride`-th pixel.

    Nothing wraps around: at the border a field ends, and the padding there shows nothing of the image. A field as
    high as the image is all of its rows, and then there is one row of cells; as wide, and there is one column.
    """

    width: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        filled(self, width=whole(self.width or self.size, WIDTH, StrategyError))

    def __str__(self) -> str:
        across = f"x{self.width}" if self.width != self.size else ""
        return f"fields:{self.size}{across}" + (f"/{self.stride}" if self.stride != 1 else "")

    def _runs(self, image_size: ImageSize, axis: int) -> Bools:
        """(cells, pixels): what the cells of one row or column of the map see, along one side of the image."""
        n_pixels, length = image_size[axis], (self.size, self.width)[axis]
        if length >= n_pixels:
            return np.ones((1, n_pixels), dtype=bool)
        first = np.arange(0, n_pixels, self.stride)[:, None] - (length - 1) // 2
        pixels = np.arange(n_pixels)
        return np.asarray((first <= pixels) & (pixels < first + length))


def fields(spec: str) -> Fields:
    """Read "fields:11", "fields:11/2" or "fields:32x5/2" (height x width / stride), as `str` gives them."""
    what = "fields; write for example 'fields:11/2' or 'fields:32x5'"
    pattern = r"fields:([0-9]{1,6})(?:x([0-9]{1,6}))?(?:/([0-9]{1,6}))?"
    height, width, stride = parsed(spec, pattern, what, StrategyError)
    return Fields(int(height or 0), int(stride or 1), whole(int(width or height or 0), WIDTH, StrategyError))


Strategy.further["fields"] = fields
