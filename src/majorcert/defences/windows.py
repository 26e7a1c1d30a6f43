"""Scores in every window: what robust masking leaves of each label, and so what a masking defender can be made to say.

A window is the set of ablations that a patch in one cell touches. Arrays in, arrays out; all of whole numbers.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

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
WORST_FIRST = 3
"""How many of an image's worst windows are looked at one by one, before all; results do not depend on it."""


class Voices(Protocol):
    """Points of ablations, as `Scores` and `PooledVotes` give them."""

    @property
    def n_classes(self) -> int: ...

    def totals(self) -> Ints:
        """(images, classes)"""

    def most(self) -> Ints:
        """(ablations,)"""

    def of(self, image: Ints, label: Ints) -> Points:
        """(pairs, ablations)"""


def left_standing(scores: Voices, windows: Touched, share: Fraction) -> Ints:
    """(images, classes) the points of each label that are left when its loudest window is masked.

    Of a label that has less than another one keeps without any window, all are taken for the loudest: it cannot win.
    """
    total, most = scores.totals(), int(windows.sums(scores.most()).max())  # no label has more inside one window
    image, label = np.nonzero(contenders(total, plurality(total), most) & (total > 0))
    loudest = total.copy()
    loudest[image, label] = windows.sums(scores.of(image, label)).max(axis=(1, 2))
    masked = loudest * share.denominator > total * share.numerator
    return total - np.where(masked, loudest, 0)


@dataclass(frozen=True)
class Rivalry:
    """The rivals of the clean label in every window, and what a patch there may leave of it."""

    image: Ints
    rival: Ints
    """(pairs,) the labels that may win, ascending for each image, and among them the clean one"""
    rivals: Ints
    """(pairs, window rows, window columns) the highest standing each may reach; -1 for the clean label"""
    fewest: Ints
    """(images, window rows, window columns) a bound on the lowest standing of the clean label"""
    kept: Ints
    """(images, window rows, window columns) the points of the clean label outside this window"""
    own: Points
    """(images, ablations) those of the clean label"""

    @classmethod
    def of(cls, scores: Voices, label: Ints, windows: Touched, share: Fraction) -> "Rivalry":
        """A rival ends with at most its untouched points / (1 - share), the clean label with at least its untouched
        points less the loudest window of those; which is no louder than the loudest of all windows.
        """
        images, n_classes = np.arange(len(label)), scores.n_classes
        largest = int(scores.most().sum(dtype=np.int64)) * n_classes * share.denominator
        integer: type[np.signedinteger[Any]] = np.int32 if largest < 2**30 else np.int64
        own, total = scores.of(images, label), scores.totals()
        inside = windows.sums(own).astype(integer)
        loudest = inside.max(axis=(1, 2))
        kept = total[images, label].astype(integer)[:, None, None] - inside
        fewest = standing(kept - loudest[:, None, None], label.astype(integer)[:, None, None], n_classes)

        most = total * share.denominator // (share.denominator - share.numerator)
        most[images, label] = total[images, label]
        image, rival = np.nonzero(contenders(most, label, 2 * loudest.astype(np.int64)))
        rivals, other = np.full((len(image), *inside.shape[1:]), -1, dtype=integer), rival != label[image]
        image_of, rival_of = image[other], rival[other]
        untouched = total[image_of, rival_of].astype(integer)[:, None, None] - windows.sums(
            scores.of(image_of, rival_of)
        )
        upper = untouched * share.denominator // (share.denominator - share.numerator) if share else untouched
        rivals[other] = standing(upper.astype(integer), rival_of.astype(integer)[:, None, None], n_classes)
        return cls(image, rival, rivals, fewest, kept, own)


def masked_reach(scores: Voices, label: Ints, windows: Touched, share: Fraction) -> Bools:
    """(images, classes, window rows, window columns): can a patch that touches this window make it say this label?

    A rival can iff the most it may end with beats the least that is left of the clean label. That least is worked
    out only where its two bounds disagree about some rival.
    """
    bounds = Rivalry.of(scores, label, windows, share)
    rivals = np.full((len(label), scores.n_classes, *bounds.fewest.shape[1:]), -1, dtype=bounds.rivals.dtype)
    rivals[bounds.image, bounds.rival] = bounds.rivals
    # What is masked of the clean label is no quieter than what this window leaves of any other.
    loud = _left_of_loud_windows(bounds.own, windows).astype(bounds.kept.dtype)
    most = standing(bounds.kept - loud, label.astype(loud.dtype)[:, None, None], scores.n_classes)
    disputed = ((rivals > bounds.fewest[:, None]) & (rivals <= most[:, None])).any(axis=1)
    least, masks = bounds.fewest.copy(), windows.masks().reshape(-1, bounds.own.shape[1])
    image, cell = np.nonzero(disputed.reshape(len(label), len(masks)))
    least[disputed] = standing(_least_left(bounds.own, image, cell, masks, windows), label[image], scores.n_classes)
    members = rivals > least[:, None]
    members[np.arange(len(label)), label] = True
    return members


def masked_certified(scores: Voices, label: Ints, windows: Touched, share: Fraction) -> Bools:
    """(images,) is the clean label alone in reach everywhere? As `masked_reach` says, without saying what else is."""
    bounds = Rivalry.of(scores, label, windows, share)
    possible, masks = np.ones(len(label), dtype=bool), windows.masks().reshape(-1, bounds.own.shape[1])
    firsts = np.searchsorted(bounds.image, np.arange(len(label)))  # each image has its clean label at least
    strongest = np.maximum.reduceat(bounds.rivals, firsts).reshape(len(label), len(masks))
    ahead = strongest - bounds.fewest.reshape(len(label), len(masks))  # by how much a rival may beat the clean label
    for n_first in (*(1,) * WORST_FIRST, ahead.shape[1]):  # most that is lost is lost where it is worst
        image = np.flatnonzero(possible & (ahead.max(axis=1) > 0))
        cell = ahead[image].argmax(axis=1)
        if n_first > 1:
            image, cell = np.nonzero((ahead > 0) & possible[:, None])
        left = _least_left(bounds.own, image, cell, masks, windows)
        possible[image[strongest[image, cell] > standing(left, label[image], scores.n_classes)]] = False
        ahead[image, cell] = 0
    return possible


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


def _least_left(own: Points, image: Ints, cell: Ints, masks: Bools, windows: Touched) -> Ints:
    """(cells,) the least that is left of the clean label, when this window of that image is touched.

    By definition: set its touched points to zero, sum every window of what is left, and mask the loudest.

    Args:
        own: (images, ablations) the points of the clean label.
        masks: (windows, ablations) what each touches.
    """
    left = np.zeros(len(image), dtype=np.int64)
    step = max(1, CELL_POINTS // max(1, own.shape[1]))
    for start in range(0, len(image), step):
        some = slice(start, start + step)
        kept = np.where(masks[cell[some]], 0, own[image[some]])
        left[some] = kept.sum(axis=1, dtype=np.int64) - windows.sums(kept).max(axis=(1, 2))
    return left
