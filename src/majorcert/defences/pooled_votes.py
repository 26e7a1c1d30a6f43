"""PooledVotes: the votes of a pool as points of one defender, whose ablations are those of all members in a row.

So windows are what a placement touches of all members together, and whatever masks windows masks pools.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.regions import Strategy, Touched
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.defences.pool import Pool, cells_at, joint_cells
from majorcert.defences.scores import Points, check_solid
from majorcert.errors.frozen import filled


@dataclass(frozen=True, eq=False, init=False)
class TouchedTogether(Touched):
    """What a placement touches of several strategies; a cell is one cell of each."""

    parts: tuple[Touched, ...]
    ends: Ints  # (parts,) the number of ablations up to the last one of each
    tops: Ints  # (cell rows,) a placement row in each
    lefts: Ints  # (cell columns,) a placement column in each

    def __init__(self, parts: Sequence[Touched], lengths: Sequence[int]) -> None:
        tops, rows = joint_cells([part.rows for part in parts])
        lefts, columns = joint_cells([part.columns for part in parts])
        filled(self, parts=tuple(parts), ends=np.cumsum(lengths), tops=tops, lefts=lefts, rows=rows, columns=columns)

    def masks(self) -> Bools:
        each = [part.masks()[part.rows[self.tops]][:, part.columns[self.lefts]] for part in self.parts]
        return np.concatenate(each, axis=2)

    def n_touched(self) -> Ints:
        return self._added([part.n_touched() for part in self.parts])

    def sums(self, values: npt.NDArray[Any]) -> Ints:
        each = np.split(values, self.ends[:-1], axis=-1)
        return self._added([part.sums(some) for part, some in zip(self.parts, each, strict=True)])

    def _added(self, cells: Sequence[Ints]) -> Ints:
        """(..., cell rows, cell columns) of numbers of each part in its own cells."""
        parts = zip(self.parts, cells, strict=True)
        here = [cells_at(each, part.rows[self.tops], part.columns[self.lefts]) for part, each in parts]
        added = sum(here[1:], start=here[0])
        return np.broadcast_to(added, (*cells[0].shape[:-2], len(self.tops), len(self.lefts)))


@dataclass(frozen=True)
class Together(Strategy):
    """The ablations of several strategies, one strategy after the other."""

    size: int = 0
    parts: tuple[Strategy, ...] = ()

    def __post_init__(self) -> None:
        """Nothing is left to check of strategies."""

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))

    def n_ablations(self, image_size: ImageSize) -> int:
        return sum(part.n_ablations(image_size) for part in self.parts)

    def regions(self, image_size: ImageSize) -> Bools:
        return np.concatenate([part.regions(image_size) for part in self.parts])

    def touched(self, patch: Patch, image_size: ImageSize) -> Touched:
        lengths = [part.n_ablations(image_size) for part in self.parts]
        return TouchedTogether([part.touched(patch, image_size) for part in self.parts], lengths)


@dataclass(frozen=True)
class PooledVotes:
    """What `Scores` says of points, of the votes of a pool: each is worth the points of its member."""

    pool: Pool

    def __post_init__(self) -> None:
        for member in self.pool.members:
            check_solid(member)

    def __getitem__(self, images: slice | Ints) -> "PooledVotes":
        return PooledVotes(self.pool[images])

    def of(self, image: Ints, label: Ints) -> Points:
        """(pairs, ablations) the points of one label of one image, by the votes of one member after the other."""
        kind = np.dtype(np.uint8 if max(self.pool.weights) < 2**8 else np.int32)
        each = []
        for weight, member in zip(self.pool.weights, self.pool.members, strict=True):
            labels, wanted = member.labels, label.astype(member.labels.dtype)[:, None]
            votes = labels[image, :, 0] == wanted
            for further in range(1, labels.shape[2]):
                votes |= labels[image, :, further] == wanted
            each.append(votes * kind.type(weight))
        return np.concatenate(each, axis=1)

    def totals(self) -> Ints:
        """(images, classes) the points of each label."""
        return self.pool.solid_points()  # all are solid

    def most(self) -> Ints:
        """(ablations,) the most points that any of them gives to a label, or more."""
        return np.repeat(self.pool.weights, [member.labels.shape[1] for member in self.pool.members])

    @property
    def n_classes(self) -> int:
        return self.pool.n_classes

    @property
    def image_size(self) -> ImageSize:
        return self.pool.image_size

    @property
    def images(self) -> Ints:
        return self.pool.images

    @property
    def provenance(self) -> Mapping[str, Any]:
        return self.pool.provenance

    @property
    def strategy(self) -> Strategy:
        return Together(parts=tuple(member.strategy for member in self.pool.members))
