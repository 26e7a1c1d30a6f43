"""Scores in every window: what robust masking leaves of each label, and so what a masking defender can be made to say.

A window is the set of ablations that a patch in one cell touches. Arrays in, arrays out; all of whole numbers.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from majorcert.core.plurality import Ints, plurality, standing
from majorcert.core.regions import Touched
from majorcert.core.tally import contenders
from majorcert.core.threat import Bools
from majorcert.defences.scores import Points

CELL_POINTS = 2**19
"""About how many numbers one array holds at a time; results do not depend on it."""

LOUD_WINDOWS = 3
"""How many windows are tried for a quick bound; results do not depend on it."""


def left_standing(points: Points, windows: Touched, share: Fraction) -> tuple[Ints, Ints, Ints]:
    """(images, classes) the points of each label: all, in its loudest window, and left when that is masked.

    Of a label that has less than another one keeps without any window, all are taken for the loudest: it cannot win.
    """
    total = points.sum(axis=1, dtype=np.int64)
    image, label = np.nonzero(contenders(total, plurality(total), _most_inside(points, windows)) & (total > 0))
    loudest = total.copy()
    loudest[image, label] = windows.sums(points[image, :, label]).max(axis=(1, 2))
    masked = loudest * share.denominator > total * share.numerator
    return total, loudest, total - np.where(masked, loudest, 0)


@dataclass(frozen=True)
class Bounds:
    """The rivals of the clean label in every window, and what a patch there may leave of it."""

    rivals: Ints
    """(images, classes, window rows, window columns) the highest standing each may reach; -1 if it never wins, and for
    the clean label"""
    fewest: Ints
    most: Ints
    """(images, window rows, window columns) bounds on the lowest standing of the clean label"""

    @classmethod
    def of(cls, points: Points, label: Ints, windows: Touched, share: Fraction) -> "Bounds":
        """A rival ends with at most its untouched points / (1 - share), the clean label with at least its untouched
        points less the loudest window of those; which is no louder than the loudest of all windows, and no quieter
        than what is left of any window.
        """
        images, n_classes = np.arange(len(points)), points.shape[2]
        largest = points.shape[1] * int(points.max(initial=0)) * n_classes * share.denominator
        integer: type[np.signedinteger[Any]] = np.int32 if largest < 2**30 else np.int64
        total = points.sum(axis=1, dtype=np.int64)
        most = total * share.denominator // (share.denominator - share.numerator)
        most[images, label] = total[images, label]
        image, rival = np.nonzero(contenders(most, label, 2 * _most_inside(points, windows)))
        inside = windows.sums(points[image, :, rival]).astype(integer)
        kept = total[image, rival].astype(integer)[:, None, None] - inside
        upper = kept * share.denominator // (share.denominator - share.numerator) if share else kept
        rivals = np.full((len(points), n_classes, *inside.shape[1:]), -1, dtype=integer)
        rivals[image, rival] = standing(upper, rival.astype(integer)[:, None, None], n_classes)
        rivals[images, label] = -1

        itself = rival == label[image]
        kept, inside, own = kept[itself], inside[itself], label.astype(integer)[:, None, None]
        fewest = standing(kept - inside.max(axis=(1, 2))[:, None, None], own, n_classes)
        loud = _left_of_loud_windows(points[images, :, label], windows).astype(integer)
        return cls(rivals, fewest, standing(kept - loud, own, n_classes))


def masked_reach(points: Points, label: Ints, windows: Touched, share: Fraction) -> Bools:
    """(images, classes, window rows, window columns): can a patch that touches this window make it say this label?

    A rival can iff the most it may end with beats the least that is left of the clean label. That least is worked
    out only where its two bounds disagree about some rival.
    """
    bounds = Bounds.of(points, label, windows, share)
    disputed = (bounds.rivals > bounds.fewest[:, None]) & (bounds.rivals <= bounds.most[:, None])
    image, row, column = np.nonzero(disputed.any(axis=1))
    least = bounds.fewest.copy()
    least[image, row, column] = _least_left(points, label, image, row, column, windows)
    members = bounds.rivals > least[:, None]
    members[np.arange(len(points)), label] = True
    return members


def masked_certified(points: Points, label: Ints, windows: Touched, share: Fraction) -> Bools:
    """(images,) is the clean label alone in reach everywhere? As `masked_reach` says, without saying what else is."""
    bounds = Bounds.of(points, label, windows, share)
    strongest = bounds.rivals.max(axis=1)
    possible = (strongest <= bounds.most).all(axis=(1, 2))
    image, row, column = np.nonzero((strongest > bounds.fewest) & possible[:, None, None])
    lost = strongest[image, row, column] > _least_left(points, label, image, row, column, windows)
    possible[image[lost]] = False
    return possible


def surely_certified(total: Ints, loudest: Ints, label: Ints, share: Fraction) -> Bools:
    """(images,) is the clean label alone in reach everywhere, by its lead alone? From what `left_standing` gives.

    A patch takes at most the loudest window from the label, and masking at most as much again; a rival ends with at
    most its points / (1 - share), as if the patch touched none of them. If it loses even so, it loses everywhere.
    """
    images, n_classes = np.arange(len(label)), total.shape[1]
    upper = total * share.denominator // (share.denominator - share.numerator)
    rivals = standing(upper, np.arange(n_classes), n_classes)
    rivals[images, label] = -1
    fewest = standing(total[images, label] - 2 * loudest[images, label], label, n_classes)
    return np.asarray(rivals.max(axis=1) < fewest)


def _most_inside(points: Points, windows: Touched) -> int:
    """As many points as one label can have inside one window, and perhaps more."""
    return int(windows.n_touched().max()) * int(points.max(initial=0))


def _left_of_loud_windows(own: Points, windows: Touched) -> Ints:
    """(images, window rows, window columns) what this window leaves of the loudest one, or of the next ones apart."""
    masks = windows.masks().reshape(-1, own.shape[1])
    remaining, most = own, np.zeros((len(own), *windows.n_touched().shape), dtype=np.int64)
    for _ in range(LOUD_WINDOWS):
        loudest = masks[windows.sums(remaining).reshape(len(own), len(masks)).argmax(axis=1)]
        inside = np.where(loudest, own, 0)
        most = np.maximum(most, inside.sum(axis=1, dtype=np.int64)[:, None, None] - windows.sums(inside))
        remaining = np.where(loudest, 0, remaining)
    return most


def _least_left(points: Points, label: Ints, image: Ints, row: Ints, column: Ints, windows: Touched) -> Ints:
    """(cells,) the lowest standing of the clean label, when the window (row, column) of that image is touched.

    By definition: set its touched points to zero, sum every window of what is left, and mask the loudest.
    """
    own, masks = points[np.arange(len(points)), :, label], windows.masks()
    left = np.zeros(len(image), dtype=np.int64)
    step = max(1, CELL_POINTS // max(1, own.shape[1]))
    for start in range(0, len(image), step):
        cells = slice(start, start + step)
        kept = np.where(masks[row[cells], column[cells]], 0, own[image[cells]])
        left[cells] = kept.sum(axis=1, dtype=np.int64) - windows.sums(kept).max(axis=(1, 2))
    return standing(left, label[image], points.shape[2])
