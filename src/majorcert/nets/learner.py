"""One training step, from a list of image numbers to new weights, that a CUDA graph can record and replay."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.core.regions import Strategy
from majorcert.errors import ModelError
from majorcert.files.untrusted import reason
from majorcert.nets.augment import N_RANDOM, gathered, mixed, wanted
from majorcert.nets.boxes import Hider, under, worst
from majorcert.nets.checkpoint import Checkpoint
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.device import fastest_layout, fits
from majorcert.nets.models import build
from majorcert.nets.optimizer import descend
from majorcert.nets.processes import Processes
from majorcert.nets.views import Cutter, to_unit


class Position(NamedTuple):
    """Epochs done, steps done in the one after them, and the seconds that these took."""

    epoch: int
    step: int
    seconds: float


class Phase(NamedTuple):
    """What a step does from some epoch on."""

    recalls: bool = False  # boxes that were worst
    searches: bool = False  # for the worst of several boxes
    sharp: bool = False  # takes the gradient uphill


class Learner:
    """The state of a training run on one device: weights, momentum, average, random numbers and running sums.

    What changes from step to step (which images, the learning rate, the decay of the average) is read from tensors
    that stay at one place, so that the same recorded kernels serve every step. With several processes, each draws
    the random numbers of the whole batch and uses its own part: all hold the same random state.
    """

    def __init__(
        self,
        config: TrainConfig,
        dataset: Dataset,
        processes: Processes,
        *,
        start: nn.Module | None = None,
        teacher: nn.Module | None = None,
        compiled: bool = False,
    ) -> None:
        assert dataset.labels is not None, "without labels nothing is learned"
        self.config, self.processes, device = config, processes, processes.device
        n, self.labels = min(config.batch_size, len(dataset)), dataset.labels.to(device)
        self.far = None if fits(dataset.images, device) else dataset.images
        """The images, if the device cannot hold them: then those of one batch at a time are brought to it."""
        self.images = dataset.images.to(device) if self.far is None else dataset.images[:n].clone().to(device)
        self.places = torch.arange(n, device=device)
        self.cutter = self.hider = None
        if isinstance(config.strategy, Strategy):
            self.cutter = Cutter.of(config.strategy, config.view, dataset.image_size).to(device)
        elif config.boxes.sides:
            self.hider = Hider(config.boxes, config.augment, len(dataset), dataset.image_size, device)
        self.phase: Phase | None = None
        torch.manual_seed(config.seed)
        self.model = build(config.model) if start is None else copy.deepcopy(start).train()
        self.layout = fastest_layout(self.model, device)
        self.model.to(device, memory_format=self.layout)  # type: ignore[call-overload]
        self.network: Callable[[Tensor], Tensor] = processes.wrap(self.model)
        self.teacher: Callable[[Tensor], Tensor] | None = None
        if teacher is not None:
            taught_by = copy.deepcopy(teacher).eval().requires_grad_(False)
            self.teacher = taught_by.to(device, memory_format=self.layout)  # type: ignore[call-overload]
        if compiled:
            self.network = torch.compile(self.network)
            self.teacher = None if self.teacher is None else torch.compile(self.teacher)
        self.generator = torch.Generator(device).manual_seed(config.seed)
        learned = {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
        self.names, self.weights = list(learned), list[Tensor](learned.values())
        self.velocity = [torch.zeros_like(weight) for weight in self.weights]
        self.squares = [torch.zeros_like(weight) for weight in self.weights if config.optimizer == "adam"]
        self.averaged = [tensor for tensor in self.model.state_dict().values() if tensor.is_floating_point()]
        self.average = [tensor.clone() for tensor in self.averaged] if config.ema_decay else []
        self.batch = torch.zeros(n, dtype=torch.int64, device=device)
        self.lr, self.decay = torch.zeros((), device=device), torch.zeros((), device=device)
        self.sums = torch.zeros(3, dtype=torch.float64, device=device)
        """Loss, right answers and images since the epoch began, in this process."""

    def prepare(self, batch: Tensor, step: int, steps_per_epoch: int) -> None:
        """What the next step is about: its images, and what follows from its number, counted over all epochs."""
        self.batch.copy_(batch)
        if self.far is not None:
            self.images.copy_(self.far[batch.cpu()])
        self.lr.fill_(self.config.step_size(step, steps_per_epoch))
        self.decay.fill_(self.config.average_decay(step))

    def begin(self, epoch: int) -> bool:
        """Whether the step is another one from this epoch on, and has to be recorded anew."""
        config, boxes, before = self.config, self.config.boxes, self.phase
        searches = boxes.worst_of > 1 and epoch >= boxes.worst_from * config.epochs
        self.phase = Phase(epoch >= boxes.memory_from * config.epochs, searches, config.is_sharp(epoch))
        return self.phase != before

    def step(self) -> None:
        """Learn from the images `batch`: augment, hide, classify, follow the gradient, average."""
        config, phase, share = self.config, self.phase or Phase(), self.processes.share
        random = torch.rand(len(self.batch), N_RANDOM + self.n_lots, generator=self.generator, device=self.batch.device)
        index, random = share(self.batch), share(random)
        held = index if self.far is None else share(self.places)
        images = to_unit(gathered(self.images, held, config.augment, random))
        labels, mixing = self.labels[index], None
        if config.augment.cutmix:
            images, mixing = mixed(images, config.augment, random)
        targets = wanted(labels, config.model.n_classes, mixing)
        boxes = None if self.hider is None else self._boxes(self.hider, images, targets, index, random, phase)
        views = self._views(images, random[:, N_RANDOM:], boxes).contiguous(memory_format=self.layout)
        if self.teacher is not None:
            with torch.no_grad():
                targets = self._logits(views, self.teacher).softmax(dim=1)

        logits, losses = self._losses(views, targets)
        torch.autograd.backward(losses.mean())
        if phase.sharp:
            self._backward_uphill(views, targets)

        with torch.no_grad():
            descend(self.config, self.lr, self.weights, self._gradients(), self.velocity, self.squares)
            self.model.zero_grad(set_to_none=True)
            if self.average:
                torch._foreach_mul_(self.average, self.decay)
                torch._foreach_add_(self.average, torch._foreach_mul(self.averaged, 1 - self.decay))
            if self.hider is not None and boxes is not None:
                hard = F.cross_entropy(logits, labels, reduction="none")
                self.hider.keep(index, random, boxes, hard, recalls=phase.recalls, whole=self.processes.whole)
            right = (logits.argmax(dim=1) == labels).sum()
            self.sums += torch.stack([losses.sum(), right, torch.ones_like(losses).sum()]).double()

    @property
    def n_lots(self) -> int:
        """How many uniform numbers the view of an image takes."""
        return 1 if self.hider is None else self.hider.n_lots

    def _views(self, images: Tensor, lots: Tensor, boxes: Tensor | None) -> Tensor:
        """Of each image one view: under its boxes, or by an ablation drawn for it alone."""
        if boxes is not None:
            return under(images, boxes)
        assert self.cutter is not None
        n_views = self.cutter.n_views
        return self.cutter.cut(images, (lots[:, 0] * n_views).long().clamp(max=n_views - 1))

    def _boxes(
        self, hider: Hider, images: Tensor, targets: Tensor, index: Tensor, random: Tensor, phase: Phase
    ) -> Tensor:
        """Of each image a pair of boxes that hides some of it; where several are tried, the worst."""
        pairs = hider.pairs(index, random, recalls=phase.recalls)
        if not phase.searches:
            return pairs[:, 0]

        def loss_of(pair: Tensor) -> Tensor:
            return self._losses(under(images, pair).contiguous(memory_format=self.layout), targets)[1]

        with torch.no_grad(), self._statistics_kept():
            return worst(pairs, loss_of, greedy=self.config.boxes.greedy)

    def _losses(self, views: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the loss of each view; every cell of a map counts alike."""
        logits = self._logits(views, self.network)
        cells = logits.flatten(2).transpose(1, 2) if logits.dim() > 2 else logits[:, None]
        each = targets[:, None].expand_as(cells).flatten(0, 1)
        losses = F.cross_entropy(cells.flatten(0, 1), each, reduction="none")
        return cells.mean(dim=1), losses.view(cells.shape[:2]).mean(dim=1)

    def _backward_uphill(self, views: Tensor, targets: Tensor) -> None:
        """Replace the gradient by that at nearby weights where the loss is worse; their statistics are not kept."""
        with torch.no_grad():
            slope = self._gradients()
            steepness = torch.stack(torch._foreach_norm(slope)).norm() + 1e-12
            uphill = torch._foreach_mul(slope, self.config.sharp / steepness)
            torch._foreach_add_(self.weights, uphill)
            self.model.zero_grad(set_to_none=True)
        with self._statistics_kept():
            torch.autograd.backward(self._losses(views, targets)[1].mean())
        with torch.no_grad():
            torch._foreach_sub_(self.weights, uphill)

    @contextmanager
    def _statistics_kept(self) -> Iterator[None]:
        """What the network learns of its views' mean and spread by looking at them inside is forgotten."""
        statistics = [buffer for buffer in self.model.buffers() if buffer.is_floating_point()]
        before = [buffer.clone() for buffer in statistics]
        yield
        if statistics:
            torch._foreach_copy_(statistics, before)

    def _gradients(self) -> list[Tensor]:
        return [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in self.weights]

    def _logits(self, views: Tensor, network: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=views.is_cuda and self.config.precision == "bf16"):
            logits = network(views)
        return logits.float()

    def recorded(self) -> Callable[[], None]:
        """`step` as one replay of a CUDA graph, which spares the launch of some hundred small kernels.

        Recording runs the step a few times to warm up; the state is put back afterwards, random numbers included.
        """
        before = {name: tensor.clone() for name, tensor in self.state().items()}
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.restore(before)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay

    def figures(self, step: int, steps_per_epoch: int) -> dict[str, Any]:
        """What the log says of an epoch that ended with this step; the sums begin anew."""
        loss, right, seen = self.processes.total(self.sums).tolist()
        self.sums.zero_()
        rate = self.config.learning_rate(step, steps_per_epoch)
        return {"loss": loss / seen, "accuracy": right / seen, "lr": rate, "images": int(seen)}

    def resumed(self, found: Checkpoint | None, run_dir: Path) -> Position:
        """Where the run is: at the beginning, or where the checkpoint was written, with everything as it was then."""
        if found is None:
            return Position(0, 0, 0.0)
        try:
            self.restore(found.tensors)
        except (KeyError, RuntimeError, TypeError) as error:
            raise ModelError(f"the checkpoint in {run_dir} is of another network: {reason(error)}") from None
        if not self.processes.leads:
            self.sums.zero_()  # the checkpoint has the sums of all, and they are counted once
        return Position(found.epoch, found.step, found.seconds)

    def state(self) -> dict[str, Tensor]:
        """Everything that a step changes, by name."""
        averaged = [name for name, tensor in self.model.state_dict().items() if tensor.is_floating_point()]
        memory = None if self.hider is None else self.hider.memory
        return {
            **{f"weights/{name}": tensor for name, tensor in self.model.state_dict().items()},
            **{f"velocity/{name}": tensor for name, tensor in zip(self.names, self.velocity, strict=True)},
            **{f"squares/{name}": tensor for name, tensor in zip(self.names, self.squares, strict=bool(self.squares))},
            **{f"average/{name}": tensor for name, tensor in zip(averaged, self.average, strict=bool(self.average))},
            **({} if memory is None else {"memory/middles": memory.middles, "memory/loss": memory.loss}),
            "sums": self.sums,
            "random/views": self.generator.get_state(),
            "random/network": self._device_random().get_state(),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Put a state back in place."""
        for name, tensor in self.state().items():
            if name == "random/views":
                self.generator.set_state(state[name])
            elif name == "random/network":
                self._device_random().set_state(state[name])
            else:
                tensor.copy_(state[name])

    def _device_random(self) -> torch.Generator:
        """The generator that dropout draws from."""
        device = self.processes.device
        return torch.cuda.default_generators[device.index] if device.type == "cuda" else torch.default_generator

    def result(self) -> dict[str, Tensor]:
        """The weights to keep: their average where there is one."""
        state = self.state()
        weights = {name: state[f"weights/{name}"] for name in self.model.state_dict()}
        return {name: state.get(f"average/{name}", tensor) for name, tensor in weights.items()}
