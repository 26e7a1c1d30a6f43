"""What `train` is about to do: how each defender learns, and which networks it begins with and learns from."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from majorcert.files.asked_patches import blamed, is_of_photo, read_patches
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.defaults import scaled_apart, suited
from majorcert.nets.estimate import duration, seconds_of
from majorcert.nets.mirrors import mirrored_classes
from majorcert.nets.models import factories_in
from majorcert.nets.own import as_listed
from majorcert.nets.recipes import adapted, recipe_for, strategies_of
from majorcert.nets.recipes import recipe as named
from majorcert.nets.teaching import teachers
from majorcert.nets.tuning import GENTLE, Own
from majorcert.nets.validation import PATCH

Told = Callable[[str], None]
SHOWN = 5
"""Pairs of classes that the mirror may confuse, of which each is named."""


class Planned(NamedTuple):
    """How one defender learns."""

    config: TrainConfig
    networks: dict[str, Any]  # what it begins with, "start", and what it learns from, "teacher", if any


def plan(
    data: Dataset,
    device: torch.device,
    *,
    strategies: Sequence[str] | None,
    recipe: str | None,
    patches: Sequence[str],
    own: Own | None,
    teacher: str | Path | None,
    allow: str | Sequence[str],
    told: Told,
    **changes: Any,
) -> list[Planned]:
    """One for each strategy, or for each of those that the recipe is for; arguments as for `train`."""
    against = [str(patch) for patch in read_patches(patches, data.image_size, data.photos)]
    for patch, size in zip(patches, against, strict=True):
        if is_of_photo(patch):
            of = f"{data.image_size[0]}x{data.image_size[1]} pixels"
            told(f"{patch}: at most {size} of {of}{blamed(patch, data.image_size, data.photos)}")
    chosen = recipe or ("masking" if patches and not strategies else recipe_for(strategies or [], data.image_size))
    specs = strategies
    if not specs:
        specs = scaled_apart(strategies_of(chosen, against), data.image_size, chosen, patch_given=bool(patches))
    configs = [named(chosen, spec, data.channels, data.n_classes) for spec in specs]
    if recipe is None:
        configs = [suited(config, data.image_size, len(data), device) for config in configs]
    if own is not None:
        changes = {**GENTLE, **{key: value for key, value in changes.items() if value is not None}}
    plans = [Planned(adapted(config, data.channels, **changes), {}) for config in configs]
    if own is not None:
        begun = [own.begun(each.config, data) for each in plans]
        plans = [Planned(config, {"start": network}) for config, network in begun]
    if teacher is not None:
        taught = teachers(Path(teacher), [each.config for each in plans], data, as_listed(allow))
        plans = [
            each._replace(networks={**each.networks, "teacher": by}) for each, by in zip(plans, taught, strict=True)
        ]
    return plans


def tell_plan(plans: Sequence[Planned], data: Dataset, validation: Dataset | None, device: Any, told: Told) -> None:
    """What is trained, about how long it takes, and what of the images is in the way."""
    first, names = plans[0].config, ", ".join(str(each.config.strategy) for each in plans)
    own = ", ".join(factories_in(first.model))
    network, knobs = (own, "") if own else (f"{first.model.name} of width {first.model.width}", ", --width")
    epochs = f"{first.epochs} epoch{'s' * (first.epochs > 1)}"
    told(
        f"{names}: {network}, {epochs} of {len(data):,} images of "
        f"{data.image_size[0]}x{data.image_size[1]} in batches of {first.batch_size}, on {device.type}"
    )
    seconds = sum(seconds_of(each.config, data, device, validation, **each.networks) for each in plans)
    told(f"this takes about {duration(seconds)}, by steps that were timed; --epochs{knobs} and --size change it")
    if validation and (why := blamed(PATCH, data.image_size, validation.photos)):
        told(f"{PATCH} of each validation photo is much of what the networks see{why}")
    if first.augment.flip:
        for left, right in mirrored_classes(data)[:SHOWN]:
            told(f"in the mirror {left!r} looks like {right!r}, and images are flipped: train with --no-flip")
