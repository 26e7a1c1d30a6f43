"""Random changes to training images, a whole batch at a time, on the device where the images are.

All randomness comes in as one table of uniform numbers per batch, drawn by the caller from an explicit generator.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from majorcert.errors import DataError

N_RANDOM = 7
"""How many uniform numbers each image of a batch takes."""

GREY = 128


@dataclass(frozen=True)
class Augment:
    """Which changes are made, and how strong they are; by default none."""

    shift: int = 0
    """Random crop: the image moves by up to so many pixels each way."""
    fill: Literal["reflect", "zero"] = "reflect"
    """What a shifted image shows where it has no pixels."""
    flip: bool = False
    """Mirror every second image left to right (never for digits or letters)."""
    cutout: int = 0
    """Side of a grey square put somewhere on the image."""
    jitter: float = 0.0
    """Contrast and brightness change by up to this factor."""
    mixup: float = 0.0
    """The largest share of another image of the batch that is mixed in."""

    def __post_init__(self) -> None:
        if self.fill not in ("reflect", "zero"):
            raise DataError(f"a shifted image is filled by 'reflect' or 'zero', got {self.fill!r}")
        if self.shift < 0 or self.cutout < 0 or not 0 <= self.jitter <= 1 or not 0 <= self.mixup <= 0.5:
            raise DataError(f"shift and cutout are 0 or more, jitter 0 to 1, mixup 0 to 0.5; got {self}")


def gathered(images: Tensor, index: Tensor, augment: Augment, random: Tensor) -> Tensor:
    """(batch, C, H, W) uint8: the images at `index`, shifted and flipped at random by the one gather, cut out.

    Args:
        random: (batch, N_RANDOM), uniform in [0, 1).
    """
    channels, height, width = images.shape[1:]
    if augment.shift >= min(height, width):
        raise DataError(f"a shift of {augment.shift} is too large for a {height}x{width} image; use less")
    row = torch.arange(height, device=images.device) + _offset(random[:, 0], augment.shift)
    column = torch.arange(width, device=images.device) + _offset(random[:, 1], augment.shift)
    if augment.flip:
        column = torch.where(random[:, 2, None] < 0.5, column.flip(1), column)
    source_row, source_column = _reflected(row, height), _reflected(column, width)
    channel = torch.arange(channels, device=images.device)[:, None, None]
    batch = images[index[:, None, None, None], channel, source_row[:, None, :, None], source_column[:, None, None, :]]
    if augment.shift and augment.fill == "zero":
        inside = (row == source_row)[:, :, None] & (column == source_column)[:, None, :]
        batch = torch.where(inside[:, None], batch, 0)
    if augment.cutout:
        tall = _covers(random[:, 3], height, augment.cutout)
        wide = _covers(random[:, 4], width, augment.cutout)
        batch = torch.where((tall[:, :, None] & wide[:, None, :])[:, None], GREY, batch)
    return batch


def jittered(images: Tensor, augment: Augment, random: Tensor) -> Tensor:
    """Float images with another contrast and brightness each."""
    if not augment.jitter:
        return images
    contrast, brightness = (1 + augment.jitter * (2 * random[:, 5:7] - 1))[:, :, None, None, None].unbind(1)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return (((images - mean) * contrast + mean) * brightness).clamp(0, 1)


def mixed(images: Tensor, share: Tensor) -> Tensor:
    """Each image with `share` (batch,) of its neighbour in the batch, the first with the last one's."""
    share = share[:, None, None, None]
    return images * (1 - share) + images.roll(1, dims=0) * share


def _offset(random: Tensor, shift: int) -> Tensor:
    """(batch, 1): whole numbers from -shift to shift."""
    return (random * (2 * shift + 1)).long().clamp(max=2 * shift)[:, None] - shift


def _reflected(position: Tensor, side: int) -> Tensor:
    """Positions outside of the image as seen in a mirror at its border pixel."""
    return (side - 1) - ((side - 1) - position.abs()).abs()


def _covers(random: Tensor, side: int, cutout: int) -> Tensor:
    """(batch, side): the pixels of a run of `cutout` whose middle is anywhere in the image."""
    start = (random * side).long()[:, None] - cutout // 2
    offset = torch.arange(side, device=random.device) - start
    return (offset >= 0) & (offset < cutout)
