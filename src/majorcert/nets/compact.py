"""Weights in fewer bits than they were learned in: what is loaded, and so what votes, is what is kept."""

from collections.abc import Mapping
from typing import Literal, get_args

import torch
from torch import Tensor

from majorcert.errors import ModelError

Bits = Literal[32, 16, 8]
"""Of a weight in a file: as it was learned, a half float, or a whole number."""
UNIT = ".unit"
"""Beside whole numbers: what one of them is worth, in each output channel."""
MOST = 127
"""The largest whole number."""


def compact(weights: Mapping[str, Tensor], bits: Bits) -> dict[str, Tensor]:
    """The weights as they are kept; in 8 bits, what has no output channels of several numbers stays as it is."""
    if bits not in get_args(Bits):
        raise ModelError(f"weights are kept in {', '.join(map(str, get_args(Bits)))} bits, got {bits}")
    learned = {name: weight for name, weight in weights.items() if weight.is_floating_point()}
    if bits == 16:
        return {**weights, **{name: weight.half() for name, weight in learned.items()}}
    kept = dict(weights)
    for name, weight in learned.items():
        if bits == 8 and weight.dim() > 1:
            largest = weight.float().flatten(1).abs().amax(dim=1)
            kept[name + UNIT] = unit = torch.where(largest > 0, largest / MOST, 1.0)
            kept[name] = (weight / _beside(unit, weight)).round().to(torch.int8)
    return kept


def restored(kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights to calculate with, of those that `compact` keeps."""
    counted = [name for name, weight in kept.items() if weight.dtype is torch.int8 and name + UNIT in kept]
    weights = {name: kept[name] * _beside(kept[name + UNIT], kept[name]) for name in counted}
    units = {name + UNIT for name in counted}
    return {name: weights.get(name, weight) for name, weight in kept.items() if name not in units}


def _beside(unit: Tensor, weight: Tensor) -> Tensor:
    """One number for each output channel, in the shape that goes with the weights."""
    return unit.view(-1, *[1] * (weight.dim() - 1))
