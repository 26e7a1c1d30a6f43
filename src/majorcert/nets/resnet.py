"""A residual network whose width, depth, stem and strides are parameters; the ResNet-18 shape by default."""

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.errors import ModelError

Stride = int | tuple[int, int]
"""One step for both sides, or (down, across): (1, 2) halves the width alone, as suits a view of few rows."""


def resnet(
    in_channels: int,
    n_classes: int,
    width: int = 64,
    blocks: tuple[int, ...] = (2, 2, 2, 2),
    stem: str = "3x3",
    strides: tuple[Stride, ...] = (1, 2, 2, 2),
    dropout: float = 0.0,
) -> nn.Module:
    """A network of `blocks[k]` basic blocks in stage k, which is `width * 2**k` channels wide.

    Any window works: a 3x3 convolution of stride 2 takes a side of n to ceil(n / 2), so never below 1. A window 4
    rows high ends 1 row high with the usual strides, and its deepest blocks see whole columns; give a stage the
    stride (1, 2) to keep its rows. The stem "7x7" (stride 4 in all, as for ImageNet) suits views of 100 pixels or more.
    """
    if not blocks or len(blocks) != len(strides) or min(blocks) < 1:
        raise ModelError(f"a ResNet has blocks and one stride in each stage, got blocks {blocks} and strides {strides}")
    if any(step < 1 for stride in strides for step in (stride if isinstance(stride, tuple) else (stride,))):
        raise ModelError(f"a stride is 1 or more, got {strides}")
    stages: list[nn.Module] = []
    n_in = width
    for stage, (n_blocks, stride) in enumerate(zip(blocks, strides, strict=True)):
        n_out = width * 2**stage
        for block in range(n_blocks):
            stages.append(BasicBlock(n_in, n_out, stride if block == 0 else 1))
            n_in = n_out
    network = nn.Sequential(
        _stem(stem, in_channels, width),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(n_in, n_classes),
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, n_in: int, n_out: int, stride: Stride) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(inplace=True),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.shortcut: nn.Module = nn.Identity()
        if n_in != n_out or stride not in (1, (1, 1)):
            self.shortcut = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(self.body(features) + self.shortcut(features), inplace=True)


def _stem(stem: str, in_channels: int, width: int) -> nn.Module:
    if stem == "3x3":
        convolution = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True))
    if stem == "7x7":
        convolution = nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)
        pool = nn.MaxPool2d(3, stride=2, padding=1)
        return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True), pool)
    raise ModelError(f"the stem of a ResNet is '3x3' or '7x7', got {stem!r}")
