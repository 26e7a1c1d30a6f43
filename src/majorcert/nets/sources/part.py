"""The training or the test part of a source, as arrays."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Progress = Callable[[int, int], None]
"""Called with what is done and with what there is in all: bytes of a download, files of a folder."""


@dataclass(frozen=True, eq=False)
class Part:
    """Images and labels as a source holds them; what they must satisfy is checked by `majorcert.nets.data`."""

    images: npt.NDArray[np.uint8]
    """(images, channels, height, width)"""
    labels: npt.NDArray[np.int64] | None
    class_names: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    """Files that could not be read and were left out, as the caller allowed."""
    notes: tuple[str, ...] = ()
    """What a user should know of how the source was read."""
    photo_sizes: npt.NDArray[np.int64] | None = None
    """(images, 2): the height and width of each photo before it was resized."""
    files: tuple[str, ...] | None = None
    """Where in the folder each photo is."""
    whole: bool = True
    """Whether "train" and "val" are still to be drawn from it."""
