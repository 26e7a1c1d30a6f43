"""Votes at every placement: what a patch leaves standing, and so what a voting defender can be made to say.

Arrays in, arrays out. The sums are matrix products of zeros and ones in floating point, which is exact: every sum
is a whole number of at most the number of ablations, far under the 2**24 up to which float32 counts without gaps
(float64, 2**53, is used beyond that). All comparisons are between integers.
"""

from typing import Any, Literal

import numpy as np

from majorcert.core.plurality import Ints, standing
from majorcert.core.reach import NO_LABEL, Reach, distinct_rows, list_labels, smallest_unlisted
from majorcert.core.regions import Touched
from majorcert.core.threat import Bools

Bound = Literal["exact", "paper"]


def count_votes(labels: Ints, n_classes: int) -> Ints:
    """(images, classes) the votes for each label in (images, ablations, votes) ballots; negative entries are none."""
    n_images, per_image = len(labels), labels[:1].size
    flat = labels.ravel()
    voted = np.flatnonzero(flat >= 0)
    counts = np.bincount(voted // max(per_image, 1) * n_classes + flat[voted], minlength=n_images * n_classes)
    return counts.reshape(n_images, n_classes)


def solid_labels(labels: Ints, fragile: Bools) -> Ints:
    """The ballots with the (images, ablations) fragile ones empty."""
    return np.where(fragile[:, :, None], labels.dtype.type(NO_LABEL), labels)


def beats_every_rival(counts: Ints, label: Ints, handicap: int | Ints) -> Bools:
    """(images,) does the label still win when `handicap` votes are taken from it, whoever the rival is?"""
    n_images, n_classes = counts.shape
    images = np.arange(n_images)
    rivals = standing(counts, np.arange(n_classes), n_classes)
    handicapped = standing(counts[images, label] - handicap, label, n_classes)
    rivals[images, label] = -1
    return handicapped > rivals.max(axis=1)


def voting_reach(
    labels: Ints, clean: Ints, n_classes: int, touched: Touched, bound: Bound, fragile: Bools | None = None
) -> Reach:
    """The labels that (images, ablations, votes) ballots can be made to elect, at every placement.

    Only touched ballots can change, so label c ends with kept[c] to kept[c] + n_touched votes. "exact": c is in reach
    iff its upper bound beats the lower bound of every other label; the attacker can do just that, by giving all
    touched ballots to c alone. "paper": iff it beats the lower bound of the clean label (Definition 1). No upper bound
    loses to the same label's lower bound, so comparing with the best lower bound checks every rival at once.

    Args:
        fragile: (images, ablations) ballots that count as touched at every placement.
    """
    rows, row_cell = distinct_rows(touched.rows)
    columns, column_cell = distinct_rows(touched.columns)
    labels = labels if fragile is None else solid_labels(labels, fragile)
    counts = count_votes(labels, n_classes)
    present = counts > 0
    present[np.arange(len(clean)), clean] = True
    listed = list_labels(present)

    lower = _kept_standing(labels, counts, listed, rows, columns)
    n_rewritable = np.outer(rows.sum(axis=1), columns.sum(axis=1))[None]
    if fragile is not None:
        n_rewritable = n_rewritable + _untouched(fragile, rows, columns)
    gain = n_classes * n_rewritable.astype(lower.dtype)
    if bound == "exact":
        unlisted = standing(np.zeros(len(clean), lower.dtype), smallest_unlisted(present), n_classes)
        best = np.maximum(lower.max(axis=1), unlisted.astype(lower.dtype)[:, None, None])
    else:
        best = lower[np.arange(len(clean)), (listed == clean[:, None]).argmax(axis=1)]
    return Reach(
        listed=listed,
        members=lower >= (best - gain)[:, None],
        below=np.clip(gain + n_classes - best, 0, n_classes),
        rows=row_cell,
        columns=column_cell,
    )


def _kept_standing(labels: Ints, counts: Ints, listed: Ints, rows: Bools, columns: Bools) -> Ints:
    """(images, slots, cell rows, cell columns) the standing of each listed label on the untouched votes alone.

    Unused slots get a standing so low that no number of touched ballots lifts it to that of a label.
    """
    n_images, n_classes = counts.shape
    never = -n_classes * (labels.shape[1] + 1)
    integer = np.int32 if -2 * never < 2**31 else np.int64
    floating: type[np.floating[Any]] = np.float32 if -never < 2**24 else np.float64

    all_votes = np.take_along_axis(counts, np.maximum(listed, 0), axis=1)
    before = np.where(listed == NO_LABEL, never, standing(all_votes, listed, n_classes)).astype(integer)
    votes = _votes_by_slot(labels, listed, rows.shape[1], columns.shape[1]).astype(floating)
    lost = rows.astype(floating) @ votes.reshape(len(votes), -1)
    lost = lost.reshape(-1, columns.shape[1]) @ (columns.T * floating(n_classes))
    lost = lost.reshape(len(rows), n_images, -1, len(columns)).transpose(1, 2, 0, 3)
    return before[:, :, None, None] - lost.astype(integer)


def _untouched(fragile: Bools, rows: Bools, columns: Bools) -> Ints:
    """(images, cell rows, cell columns) how many of the fragile ballots a placement leaves alone."""
    grid = fragile.reshape(len(fragile), rows.shape[1], columns.shape[1]).astype(np.float64)
    touched = rows.astype(np.float64) @ grid @ columns.T.astype(np.float64)
    return fragile.sum(axis=1)[:, None, None] - touched.astype(np.int64)


def _votes_by_slot(labels: Ints, listed: Ints, n_row_starts: int, n_column_starts: int) -> Bools:
    """(row starts, images, slots, column starts): does this ablation vote for the label in this slot?"""
    grid = labels.reshape(len(labels), n_row_starts, n_column_starts, -1).transpose(3, 1, 0, 2)[:, :, :, None]
    wanted = np.where(listed == NO_LABEL, NO_LABEL - 1, listed).astype(labels.dtype)[None, :, :, None]
    votes = grid[0] == wanted
    for more in grid[1:]:
        votes |= more == wanted
    return votes
