"""Train one defender: the whole run on one page."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from majorcert.errors import DataError, ModelError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import reason
from majorcert.nets.card import Card
from majorcert.nets.checkpoint import Checkpoint
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.folders import check_free, make_folder
from majorcert.nets.interrupt import Interrupt
from majorcert.nets.learner import Learner
from majorcert.nets.team import Team

SECONDS_BETWEEN_REPORTS = 0.5
"""A report waits for the GPU, so there are few of them."""


@dataclass(frozen=True)
class Progress:
    """How far a run is; loss and accuracy are means over the epoch so far, on the augmented views."""

    epoch: int
    n_epochs: int
    step: int
    n_steps: int
    loss: float
    accuracy: float
    images_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class TrainResult:
    """What came of a run: finished, or interrupted after `epochs` whole epochs with a checkpoint to resume from."""

    run_dir: Path
    finished: bool
    epochs: int


def train(
    config: TrainConfig,
    dataset: Dataset,
    run_dir: Path | str,
    device: torch.device | str = "cpu",
    *,
    resume: bool = False,
    compile: bool = False,
    record: bool = True,
    checkpoint_every: int = 10,
    progress: Callable[[Progress], None] | None = None,
) -> TrainResult:
    """Train a defender on random ablations of random images, and write it to `run_dir`.

    Every epoch is one shuffled pass; each image is shown through one ablation drawn for it alone. A checkpoint is
    written every `checkpoint_every` epochs and at Ctrl-C or SIGTERM; `resume` continues from it, on a CPU (with
    as many threads) to bitwise the same weights. Under torchrun the processes share every batch.

    Args:
        resume: continue from the checkpoint in `run_dir`, or begin if there is none.
        compile: compile the network with torch.compile, which takes some seconds first.
        record: on a single CUDA device, replay the step as a CUDA graph.
    """
    run_dir = Path(run_dir)
    team = Team(device)
    about = _about(config, dataset, team)
    found = Checkpoint.read(run_dir, about) if resume else None
    if not resume:
        check_free(run_dir)
    n_steps = max(len(dataset) // config.batch_size, 1)

    forked = [team.device] if team.device.type == "cuda" else []
    with (
        torch.random.fork_rng(forked),
        team,
        Interrupt() as interrupt,
        torch.backends.cudnn.flags(enabled=True, benchmark=True),
    ):
        learner = Learner(config, dataset, team, compiled=compile)
        make_folder(run_dir)
        first_epoch, first_step, spent = 0, 0, 0.0
        if found is not None:
            try:
                learner.restore(found.tensors)
            except (KeyError, RuntimeError, TypeError) as error:
                raise ModelError(f"the checkpoint in {run_dir} is of another network: {reason(error)}") from None
            first_epoch, first_step, spent = found.epoch, found.step, found.seconds
            if not team.leads:
                learner.sums.zero_()  # the checkpoint has the sums of all, and they are counted once
        log = _Log(run_dir / "log.jsonl", first_epoch, writes=team.leads)
        recordable = record and team.device.type == "cuda" and team.size == 1
        advance = learner.recorded() if recordable and first_epoch < config.epochs else learner.step

        def keep(epoch: int, step: int, seconds: float) -> None:
            tensors = {**learner.state(), "sums": team.total(learner.sums)}
            if team.leads:
                Checkpoint(about, epoch, step, seconds, tensors).write(run_dir)

        reported = time.perf_counter()
        for epoch in range(first_epoch, config.epochs):
            batches = _shuffled(len(dataset), len(learner.batch), config.seed, epoch).to(team.device)
            begun = time.perf_counter()
            for step in range(first_step, n_steps):
                done = epoch * n_steps + step
                learner.batch.copy_(batches[step])
                learner.lr.fill_(config.learning_rate(done, n_steps))
                learner.decay.fill_(config.average_decay(done))
                advance()
                now = time.perf_counter()
                due = now - reported >= SECONDS_BETWEEN_REPORTS or step + 1 == n_steps
                if progress is not None and team.leads and due:
                    loss, right, seen = learner.sums.tolist()
                    speed = (step + 1 - first_step) / (now - begun)
                    left = (config.epochs * n_steps - done - 1) / speed
                    where = (epoch, config.epochs, step + 1, n_steps)
                    progress(Progress(*where, loss / seen, right / seen, speed * len(learner.batch), left))
                    reported = now
                if team.any(interrupt.asked):
                    keep(epoch, step + 1, spent + time.perf_counter() - begun)
                    return TrainResult(run_dir, finished=False, epochs=epoch)
            loss, right, seen = team.total(learner.sums).tolist()
            seconds = spent + time.perf_counter() - begun
            lr = config.learning_rate((epoch + 1) * n_steps - 1, n_steps)
            log.add(epoch=epoch + 1, loss=loss / seen, accuracy=right / seen, lr=lr, images=int(seen), seconds=seconds)
            learner.sums.zero_()
            first_step, spent = 0, 0.0
            if (epoch + 1) % checkpoint_every == 0 or epoch + 1 == config.epochs:
                keep(epoch + 1, 0, 0.0)

        if team.leads:
            card = Card(
                strategy=config.strategy,
                view=config.view,
                threshold=config.threshold,
                image_size=dataset.image_size,
                channels=dataset.channels,
                class_names=dataset.class_names,
                model=config.model,
                training={**about, "epochs_done": config.epochs},
            )
            card.write(run_dir, learner.result())
    return TrainResult(run_dir, finished=True, epochs=config.epochs)


def _about(config: TrainConfig, dataset: Dataset, team: Team) -> dict[str, Any]:
    """What a run is, for its checkpoint and its artifact; refuses what cannot be trained."""
    if dataset.labels is None or dataset.labels.min() == dataset.labels.max():
        raise DataError(f"{dataset.name}: training needs labelled images of at least two classes")
    if min(config.batch_size, len(dataset)) % team.size:
        raise ModelError(
            f"a batch of {config.batch_size} cannot be shared evenly by {team.size} processes; use a multiple"
        )
    Card(config.strategy, config.view, None, dataset.image_size, dataset.channels, dataset.class_names, config.model)
    return {
        "config": config.to_json(),
        "dataset": dataset.name,
        "split": dataset.split,
        "n_images": len(dataset),
        "images_sha256": dataset.sha256(),
        "device": team.device.type,
    }


def _shuffled(n_images: int, batch_size: int, seed: int, epoch: int) -> Tensor:
    """(steps, batch): the image numbers of one epoch, known from the seed and the epoch alone; the rest is dropped."""
    order = torch.randperm(n_images, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
    return order[: n_images - n_images % batch_size].view(-1, batch_size)


class _Log:
    """RUN/log.jsonl, one line per epoch; lines of epochs that a resumed run does again are dropped."""

    def __init__(self, path: Path, n_epochs: int, *, writes: bool) -> None:
        self.path, self.writes = path, writes
        if writes:
            lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
            with replacing(path) as beside:
                beside.write_bytes(b"".join(lines[:n_epochs]))

    def add(self, *, seconds: float, images: int, **figures: float) -> None:
        if self.writes:
            line = {**figures, "images_per_second": round(images / seconds), "seconds": round(seconds, 3)}
            try:
                with self.path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:
                raise ModelError(f"cannot write {self.path}: {error.strerror}; resume later") from None
