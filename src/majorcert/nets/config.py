"""How a defender is trained: every knob in one frozen record that goes to JSON and back."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from majorcert.core.regions import Strategy
from majorcert.errors import ModelError
from majorcert.nets.augment import Augment
from majorcert.nets.boxes import Boxes
from majorcert.nets.hiding import Hiding, check_view
from majorcert.nets.ibp import Widening
from majorcert.nets.models import ModelConfig
from majorcert.nets.rules import VOTES, check_rule
from majorcert.nets.views import View

SQUARES_DECAY = 0.999
"""Of Adam's mean of squared gradients."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run. With the same configuration, data and device the result is the same."""

    strategy: Hiding
    view: View
    model: ModelConfig
    epochs: int = 150
    batch_size: int = 512
    """Of all processes together. The images left over at the end of a shuffled epoch are dropped."""
    lr: float = 0.2
    weight_decay: float = 5e-4
    momentum: float = 0.9
    optimizer: Literal["sgd", "adam"] = "sgd"
    """Stochastic gradient descent with Nesterov momentum, or Adam with weight decay apart from the gradient."""
    clip: float = 0.0
    """Above 0 the gradient is shortened to this length."""
    ema_decay: float = 0.0
    """Above 0 the artifact is the moving average of the weights, with this decay per step."""
    sharp: float = 0.0
    """Above 0 steps are sharpness-aware: the gradient is taken this far uphill, where the loss is worse."""
    sharp_from: float = 0.5
    """The share of the epochs after which they are."""
    warmup: float = 0.0
    """Epochs in which the learning rate grows from 0."""
    milestones: tuple[int, ...] = ()
    """Epochs after which the learning rate is divided by ten; with none it follows a cosine to 0."""
    augment: Augment = field(default_factory=Augment)
    boxes: Boxes = field(default_factory=Boxes)
    """What hides the images that a masking defender learns from."""
    rule: str = VOTES
    """What makes evidence of the scores, as in `rules`."""
    widening: Widening = field(default_factory=Widening)
    """How the intervals grow that bounds are learned from."""
    precision: Literal["bf16", "float32"] = "bf16"
    """Of the network's arithmetic on CUDA; on a CPU it is always float32."""
    threshold: float | Literal["suited"] | None = "suited"
    """A score at or over it is a vote; None: the top label alone; "suited": chosen by validation images afterwards."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_view(self.strategy, self.view)
        check_rule(self.rule)
        if (self.view == "masked") != bool(self.boxes.sides):
            raise ModelError(f"boxes hide images under masks, and nowhere else; got {self.view!r} and {self.boxes}")
        if self.precision not in ("bf16", "float32"):
            raise ModelError(f"the precision is 'bf16' or 'float32', got {self.precision!r}")
        if self.optimizer not in ("sgd", "adam"):
            raise ModelError(f"the optimizer is 'sgd' or 'adam', got {self.optimizer!r}")
        for name in ("epochs", "batch_size", "lr", "weight_decay", "warmup", "sharp", "clip", "seed"):
            if not (least := int(name in ("epochs", "batch_size"))) <= getattr(self, name) < math.inf:
                raise ModelError(f"{name} is {least} or more, got {getattr(self, name)}")
        if self.seed >= 2**32:
            raise ModelError(f"seed is under 2**32, got {self.seed}")
        for name in ("momentum", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise ModelError(f"{name} is at least 0 and less than 1, got {getattr(self, name)}")
        if isinstance(self.threshold, str) and self.threshold != "suited":
            raise ModelError(f"the threshold is a number, None or 'suited', got {self.threshold!r}")
        if isinstance(self.threshold, float | int) and not 0 < self.threshold <= 1:
            raise ModelError(f"the threshold is above 0 and at most 1, or None; got {self.threshold}")

    @property
    def chooses(self) -> bool:
        """Whether a threshold is to be chosen by validation images: where views vote, and none is given."""
        return self.threshold == "suited" and isinstance(self.strategy, Strategy) and self.rule == VOTES

    def learning_rate(self, step: int, steps_per_epoch: int) -> float:
        """The learning rate of a step, counted from 0 over all epochs."""
        epoch = (step + 1) / steps_per_epoch
        if epoch < self.warmup:
            return self.lr * epoch / self.warmup
        if self.milestones:
            return self.lr * 0.1 ** sum(step >= milestone * steps_per_epoch for milestone in self.milestones)
        done = (step / steps_per_epoch - self.warmup) / max(self.epochs - self.warmup, 1e-9)
        return self.lr * (1 + math.cos(math.pi * min(max(done, 0.0), 1.0))) / 2

    def step_size(self, step: int, steps_per_epoch: int) -> float:
        """What a step is multiplied by: the learning rate; of Adam, with what its means lack at the beginning."""
        rate = self.learning_rate(step, steps_per_epoch)
        if self.optimizer == "sgd":
            return rate
        return rate * math.sqrt(1 - SQUARES_DECAY ** (step + 1)) / (1 - self.momentum ** (step + 1))

    def is_sharp(self, epoch: int) -> bool:
        """Whether the steps of an epoch, counted from 0, are sharpness-aware."""
        return self.sharp > 0 and epoch >= self.sharp_from * self.epochs

    def average_decay(self, step: int) -> float:
        """The decay of the moving average at a step; small at first, so that the fresh weights are soon forgotten."""
        return min(self.ema_decay, (1 + step) / (10 + step))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "strategy": str(self.strategy)}
