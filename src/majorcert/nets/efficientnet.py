"""EfficientNet-Lite: a network for photographs of 224 to 260 pixels, small enough for a certificate on a laptop."""

import math

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

LITE = {"lite0": (1.0, 1.0), "lite1": (1.0, 1.1), "lite2": (1.1, 1.2)}
"""How much wider and deeper each one is than the plan below."""
SIDES = {"lite0": 224, "lite1": 240, "lite2": 260}
"""Of the images that each was made for."""
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Blocks, side of the kernel, stride of the first block, how much wider a block is inside, channels."""
STEM, HEAD = 32, 1280


def efficientnet(name: str, in_channels: int, n_classes: int, dropout: float = 0.2) -> nn.Module:
    """The network of that name, "lite0", "lite1" or "lite2"."""
    wider, deeper = LITE[name]
    layers: list[nn.Module] = [_layer(in_channels, STEM, 3, 2)]
    n_in = STEM
    for place, (n_blocks, kernel, stride, inside, n_out) in enumerate(STAGES):
        n_out = _rounded(n_out * wider)
        fixed = place in (0, len(STAGES) - 1)
        for block in range(n_blocks if fixed else math.ceil(n_blocks * deeper)):
            layers.append(Block(n_in, n_out, kernel, stride if block == 0 else 1, inside))
            n_in = n_out
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(HEAD, n_classes))
    return nn.Sequential(*layers, _layer(n_in, HEAD, 1, 1), *pool)


class Block(nn.Module):
    """Widen, look around each channel by itself, narrow again; with a shortcut where the shape stays."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, inside: int) -> None:
        super().__init__()
        wide = n_in * inside
        self.body = nn.Sequential(
            *(_layer(n_in, wide, 1, 1) if inside > 1 else nn.Sequential()),
            *_layer(wide, wide, kernel, stride, groups=wide),
            *list(_layer(wide, n_out, 1, 1))[:-1],
        )
        self.short = stride == 1 and n_in == n_out

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.body(features)
        return result.add_(features) if self.short else result


class Same(nn.Module):
    """Zeros around, so that a stride of n gives every n-th place of the input; what is odd goes right and below."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride

    def forward(self, features: Tensor) -> Tensor:
        down, across = (max(self.kernel - (side % self.stride or self.stride), 0) for side in features.shape[2:])
        return F.pad(features, (across // 2, across - across // 2, down // 2, down - down // 2))


def _layer(n_in: int, n_out: int, kernel: int, stride: int, groups: int = 1) -> nn.Sequential:
    """Convolution, normalisation and ReLU; a stride that is not 1 needs its own padding."""
    padding = 0 if stride > 1 else kernel // 2
    convolution = nn.Conv2d(n_in, n_out, kernel, stride, padding, groups=groups, bias=False)
    parts = (convolution, nn.BatchNorm2d(n_out, eps=1e-3, momentum=0.01), nn.ReLU6(inplace=True))
    return nn.Sequential(*((Same(kernel, stride),) if stride > 1 else ()), *parts)


def _rounded(n_channels: float) -> int:
    """The nearest multiple of eight, but not less than nine tenths."""
    nearest = max(8, int(n_channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * n_channels else nearest
