"""The threshold: which labels the scores of a view vote for."""

from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.reach import NO_LABEL
from majorcert.errors import BallotsError


def label_type(n_classes: int) -> type[np.signedinteger[Any]]:
    """The smallest integer type that holds the labels and NO_LABEL."""
    return np.int8 if n_classes <= 2**7 else np.int16 if n_classes <= 2**15 else np.int32


def votes_from_scores(scores: npt.NDArray[Any], threshold: float | None) -> Ints:
    """(images, ablations, k) the labels that (images, ablations, classes) scores vote for, ascending."""
    if scores.ndim != 3 or scores.dtype.kind not in "fiu" or scores.shape[2] < 2:
        raise BallotsError(f"expected (images, ablations, classes) scores, got {scores.dtype} {scores.shape}")
    if not np.isfinite(scores).all() or (scores < 0).any():
        raise BallotsError(
            "scores are finite and not negative, such as softmax probabilities; got NaN, inf or negative"
        )
    if scores.dtype.kind in "iu" and scores.max(initial=0) > 2**53:
        raise BallotsError("scores that are whole numbers go up to 2**53, so that distances between them are exact")
    threshold = None if threshold is None else float(threshold)
    if threshold is None:
        return scores.argmax(axis=2)[:, :, None].astype(label_type(scores.shape[2]))
    if not np.isfinite(threshold) or threshold < 0:
        raise BallotsError(f"a threshold is a number of 0 or more, or None for the top label alone; got {threshold}")
    votes = scores >= threshold
    most = max(1, int(votes.sum(axis=2).max(initial=0)))
    order = np.argsort(~votes, axis=2, kind="stable")[:, :, :most]
    return np.where(np.take_along_axis(votes, order, axis=2), order, NO_LABEL).astype(label_type(scores.shape[2]))
