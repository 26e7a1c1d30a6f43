"""Interval bound propagation: a small network of local features, and what it says while some pixels may be anything.

An interval is kept as its centre and its radius. A linear layer takes the centre as it takes any image, and the radius
by the absolute values of its weights; a function that never falls takes both ends. The difference of two logits is
one linear function of the last features, so the last layer is bounded together with the difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from majorcert.errors import ModelError

SCALE = 4.0
"""The network sees a pixel of 0 to 1 as -SCALE / 2 to SCALE / 2."""
MOST = 12.0
"""The range of the features that are averaged: their mean moves little, and less would be slow to learn from."""


@dataclass(frozen=True)
class Widening:
    """How intervals grow while a network learns: from nothing to all that a pixel can be."""

    begins: float = 0.05
    ends: float = 0.6
    """the shares of the training between which they grow"""
    clean: float = 0.1
    """the share of the plain loss once they are whole; the rest is the loss of the worst case"""
    tried: int = 1
    """so many rows and columns of placements are tried for each image, and the one with the worst bounds is learned
    from: one is drawn in each part of the image"""
    tried_from: float = 0.6
    """from this share of the training on; one placement is tried until then"""
    sparing: float = 0.0
    """above 0, images whose worst case is hopeless count for less: the loss of a probability p is (1 - p**sparing) /
    sparing instead of -log(p)"""

    def __post_init__(self) -> None:
        shares = self.clean, self.tried_from, self.sparing
        if not (0 <= self.begins < self.ends <= 1 <= self.tried and min(shares) >= 0 and max(shares) <= 1):
            raise ModelError(
                "intervals grow from a share of the training to a later one; all shares are from 0 to 1, "
                f"tried is 1 or more; got {self}"
            )

    def at(self, done: float) -> tuple[float, float]:
        """How wide they are, and the share of the plain loss, when so much of the training is done."""
        width = min(max((done - self.begins) / (self.ends - self.begins), 0.0), 1.0)
        return width, 1 - (1 - self.clean) * min(done / self.ends, 1.0)


class Span(NamedTuple):
    """Intervals: everything that is not further from the centre than the radius."""

    centre: Tensor
    radius: Tensor

    def ends(self) -> tuple[Tensor, Tensor]:
        return self.centre - self.radius, self.centre + self.radius

    def float(self) -> "Span":
        return Span(self.centre.float(), self.radius.float())


class IntervalNet(nn.Module):
    """Convolutions that see a few pixels each, the mean of their features over the image, and a linear layer.

    The features that are averaged have a least and a largest value, so that a patch cannot make much of the few that
    see it.
    """

    def __init__(self, in_channels: int, n_classes: int, width: int = 64, strides: tuple[int, ...] = (1, 2, 1)) -> None:
        """Args: strides: of the 3x3 convolutions; what they see, 1x1 convolutions make more of."""
        super().__init__()
        widths = [in_channels, width, *[2 * width] * (len(strides) - 1), 4 * width, 4 * width]
        sides = [*((3, stride) for stride in strides), (1, 1), (1, 1)]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(n_in, n_out, side, stride, padding=side // 2)
            for (n_in, n_out), (side, stride) in zip(pairwise(widths), sides, strict=True)
        )
        self.last = nn.Linear(4 * width, n_classes)

    @property
    def layers(self) -> Iterator[tuple[nn.Conv2d, bool]]:
        """Each convolution, and whether its features are those that are averaged."""
        for place, layer in enumerate(self.convolutions, start=1):
            assert isinstance(layer, nn.Conv2d)
            yield layer, place == len(self.convolutions)

    @property
    def stride(self) -> int:
        """Pixels from one cell of the last features to the next."""
        return prod(layer.stride[0] for layer, _ in self.layers)

    def forward(self, images: Tensor) -> Tensor:
        """(images, classes) logits of images from 0 to 1."""
        features = scaled(images)
        for layer, ends in self.layers:
            features = activated(layer(features), ends)
        return self.last(features.mean(dim=(2, 3)))


def scaled(images: Tensor) -> Tensor:
    """Pixels of 0 to 1 as the network sees them."""
    return (images - 0.5) * SCALE


def activated(features: Tensor, ends: bool) -> Tensor:
    return (features / 2).tanh() * (MOST / 2) if ends else features.relu()


def activated_span(span: Span, ends: bool) -> Span:
    """Of a function that never falls, what its ends become."""
    low, high = (activated(end, ends) for end in span.ends())
    return Span((high + low) / 2, (high - low) / 2)


def lowest_leads(last: nn.Linear, span: Span, labels: Tensor) -> Tensor:
    """(N, classes) the least of logit of label - logit of each class, over all features in the (N, features) span."""
    weight = last.weight[labels][:, None] - last.weight
    bias = last.bias[labels][:, None] - last.bias
    centre = torch.einsum("ncf,nf->nc", weight, span.centre)
    return centre + bias - torch.einsum("ncf,nf->nc", weight.abs(), span.radius)
