"""Train one defender: what happens, on one page. The step is in `learner`, the run's folder in `run_folder`."""

import copy
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from majorcert.core.regions import Strategy
from majorcert.defences.bounds import Sizes
from majorcert.errors import DataError, ModelError
from majorcert.errors.checks import whole
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.bound_learner import BoundLearner
from majorcert.nets.checkpoint import Checkpoint
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.interrupt import Interrupt
from majorcert.nets.learner import Learner
from majorcert.nets.models import n_weights
from majorcert.nets.on_disk import fingerprint
from majorcert.nets.processes import Processes
from majorcert.nets.resizing import recorded
from majorcert.nets.run_folder import Log, held
from majorcert.nets.threshold import USUAL, suited_threshold
from majorcert.nets.validation import Checked, Validation
from majorcert.nets.voter import Voter

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


@dataclass(frozen=True)
class Epoch:
    """What came of an epoch: its means on the augmented views, and the validation images, if these were looked at."""

    epoch: int
    n_epochs: int
    loss: float
    accuracy: float
    seconds: float
    checked: Checked | None


@dataclass(frozen=True)
class TrainResult:
    """What came of a run: finished, or interrupted after `epochs` whole epochs with a checkpoint to resume from."""

    run_dir: Path
    finished: bool
    epochs: int
    chosen: float | None = None
    """the threshold that suited the validation images best, if one was chosen in the end"""

    def __str__(self) -> str:
        if self.chosen is None:
            return str(self.run_dir)
        return f"{self.run_dir}; a score of {self.chosen:g} or more is a vote, as suits the validation images"


def train(
    config: TrainConfig,
    dataset: Dataset,
    run_dir: Path | str,
    device: torch.device | str = "cpu",
    *,
    start: nn.Module | None = None,
    teacher: nn.Module | None = None,
    validation: Dataset | None = None,
    resume: bool = False,
    compiled: bool = False,
    checkpoint_every: int = 10,
    before: Callable[[], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
    after_epoch: Callable[[Epoch], None] | None = None,
    interrupt: Interrupt | None = None,
) -> TrainResult:
    """Train a defender on random ablations of random images, and write it to `run_dir`.

    Every epoch is one shuffled pass; each image is shown through one ablation drawn for it alone. A checkpoint is
    written every `checkpoint_every` epochs and at Ctrl-C or SIGTERM; `resume` continues from it, on a CPU (with
    as many threads) to bitwise the same weights. Under torchrun the processes share every batch.

    Args:
        start: the network to begin with, if it is not one of this package: of the kind that the configuration names.
        teacher: a network of the same views, whose probabilities are learned instead of the true labels.
        validation: images that are not trained on, by which the threshold is chosen if the configuration has none.
        resume: continue from the checkpoint in `run_dir`, or begin if there is none.
        compiled: compile the network with torch.compile, which takes some seconds first.
        before: called when all is ready to begin.
        after_epoch: called with what came of each; only then are validation images looked at before the end.
        interrupt: whoever trains several one after the other listens to it throughout; by default this run does.
    """
    whole(checkpoint_every, "checkpoint_every", ModelError)
    run_dir, processes = Path(run_dir), Processes(device)
    check(config, dataset, validation)
    about = _about(config, dataset, processes)
    networks = {}
    for name, network, recorded_as in (("start", start, "begun_with"), ("teacher", teacher, "taught_by")):
        if network is not None:
            networks[name], about[recorded_as] = network, fingerprint(network.state_dict())
    n_steps = max(len(dataset) // config.batch_size, 1)
    with (
        torch.random.fork_rng([processes.device] if processes.device.type == "cuda" else []),
        processes,
        nullcontext(interrupt) if interrupt else Interrupt() as interrupt,
        torch.backends.cudnn.flags(enabled=True, benchmark=True),
    ):
        found = Checkpoint.read(run_dir, about) if resume else None
        learner = learner_of(config)(config, dataset, processes, compiled=compiled, **networks)
        with held(run_dir, resume=resume) if processes.leads else nullcontext():
            at = learner.resumed(found, run_dir)
            log = Log(run_dir, at.epoch, writes=processes.leads)
            recordable = processes.device.type == "cuda" and processes.size == 1
            advance = learner.step
            tell = _Teller(progress if processes.leads else None, learner, n_steps)

            def keep(epoch: int, step: int, seconds: float) -> None:
                tensors = {**learner.state(), "sums": processes.total(learner.sums)}
                if processes.leads:
                    Checkpoint(about, epoch, step, seconds, tensors).write(run_dir)

            if before is not None and processes.leads:
                before()
            judge = None
            if validation is not None and after_epoch is not None and processes.leads:
                judge = Validation(_blueprint(config, dataset, about), validation, processes.device)
            first_step, spent = at.step, at.seconds
            for epoch in range(at.epoch, config.epochs):
                batches = _shuffled(len(dataset), len(learner.batch), config.seed, epoch).to(processes.device)
                if learner.begin(epoch) and recordable:
                    advance = learner.step  # lets go of an earlier recording, and of its memory
                    advance = learner.recorded()
                begun = time.perf_counter()
                for step in range(first_step, n_steps):
                    learner.prepare(batches[step], epoch * n_steps + step, n_steps)
                    advance()
                    tell.after(epoch, step, (step + 1 - first_step) / (time.perf_counter() - begun))
                    if processes.any(interrupt.asked):
                        keep(epoch, step + 1, spent + time.perf_counter() - begun)
                        return TrainResult(run_dir, finished=False, epochs=epoch)
                seconds = spent + time.perf_counter() - begun
                figures = learner.figures((epoch + 1) * n_steps - 1, n_steps)
                last = epoch + 1 == config.epochs
                checked = judge.checked(learner.result()) if judge and judge.due(last=last) else None
                log.add(epoch=epoch + 1, seconds=seconds, **figures, **(asdict(checked) if checked else {}))
                if after_epoch is not None and processes.leads:
                    means = figures["loss"], figures["accuracy"]
                    after_epoch(Epoch(epoch + 1, config.epochs, *means, seconds, checked))
                first_step, spent = 0, 0.0
                if (epoch + 1) % checkpoint_every == 0 or last:
                    keep(epoch + 1, 0, 0.0)
            chosen = None
            if processes.leads:
                weights = learner.result()
                done = _blueprint(config, dataset, {**about, "epochs_done": config.epochs})
                if config.chooses and validation is not None:
                    done = _suited(done, learner.model, weights, validation, processes.device)
                    chosen = done.threshold
                done.write(run_dir, weights)
    return TrainResult(run_dir, finished=True, epochs=config.epochs, chosen=chosen)


def check(config: TrainConfig, dataset: Dataset, validation: Dataset | None) -> None:
    """Refuse what cannot be trained, before anything is made."""
    if dataset.labels is None or dataset.labels.min() == dataset.labels.max():
        raise DataError(f"{dataset.name}: training needs labelled images of at least two classes")
    if validation is not None:
        if validation.labels is None:
            raise DataError(f"{validation.name}: validation needs labelled images")
        for fact in ("image_size", "channels", "class_names"):
            expected, found = getattr(dataset, fact), getattr(validation, fact)
            if found != expected:
                raise DataError(f"{validation.name} is of no use to validate: its {fact} is {found}, not {expected}")
    _blueprint(config, dataset, {})
    n_weights(config.model)


def _about(config: TrainConfig, dataset: Dataset, processes: Processes) -> dict[str, Any]:
    """What a run is, for its checkpoint and its artifact."""
    if min(config.batch_size, len(dataset)) % processes.size:
        raise ModelError(
            f"a batch of {config.batch_size} cannot be shared evenly by {processes.size} processes; use a multiple"
        )
    return {
        "config": config.to_json(),
        **dataset.origin(),
        "n_images": len(dataset),
        "device": processes.device.type,
        **recorded(dataset),
    }


def _blueprint(config: TrainConfig, dataset: Dataset, about: dict[str, Any]) -> Blueprint:
    given = None if config.threshold == "suited" else config.threshold
    return Blueprint(
        strategy=config.strategy,
        view=config.view,
        threshold=USUAL if config.chooses else given,
        image_size=dataset.image_size,
        channels=dataset.channels,
        class_names=dataset.class_names,
        model=config.model,
        rule=config.rule,
        training=about,
    )


def _suited(
    blueprint: Blueprint, model: nn.Module, weights: dict[str, Tensor], validation: Dataset, device: torch.device
) -> Blueprint:
    """The blueprint with the threshold that suits the validation images."""
    strategy, known = blueprint.strategy, blueprint.training
    assert isinstance(strategy, Strategy), "only views of a strategy vote"
    network = copy.deepcopy(model).cpu()
    network.load_state_dict(weights)
    about: dict[str, Any] = {"image_size": blueprint.image_size, "channels": blueprint.channels, "device": device}
    voter = Voter.of(network, strategy, blueprint.view, None, config=blueprint.model, **about)
    threshold = suited_threshold(voter, validation, n_views=known["n_images"])
    return replace(blueprint, threshold=threshold, training={**known, "threshold_chosen_by": validation.origin()})


def _shuffled(n_images: int, batch_size: int, seed: int, epoch: int) -> Tensor:
    """(steps, batch): the image numbers of one epoch, known from the seed and the epoch alone; the rest is dropped."""
    order = torch.randperm(n_images, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
    return order[: n_images - n_images % batch_size].view(-1, batch_size)


def learner_of(config: TrainConfig) -> type[Learner]:
    """What learns as this configuration says."""
    return BoundLearner if isinstance(config.strategy, Sizes) else Learner


class _Teller:
    """Tells the listener now and then how far a run is."""

    def __init__(self, listener: Callable[[Progress], None] | None, learner: Learner, n_steps: int) -> None:
        self.listener, self.learner, self.n_steps, self.told = listener, learner, n_steps, time.perf_counter()

    def after(self, epoch: int, step: int, steps_per_second: float) -> None:
        now, n_epochs = time.perf_counter(), self.learner.config.epochs
        due = now - self.told >= SECONDS_BETWEEN_REPORTS or step + 1 == self.n_steps
        if self.listener is None or not due:
            return
        loss, right, seen = self.learner.sums.tolist()
        where = (epoch, n_epochs, step + 1, self.n_steps)
        self.listener(Progress(*where, loss / seen, right / seen, steps_per_second * len(self.learner.batch)))
        self.told = now
