"""Weights in fewer bits than they were learned in: what is loaded, and so what votes, is what is kept."""

from collections.abc import Mapping
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from majorcert.errors import ModelError

Bits = Literal[32, 16, 8]
"""Of a weight in a file: as it was learned, a half float, or a whole number."""
UNIT = ".unit"
"""Beside whole numbers: what one of them is worth, in each output channel."""
MOST = 127
"""The largest whole number."""
LEAST = 1e-30
"""A channel of smaller weights than this is one of zeros."""


def state_of(network: nn.Module) -> dict[str, Tensor]:
    """All that makes a network what it is, on the CPU, each tensor in memory of its own."""
    state = network.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ModelError(f"{name!r} in the state of the network is no tensor, and only these are kept")
    return {name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in state.items()}


def compact(network: nn.Module, bits: Bits) -> dict[str, Tensor]:
    """The state of a network as it is kept; in 8 bits, all but what it learned for output channels stays as it is."""
    if bits not in get_args(Bits):
        raise ModelError(f"weights are kept in {', '.join(map(str, get_args(Bits)))} bits, got {bits}")
    kept = state_of(network)
    if bits == 16:
        return {name: _halved(name, value) if value.is_floating_point() else value for name, value in kept.items()}
    for name, weight in network.named_parameters(remove_duplicate=False) if bits == 8 else ():
        if weight.dim() > 1 and weight.numel() and weight.is_floating_point() and name in kept:
            kept |= _in_units(name, kept[name].float())
    return kept


def restored(kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state to calculate with, of one that `compact` keeps; refuses units that are not what it writes."""
    counted = [name for name, weight in kept.items() if weight.dtype is torch.int8 and name + UNIT in kept]
    weights = {name: _weighed(name, kept[name], kept[name + UNIT]) for name in counted}
    units = {name + UNIT for name in counted}
    return {name: weights.get(name, weight) for name, weight in kept.items() if name not in units}


def _halved(name: str, value: Tensor) -> Tensor:
    half = value.half()
    if not torch.equal(half.isfinite(), value.isfinite()):
        raise ModelError(f"{name!r} has numbers that are too large to be kept in 16 bits")
    return half


def _in_units(name: str, weight: Tensor) -> dict[str, Tensor]:
    """The nearest whole numbers of weights, and what one is worth."""
    if not weight.isfinite().all():
        raise ModelError(f"{name!r} has weights that are not finite, which cannot be kept in 8 bits")
    largest = weight.flatten(1).abs().amax(dim=1)
    unit = torch.where(largest >= LEAST, largest / MOST, 1.0)
    return {name: (weight / _beside(unit, weight)).round().to(torch.int8), name + UNIT: unit}


def _weighed(name: str, weight: Tensor, unit: Tensor) -> Tensor:
    fits = unit.dtype is torch.float32 and weight.dim() > 1 and unit.shape == weight.shape[:1]
    if not fits or not ((unit > 0) & unit.isfinite()).all():
        raise ModelError(f"{name + UNIT!r} is not one number above 0 for each output channel of {name!r}")
    return weight * _beside(unit, weight)


def _beside(unit: Tensor, weight: Tensor) -> Tensor:
    """One number for each output channel, in the shape that goes with the weights."""
    return unit.view(-1, *[1] * (weight.dim() - 1))
