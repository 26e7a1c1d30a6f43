"""Strategies whose regions are not runs of rows and columns: say which pixels each view shows, and the rest follows."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.regions import Strategy, Touched
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.errors.frozen import filled


@dataclass(frozen=True, eq=False, init=False)
class TouchedSets(Touched):
    """Of regions of any shape: a set of ablations for each placement, which is a cell of its own."""

    sets: Bools  # (placement rows, placement columns, ablations)

    def __init__(self, sets: Bools) -> None:
        filled(self, rows=np.arange(sets.shape[0]), columns=np.arange(sets.shape[1]), sets=sets)

    def masks(self) -> Bools:
        return self.sets

    def n_touched(self) -> Ints:
        return self.sets.sum(axis=2)

    def sums(self, values: npt.NDArray[Any]) -> Ints:
        flat = self.sets.reshape(-1, self.sets.shape[2]).T.astype(np.int64)
        return (values.astype(np.int64) @ flat).reshape(*values.shape[:-1], *self.sets.shape[:2])


@dataclass(frozen=True)
class Shape(Strategy):
    """A strategy of any shape. A new one says its `regions`; what a patch touches is counted from them."""

    @abstractmethod
    def regions(self, image_size: ImageSize) -> Bools: ...

    def n_ablations(self, image_size: ImageSize) -> int:
        return len(self.regions(image_size))

    def touched(self, patch: Patch, image_size: ImageSize) -> Touched:
        patch.n_placements(image_size)
        windows = np.lib.stride_tricks.sliding_window_view(
            self.regions(image_size), (patch.height, patch.width), axis=(1, 2)
        )
        return TouchedSets(np.asarray(windows.any(axis=(3, 4))).transpose(1, 2, 0))
