"""What every kind of evidence records of its images, checked once, when it is made."""

import operator
from copy import copy
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.threat import ImageSize
from majorcert.errors import BallotsError, StrategyError

MAX_SIDE = 2**14
"""Of images; evidence that declares more is refused before memory is taken."""
T = TypeVar("T")


def filled(new: T, **fields: Any) -> T:
    """An object that is just being made, with its fields; from then on nobody changes its arrays by mistake."""
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(new, name, value)
    return new


def taken(evidence: Any, images: slice | Ints, *names: str) -> Any:
    """The same evidence of some of its images, by slice or index array; these fields have a row for each image."""
    if not isinstance(images, slice) and np.ndim(images) != 1:
        raise BallotsError(f"images are taken by slice or index array, got {images!r}; for one image [i : i + 1]")
    rows = {name: getattr(evidence, name) for name in names}
    part = filled(copy(evidence), **{name: rows[name][images] for name in names if rows[name] is not None})
    checked_images(part.images, len(part.images))
    return part


def checked_size(image_size: ImageSize) -> ImageSize:
    """(height, width), once it is known to be two whole numbers of pixels."""
    try:
        height, width = (operator.index(side) for side in image_size)
    except (TypeError, ValueError):
        height = width = 0
    if not 1 <= min(height, width) <= max(height, width) <= MAX_SIDE:
        raise StrategyError(f"an image size is (height, width) in pixels, 1 to {MAX_SIDE} each, got {image_size!r}")
    return height, width


def checked_classes(n_classes: int) -> int:
    """The number of classes, once it is known to be a whole number of 2 or more."""
    try:
        n = operator.index(n_classes)
    except TypeError:
        n = 0
    if n < 2:
        raise BallotsError(f"a classifier tells at least 2 classes apart, got n_classes={n_classes!r}")
    return n


def checked_images(images: npt.ArrayLike | None, n_images: int) -> Ints:
    """(images,) a copy of the place of each image in its data set, each once; 0, 1, 2, ... when none is given."""
    index = np.arange(n_images) if images is None else np.asarray(images)
    if index.shape != (n_images,) or index.dtype.kind not in "iu" or index.min(initial=0) < 0:
        raise BallotsError(
            f"expected one index, 0 or more, for each of {n_images} images, got {index.dtype} {index.shape}"
        )
    in_order = np.sort(index)
    if (again := in_order[1:][in_order[1:] == in_order[:-1]]).size:
        raise BallotsError(f"image {again[0]} is there more than once; each image of the data set counts once")
    return index.astype(np.int64)
