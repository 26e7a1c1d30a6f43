"""Images as users hold them, as the tensors that views are cut from.

One convention: torch tensors are (N, C, H, W), NumPy arrays are (N, H, W, C), or (N, H, W) for grey images; values are
uint8 from 0 to 255, or floating point from 0 to 1.
"""

import hashlib
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError

Images = Tensor | npt.NDArray[Any]


def as_tensor(images: Images, channels: int, image_size: ImageSize) -> Tensor:
    """(N, C, H, W) on the CPU, uint8 or float32; what is not images of this kind is refused."""
    height, width = image_size
    if isinstance(images, Tensor):
        expected = f"a tensor of shape (N, {channels}, {height}, {width})"
        tensor = images.detach().cpu()
    elif isinstance(images, np.ndarray):
        expected = f"an array of shape (N, {height}, {width}" + (f", {channels})" if channels > 1 else ")")
        if images.ndim == 3 and channels == 1:
            images = images[..., None]
        if images.dtype.kind not in "uf":
            raise DataError(f"images are uint8 (0 to 255) or floating point (0 to 1), got {images.dtype}")
        tensor = torch.from_numpy(np.ascontiguousarray(np.moveaxis(images, -1, 1) if images.ndim == 4 else images))
    else:
        raise DataError(f"images are a torch tensor or a NumPy array, got {type(images).__name__}")
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


def parse_size(text: str) -> ImageSize:
    """An image size as the command line takes it: "32" or "48x64" (height x width)."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})(?:x([1-9][0-9]{0,4}))?", text.strip())
    if match is None:
        raise DataError(
            f"cannot read {text!r} as an image size; write a side as in '32', or height x width as in '48x64'"
        )
    height, width = match.groups()
    return int(height), int(width or height)


def sha256(images: Tensor) -> str:
    """Fingerprint of the images: shape and bytes; of uint8 images the same as of a data set that holds them."""
    digest = hashlib.sha256(",".join(str(side) for side in images.shape).encode() + b";")
    digest.update(images.contiguous().numpy().data)
    return digest.hexdigest()
