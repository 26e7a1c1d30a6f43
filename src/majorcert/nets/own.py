"""Networks that are not of this package: made by a function that the user allows, and given the colours they know."""

import importlib
import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from majorcert.errors import ModelError
from majorcert.files.untrusted import reason
from majorcert.nets.masked import COLOURS, GREYS

FACTORY = "factory:"
"""Followed by the function that makes a network, "package.module:function"."""
NORMAL = "normal:"
"""Followed by the mean and the spread of the colours that a network expects, "0.5,0.5,0.5/0.25,0.25,0.25"."""
PLACE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def made(name: str, allowed: Sequence[str]) -> nn.Module:
    """The network that a function makes, which is imported and called only if the user allows that very function."""
    factory = check_allowed(name, allowed)
    function = function_of(factory)
    try:
        network = function()
    except Exception as error:  # whatever the user's own code raises
        raise ModelError(f"{factory} makes no network: {type(error).__name__}: {reason(error)}") from error
    if not isinstance(network, nn.Module):
        raise ModelError(f"{factory} returns a torch.nn.Module, got {type(network).__name__}")
    return network


def function_of(name: str) -> Any:
    """The function in "factory:package.module:function", imported and not called."""
    factory = place_of(name)
    module, function = factory.split(":")
    try:
        return getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever the user's own code raises
        raise ModelError(f"{factory} makes no network: {type(error).__name__}: {reason(error)}") from error


def check_allowed(name: str, allowed: Sequence[str]) -> str:
    """The function in "factory:package.module:function", once it is known that the user allows it to be called."""
    factory = place_of(name)
    if factory not in allowed:
        raise ModelError(
            f"this network is made by {factory!r}, and to load it that function is called; if you trust it, allow it "
            f"with --allow-factory {factory} (in Python allow={factory!r})"
        )
    return factory


def place_of(name: str) -> str:
    """The function in "factory:package.module:function", allowed or not."""
    factory = name.removeprefix(FACTORY)
    if PLACE.fullmatch(factory) is None:
        raise ModelError(
            f"a factory is written 'package.module:function', and needs no arguments; got {factory[:80]!r}"
        )
    return factory


class Normal(nn.Module):
    """Gives the inner network the colours of masked views as it knows them: (colour - mean) / spread.

    A hidden pixel has the mean colour of photographs, which is a grey, whatever the inner network expects.
    """

    def __init__(self, inner: nn.Module, mean: Sequence[float], spread: Sequence[float]) -> None:
        super().__init__()
        self.members = nn.ModuleList([inner])
        ours = COLOURS if len(mean) == 3 else tuple(each * len(mean) for each in GREYS)
        colours = [torch.tensor(each, dtype=torch.float64)[:, None, None] for each in (*ours, mean, spread)]
        self.scale: Tensor
        self.shift: Tensor
        self.register_buffer("scale", (colours[1] / colours[3]).float(), persistent=False)
        self.register_buffer("shift", ((colours[0] - colours[2]) / colours[3]).float(), persistent=False)

    def forward(self, views: Tensor) -> Tensor:
        logits: Tensor = self.members[0](views * self.scale + self.shift)
        return logits


def known_colours(
    mean: Sequence[float] | None, spread: Sequence[float] | None, channels: int
) -> tuple[Sequence[float], Sequence[float]]:
    """The colours that a network was trained on; where nobody says, it takes them as they are, from 0 to 1."""
    colours = mean or (0.0,) * channels, spread or (1.0,) * channels
    normal_name(*colours)
    if len(colours[0]) != channels:
        raise ModelError(f"mean and std are of {channels} channels, got {len(colours[0])} numbers")
    return colours


def normal_name(mean: Sequence[float], spread: Sequence[float]) -> str:
    """How a configuration says which colours a network expects."""
    name = NORMAL + "/".join(",".join(repr(float(value)) for value in each) for each in (mean, spread))
    colours_of(name)
    return name


def colours_of(name: str) -> tuple[list[float], list[float]]:
    """The mean and the spread that `normal_name` wrote."""
    try:
        mean, spread = ([float(value) for value in each.split(",")] for each in name.removeprefix(NORMAL).split("/"))
    except ValueError:
        mean, spread = [], []
    known = all(math.isfinite(value) for value in (*mean, *spread))
    if not mean or len(mean) != len(spread) or not known or min(spread) <= 0:
        raise ModelError(f"colours have a mean and a spread above 0, one number for each channel; got {name[:80]!r}")
    return mean, spread


def as_listed(allow: str | Sequence[str]) -> tuple[str, ...]:
    """The functions that are allowed, of one or several."""
    return (allow,) if isinstance(allow, str) else tuple(allow)
