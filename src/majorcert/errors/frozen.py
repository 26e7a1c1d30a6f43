"""Frozen records: fields that nobody changes by mistake, once they are filled; and the same of fewer images."""

from copy import copy
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from majorcert.errors import BallotsError
from majorcert.errors.checks import checked_images

T = TypeVar("T")


def filled(new: T, **fields: Any) -> T:
    """An object that is just being made, with its fields; from then on nobody changes its arrays by mistake."""
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(new, name, value)
    return new


def taken(evidence: Any, images: slice | npt.NDArray[np.signedinteger], *names: str) -> Any:
    """The same evidence of some of its images, by slice or index array; these fields have a row for each image."""
    if not isinstance(images, slice) and np.ndim(images) != 1:
        raise BallotsError(f"images are taken by slice or index array, got {images!r}; for one image [i : i + 1]")
    rows = {name: getattr(evidence, name) for name in names}
    part = filled(copy(evidence), **{name: rows[name][images] for name in names if rows[name] is not None})
    checked_images(part.images, len(part.images))
    return part
