"""The distance of a ballot: how far every score may move before the ballot can change.

With a threshold it is the least |score - threshold| of any label; of the top label alone it is half of the gap between
the best two scores. While every score moves by less than that, the ballot stays (docs/soundness.md). What is kept is
never more than the truth, and coarse, so that it takes little room: float16 with three bits after the leading one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.errors import BallotsError

Halves = npt.NDArray[np.float16]

LEAST, MOST = 2.0**-14, 1.875 * 2.0**15
"""Distances under the first are kept as 0, and those over the second as if they were that."""
COARSE = -(2**20)
"""As a mask, it clears all but the first three of the 23 bits that float32 has after the leading one."""


def distance_of(scores: npt.NDArray[Any], threshold: float | None) -> Halves:
    """(images, ablations) the distances of the ballots that (images, ablations, classes) scores cast."""
    if threshold is None:
        best = np.partition(scores, scores.shape[2] - 2, axis=2)[:, :, -2:].astype(_number(scores))
        return rounded_down((best[:, :, 1] - best[:, :, 0]) / 2)
    # The number that the scores are compared with: a float is rounded to their type first.
    edge = scores.dtype.type(threshold) if scores.dtype.kind == "f" else np.float64(threshold)
    return rounded_down(np.abs(scores.astype(_number(scores)) - edge.astype(_number(scores))).min(axis=2))


def rounded_down(distance: npt.NDArray[Any]) -> Halves:
    """The distances as they are kept: less than those given, even if these were rounded up to the next float32.

    For positive floats the bits, read as an integer, are in the same order: one less is the next smaller float.
    """
    bits = np.minimum(distance, MOST).astype(np.float32).view(np.int32)
    kept = ((np.maximum(bits, 1) - 1) & COARSE).view(np.float32)  # the bits of -0.0 are the least integer
    return np.where(kept < LEAST, 0, kept).astype(np.float16)


def checked_distance(array: npt.NDArray[Any], shape: tuple[int, ...]) -> Halves:
    """(images, ablations) distances as they are kept, once they are known to make sense."""
    if array.dtype.kind != "f" or array.shape != shape:
        raise BallotsError(f"expected one distance for each ballot, {shape}, got {array.dtype} {array.shape}")
    if not (array >= 0).all() or np.isinf(array).any():
        raise BallotsError("the distance of a ballot is a finite number of 0 or more; got NaN, inf or a negative one")
    return array.copy() if array.dtype == np.float16 else rounded_down(array)


def checked_tolerance(tolerance: float) -> float:
    """How far scores may move, once it is known to be a finite number of 0 or more."""
    try:
        number = float(tolerance)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not (np.isfinite(number) and number >= 0):
        raise BallotsError(f"a tolerance is how far scores may move, a number of 0 or more; got {tolerance!r}")
    return number


def _number(scores: npt.NDArray[Any]) -> npt.DTypeLike:
    """A type that holds these scores exactly, and in which they are subtracted."""
    return np.float32 if scores.dtype in (np.float16, np.float32) else np.result_type(scores.dtype, np.float64)
