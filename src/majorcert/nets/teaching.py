"""Networks that others learn from: what many say of a view together, one can learn to say alone."""

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from majorcert.core.regions import Strategy
from majorcert.defences.bounds import Sizes
from majorcert.errors import ModelError
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.ensemble_file import member_folders, resolved


def known_teachers(run: Path) -> dict[Path, Blueprint]:
    """What is in a run, or in the members of an ensemble, to learn from."""
    return {folder: Blueprint.read(folder) for folder in member_folders(resolved(run))}


def teachers(run: Path, configs: Sequence[TrainConfig], data: Dataset, allowed: Sequence[str]) -> list[nn.Module]:
    """The network that each configuration is to learn from: the run's own, or of an ensemble its members in turn."""
    known = known_teachers(run)
    if len(known) != len(configs):
        raise ModelError(f"to learn from, {run} has {len(known)}, and to train there are {len(configs)}")
    for (folder, blueprint), config in zip(known.items(), configs, strict=True):
        _check(folder, blueprint, config, data)
    return [blueprint.network(folder, allowed) for folder, blueprint in known.items()]


def _check(folder: Path, teacher: Blueprint, config: TrainConfig, data: Dataset) -> None:
    """Refuse a teacher of other views; through which masks it looks does not matter."""
    if isinstance(config.strategy, Sizes):
        raise ModelError(f"bounds are not learned from a teacher, got {config.strategy}")
    wanted: dict[str, object] = {"view": config.view, "image_size": data.image_size, "channels": data.channels}
    wanted["class_names"] = data.class_names
    if isinstance(config.strategy, Strategy):
        wanted["strategy"] = config.strategy
    for fact, expected in wanted.items():
        if (found := getattr(teacher, fact)) != expected:
            raise ModelError(f"{folder} cannot teach this: its {fact} is {found}, and here it is {expected}")
