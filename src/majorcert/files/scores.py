"""Scores as they lie in an evidence store: half floats, or integers with their `scores_one` in the attributes."""

from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.defences.scores import Points, Scores
from majorcert.errors import BallotsError, MajorcertError, StoreError
from majorcert.files.store import Store
from majorcert.files.untrusted import reason

HALF_ONE = 2**24
"""Every float16 from 0 to 1 is a whole multiple of 1 / HALF_ONE, so stored halves become integers without rounding."""


def load_scores(path: str | PathLike[str], images: slice = slice(None)) -> Scores:
    """Read the scores of an evidence store: half floats, or integers with their `scores_one` in the attributes."""
    store = Store.open(path)
    if "scores" not in store:
        raise StoreError(f"{path}: holds votes but no scores; vote again and keep the scores")
    points = store.read("scores", images, kind="if", n_axes=3)
    index = np.arange(store.array("scores", "if", 3).shape[0])[images]
    if "images" in store:
        index = store.read("images", images, kind="i", n_axes=1)
    origin = store.attributes
    try:
        if points.dtype.kind == "f":
            points, one = _exact_halves(points), HALF_ONE
        else:
            one = int(origin["scores_one"])
        size = (int(origin["image_size"][0]), int(origin["image_size"][1]))
        return Scores(
            points, one=one, strategy=str(origin["strategy"]), image_size=size, images=index, provenance=origin
        )
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, MajorcertError) as error:
        raise StoreError(f"{path}: its scores cannot be used ({reason(error)})") from error


def _exact_halves(scores: npt.NDArray[Any]) -> Points:
    if scores.dtype != np.float16 or not ((scores >= 0) & (scores <= 1)).all():
        raise BallotsError(f"expected float16 scores from 0 to 1, all of them written, got {scores.dtype}")
    return (scores.astype(np.float32) * HALF_ONE).astype(np.int32)
