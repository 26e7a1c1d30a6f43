"""A local-feature network (BagNet shape): one pass over an image gives the class evidence of every small field of it.

A cell of the map must see its field and nothing else. So the image gets a margin of zeros once, and along a side of
which a field is a part no convolution adds another: what a cell says of a field is what the network says of that
window alone. That is how it learns, too: from one window of each image, another one every time.
"""

import re
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.errors import ModelError
from majorcert.nets.resnet import Stride

LOCAL = "local:"
WIDEST = 4
"""So many times as wide as the first stage is the widest."""


def local(
    name: str,
    in_channels: int,
    n_classes: int,
    width: int,
    blocks: tuple[int, ...],
    strides: tuple[Stride, ...],
    dropout: float = 0.0,
) -> "LocalNetwork":
    """A network whose map has a cell for each field of the size that its name ends with, height x width.

    "local:11" sees 11x11 pixels; "local:0x5" all rows of 5 columns: 0 is a side of which the field has all, along which
    everything may mix, and of which the mean is taken in the end.
    """
    match = re.fullmatch(LOCAL + r"(\d{1,4})(?:x(\d{1,4}))?", name)
    if match is None:
        raise ModelError(f"a local network is called such as 'local:11' or 'local:0x5', got {name[:40]!r}")
    if not blocks or len(blocks) != len(strides) or min(blocks) < 1:
        raise ModelError(f"a local network has blocks and a stride in each stage, got {blocks} and {strides}")
    field = int(match[1]), int(match[2] or match[1])
    steps = [stride if isinstance(stride, tuple) else (stride, stride) for stride in strides]
    down, across = (kernels(length, blocks, [each[axis] for each in steps]) for axis, length in enumerate(field))
    sizes = list(zip(down, across, strict=True))
    return LocalNetwork(in_channels, n_classes, width, blocks, steps, sizes, field, dropout)


def kernels(length: int, blocks: Sequence[int], strides: Sequence[int]) -> list[int]:
    """How long each convolution is along one side: of the stem, and of the two in each block.

    Of a side that a field has all of, 3. Else all are 1 at first, and in turn the stem and the beginning of every stage
    becomes longer by one, which makes the field longer by a step of the map that it reads; until that is long enough.
    """
    steps = [1, *accumulate(strides, mul)]
    reads = {0: 1} | dict(zip(accumulate((2 * n for n in blocks[:-1]), initial=1), steps, strict=False))
    found, left = [1 if length else 3] * (1 + 2 * sum(blocks)), max(length - 1, 0)
    while left:
        for place, step in reads.items():
            if step <= left:
                found[place], left = found[place] + 1, left - step
    return found


class LocalNetwork(nn.Module):
    """From (N, channels, H, W) images to a map of logits, (N, classes, rows, columns); in training, of one cell."""

    def __init__(
        self,
        in_channels: int,
        n_classes: int,
        width: int,
        blocks: Sequence[int],
        strides: Sequence[tuple[int, int]],
        sizes: Sequence[tuple[int, int]],
        field: tuple[int, int],
        dropout: float,
    ) -> None:
        super().__init__()
        self.field, self.steps = field, [prod(each) for each in zip(*strides, strict=True)]
        self.whole = [axis for axis, length in zip((2, 3), field, strict=True) if not length]
        kernel = iter(sizes)
        parts = [*_convolution(in_channels, width, next(kernel), (1, 1), field), nn.ReLU(inplace=True)]
        n_in = width
        for stage, (n_blocks, stride) in enumerate(zip(blocks, strides, strict=True)):
            n_out = width * min(2**stage, WIDEST)
            for block in range(n_blocks):
                first, second = next(kernel), next(kernel)
                parts.append(LocalBlock(n_in, n_out, first, second, stride if block == 0 else (1, 1), field))
                n_in = n_out
        self.features = nn.Sequential(*parts)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Conv2d(n_in, n_classes, 1))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.head[1].weight)  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> Tensor:
        (above, below), (left, right) = (((n - 1) // 2, n // 2) if n else (0, 0) for n in self.field)
        seen = F.pad(images, (left, right, above, below))
        if self.training:
            seen = windows(seen, self.field, self.steps)
        features = self.features(seen)
        logits: Tensor = self.head(features.mean(dim=self.whole, keepdim=True) if self.whole else features)
        return logits


def windows(images: Tensor, field: tuple[int, int], steps: Sequence[int]) -> Tensor:
    """Of each image the window that one cell sees, drawn by lot; a field of 0 has all of a side."""
    for axis, length, step in zip((2, 3), field, steps, strict=True):
        if length:
            n_cells = (images.shape[axis] - length) // step + 1
            first = step * torch.randint(n_cells, (len(images), 1), device=images.device)
            places = first + torch.arange(length, device=images.device)
            images = images.take_along_dim(places[:, None, :, None] if axis == 2 else places[:, None, None], dim=axis)
    return images


class LocalBlock(nn.Module):
    """Two convolutions, each as long as it may be, around a shortcut that is as long as both together."""

    def __init__(
        self,
        n_in: int,
        n_out: int,
        first: tuple[int, int],
        second: tuple[int, int],
        stride: tuple[int, int],
        field: tuple[int, int],
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(n_in, n_out, first, stride, field),
            nn.ReLU(inplace=True),
            *_convolution(n_out, n_out, second, (1, 1), field),
        )
        down, across = (
            a + step * (b - 1) if part else 1 for a, b, step, part in zip(first, second, stride, field, strict=True)
        )
        self.shortcut: nn.Module = nn.Identity()
        if n_in != n_out or (down, across, *stride) != (1, 1, 1, 1):
            self.shortcut = nn.Sequential(*_convolution(n_in, n_out, (down, across), stride, field))

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(self.body(features) + self.shortcut(features), inplace=True)


def _convolution(
    n_in: int, n_out: int, kernel: tuple[int, int], stride: tuple[int, int], field: tuple[int, int]
) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """With a margin of its own along a side that the field has all of, and there alone."""
    down, across = (0 if part else length // 2 for length, part in zip(kernel, field, strict=True))
    return nn.Conv2d(n_in, n_out, kernel, stride=stride, padding=(down, across), bias=False), nn.BatchNorm2d(n_out)
