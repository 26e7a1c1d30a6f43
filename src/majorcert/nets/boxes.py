"""What a masking defender learns from: images under two boxes, larger than the masks, and later the worst of several.

All randomness comes in as one table of uniform numbers per batch, as for the other changes to training images.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from majorcert.core.threat import ImageSize
from majorcert.errors import ModelError
from majorcert.nets.masked import centred, constant, outside, shown

N_NUMBERS = 6
"""Uniform numbers for a pair of boxes: the side, top and left of each."""


@dataclass(frozen=True)
class Boxes:
    """Which boxes hide a training image, two at a time."""

    sides: tuple[int, ...] = ()
    """each box has one of these sides, by lot"""
    hard: int = 1
    """so many pairs are tried, and the one is learned from that is worst for the network"""
    hard_from: float = 0.5
    """from this share of the epochs on; one pair is tried until then"""

    def __post_init__(self) -> None:
        if min(self.sides, default=1) < 1 or self.hard < 1 or not 0 <= self.hard_from <= 1:
            raise ModelError(f"boxes have sides of 1 or more, hard is 1 or more, hard_from is from 0 to 1; got {self}")

    def n_pairs(self, epoch: int, n_epochs: int) -> int:
        """How many pairs of boxes are tried in an epoch, counted from 0."""
        return self.hard if epoch >= self.hard_from * n_epochs else 1

    def drawn(self, random: Tensor, image_size: ImageSize) -> Tensor:
        """(batch, pairs, 2, 4) boxes, anywhere inside the image, of (batch, pairs * N_NUMBERS) uniform numbers."""
        side, *place = random.view(len(random), -1, 2, 3).unbind(3)
        sides = constant(self.sides, random.device)
        chosen = sides[(side * len(sides)).long().clamp(max=len(sides) - 1)]
        lengths = [chosen.clamp(max=n_pixels) for n_pixels in image_size]
        rooms = [n_pixels - length for n_pixels, length in zip(image_size, lengths, strict=True)]
        starts = [(lot * (room + 1)).long().minimum(room) for lot, room in zip(place, rooms, strict=True)]
        return torch.stack([*starts, *lengths], dim=3)

    def views(self, images: Tensor, random: Tensor, losses: Callable[[Tensor], Tensor]) -> Tensor:
        """(batch, C, H, W): each image under a pair of boxes; of several pairs the one with the largest loss.

        Args:
            losses: (views,) how badly the network does on (views, C, H, W) views of the images, all of them in turn.
        """
        sheet, size = centred(images), (images.shape[2], images.shape[3])
        boxes = self.drawn(random, size)
        n_images, n_pairs = boxes.shape[:2]
        if n_pairs > 1:
            tried = outside(boxes.transpose(0, 1).flatten(0, 1), size)
            loss = losses(shown(sheet.repeat(n_pairs, 1, 1, 1), tried)).view(n_pairs, n_images)
            worst = loss.argmax(dim=0)
            boxes = boxes[torch.arange(n_images, device=worst.device), worst, None]
        return shown(sheet, outside(boxes[:, 0], size))
