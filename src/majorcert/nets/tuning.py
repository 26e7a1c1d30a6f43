"""Training that begins with a network of the user's own, from its own weights."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from majorcert.core.regions import Strategy
from majorcert.errors import ModelError
from majorcert.nets.company import check_company
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.models import ModelConfig, foreign
from majorcert.nets.own import FACTORY, Normal, known_colours, made, normal_name, place_of
from majorcert.nets.views import VIEWS, view_size

GENTLE = {"epochs": 10, "lr": 0.01, "warmup": 1, "ema_decay": 0.99}
"""What a network that has learned before is trained by, where nothing else is said."""


@dataclass(frozen=True, eq=False)
class Own:
    """A network to learn further, and the function that makes such a one when it is loaded again."""

    network: nn.Module
    factory: str
    mean: Sequence[float] | None
    std: Sequence[float] | None  # of the colours that it knows, if they are not from 0 to 1

    @classmethod
    def of(cls, model: Any, factory: str | None, mean: Any, std: Any) -> "Own | None":
        """Of a torch module or "factory:package.module:function", which is called; None of the name of a network."""
        if isinstance(model, str) and model.startswith(FACTORY):
            place = place_of(model)
            return cls(made(model, [place]), place, mean, std)
        if model is None or isinstance(model, str):
            return None
        if not isinstance(model, nn.Module) or factory is None:
            raise ModelError(
                "a network of your own is a torch module, and comes with the function that makes such a one, so that "
                f"it can be loaded again: factory='package.module:function'; got {type(model).__name__} and {factory!r}"
            )
        return cls(model, place_of(factory), mean, std)

    def begun(self, config: TrainConfig, data: Dataset) -> tuple[TrainConfig, nn.Module]:
        """The configuration with this network in place of the recipe's, and what the training begins with."""
        kind, size = (config.model.in_channels, config.model.n_classes), data.image_size
        own = foreign(self.factory, *kind)
        if config.view == "masked":
            colours = known_colours(self.mean, self.std, data.channels)
            masked = ModelConfig(normal_name(*colours), *kind, members=(own,))
            self._check(network := Normal(self.network, *colours), (*kind, *size))
            return replace(config, model=masked), network
        if not isinstance(config.strategy, Strategy) or config.view not in VIEWS:
            raise ModelError(f"a network of your own learns on views or masks, not by {config.strategy}")
        self._check(self.network, (*kind, *view_size(config.strategy, config.view, size)))
        return replace(config, model=own), self.network

    def _check(self, network: nn.Module, kind: tuple[int, int, int, int]) -> None:
        """Refuse a network that cannot take views of this many channels, or tells other classes apart."""
        channels, n_classes, *size = kind
        with torch.inference_mode():
            found = check_company(copy.deepcopy(network).cpu().eval(), (channels, size[0], size[1]), 4, torch.zeros(()))
        if found != n_classes:
            raise ModelError(f"{self.factory} tells {found} classes apart, and the images have {n_classes}")
