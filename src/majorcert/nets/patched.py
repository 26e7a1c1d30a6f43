"""What patches can make of a network of local features, computed around them alone, for many placements at once.

What sees no pixel of a patch is on the painted image what it is on the clean one. So the clean image is looked at once,
and of each placement only the windows of cells that may see it: by how much the centre of their intervals differs from
the clean image, and their radius. Both are 0 outside.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.core.threat import ImageSize
from majorcert.nets.ibp import SCALE, IntervalNet, Span, activated, activated_span, scaled


class Clean(NamedTuple):
    """What the network makes of clean images."""

    maps: list[Tensor]  # the pixels as it sees them, and what comes out of each convolution
    features: Tensor  # (images, features) the mean of the last ones over all cells

    @classmethod
    def of(cls, network: IntervalNet, images: Tensor) -> "Clean":
        """Args: images: (images, C, H, W) from 0 to 1."""
        features = scaled(images).contiguous(memory_format=torch.channels_last)
        maps = [features]
        for layer, ends in network.layers:
            maps.append(layer(features))
            features = activated(maps[-1], ends)
        return cls(maps, features.sum(dim=(2, 3)) / _n_cells(features))


class Patches(NamedTuple):
    """Patches on images: of N, which image each is on, where it begins and how large it is."""

    image: Tensor  # (N,)
    start: Tensor  # (N, 2) top and left
    sides: Tensor  # (N, 2) height and width


class Window(NamedTuple):
    """Cells of a map in one direction: the first, counted from where a patch begins in whole strides; how many."""

    first: int
    length: int

    def seen_by(self, layer: nn.Conv2d) -> "Window":
        """The cells that come out of a convolution and look at some of these."""
        side, step, border = layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
        first = -((side - 1 - border - self.first) // step)
        return Window(first, (self.first + self.length - 1 + border) // step + 1 - first)

    def beside(self, after: "Window", layer: nn.Conv2d) -> list[int]:
        """How many zeros before and after these a convolution needs that makes just `after` of them."""
        begins = after.first * layer.stride[0] - int(layer.padding[0])
        ends = begins + (after.length - 1) * layer.stride[0] + layer.kernel_size[0]
        return [self.first - begins, ends - self.first - self.length]


class Cells(NamedTuple):
    """The cells of some windows in the maps of all images, and which of them are inside of the map."""

    number: Tensor  # (N, rows, columns) of a cell among those of all maps
    real: Tensor  # (N, 1, rows, columns) 1 or 0

    @classmethod
    def of(cls, image: Tensor, begins: Tensor, windows: list[Window], size: ImageSize, like: Tensor) -> "Cells":
        down, across = (
            begins[:, place, None] + torch.arange(window.first, window.first + window.length, device=begins.device)
            for place, window in enumerate(windows)
        )
        real = ((down >= 0) & (down < size[0]))[:, :, None] & ((across >= 0) & (across < size[1]))[:, None, :]
        row = image[:, None] * size[0] + down.clamp(0, size[0] - 1)
        number = row[:, :, None] * size[1] + across.clamp(0, size[1] - 1)[:, None, :]
        return cls(number, real[:, None].to(like.dtype))

    def of_maps(self, maps: Tensor) -> Tensor:
        """(N, C, rows, columns) of (images, C, H, W)."""
        table = maps.permute(0, 2, 3, 1).reshape(-1, maps.shape[1])
        found = table.index_select(0, self.number.flatten())
        return found.view(*self.number.shape, -1).permute(0, 3, 1, 2)


def patched(
    network: IntervalNet, clean: Clean, patches: Patches, windows: list[Window], share: Tensor | float = 1.0
) -> Span:
    """(N, features) the mean of the last features over all cells, whatever the pixels under each patch are.

    Args:
        windows: rows and columns that hold every patch, counted from where it begins in whole strides of the network.
        share: of the whole range, 0 to 1, that a pixel under the patch may move by.
    """
    step = network.stride
    whole = patches.start // step
    pixels, begins = clean.maps[0], whole * step
    cells = Cells.of(patches.image, begins, windows, (pixels.shape[2], pixels.shape[3]), pixels)
    free = _under(patches, begins, windows).to(pixels.dtype) * share
    change = -cells.of_maps(pixels) * free
    radius = (free * (SCALE / 2)).expand_as(change)
    for (layer, ends), before in zip(network.layers, clean.maps[1:], strict=True):
        windows, inner = [each.seen_by(layer) for each in windows], windows
        tall, wide = (old.beside(new, layer) for old, new in zip(inner, windows, strict=True))
        change, radius = (F.pad(each, (*wide, *tall)) for each in (change, radius))
        step //= layer.stride[0]
        cells = Cells.of(patches.image, whole * step, windows, (before.shape[2], before.shape[3]), before)
        clean_cells = cells.of_maps(before)
        centre = clean_cells + F.conv2d(change, layer.weight, None, layer.stride)
        span = activated_span(Span(centre, F.conv2d(radius, layer.weight.abs(), None, layer.stride)), ends)
        change = (span.centre - activated(clean_cells, ends)) * cells.real
        radius = span.radius * cells.real
    moved, reached = (each.sum(dim=(2, 3)) / _n_cells(before) for each in (change, radius))
    return Span(clean.features.index_select(0, patches.image) + moved, reached)


def holding(side: int, stride: int) -> Window:
    """The window that holds a patch of this side, wherever within a stride of the network it begins."""
    return Window(0, side + stride - 1)


def _under(patches: Patches, begins: Tensor, windows: list[Window]) -> Tensor:
    """(N, 1, rows, columns) which pixels of the windows are under the patch."""
    inside = []
    for place, window in enumerate(windows):
        pixel = torch.arange(window.first, window.first + window.length, device=begins.device)
        offset = begins[:, place, None] + pixel - patches.start[:, place, None]
        inside.append((offset >= 0) & (offset < patches.sides[:, place, None]))
    return (inside[0][:, :, None] & inside[1][:, None, :])[:, None]


def _n_cells(maps: Tensor) -> int:
    return maps.shape[2] * maps.shape[3]
