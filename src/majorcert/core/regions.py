"""Ablation strategies: which pixels each view shows, and which views a placed patch touches.

Every strategy here is a product: an ablation is a run of rows times a run of columns, and both wrap around
the image. A patch touches an ablation iff it shares a row with it and a column with it, so two small matrices say
everything (`Touched`). They are counted from the regions themselves; no formula for how many are touched is used.
"""

import operator
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import Bools, ImageSize, Patch, covered
from majorcert.errors import StrategyError


@dataclass(frozen=True)
class Touched:
    """Which ablations each placement touches, as two factors.

    The placement (top, left) touches the ablation (i, j) iff `rows[top, i] and columns[left, j]`.
    """

    rows: Bools
    """(placement rows, row starts)"""
    columns: Bools
    """(placement columns, column starts)"""

    def counts(self) -> npt.NDArray[np.int64]:
        """(placement rows, placement columns): the number of ablations that each placement touches."""
        return np.outer(self.rows.sum(axis=1), self.columns.sum(axis=1))

    def mask(self, top: int, left: int) -> Bools:
        """(ablations,): those that the one placement (top, left) touches, in the order of the ballots."""
        return np.outer(self.rows[top], self.columns[left]).ravel()


@dataclass(frozen=True)
class Strategy(ABC):
    """Runs of `size` pixels that start at every `stride`-th pixel; `str` gives the spec back ("columns:19/5")."""

    size: int
    stride: int = 1

    def __post_init__(self) -> None:
        for name in ("size", "stride"):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, operator.index(value))
            except TypeError:
                raise StrategyError(f"the {name} of {self.name} is a whole number of pixels, got {value!r}") from None
            if value < 1:
                raise StrategyError(f"the {name} of {self.name} is at least 1 pixel, got {value}")

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def __str__(self) -> str:
        return f"{self.name}:{self.size}" + (f"/{self.stride}" if self.stride != 1 else "")

    @abstractmethod
    def visible(self, image_size: ImageSize) -> tuple[Bools, Bools]:
        """The rows and the columns that are visible: (row starts, height) and (column starts, width)."""

    def n_ablations(self, image_size: ImageSize) -> int:
        """The number of ablations, which are in row-major order of (row start, column start)."""
        rows, columns = self.visible(image_size)
        return len(rows) * len(columns)

    def touched(self, patch: Patch, image_size: ImageSize) -> Touched:
        """Which ablations each placement of the patch touches: those that share a pixel with it."""
        n_tops, n_lefts = patch.n_placements(image_size)
        rows, columns = self.visible(image_size)
        return Touched(
            rows=_share_a_pixel(rows, patch.height, n_tops), columns=_share_a_pixel(columns, patch.width, n_lefts)
        )

    def _runs(self, n_pixels: int, image_size: ImageSize) -> Bools:
        """(starts, pixels): the run from each start, wrapping around the end."""
        if self.size > n_pixels:
            height, width = image_size
            raise StrategyError(f"{self} does not fit in a {height}x{width} image; use a size of at most {n_pixels}")
        starts = np.arange(0, n_pixels, self.stride)
        return (np.arange(n_pixels) - starts[:, None]) % n_pixels < self.size


@dataclass(frozen=True)
class Rows(Strategy):
    """Full-width bands of `size` rows."""

    def visible(self, image_size: ImageSize) -> tuple[Bools, Bools]:
        height, width = image_size
        return self._runs(height, image_size), np.ones((1, width), dtype=bool)


@dataclass(frozen=True)
class Columns(Strategy):
    """Full-height bands of `size` columns."""

    def visible(self, image_size: ImageSize) -> tuple[Bools, Bools]:
        height, width = image_size
        return np.ones((1, height), dtype=bool), self._runs(width, image_size)


@dataclass(frozen=True)
class Blocks(Strategy):
    """Squares of `size` x `size` pixels."""

    def visible(self, image_size: ImageSize) -> tuple[Bools, Bools]:
        height, width = image_size
        return self._runs(height, image_size), self._runs(width, image_size)


def strategy(spec: str) -> Strategy:
    """Read a strategy from its spec: "rows:4", "columns:4", "blocks:12", "columns:19/5" (size/stride)."""
    kinds: dict[str, type[Rows] | type[Columns] | type[Blocks]] = {"rows": Rows, "columns": Columns, "blocks": Blocks}
    match = re.fullmatch(r"(rows|columns|blocks):([0-9]{1,6})(?:/([0-9]{1,6}))?", str(spec).strip())
    if match is None:
        raise StrategyError(
            f"cannot read {spec!r} as a strategy; write for example 'rows:4', 'blocks:12', 'columns:19/5'"
        )
    name, size, stride = match.groups()
    return kinds[name](int(size), int(stride or 1))


def _share_a_pixel(visible: Bools, patch_length: int, n_positions: int) -> Bools:
    """(placements, starts): does the patch at this placement cover a pixel that this run shows?"""
    return _counted(visible.tobytes(), visible.shape, patch_length, n_positions)


@lru_cache(maxsize=256)
def _counted(visible: bytes, shape: tuple[int, int], patch_length: int, n_positions: int) -> Bools:
    """Counted once for the same regions and patch: it is asked again for every chunk of images."""
    runs = np.frombuffer(visible, dtype=bool).reshape(shape)
    patch_pixels = covered(patch_length, shape[1], n_positions)
    shared = np.asarray((patch_pixels[:, None, :] & runs[None, :, :]).any(axis=2))
    shared.flags.writeable = False
    return shared
