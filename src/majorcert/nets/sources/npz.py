"""Arrays in an `.npz` file: `images` and `labels`, and optionally `test_images`, `test_labels`, `class_names`."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from majorcert.errors import DataError
from majorcert.files.untrusted import read_npz, reason
from majorcert.nets.sources.part import Part

MAX_CLASSES = 2**16


def read(path: Path, *, test: bool) -> Part | None:
    """One part of the file; None if it has no such part. Nothing in the file is ever executed."""
    try:
        held = read_npz(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path} as an .npz file of plain arrays: {reason(error)}") from None
    prefix = "test_" if test else ""
    if test and "test_images" not in held:
        return None
    if f"{prefix}images" not in held:
        raise DataError(
            f"{path} has no array '{prefix}images', only {sorted(held)}; save it as np.savez(..., images=...)"
        )
    labels = held.get(f"{prefix}labels")
    for name in ("labels", "test_labels"):
        if name in held and held[name].dtype.kind not in "iu":
            raise DataError(f"the {name} in {path} are whole numbers from 0 on, got {held[name].dtype}")
    every_label = [held[name].ravel() for name in ("labels", "test_labels") if name in held and held[name].size]
    n_classes = 1 + max((int(each.max()) for each in every_label), default=-1)
    if n_classes > MAX_CLASSES:
        raise DataError(f"the labels in {path} run up to {n_classes - 1}, and at most {MAX_CLASSES} classes are known")
    class_names = held.get("class_names", np.arange(n_classes))
    return Part(
        images=_channels_first(path, held[f"{prefix}images"]),
        labels=None if labels is None else labels.astype(np.int64),
        class_names=tuple(str(name) for name in class_names.ravel()),
    )


def _channels_first(path: Path, images: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """(N, H, W) is grey; of four sides the second is the channels if it is 1 or 3, else the last."""
    if images.dtype != np.uint8:
        raise DataError(f"the images in {path} are {images.dtype}; save them as uint8 with values from 0 to 255")
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.ndim != 4:
        raise DataError(
            f"the images in {path} have shape {images.shape}; expected (N, H, W), (N, C, H, W) or (N, H, W, C)"
        )
    return np.ascontiguousarray(images, dtype=np.uint8)
