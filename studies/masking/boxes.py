"""Training views: random crops with two hidden boxes, and a memory of the pair of boxes that each image fails under."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

SIDE, PAD = 32, 4
REPLAYED, HALF_REPLAYED = 0.5, 0.3
"""Shares of the images that get both remembered boxes, and one of them; the others get new ones."""
FADING = 0.95
"""What is left of a remembered loss each time that the image was learned from under other boxes."""


def padded(centred: Tensor) -> Tensor:
    """(N, 40, 40, 3): images with their borders reflected, to cut crops from."""
    wide = F.pad(centred.permute(0, 3, 1, 2), (PAD,) * 4, mode="reflect")
    return wide.permute(0, 2, 3, 1).contiguous()


class Crops(NamedTuple):
    """Crops, and where in the padded image they lie; half of them are mirrored."""

    pixels: Tensor
    """(N, 32, 32, 3)"""
    rows: Tensor
    """(N, 32) the row of the padded image that each row shows"""
    columns: Tensor
    origin: Tensor
    """(N, 2) top and left"""


def cut(images: Tensor, which: Tensor) -> Crops:
    """A new crop of each of these padded images."""
    n, device = len(which), images.device
    line = torch.arange(SIDE, device=device)
    top, left = torch.randint(0, 2 * PAD + 1, (2, n), device=device)
    mirrored = torch.rand(n, device=device) < 0.5
    rows = top[:, None] + line
    columns = left[:, None] + torch.where(mirrored[:, None], SIDE - 1 - line, line)
    pixels = images[which[:, None, None], rows[:, :, None], columns[:, None, :]]
    return Crops(pixels, rows, columns, torch.stack([top, left], dim=1))


class Boxes(NamedTuple):
    """Two boxes for each image."""

    corners: Tensor
    """(N, 2, 2) top and left in the crop before it was mirrored"""
    sides: Tensor
    """(N, 2)"""
    replayed: Tensor
    """(N,) are both from memory?"""


def drawn(n: int, sizes: Tensor) -> Boxes:
    """Boxes of these sizes anywhere in the crop."""
    sides = sizes[torch.randint(0, len(sizes), (n, 2), device=sizes.device)]
    room = (SIDE + 1 - sides).unsqueeze(-1)
    corners = (torch.rand(n, 2, 2, device=sizes.device) * room).long().clamp_(max=room - 1)
    return Boxes(corners, sides, torch.zeros(n, dtype=torch.bool, device=sizes.device))


def hidden(crops: Crops, boxes: Boxes) -> Tensor:
    """(N, 3, 32, 32), channels last in memory: the crops without the pixels in the boxes."""
    low = (boxes.corners + crops.origin[:, None]).unsqueeze(-1)
    high = low + boxes.sides[:, :, None, None]
    rows = (crops.rows[:, None] >= low[:, :, 0]) & (crops.rows[:, None] < high[:, :, 0])
    columns = (crops.columns[:, None] >= low[:, :, 1]) & (crops.columns[:, None] < high[:, :, 1])
    covered = (rows[..., None] & columns[:, :, None]).any(dim=1)
    return crops.pixels.masked_fill(covered.unsqueeze(-1), 0).permute(0, 3, 1, 2)


class Memory:
    """For each training image the pair of boxes with the largest loss so far: hard masks for no extra pass."""

    def __init__(self, n_images: int, device: str) -> None:
        self.centres = torch.zeros(n_images, 2, 2, dtype=torch.long, device=device)
        """twice the middle of each box in the padded image, so that a box of any side fits there"""
        self.loss = torch.full((n_images,), -1.0, device=device)

    def recalled(self, which: Tensor, crops: Crops, new: Boxes) -> Boxes:
        """The boxes to learn from: some remembered, some half remembered, some new."""
        old = (self.centres[which] - new.sides.unsqueeze(-1)) // 2 - crops.origin[:, None]
        old = old.clamp_(min=0).minimum((SIDE - new.sides).unsqueeze(-1))
        lot, known = torch.rand(len(which), device=old.device), self.loss[which] >= 0
        both = known & (lot < REPLAYED)
        one = known & ~both & (lot < REPLAYED + HALF_REPLAYED)
        first = torch.rand(len(which), device=old.device) < 0.5
        taken = torch.stack([both | (one & first), both | (one & ~first)], dim=1)
        return Boxes(torch.where(taken.unsqueeze(-1), old, new.corners), new.sides, both)

    def keep(self, which: Tensor, crops: Crops, boxes: Boxes, loss: Tensor) -> None:
        """Remember the worse pair; what was replayed gets its new loss, what was not fades."""
        worse = boxes.replayed | (loss > self.loss[which])
        centres = 2 * (boxes.corners + crops.origin[:, None]) + boxes.sides.unsqueeze(-1)
        self.centres[which] = torch.where(worse[:, None, None], centres, self.centres[which])
        self.loss[which] = torch.where(worse, loss, self.loss[which] * FADING)
