"""Votes at every placement: what a patch leaves standing, and so what a voting defender can be made to say.

Arrays in, arrays out. Votes are counted in whole points (of one defender's ballots, one each), and so compared.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from majorcert.core.plurality import Ints, standing
from majorcert.core.reach import NO_LABEL, Reach, list_labels, smallest_unlisted
from majorcert.core.regions import Touched
from majorcert.core.threat import Bools

Bound = Literal["exact", "paper"]


def count_votes(labels: Ints, n_classes: int) -> Ints:
    """(images, classes) the votes for each label in (images, ablations, votes) ballots; NO_LABEL is no vote."""
    counts, n_places = np.zeros((len(labels), n_classes), dtype=np.int64), n_classes + 1
    step = max(1, 2**20 // max(1, labels[:1].size))
    for start in range(0, len(labels), step):
        some = labels[start : start + step]
        place = some + (np.arange(len(some)) * n_places + 1)[:, None, None]  # NO_LABEL, -1, is counted in the first
        found = np.bincount(place.ravel(), minlength=len(some) * n_places)
        counts[start : start + step] = found.reshape(-1, n_places)[:, 1:]
    return counts


def kept_votes(labels: Ints, listed: Ints, touched: Touched) -> Ints:
    """(images, slots, cell rows, cell columns) the votes for each listed label that a patch leaves alone."""
    image, slot = np.nonzero(listed != NO_LABEL)
    wanted = listed[image, slot].astype(labels.dtype)[:, None]
    votes = labels[image, :, 0] == wanted
    for further in range(1, labels.shape[2]):
        votes |= labels[image, :, further] == wanted
    found = votes.sum(axis=1, dtype=np.int32)[:, None, None] - touched.sums(votes)
    kept = np.zeros((*listed.shape, *found.shape[1:]), dtype=found.dtype)
    kept[image, slot] = found
    return kept


def rewritable(fragile: Bools | None, touched: Touched) -> Ints:
    """(images or 1, cell rows, cell columns) the fragile ballots that a patch leaves alone: they may be anything."""
    if fragile is None:
        return np.zeros((1, 1, 1), dtype=np.int64)
    return fragile.sum(axis=1)[:, None, None] - touched.sums(fragile)


def contenders(points: Ints, clean: Ints, handicap: int | Ints) -> Bools:
    """(images, classes) the clean label, and those that beat it if they get so many points more than given:

    if no placement lets a label gain more on the clean one, no other label is in reach anywhere.
    """
    n_classes = points.shape[1]
    rivals = standing(points + np.reshape(handicap, (-1, 1)), np.arange(n_classes), n_classes)
    return rivals >= standing(points[np.arange(len(clean)), clean], clean, n_classes)[:, None]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The labels that a vote on some images is between: some that are listed, and others that never gain as much."""

    clean: Ints  # (images,)
    listed: Ints  # (images, slots) the clean label and all with points that may win, ascending, then NO_LABEL
    unlisted: Ints  # (images,) the smallest label that is not listed; n_classes if there is none
    n_classes: int

    @classmethod
    def of(cls, points: Ints, clean: Ints) -> "Candidates":  # points of contenders alone, or of all
        present = points > 0
        present[np.arange(len(clean)), clean] = True
        return cls(clean, list_labels(present), smallest_unlisted(present), points.shape[1])

    def elected(self, kept: Ints, gain: Ints, rows: Ints, columns: Ints, bound: Bound = "exact") -> Reach:
        """The labels that win with some use of `gain` more points, when each has those kept.

        Label c ends with kept[c] to kept[c] + gain points. "exact": c is in reach iff its upper bound beats the lower
        bound of every other label, so the best of these: all the gain may go to c alone. "paper": iff it beats the
        lower bound of the clean label (Definition 1).
        """
        most = int(kept.max(initial=0)) + int(gain.max(initial=0)) + 2
        integer: type[np.signedinteger[Any]] = np.int32 if 2 * most * self.n_classes < 2**31 else np.int64
        listed, gain = self.listed.astype(integer)[:, :, None, None], self.n_classes * gain.astype(integer)
        # An unused slot stands so low that no gain lifts it to a label.
        lower = standing(np.where(listed == NO_LABEL, -most, kept.astype(integer)), listed, self.n_classes)
        if bound == "exact":
            unlisted = standing(np.zeros_like(self.unlisted), self.unlisted, self.n_classes).astype(integer)
            best = np.maximum(lower.max(axis=1), unlisted[:, None, None])
        else:
            best = lower[np.arange(len(lower)), (self.listed == self.clean[:, None]).argmax(axis=1)]
        below = np.clip(gain + self.n_classes - best, 0, self.n_classes)
        return Reach(self.listed, lower >= (best - gain)[:, None], below, rows, columns)
