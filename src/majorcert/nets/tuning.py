"""Training that begins with a network of the user's own, from its own weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from majorcert.defences.bounds import Sizes
from majorcert.errors import ModelError
from majorcert.nets.config import TrainConfig
from majorcert.nets.models import ModelConfig, foreign
from majorcert.nets.own import FACTORY, Normal, made, normal_name, place_of

GENTLE = {"epochs": 10, "lr": 0.01, "warmup": 1, "ema_decay": 0.99}
"""What a network that has learned before is trained by, where nothing else is said."""


@dataclass(frozen=True, eq=False)
class Own:
    """A network to learn further, and the function that makes such a one when it is loaded again."""

    network: nn.Module
    factory: str
    colours: tuple[Sequence[float], Sequence[float]] | None
    """mean and spread of the colours that it knows, if they are not from 0 to 1"""

    @classmethod
    def of(cls, model: Any, factory: str | None, mean: Any, std: Any) -> "Own | None":
        """Of a torch module or "factory:package.module:function", which is called; None of the name of a network."""
        colours = None if mean is None and std is None else (mean, std)
        if isinstance(model, str) and model.startswith(FACTORY):
            place = place_of(model)
            return cls(made(model, [place]), place, colours)
        if model is None or isinstance(model, str):
            return None
        if not isinstance(model, nn.Module) or factory is None:
            raise ModelError(
                "a network of your own is a torch module, and comes with the function that makes such a one, so that "
                f"it can be loaded again: factory='package.module:function'; got {type(model).__name__} and {factory!r}"
            )
        return cls(model, place_of(factory), colours)

    def begun(self, config: TrainConfig, channels: int) -> tuple[TrainConfig, nn.Module]:
        """The configuration with this network in place of the recipe's, and what the training begins with."""
        if isinstance(config.strategy, Sizes):
            raise ModelError("bounds are computed through networks of this package alone; use views or masks")
        kind = config.model.in_channels, config.model.n_classes
        own = foreign(self.factory, *kind)
        if config.view != "masked":
            return replace(config, model=own), self.network
        colours = self.colours or ((0.0,) * channels, (1.0,) * channels)
        masked = ModelConfig(normal_name(*colours), *kind, members=(own,))
        return replace(config, model=masked), Normal(self.network, *colours)
