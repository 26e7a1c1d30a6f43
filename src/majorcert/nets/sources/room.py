"""Room for images: in memory, or in a file without a name where they would take too much of it."""

import os
import shutil
import sys
import tempfile
from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from majorcert.errors import DataError
from majorcert.files.untrusted import memory, reason

SHARE = 4
"""Images that take more than this part of the free memory are kept in a file."""
ROWS = 1024
"""Images that are copied at once."""


def room_for(shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """An array of bytes to fill; of a file in the temporary folder, which is gone with the array, if it is large."""
    n_bytes = prod(shape)
    if n_bytes <= memory() // SHARE:
        return np.empty(shape, dtype=np.uint8)
    folder = tempfile.gettempdir()
    need = f"{shape[0]} images of {shape[2]}x{shape[3]} take {n_bytes:,} bytes"
    if n_bytes > shutil.disk_usage(folder).free:
        raise DataError(f"{need}, more than is free in {folder}; give a smaller size, or set TMPDIR to a larger folder")
    try:
        with tempfile.TemporaryFile() as file:
            if sys.platform == "linux":  # so that a disk that fills up is an error here, and no signal later
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            file.truncate(n_bytes)
            return np.memmap(file, dtype=np.uint8, mode="r+", shape=shape)
    except OSError as error:
        raise DataError(f"{need}, and {folder} cannot hold them: {reason(error)}; set TMPDIR") from None


def taken(images: Tensor, indices: Tensor) -> Tensor:
    """The images at `indices`, in that order, a few at a time."""
    room = room_for((len(indices), *images.shape[1:]))
    for start in range(0, len(indices), ROWS):
        room[start : start + ROWS] = images[indices[start : start + ROWS]].numpy()
    return torch.from_numpy(room)
