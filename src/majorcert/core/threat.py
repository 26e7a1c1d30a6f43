"""The attacker: one rectangle of pixels, anywhere in the image, repainted at will."""

import math
import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.errors import MajorcertError, PatchError

Bools = npt.NDArray[np.bool_]
ImageSize = tuple[int, int]
"""(height, width) in pixels."""


@dataclass(frozen=True, init=False)
class Patch:
    """The rectangle an attacker may repaint: `Patch(5)` is 5x5, `Patch(3, 7)` is 3 high and 7 wide."""

    height: int
    width: int

    def __init__(self, height: int, width: int | None = None) -> None:
        for name, side in (("height", height), ("width", height if width is None else width)):
            object.__setattr__(self, name, whole(side, f"the {name} of a patch (as in 5, (3, 7) or '3x7')", PatchError))

    @classmethod
    def parse(cls, text: str) -> "Patch":
        """Read "5" or "2x7" (height x width), as the command line takes them and `str` gives them."""
        match = re.fullmatch(r"([0-9]{1,6})(?:x([0-9]{1,6}))?", text.strip())
        if match is None:
            raise PatchError(f"cannot read {text!r} as a patch; write a side as in '5', or height x width as in '2x7'")
        return cls(*(int(side) for side in match.groups() if side is not None))

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"

    def n_placements(self, image_size: ImageSize) -> tuple[int, int]:
        """How many rows and columns of top-left corners there are: all of them, none wrapping around."""
        height, width = image_size
        if self.height > height or self.width > width:
            size = "give the size in pixels of the image the votes were cast on"
            raise PatchError(f"a {self} patch does not fit in a {height}x{width} image; {size}")
        return height - self.height + 1, width - self.width + 1


def as_patch(given: Any, image_size: ImageSize | None = None) -> Patch:
    """The patch that `Patch(5)`, 5, (3, 7) or "3x7" means; of an image of known size also "2%"."""
    if isinstance(given, Patch):
        return given
    share = re.fullmatch(r" *([0-9]{1,2}(?:\.[0-9]{1,6})?) ?% *", given) if isinstance(given, str) else None
    if share and image_size and float(share[1]):  # the smallest square whose area is at least so much
        return Patch(math.isqrt(math.ceil(Fraction(share[1]) * image_size[0] * image_size[1] / 100) - 1) + 1)
    if isinstance(given, str):
        return Patch.parse(given)
    return Patch(*given) if isinstance(given, tuple | list) and len(given) == 2 else Patch(given)


def whole(value: Any, what: str, error: type[MajorcertError], least: int = 1) -> int:
    """A whole number of at least so much; anything else is refused."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise error(f"{what} is a whole number of {least} or more, got {value!r}")
    return number
