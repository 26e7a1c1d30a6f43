"""Ablation strategies: which pixels each view shows, and which views a placed patch touches.

Touched ablations are counted from the regions themselves; no formula for how many they are is used. Rows, columns and
blocks are products: an ablation is a run of rows times a run of columns, both wrapping around. A patch touches it
iff it shares a row with it and a column with it, so two small matrices say everything. Only this file knows that.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.errors import StrategyError
from majorcert.errors.checks import check_fits, parsed, whole
from majorcert.errors.frozen import filled


@dataclass(frozen=True, eq=False)
class Touched:
    """Which ablations a patch touches at each placement, in a grid of *cells*: those of one cell touch the same."""

    rows: Ints  # (placement rows,) the row of cells of each
    columns: Ints  # (placement columns,) the column of cells of each
    row_runs: Bools  # (cell rows, row starts): does a patch in this row of cells share a row with the run from here?
    column_runs: Bools  # (cell columns, column starts): and a column?

    def masks(self) -> Bools:
        """(cell rows, cell columns, ablations): does a patch in this cell touch this ablation?"""
        grid = self.row_runs[:, None, :, None] & self.column_runs[None, :, None, :]
        return grid.reshape(*grid.shape[:2], -1)

    def mask(self, top: int | Ints, left: int | Ints) -> Bools:
        """(..., ablations): those that each of these placements touches, in the order of the ballots."""
        return self.masks()[self.rows[top], self.columns[left]]

    def n_touched(self) -> Ints:
        """(cell rows, cell columns) the number of ablations that a patch in each cell touches."""
        return np.outer(self.row_runs.sum(axis=1), self.column_runs.sum(axis=1))

    @np.errstate(invalid="ignore")  # kernels of linear algebra may say so of lanes that they fill and do not use
    def sums(self, values: npt.NDArray[Any]) -> Ints:
        """(..., cell rows, cell columns) sums of (..., ablations) whole numbers over what each cell touches.

        They are matrix products in a floating-point type whose first gap no sum reaches, so that none is rounded.
        """
        (n_tops, n_rows), (n_lefts, n_columns) = self.row_runs.shape, self.column_runs.shape
        small = values.shape[-1] * int(values.max(initial=0)) < 2**24
        floating: type[np.floating[Any]] = np.float32 if small else np.float64
        by_row = values.reshape(-1, n_rows, n_columns).transpose(1, 0, 2).astype(floating, order="C")
        sums = self.row_runs.astype(floating) @ by_row.reshape(n_rows, by_row[0].size)
        sums = sums.reshape(-1, n_columns) @ self.column_runs.T.astype(floating)
        sums = sums.reshape(n_tops, -1, n_lefts).transpose(1, 0, 2).astype(np.int32 if small else np.int64, order="C")
        return sums.reshape(*values.shape[:-1], n_tops, n_lefts)


@dataclass(frozen=True)
class Strategy:
    """How views are cut: runs of `size` pixels from every `stride`-th on, wrapping around; `str` gives the spec."""

    size: int
    stride: int = 1
    further: ClassVar[dict[str, Any]] = {}  # what reads the specs of those that stand elsewhere, by their first word

    def __post_init__(self) -> None:
        for name in ("size", "stride"):
            what = f"the {name} of {type(self).__name__} in pixels"
            filled(self, **{name: whole(getattr(self, name), what, StrategyError)})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)  # whatever else a new strategy consists of

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()}:{self.size}" + (f"/{self.stride}" if self.stride != 1 else "")

    def visible(self, image_size: ImageSize) -> tuple[Bools, Bools]:
        """The rows and the columns that are visible: (row starts, height) and (column starts, width)."""
        return self._runs(image_size, 0), self._runs(image_size, 1)

    def n_ablations(self, image_size: ImageSize) -> int:
        """The number of ablations, which are in row-major order of (row start, column start)."""
        rows, columns = self.visible(image_size)
        return len(rows) * len(columns)

    def regions(self, image_size: ImageSize) -> Bools:
        """(ablations, height, width): does this ablation show this pixel?"""
        rows, columns = self.visible(image_size)
        return (rows[:, None, :, None] & columns[None, :, None, :]).reshape(-1, *image_size)

    def touched(self, patch: Patch, image_size: ImageSize) -> Touched:
        """Which ablations each placement of the patch touches: those that share a pixel with it."""
        return _touched(self, patch, image_size)

    def _runs(self, image_size: ImageSize, axis: int) -> Bools:
        """(starts, pixels): the run from each start, wrapping around the end."""
        n_pixels = image_size[axis]
        instead = f"use a size of at most {n_pixels}"
        check_fits(self.size <= n_pixels, str(self), image_size, instead, StrategyError)
        starts = np.arange(0, n_pixels, self.stride)
        return (np.arange(n_pixels) - starts[:, None]) % n_pixels < self.size


class Rows(Strategy):
    """Full-width bands of `size` rows."""

    def visible(self, image_size: ImageSize) -> tuple[Bools, Bools]:
        return self._runs(image_size, 0), np.ones((1, image_size[1]), dtype=bool)


class Columns(Strategy):
    """Full-height bands of `size` columns."""

    def visible(self, image_size: ImageSize) -> tuple[Bools, Bools]:
        return np.ones((1, image_size[0]), dtype=bool), self._runs(image_size, 1)


class Blocks(Strategy):
    """Squares of `size` x `size` pixels."""


def strategy(spec: str) -> Strategy:
    """Read a strategy from its spec: "rows:4", "columns:4", "blocks:12", "columns:19/5" (size/stride)."""
    if (read := Strategy.further.get(str(spec).strip().partition(":")[0])) is not None:
        return read(str(spec).strip())
    what = "a strategy; write for example 'rows:4' or 'columns:19/5'"
    kind, size, stride = parsed(spec, r"(rows|columns|blocks):([0-9]{1,6})(?:/([0-9]{1,6}))?", what, StrategyError)
    return {"rows": Rows, "columns": Columns, "blocks": Blocks}[str(kind)](int(size or 0), int(stride or 1))


@lru_cache(maxsize=256)  # every chunk of images asks again
def _touched(strategy: Strategy, patch: Patch, image_size: ImageSize) -> Touched:
    (n_tops, n_lefts), (rows, columns) = patch.n_placements(image_size), strategy.visible(image_size)
    row_runs, row_cells = _painted(rows, patch.height, n_tops)
    column_runs, column_cells = _painted(columns, patch.width, n_lefts)
    return Touched(row_cells, column_cells, row_runs, column_runs)


def _painted(visible: Bools, patch_length: int, n_positions: int) -> tuple[Bools, Ints]:
    """(cells, starts): does the patch cover a pixel that this run shows? And (positions,) the cell of each."""
    painted = [visible[:, first : first + patch_length].any(axis=1) for first in range(n_positions)]
    seen: dict[bytes, int] = {}
    cells = np.array([seen.setdefault(runs.tobytes(), len(seen)) for runs in painted], dtype=np.intp)
    return np.stack(painted)[np.unique(cells, return_index=True)[1]], cells
