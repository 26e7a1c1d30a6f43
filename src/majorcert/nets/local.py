"""A local-feature network (BagNet shape): one pass over an image gives the class evidence of every small field of it.

A cell of the map must see its field and nothing else. So each convolution is 3 pixels long only while the field has
room for it, and 1 afterwards; nothing pools over space but the mean along a side that the field has all of.
"""

import re
from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.errors import ModelError
from majorcert.nets.resnet import Stride

LOCAL = "local:"
THIN = 4
"""While it learns, a network of bands looks at every so many of them, from any on: neighbours show nearly the same."""
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

    One of length 3 makes the field longer by two steps of the map that it reads. First the stem and the beginning of
    every stage get it, then whoever comes next, until the field is as long as it is to be.
    """
    steps = [1, *accumulate(strides, mul)]
    reads = [1, *(steps[k] if i == 0 else steps[k + 1] for k, n in enumerate(blocks) for i in range(2 * n))]
    begins = [0, *accumulate((2 * n for n in blocks[:-1]), initial=1)]
    found, left = [1] * len(reads), length - 1
    for place in [*begins, *(place for place in range(len(reads)) if place not in begins)]:
        if not length or 2 * reads[place] <= left:
            found[place], left = 3, left - 2 * reads[place]
    if length and left:
        raise ModelError(
            f"convolutions of 3 with strides {list(strides)} make no field of {length} pixels; try another"
        )
    return found


class LocalNetwork(nn.Module):
    """From (N, channels, H, W) images to a map of logits, (N, classes, rows, columns)."""

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
        self.whole = [axis for axis, length in zip((2, 3), field, strict=True) if not length]
        self.along = 5 - self.whole[0] if len(self.whole) == 1 else 0
        """the axis that bands lie side by side on, if they are bands"""
        self.mixed = _mixed(self.along - 2, blocks, strides, sizes)
        kernel = iter(sizes)
        parts = [*_convolution(in_channels, width, next(kernel)), nn.ReLU(inplace=True)]
        n_in = width
        for stage, (n_blocks, stride) in enumerate(zip(blocks, strides, strict=True)):
            n_out = width * min(2**stage, WIDEST)
            for block in range(n_blocks):
                first, second = next(kernel), next(kernel)
                parts.append(LocalBlock(n_in, n_out, first, second, stride if block == 0 else (1, 1)))
                n_in = n_out
        self.features = nn.Sequential(*parts)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Conv2d(n_in, n_classes, 1))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.head[1].weight)  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> Tensor:
        features = images
        for place, part in enumerate(self.features, start=1):
            features = part(features)
            if self.training and self.along and place == self.mixed:
                features = _thinned(features, self.along)
        logits: Tensor = self.head(features.mean(dim=self.whole, keepdim=True) if self.whole else features)
        return logits


def _mixed(
    axis: int, blocks: Sequence[int], strides: Sequence[tuple[int, int]], sizes: Sequence[tuple[int, int]]
) -> int:
    """So many parts (three of the stem, then blocks) there are until no more looks beyond its own place on an axis."""
    steps = [stride if i == 0 else (1, 1) for n, stride in zip(blocks, strides, strict=True) for i in range(n)]
    mixing = [
        block
        for block, step in enumerate(steps, start=1)
        if step[axis] > 1 or sizes[2 * block - 1][axis] > 1 or sizes[2 * block][axis] > 1
    ]
    return 3 + max(mixing, default=0)


def _thinned(features: Tensor, axis: int) -> Tensor:
    """Every THIN-th place on an axis, from a random one on; in memory by pixels, as convolutions on GPUs like it."""
    places = torch.arange(features.shape[axis] // THIN, device=features.device) * THIN
    if not len(places):
        return features
    places = places + torch.randint(THIN, (), device=features.device)
    return features.permute(0, 2, 3, 1).index_select(axis - 1, places).permute(0, 3, 1, 2)


class LocalBlock(nn.Module):
    """Two convolutions around a shortcut, each as long as it may be."""

    def __init__(
        self, n_in: int, n_out: int, first: tuple[int, int], second: tuple[int, int], stride: tuple[int, int]
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(n_in, n_out, first, stride), nn.ReLU(inplace=True), *_convolution(n_out, n_out, second)
        )
        self.shortcut: nn.Module = nn.Identity()
        if n_in != n_out or stride != (1, 1):
            self.shortcut = nn.Sequential(*_convolution(n_in, n_out, (1, 1), stride))

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(self.body(features) + self.shortcut(features), inplace=True)


def _convolution(
    n_in: int, n_out: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)
) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    padding = kernel[0] // 2, kernel[1] // 2
    return nn.Conv2d(n_in, n_out, kernel, stride=stride, padding=padding, bias=False), nn.BatchNorm2d(n_out)
