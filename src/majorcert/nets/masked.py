"""What the network is given under masks: the whole image, with the pixels of one or two rectangles hidden.

The promise that every certificate rests on: a view does not depend on any hidden pixel. Colours are centred first, so
that a hidden pixel, which is 0, has the mean colour; then `torch.where` takes a pixel or 0, whatever the pixel was.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from majorcert.core.threat import ImageSize
from majorcert.defences.masking import Masks
from majorcert.nets.views import to_unit

COLOURS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Mean and spread of red, green and blue in photographs (CIFAR-10's training images). A constant, so that a view
depends on its image alone."""
GREYS = (0.5,), (0.25,)
"""The same for images of any other number of channels."""


def centred(images: Tensor) -> Tensor:
    """(N, H, W, C) float32: the colours of (N, C, H, W) images, uint8 or from 0 to 1, with the mean colour at 0."""
    unit = to_unit(images)
    mean, spread = (constant(each, unit.device) for each in (COLOURS if images.shape[1] == 3 else GREYS))
    return ((unit.permute(0, 2, 3, 1) - mean) / spread).contiguous()


@lru_cache(maxsize=32)
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers on a device, brought there once: a recorded step cannot bring them again."""
    with torch.inference_mode(False):
        return torch.tensor(values, device=device)


def shown(sheet: Tensor, visible: Tensor) -> Tensor:
    """(N, C, H, W), channels last in memory: (N, H, W, C) centred colours where (N, H, W) says so, and 0 elsewhere."""
    taken = torch.where(visible[..., None], sheet, torch.zeros((), dtype=sheet.dtype, device=sheet.device))
    # One channel is first and last; torch chooses kernels by strides that then mean nothing, so they are made plain.
    return taken.permute(0, 3, 1, 2) if taken.shape[3] > 1 else taken.view(len(taken), 1, *taken.shape[1:3])


def outside(boxes: Tensor, image_size: ImageSize) -> Tensor:
    """(N, H, W): the pixels that are in none of (N, boxes, 4) boxes of top, left, height and width."""
    inside = []
    for axis, n_pixels in enumerate(image_size):
        first, length = boxes[:, :, axis, None], boxes[:, :, 2 + axis, None]
        offset = torch.arange(n_pixels, device=boxes.device) - first
        inside.append((offset >= 0) & (offset < length))
    rows, columns = inside
    return ~(rows[:, :, :, None] & columns[:, :, None, :]).any(dim=1)


@dataclass(frozen=True, eq=False)
class MaskCutter:
    """Cuts the views under the masks of one set out of images of one size; make it with `MaskCutter.of` and keep it."""

    masks: Masks
    image_size: ImageSize
    visible: Tensor  # (masks, H, W): does this mask leave this pixel visible?

    @classmethod
    def of(cls, masks: Masks, image_size: ImageSize) -> "MaskCutter":
        return cls(masks, image_size, torch.from_numpy(~masks.hidden(image_size)))

    def to(self, device: torch.device | str) -> "MaskCutter":
        """The same on another device."""
        return replace(self, visible=self.visible.to(device))

    @property
    def n_masks(self) -> int:
        return len(self.visible)

    def take(self, sheet: Tensor, which: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """(views, C, H, W): of image `which[k]` of `centred` ones, what masks `first[k]` and `second[k]` leave."""
        visible = self.visible.index_select(0, first) & self.visible.index_select(0, second)
        return shown(sheet.index_select(0, which), visible)
