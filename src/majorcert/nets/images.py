"""Images as users hold them, as the tensors that views are cut from.

One convention: torch tensors are (N, C, H, W), NumPy arrays are (N, H, W, C), or (N, H, W) for grey images; values are
uint8 from 0 to 255, or floating point from 0 to 1.
"""

import hashlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError
from majorcert.errors.checks import parsed
from majorcert.files.photo import SQUASHED, Resizing
from majorcert.files.untrusted import reason
from majorcert.nets.sources.decode import plain_picture, resized

Images = Tensor | npt.NDArray[Any] | Sequence[Any] | DataLoader[Any]


def as_tensor(images: Any, channels: int, image_size: ImageSize, resizing: Resizing = SQUASHED) -> Tensor:
    """(N, C, H, W) on the CPU, uint8 or float32; what is not images of this kind is refused.

    Args:
        images: beside tensors and arrays, a PIL image, which is resized, a list of images of any of these kinds, or a
            DataLoader that gives such batches, with or without labels.
    """
    height, width = image_size
    if isinstance(images, list | tuple | DataLoader):
        return _joined(images, channels, image_size, resizing)
    if _is_picture(images):
        images = _pixels(images, channels, image_size, resizing)[None]
    if isinstance(images, Tensor):
        expected = f"a tensor of shape (N, {channels}, {height}, {width})"
        tensor = images.detach().cpu()
    elif isinstance(images, np.ndarray):
        expected = f"an array of shape (N, {height}, {width}" + (f", {channels})" if channels > 1 else ")")
        if images.ndim == 3 and channels == 1:
            images = images[..., None]
        if images.dtype.kind not in "uf" or images.dtype.itemsize > 8:  # torch has no longer floats
            raise DataError(f"images are uint8 (0 to 255) or floating point (0 to 1), got {images.dtype}")
        first = np.moveaxis(images, -1, 1) if images.ndim == 4 else images
        tensor = torch.from_numpy(np.array(first, images.dtype.newbyteorder("="), order="C"))
    else:
        raise DataError(
            f"images are a torch tensor, a NumPy array, a PIL image, or a list or DataLoader of such; got "
            f"{type(images).__name__}"
        )
    if tensor.ndim != 4 or tuple(tensor.shape[1:]) != (channels, height, width):
        hint = "; one image needs a first axis, images[None]" if images.ndim == 3 else ""
        raise DataError(f"expected {expected}, got shape {tuple(images.shape)}{hint}")
    if tensor.dtype == torch.uint8:
        return tensor
    if not tensor.is_floating_point():
        raise DataError(f"images are uint8 (0 to 255) or floating point (0 to 1), got {tensor.dtype}")
    if not bool(((tensor >= 0) & (tensor <= 1)).all()):
        raise DataError("images of floating point run from 0 to 1; divide by 255, and look for NaN")
    return tensor.float()


def _joined(images: Any, channels: int, image_size: ImageSize, resizing: Resizing) -> Tensor:
    """The images of a list, one by one, or of a DataLoader, batch by batch; labels are left aside."""
    loaded = isinstance(images, DataLoader)
    parts = []
    for each in images:
        part = each[0] if loaded and isinstance(each, list | tuple) else each
        held = isinstance(part, Tensor | np.ndarray)
        if not held and not _is_picture(part):
            raise DataError(f"a list of images holds tensors, arrays or PIL images, got {type(part).__name__}")
        one = held and not loaded and (part.ndim == 3 or (part.ndim == 2 and channels == 1))
        parts.append(as_tensor(part[None] if one else part, channels, image_size, resizing))
    if len({part.dtype for part in parts}) > 1:
        raise DataError("some of the images are uint8 and some floating point; give all of them in one way")
    return torch.cat(parts) if parts else torch.zeros((0, channels, *image_size), dtype=torch.uint8)


def _pixels(picture: Any, channels: int, image_size: ImageSize, resizing: Resizing) -> npt.NDArray[np.uint8]:
    """(height, width, channels), of grey (height, width): what would be read from the file of a PIL image."""
    try:
        return np.array(resized(plain_picture(picture, channels), image_size, resizing))
    except (OSError, ValueError) as error:  # Pillow decodes when pixels are first asked for
        raise DataError(f"a PIL image cannot be used: {reason(error)}") from None


def _is_picture(image: Any) -> bool:
    """Is it an image of Pillow's? Without Pillow there are none."""
    known = sys.modules.get("PIL.Image")
    return known is not None and isinstance(image, known.Image)


def parse_size(text: str) -> ImageSize:
    """An image size as the command line takes it: "32" or "48x64" (height x width)."""
    what = "an image size; write a side as in '32', or height x width as in '48x64'"
    height, width = parsed(text, r"([1-9][0-9]{0,4})(?:x([1-9][0-9]{0,4}))?", what, DataError)
    return int(height or 0), int(width or height or 0)


def sha256(images: Tensor) -> str:
    """Fingerprint of the images: shape and bytes; of uint8 images the same as of a data set that holds them."""
    digest = hashlib.sha256(",".join(str(side) for side in images.shape).encode() + b";")
    digest.update(images.contiguous().numpy().data)
    return digest.hexdigest()
