"""Interval bounds by their definition: the whole image through every layer, with every pixel under a patch free."""

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.nets.ibp import SCALE, IntervalNet, Span, activated_span, lowest_leads, scaled


def hidden(images: Tensor, under: Tensor, share: Tensor | float = 1.0) -> Span:
    """The pixels of images; those `under` the patch, (images, 1, H, W) 1 or 0, may be anything from black to white.

    Args:
        share: of the whole range, 0 to 1: with less than 1 they may move by so much only.
    """
    free = under * share
    return Span(scaled(images) * (1 - free), (free * (SCALE / 2)).expand_as(images))


def leads(network: IntervalNet, span: Span, labels: Tensor) -> Tensor:
    """(images, classes) by how much at least the logit of each image's label exceeds each other one."""
    for layer, ends in network.layers:
        radius = F.conv2d(span.radius, layer.weight.abs(), None, layer.stride, layer.padding)
        span = activated_span(Span(layer(span.centre), radius), ends)
    return lowest_leads(network.last, Span(*(each.mean(dim=(2, 3)) for each in span)), labels)
