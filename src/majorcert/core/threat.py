"""The attacker: one rectangle of pixels, anywhere in the image, repainted at will."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.errors import PatchError
from majorcert.errors.checks import check_fits, sides_of, whole
from majorcert.errors.frozen import filled

Bools = npt.NDArray[np.bool_]
ImageSize = tuple[int, int]  # (height, width) in pixels


@dataclass(frozen=True, init=False)
class Patch:
    """The rectangle an attacker may repaint: `Patch(5)` is 5x5, `Patch(3, 7)` is 3 high and 7 wide."""

    height: int
    width: int

    def __init__(self, height: int, width: int | None = None) -> None:
        sides = {"height": height, "width": height if width is None else width}
        what = "the {} of a patch (as in 5, (3, 7) or '3x7')"
        filled(self, **{name: whole(side, what.format(name), PatchError) for name, side in sides.items()})

    @classmethod
    def parse(cls, text: str) -> "Patch":
        """Read "5" or "2x7" (height x width), as the command line takes them and `str` gives them."""
        return cls(*sides_of(text.strip()))

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"

    def n_placements(self, image_size: ImageSize) -> tuple[int, int]:
        """How many rows and columns of top-left corners there are: all of them, none wrapping around."""
        n_rows, n_columns = image_size[0] - self.height + 1, image_size[1] - self.width + 1
        instead = "give the size in pixels of the image the votes were cast on"
        check_fits(min(n_rows, n_columns) > 0, f"a {self} patch", image_size, instead, PatchError)
        return n_rows, n_columns


def as_patch(given: Any, image_size: ImageSize | None = None) -> Patch:
    """The patch that `Patch(5)`, 5, (3, 7) or "3x7" means; of an image of known size also "2%"."""
    return given if isinstance(given, Patch) else Patch(*sides_of(given, image_size))
