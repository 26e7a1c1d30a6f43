"""Training recipes by name: plain functions from a strategy to a configuration."""

from majorcert.errors import ModelError
from majorcert.nets.augment import Augment
from majorcert.nets.config import TrainConfig
from majorcert.nets.models import ModelConfig
from majorcert.nets.views import in_channels
from majorcert.strategies import Strategy, strategy

DIGITS_STRATEGIES = ("rows:2", "columns:2", "blocks:4")
"""For 8x8 images."""
PAPER_STRATEGIES = ("rows:4", "columns:4", "blocks:12")
"""For 32x32 images."""


def digits(cut: Strategy, channels: int = 1, n_classes: int = 10) -> TrainConfig:
    """For tiny images on a CPU: some seconds for each defender."""
    return TrainConfig(
        strategy=cut,
        view="crop",
        model=ModelConfig("small", in_channels("crop", channels), n_classes, width=24),
        epochs=40,
        batch_size=64,
        lr=0.1,
        ema_decay=0.99,
        warmup=1,
    )


def paper(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As the MajorCert paper trains its defenders."""
    return TrainConfig(
        strategy=cut,
        view="canvas",
        model=ModelConfig("resnet", in_channels("canvas", channels), n_classes),
        epochs=450,
        batch_size=128,
        lr=0.1,
        milestones=(150, 250, 350),
        augment=Augment(shift=4, fill="zero", flip=True),
    )


def best(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """Crop views, a cosine schedule and averaged weights."""
    return TrainConfig(
        strategy=cut,
        view="crop",
        model=ModelConfig("resnet", in_channels("crop", channels), n_classes),
        epochs=150,
        batch_size=512,
        lr=0.2,
        ema_decay=0.999,
        warmup=5,
        augment=Augment(shift=4, flip=True),
    )


RECIPES = {"best": best, "digits": digits, "paper": paper}


def recipe(name: str, spec: str, channels: int, n_classes: int) -> TrainConfig:
    """The configuration of a named recipe for a strategy spec and a kind of data."""
    if name not in RECIPES:
        raise ModelError(f"there is no recipe {name!r}; use one of {', '.join(RECIPES)}")
    return RECIPES[name](strategy(spec), channels, n_classes)
