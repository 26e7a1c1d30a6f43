"""How long a training will take: from a few of its steps, taken and timed before it begins."""

import math
import time
from typing import Any

import torch

from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.processes import Processes
from majorcert.nets.threshold import n_chosen_by
from majorcert.nets.train import learner_of
from majorcert.nets.validation import SHARE, n_checked, n_looks

ON_CPU = 2**13
"""Pixels of the images of a timed step on a CPU, of which there are 8 at least; a whole batch takes in proportion."""
LOOK = 1 / 3
"""What looking at a view takes of the time to learn from it: there is no way back, and nothing to change."""


def seconds_of(
    config: TrainConfig,
    dataset: Dataset,
    device: torch.device,
    validation: Dataset | None = None,
    **networks: Any,
) -> float:
    """About how many seconds the whole training takes on this device, validation too; nothing of it is kept.

    Args:
        networks: that it begins with, "start", and that it learns from, "teacher", where there are any.
    """
    batch = min(config.batch_size, len(dataset))
    timed = min(batch, max(8, ON_CPU // math.prod(dataset.image_size))) if device.type == "cpu" else batch
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        some = dataset.subset(torch.arange(timed))
        learner = learner_of(config)(config, some, Processes(device), **networks)
        found = []
        for epoch in (0, config.epochs - 1):
            if not learner.begin(epoch):  # as fast as the first
                continue
            learner.prepare(torch.arange(timed), 0, 1)
            learner.step()  # the first takes longer
            begun = _now(device)
            learner.prepare(torch.arange(timed), 0, 1)
            learner.step()
            found.append(_now(device) - begun)
    n_learned = config.epochs * max(1, len(dataset) // config.batch_size) * batch
    n_views = n_learned + LOOK * (n_looked(config, dataset, validation, n_learned) if validation else 0)
    return sum(found) / len(found) / timed * n_views


def n_looked(config: TrainConfig, dataset: Dataset, validation: Dataset, n_learned: int) -> float:
    """About how many views of validation images are looked at: after epochs, and to choose a threshold.

    Where that takes more than its share of the time, only after the first epoch, the last, and some between them.
    """
    n, most = n_looks(config.strategy, dataset.image_size), len(validation)
    check = n * min(most, n_checked(config.strategy, dataset.image_size))
    n_checks = min(config.epochs, 2 + SHARE / (1 - SHARE) * n_learned / (LOOK * check))
    return n_checks * check + config.chooses * n * min(most, n_chosen_by(len(dataset), n))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def duration(seconds: float) -> str:
    """A time in words: "1 second", "40 seconds", "12 minutes", "3.4 hours", "2.1 days"."""
    for name, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= (2 * length if name == "minutes" else length):
            return f"{seconds / length:.{0 if name == 'minutes' else 1}f} {name}"
    return "1 second" if seconds < 1.5 else f"{round(seconds)} seconds"
