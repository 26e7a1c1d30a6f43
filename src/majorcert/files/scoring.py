"""From scores to ballots: which labels a view votes for, and how far every score may move until that changes.

With a threshold that *distance* is the least |score - threshold| of any label; of the top label alone, half of the gap
between the best two scores. While every score moves by less, the ballot stays (docs/soundness.md). What is kept is
never more than the truth, and coarse, so that it takes little room: float16 with three bits after the leading one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.reach import NO_LABEL
from majorcert.errors import BallotsError

Halves = npt.NDArray[np.float16]

LEAST, MOST = 2.0**-14, 1.875 * 2.0**15
"""Distances under the first are kept as 0, and those over the second as if they were that."""
COARSE = -(2**20)
"""As a mask, it clears all but the first three of the 23 bits that float32 has after the leading one."""


def ballots_of(scores: npt.NDArray[Any], threshold: float | None, **about: Any) -> dict[str, Any]:
    """What `Ballots` takes for the votes that (images, ablations, classes) scores cast."""
    votes = votes_from_scores(scores, threshold)
    origin = {**(about.pop("provenance", None) or {}), "threshold": None if threshold is None else float(threshold)}
    facts = {"n_classes": scores.shape[2], "provenance": origin, "distance": distance_of(scores, threshold)}
    return {"labels": votes, **facts, **about}


def votes_from_scores(scores: npt.NDArray[Any], threshold: float | None) -> Ints:
    """(images, ablations, k) the labels that (images, ablations, classes) scores vote for, ascending."""
    if scores.ndim != 3 or scores.dtype.kind not in "fiu" or scores.shape[2] < 2:
        raise BallotsError(f"expected (images, ablations, classes) scores, got {scores.dtype} {scores.shape}")
    if not np.isfinite(scores).all() or (scores < 0).any():
        raise BallotsError("scores are finite and not negative, such as softmax; got NaN, inf or negative")
    if scores.dtype.kind in "iu" and scores.max(initial=0) > 2**53:
        raise BallotsError("scores that are whole numbers go up to 2**53, so that distances between them are exact")
    number = np.min_scalar_type(-scores.shape[2])
    if threshold is None:
        return scores.argmax(axis=2)[:, :, None].astype(number)
    if not (isinstance(threshold, int | float | np.number) and 0 <= threshold < np.inf):
        raise BallotsError(f"a threshold is a number of 0 or more, or None for the top label alone; got {threshold!r}")
    votes = scores >= float(threshold)
    most = max(1, int(votes.sum(axis=2).max(initial=0)))
    order = np.argsort(~votes, axis=2, kind="stable")[:, :, :most]
    return np.where(np.take_along_axis(votes, order, axis=2), order, NO_LABEL).astype(number)


def distance_of(scores: npt.NDArray[Any], threshold: float | None) -> Halves:
    """(images, ablations) the distances of the ballots that (images, ablations, classes) scores cast."""
    # A type that holds the scores exactly, and in which they are subtracted.
    half = scores.dtype in (np.float16, np.float32)
    number = np.float32 if half else np.result_type(scores.dtype, np.float64)
    if threshold is None:
        best = np.partition(scores, scores.shape[2] - 2, axis=2)[:, :, -2:].astype(number)
        return rounded_down((best[:, :, 1] - best[:, :, 0]) / 2)
    # The number that the scores are compared with: a float is rounded to their type first.
    edge = scores.dtype.type(threshold) if scores.dtype.kind == "f" else np.float64(threshold)
    return rounded_down(np.abs(scores.astype(number) - edge.astype(number)).min(axis=2))


def rounded_down(distance: npt.NDArray[Any]) -> Halves:
    """The distances as they are kept: less than those given, even if these were rounded up to the next float32.

    For positive floats the bits, read as an integer, are in the same order: one less is the next smaller float.
    """
    bits = np.minimum(distance, MOST).astype(np.float32).view(np.int32)
    kept = ((np.maximum(bits, 1) - 1) & COARSE).view(np.float32)  # the bits of -0.0 are the least integer
    return np.where(kept < LEAST, 0, kept).astype(np.float16)


def stored_distance(distance: npt.NDArray[Any]) -> Halves:
    """Distances as they are kept: those that are halves already were rounded down before."""
    return distance if distance.dtype == np.float16 else rounded_down(distance)
