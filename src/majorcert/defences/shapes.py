"""Strategies whose regions are not runs of rows and columns: say which pixels each view shows, and the rest follows."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.regions import Strategy, Touched
from majorcert.core.threat import Bools, ImageSize, Patch


@dataclass(frozen=True, eq=False)
class TouchedSets(Touched):
    """Of regions of any shape: a set of ablations for each placement, which is a cell of its own."""

    sets: Bools
    """(placement rows, placement columns, ablations)"""

    def masks(self) -> Bools:
        return self.sets

    def sums(self, values: npt.NDArray[Any]) -> Ints:
        flat = self.sets.reshape(-1, self.sets.shape[2]).T.astype(np.int64)
        return (values.astype(np.int64) @ flat).reshape(*values.shape[:-1], *self.sets.shape[:2])

    def most_apart(self, values: Ints) -> Ints:
        flat = self.sets.reshape(-1, self.sets.shape[2])
        apart = [~(flat & own).any(axis=1) for own in flat]
        most = [np.where(others, values.reshape(len(values), -1), 0).max(axis=1) for others in apart]
        return np.stack(most, axis=1).reshape(values.shape)


@dataclass(frozen=True)
class Shape(Strategy):
    """A strategy of any shape. A new one says its `regions`; what a patch touches is counted from them."""

    @abstractmethod
    def regions(self, image_size: ImageSize) -> Bools: ...

    def n_ablations(self, image_size: ImageSize) -> int:
        return len(self.regions(image_size))

    def touched(self, patch: Patch, image_size: ImageSize) -> Touched:
        n_tops, n_lefts = patch.n_placements(image_size)
        windows = np.lib.stride_tricks.sliding_window_view(
            self.regions(image_size), (patch.height, patch.width), axis=(1, 2)
        )
        sets = np.asarray(windows.any(axis=(3, 4))).transpose(1, 2, 0)
        return TouchedSets(np.arange(n_tops), np.arange(n_lefts), sets)
