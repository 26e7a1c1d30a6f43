"""Scores in every window: what robust masking leaves of each label, and so what a masking defender can be made to say.

A window is the set of ablations that one placement touches. Arrays in, arrays out. Sums are matrix products of whole
numbers in floating point, in a type in which none of them is rounded; all comparisons are between integers.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints, standing
from majorcert.core.reach import distinct_rows
from majorcert.core.regions import Touched
from majorcert.core.threat import Bools
from majorcert.defences.scores import Points

CELL_POINTS = 2**19
"""About how many numbers one array holds at a time; results do not depend on it."""

Floats = npt.NDArray[np.floating[Any]]


def distinct_windows(touched: Touched) -> Touched:
    """Every window once: placements that touch the same ablations share it."""
    return Touched(distinct_rows(touched.rows)[0], distinct_rows(touched.columns)[0])


def left_standing(points: Points, windows: Touched, share: Fraction) -> tuple[Ints, Ints, Ints]:
    """(images, classes) the points of each label: all, in its loudest window, and left when that is masked."""
    total = points.sum(axis=1, dtype=np.int64)
    loudest = window_points(points, windows).max(axis=(2, 3)).astype(np.int64)
    masked = loudest * share.denominator > total * share.numerator
    return total, loudest, total - np.where(masked, loudest, 0)


@dataclass(frozen=True)
class Contest:
    """The rivals of the clean label in every window, and what a patch there may leave of it."""

    rivals: Ints
    """(images, classes, window rows, window columns) the highest standing each may reach; -1 for the clean label"""
    fewest: Ints
    most: Ints
    """(images, window rows, window columns) bounds on the lowest standing of the clean label"""

    @classmethod
    def of(cls, points: Points, label: Ints, windows: Touched, share: Fraction) -> "Contest":
        """A rival ends with at most its untouched points / (1 - share), the clean label with at least its untouched
        points less the loudest window of those; which is no louder than the loudest of all windows, and no quieter
        than the loudest of the windows that lie wholly apart from the touched one.
        """
        images, n_classes = np.arange(len(points)), points.shape[2]
        largest = points.shape[1] * int(points.max(initial=0)) * n_classes * share.denominator
        integer: type[np.signedinteger[Any]] = np.int32 if largest < 2**30 else np.int64
        inside = window_points(points, windows).astype(integer)
        kept = points.sum(axis=1, dtype=np.int64).astype(integer)[:, :, None, None] - inside
        upper = kept * share.denominator // (share.denominator - share.numerator) if share else kept
        rivals = standing(upper, np.arange(n_classes, dtype=integer)[:, None, None], n_classes)
        rivals[images, label] = -1

        kept, inside, own = kept[images, label], inside[images, label], label.astype(integer)[:, None, None]
        fewest = standing(kept - inside.max(axis=(1, 2))[:, None, None], own, n_classes)
        most = standing(kept - _loudest_apart(inside, windows), own, n_classes)
        return cls(rivals, fewest, most)


def masked_reach(points: Points, label: Ints, windows: Touched, share: Fraction) -> Bools:
    """(images, classes, window rows, window columns): can a patch that touches this window make it say this label?

    A rival can iff the most it may end with beats the least that is left of the clean label. That least is worked
    out only where its two bounds disagree about some rival.
    """
    contest = Contest.of(points, label, windows, share)
    disputed = (contest.rivals > contest.fewest[:, None]) & (contest.rivals <= contest.most[:, None])
    image, row, column = np.nonzero(disputed.any(axis=1))
    least = contest.fewest.copy()
    least[image, row, column] = _least_left(points, label, image, row, column, windows)
    members = contest.rivals > least[:, None]
    members[np.arange(len(points)), label] = True
    return members


def masked_certified(points: Points, label: Ints, windows: Touched, share: Fraction) -> Bools:
    """(images,) is the clean label alone in reach everywhere? As `masked_reach` says, without saying what else is."""
    contest = Contest.of(points, label, windows, share)
    strongest = contest.rivals.max(axis=1)
    possible = (strongest <= contest.most).all(axis=(1, 2))
    image, row, column = np.nonzero((strongest > contest.fewest) & possible[:, None, None])
    lost = strongest[image, row, column] > _least_left(points, label, image, row, column, windows)
    possible[image[lost]] = False
    return possible


def window_points(points: Points, windows: Touched) -> Floats:
    """(images, classes, window rows, window columns) the points of each label inside each window.

    Matrix products of whole numbers in floating point, exact because no sum reaches the type's first gap.
    """
    n_images, _, n_classes = points.shape
    n_rows, n_columns = windows.rows.shape[1], windows.columns.shape[1]
    floating = _exact_for(points)
    by_row = points.reshape(n_images, n_rows, n_columns, n_classes).transpose(1, 0, 3, 2).astype(floating)
    sums = windows.rows.astype(floating) @ by_row.reshape(n_rows, -1)
    sums = sums.reshape(-1, n_columns) @ windows.columns.T.astype(floating)
    return sums.reshape(len(windows.rows), n_images, n_classes, len(windows.columns)).transpose(1, 2, 0, 3)


def _exact_for(points: Points) -> type[np.floating[Any]]:
    """The smallest floating-point type in which no sum of these points over the ablations is rounded."""
    return np.float32 if points.shape[1] * int(points.max(initial=0)) < 2**24 else np.float64


def _loudest_apart(inside: Ints, windows: Touched) -> Ints:
    """(images, window rows, window columns) the most points in any window that shares no ablation with this one."""
    rows, columns = (~(factor[:, None] & factor).any(axis=2) for factor in (windows.rows, windows.columns))
    above_or_below = np.where(rows, inside.max(axis=2)[:, None, :], 0).max(axis=2)
    beside = np.where(columns, inside.max(axis=1)[:, None, :], 0).max(axis=2)
    return np.maximum(above_or_below[:, :, None], beside[:, None, :])


def _least_left(points: Points, label: Ints, image: Ints, row: Ints, column: Ints, windows: Touched) -> Ints:
    """(cells,) the lowest standing of the clean label, when the window (row, column) of that image is touched.

    By definition: set its touched points to zero, sum every window of what is left, and mask the loudest.
    """
    own = points[np.arange(len(points)), :, label]
    floating = _exact_for(points)
    rows, columns = windows.rows.astype(floating), windows.columns.astype(floating)
    grid = own.reshape(len(own), rows.shape[1], columns.shape[1]).astype(floating)
    left = np.zeros(len(image), dtype=np.int64)
    step = max(1, CELL_POINTS // max(1, grid[:1].size))
    for start in range(0, len(image), step):
        cells = slice(start, start + step)
        untouched = ~(windows.rows[row[cells], :, None] & windows.columns[column[cells], None, :])
        kept = grid[image[cells]] * untouched
        across = (kept.reshape(-1, columns.shape[1]) @ columns.T).reshape(*kept.shape[:2], -1)
        left[cells] = kept.sum(axis=(1, 2)) - (rows @ across).max(axis=(1, 2))
    return standing(left, label[image], points.shape[2])
