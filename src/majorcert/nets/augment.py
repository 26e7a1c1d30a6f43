"""Random changes to training images, a whole batch at a time, on the device where the images are.

All randomness comes in as one table of uniform numbers per batch, drawn by the caller from an explicit generator.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError
from majorcert.nets.masked import outside

N_RANDOM = 11
"""How many uniform numbers each image of a batch takes. The fourth to the seventh are not looked at: they belonged to
changes that did not help, and stay so that a seed trains the network that it always did."""


@dataclass(frozen=True)
class Augment:
    """Which changes are made, and how strong they are; by default none."""

    shift: int = 0  # random crop: the image moves by up to so many pixels each way
    fill: Literal["reflect", "zero"] = "reflect"  # what a shifted image shows where it has no pixels
    flip: bool = False  # mirror every second image left to right (never for digits or letters)
    cutmix: float = 0.0  # the share of the images that show a square of another image of the batch

    def __post_init__(self) -> None:
        if self.fill not in ("reflect", "zero"):
            raise DataError(f"a shifted image is filled by 'reflect' or 'zero', got {self.fill!r}")
        if self.shift < 0:
            raise DataError(f"a shift is 0 or more, got {self.shift}")
        if not 0 <= self.cutmix <= 1:
            raise DataError(f"cutmix is from 0 to 1, got {self.cutmix:g}")


class Moves(NamedTuple):
    """How each image of a batch is shifted and flipped."""

    shift: Tensor  # (batch, 2) how many rows further down, and columns to the right, in the image what is shown begins
    flipped: Tensor  # (batch,)

    @classmethod
    def of(cls, augment: Augment, random: Tensor) -> "Moves":
        shift = (random[:, :2] * (2 * augment.shift + 1)).long().clamp(max=2 * augment.shift) - augment.shift
        return cls(shift, (random[:, 2] < 0.5) & augment.flip)

    def origin(self, points: Tensor, image_size: ImageSize) -> Tensor:
        """(batch, n, 2) points of what is shown, in half pixels down and across, as points of the image itself."""
        return self._turned(points, image_size) + 2 * self.shift[:, None]

    def seen(self, points: Tensor, image_size: ImageSize) -> Tensor:
        """The way back: points of the image as points of what is shown."""
        return self._turned(points - 2 * self.shift[:, None], image_size)

    def _turned(self, points: Tensor, image_size: ImageSize) -> Tensor:
        down, across = points.unbind(2)
        return torch.stack([down, torch.where(self.flipped[:, None], 2 * image_size[1] - across, across)], dim=2)


def gathered(images: Tensor, index: Tensor, augment: Augment, random: Tensor) -> Tensor:
    """(batch, C, H, W) uint8: the images at `index`, shifted and flipped at random by the one gather.

    Args:
        random: (batch, N_RANDOM), uniform in [0, 1).
    """
    channels, height, width = images.shape[1:]
    if augment.shift >= min(height, width):
        raise DataError(f"a shift of {augment.shift} is too large for a {height}x{width} image; use less")
    moves = Moves.of(augment, random)
    row = torch.arange(height, device=images.device) + moves.shift[:, :1]
    column = torch.arange(width, device=images.device) + moves.shift[:, 1:]
    column = torch.where(moves.flipped[:, None], column.flip(1), column)
    source_row, source_column = _reflected(row, height), _reflected(column, width)
    channel = torch.arange(channels, device=images.device)[:, None, None]
    batch = images[index[:, None, None, None], channel, source_row[:, None, :, None], source_column[:, None, None, :]]
    if augment.shift and augment.fill == "zero":
        inside = (row == source_row)[:, :, None] & (column == source_column)[:, None, :]
        batch = torch.where(inside[:, None], batch, 0)
    return batch


def mixed(images: Tensor, augment: Augment, random: Tensor) -> tuple[Tensor, Tensor]:
    """Images, some with a square of their neighbour in the batch, the first with the last one's; (batch,) how much."""
    least = min(images.shape[2:]) / 4  # squares are from a quarter of the side to three
    side = (random[:, 8] * 2 * least + least).long()
    lots, size = random[:, 9:11].unbind(1), (images.shape[2], images.shape[3])
    starts = [(lot * (n_pixels + 1 - side)).long() for lot, n_pixels in zip(lots, size, strict=True)]
    square = ~outside(torch.stack([*starts, side, side], dim=1)[:, None], size)
    square &= (random[:, 7] < augment.cutmix)[:, None, None]
    return torch.where(square[:, None], images.roll(1, dims=0), images), square.float().mean(dim=(1, 2))


def wanted(labels: Tensor, n_classes: int, mixing: Tensor | None) -> Tensor:
    """(batch, classes) what a network should say: the label; what was `mixed` in counts for its own."""
    truth = (labels[:, None] == torch.arange(n_classes, device=labels.device)).float()
    return truth if mixing is None else torch.lerp(truth, truth.roll(1, dims=0), mixing[:, None])


def _reflected(position: Tensor, side: int) -> Tensor:
    """Positions outside of the image as seen in a mirror at its border pixel."""
    return (side - 1) - ((side - 1) - position.abs()).abs()
