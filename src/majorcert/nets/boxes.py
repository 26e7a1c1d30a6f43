"""What a masking defender learns from: images under two boxes, larger than the masks, and those it fails worst under.

All randomness comes in as one table of uniform numbers per batch, as for the other changes to training images.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from majorcert.core.threat import ImageSize
from majorcert.errors import ModelError
from majorcert.nets.augment import N_RANDOM, Augment, Moves
from majorcert.nets.masked import centred, constant, outside, shown

N_NUMBERS = 8
"""Uniform numbers for a pair of boxes: the side, top and left of each, and two for what is remembered."""
BOTH, EITHER = 0.5, 0.3
"""Shares of the images that get both remembered boxes, and one of the two; the others get new ones."""
FADING = 0.95
"""What is left of a remembered loss each time that the image was learned from under other boxes."""


@dataclass(frozen=True)
class Boxes:
    """Which boxes hide a training image, two at a time."""

    sides: tuple[int, ...] = ()
    """each box has one of these sides, by lot"""
    memory_from: float = 1.0
    """from this share of the epochs on, half of the images get the pair of boxes that they failed worst under"""
    worst_of: int = 1
    """so many pairs are tried for each image in each step, and the one that it fails worst under is learned from"""
    worst_from: float = 0.5
    """the share of the epochs after which they are"""
    greedy: bool = False
    """the worst of so many boxes is found alone, then the worst of so many others to go with it"""

    def __post_init__(self) -> None:
        if min(*self.sides, self.worst_of, 1) < 1 or not 0 <= self.memory_from <= 1 or not 0 <= self.worst_from <= 1:
            raise ModelError(
                f"boxes have sides of 1 or more and are the worst of 1 or more, and memory_from and worst_from are "
                f"from 0 to 1; got {self}"
            )
        if self.greedy and self.worst_of < 2:
            raise ModelError("a greedy search is for the worst of several boxes; say of how many, 2 or more")

    def drawn(self, random: Tensor, image_size: ImageSize) -> Tensor:
        """(batch, 2, 4) boxes of top, left, height and width, anywhere inside the image."""
        side, *place = random[:, :6].view(len(random), 2, 3).unbind(2)
        sides = constant(self.sides, random.device)
        chosen = sides[(side * len(sides)).long().clamp(max=len(sides) - 1)]
        lengths = [chosen.clamp(max=n_pixels) for n_pixels in image_size]
        rooms = [n_pixels - length for n_pixels, length in zip(image_size, lengths, strict=True)]
        starts = [(lot * (room + 1)).long().minimum(room) for lot, room in zip(place, rooms, strict=True)]
        return torch.stack([*starts, *lengths], dim=2)


def under(images: Tensor, boxes: Tensor) -> Tensor:
    """(batch, C, H, W): each image without the pixels in its boxes."""
    return shown(centred(images), outside(boxes, (images.shape[2], images.shape[3])))


def worst(pairs: Tensor, loss_of: Callable[[Tensor], Tensor], *, greedy: bool) -> Tensor:
    """(batch, 2, 4): of (batch, n, 2, 4) pairs of boxes the one with the largest loss, image by image.

    Args:
        loss_of: (batch,) of one pair for each image.
        greedy: combine the worst first box, alone, with the second box that is worst beside it.
    """
    if greedy:
        first = _worst(pairs[:, :, :1].expand_as(pairs), loss_of)
        pairs = torch.stack([first[:, :1].expand(-1, pairs.shape[1], -1), pairs[:, :, 1]], dim=2)
    return _worst(pairs, loss_of)


def _worst(pairs: Tensor, loss_of: Callable[[Tensor], Tensor]) -> Tensor:
    losses = torch.stack([loss_of(pair) for pair in pairs.unbind(1)], dim=1)
    return pairs[torch.arange(len(pairs), device=pairs.device), losses.argmax(dim=1)]


class Memory:
    """For each training image the pair of boxes with the largest loss so far: hard masks for no extra pass."""

    def __init__(self, n_images: int, image_size: ImageSize, device: torch.device) -> None:
        self.image_size = image_size
        self.middles = torch.zeros(n_images, 2, 2, dtype=torch.int16, device=device)
        """twice the middle of each box, down and across in the image itself, so that a box of any side fits there"""
        self.loss = torch.full((n_images,), -1.0, device=device)

    def recalled(self, index: Tensor, new: Tensor, moves: Moves, random: Tensor) -> Tensor:
        """(batch, 2, 4) boxes as large as the new ones: some where they are remembered, some half so, some new."""
        lengths, room = new[:, :, 2:], constant(self.image_size, new.device) - new[:, :, 2:]
        old = torch.div(moves.seen(self.middles[index].long(), self.image_size) - lengths, 2, rounding_mode="floor")
        lot, known = random[:, 6], self.loss[index] >= 0
        both, either = known & (lot < BOTH), known & (lot >= BOTH) & (lot < BOTH + EITHER)
        first = random[:, 7] < 0.5
        taken = torch.stack([both | (either & first), both | (either & ~first)], dim=1)
        starts = torch.where(taken[:, :, None], old.clamp(min=0).minimum(room), new[:, :, :2])
        return torch.cat([starts, lengths], dim=2)

    def replayed(self, index: Tensor, random: Tensor) -> Tensor:
        """(batch,) are both boxes that `recalled` gives the remembered ones?"""
        return (self.loss[index] >= 0) & (random[:, 6] < BOTH)

    def keep(self, index: Tensor, middles: Tensor, loss: Tensor, replayed: Tensor) -> None:
        """Remember the worse pair; what was replayed gets its new loss, what was not fades."""
        worse = replayed | (loss > self.loss[index])
        self.middles[index] = torch.where(worse[:, None, None], middles.to(torch.int16), self.middles[index])
        self.loss[index] = torch.where(worse, loss, self.loss[index] * FADING)


def middles_of(boxes: Tensor, moves: Moves, image_size: ImageSize) -> Tensor:
    """(batch, 2, 2) twice the middle of each box, in the image itself."""
    return moves.origin(2 * boxes[:, :, :2] + boxes[:, :, 2:], image_size)


class Hider:
    """Chooses the boxes that hide each training image, and remembers the worst of them."""

    def __init__(
        self, boxes: Boxes, augment: Augment, n_images: int, image_size: ImageSize, device: torch.device
    ) -> None:
        self.boxes, self.augment, self.image_size = boxes, augment, image_size
        self.memory = Memory(n_images, image_size, device) if boxes.memory_from < 1 else None

    @property
    def n_lots(self) -> int:
        """How many uniform numbers an image takes, after those of its other changes."""
        return N_NUMBERS * self.boxes.worst_of

    def pairs(self, index: Tensor, random: Tensor, *, recalls: bool) -> Tensor:
        """(batch, n, 2, 4) pairs of boxes to choose from, drawn by lot; the first one perhaps as remembered."""
        lots = random[:, N_RANDOM:].unflatten(1, (self.boxes.worst_of, N_NUMBERS))  # type: ignore[no-untyped-call]
        first, *others = (self.boxes.drawn(each, self.image_size) for each in lots.unbind(1))
        if self.memory and recalls:
            first = self.memory.recalled(index, first, Moves.of(self.augment, random), lots[:, 0])
        return torch.stack([first, *others], dim=1)

    def keep(
        self,
        index: Tensor,
        random: Tensor,
        boxes: Tensor,
        loss: Tensor,
        *,
        recalls: bool,
        whole: Callable[[Tensor], Tensor],
    ) -> None:
        """Remember the worse pairs of the whole batch, which `whole` gathers: all processes hold the same memory."""
        if self.memory:
            middles = middles_of(boxes, Moves.of(self.augment, random), self.image_size)
            replayed = self.memory.replayed(index, random[:, N_RANDOM:]) & recalls
            self.memory.keep(*(whole(each) for each in (index, middles, loss, replayed)))
