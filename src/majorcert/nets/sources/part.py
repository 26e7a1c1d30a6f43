"""The training or the test part of a source, as arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Part:
    """Images and labels as a source holds them; what they must satisfy is checked by `majorcert.nets.data`."""

    images: npt.NDArray[np.uint8]
    """(images, channels, height, width)"""
    labels: npt.NDArray[np.int64] | None
    class_names: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    """Files that could not be read and were left out, as the caller allowed."""
