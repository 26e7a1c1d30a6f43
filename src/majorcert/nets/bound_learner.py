"""Learning from bounds: each image, and the worst that a patch could make of it at a place drawn for it alone."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.defences.bounds import Sizes
from majorcert.errors import ModelError
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.ibp import IntervalNet, hidden
from majorcert.nets.learner import Learner
from majorcert.nets.processes import Processes

N_LOTS = 3
"""Uniform numbers for a placement: which patch, its top and its left."""


class BoundLearner(Learner):
    """A learner whose views are images with one more channel, which is 1 under the patch."""

    model: IntervalNet

    def __init__(self, config: TrainConfig, dataset: Dataset, processes: Processes, *, compiled: bool = False) -> None:
        if not isinstance(config.strategy, Sizes) or processes.size > 1 or compiled:
            raise ModelError("bounds are learned by one process, of the model 'ibp', and not compiled")
        super().__init__(config, dataset, processes)
        self.width, self.clean = torch.zeros((), device=processes.device), torch.zeros((), device=processes.device)
        sides = [(patch.height, patch.width) for patch in config.strategy.patches]
        self.sides = torch.tensor(sides, device=processes.device)
        self.n_tried = 1
        """placements that are tried for each image, to learn from the worst"""

    def prepare(self, batch: Tensor, step: int, steps_per_epoch: int) -> None:
        super().prepare(batch, step, steps_per_epoch)
        width, clean = self.config.widening.at(step / (steps_per_epoch * self.config.epochs))
        self.width.fill_(width)
        self.clean.fill_(clean)

    def begin(self, epoch: int) -> bool:
        before, widening = self.n_tried, self.config.widening
        self.n_tried = widening.tried if epoch >= widening.tried_from * self.config.epochs else 1
        return super().begin(epoch) or self.n_tried != before

    @property
    def n_lots(self) -> int:
        return N_LOTS * self.n_tried

    def _views(self, images: Tensor, labels: Tensor, lots: Tensor, boxes: Tensor | None) -> Tensor:
        """(batch, channels + 1, H, W): of the placements that were drawn, the one with the worst bounds."""
        under = torch.stack([self._under(each, images) for each in lots.split(N_LOTS, dim=1)])  # type: ignore[no-untyped-call]
        if self.n_tried > 1:
            with torch.no_grad():
                worst = torch.stack([self._worst_case(images, each, labels) for each in under]).argmax(dim=0)
            under = under[worst, torch.arange(len(images), device=worst.device)][None]
        return torch.cat([images, under[0]], dim=1)

    def _under(self, lots: Tensor, images: Tensor) -> Tensor:
        """(batch, 1, H, W): 1 under a patch at a place drawn by lot."""
        sides = self.sides[(lots[:, 0] * len(self.sides)).long().clamp(max=len(self.sides) - 1)]
        inside = []
        for lot, length, n_pixels in zip(lots[:, 1:].unbind(1), sides.unbind(1), images.shape[2:], strict=True):
            room = n_pixels - length
            start = (lot * (room + 1)).long().minimum(room)
            offset = torch.arange(n_pixels, device=lots.device) - start[:, None]
            inside.append((offset >= 0) & (offset < length[:, None]))
        return (inside[0][:, None, :, None] & inside[1][:, None, None, :]).to(images.dtype)

    def _losses(self, views: Tensor, labels: Tensor, mixing: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits, and the loss of each image: its own, and that of the worst case under the patch."""
        images, under = views[:, :-1], views[:, -1:]
        logits = self._logits(images)
        plain = F.cross_entropy(logits, labels, reduction="none", label_smoothing=self.config.label_smoothing)
        return logits, self.clean * plain + (1 - self.clean) * self._worst_case(images, under, labels)

    def _worst_case(self, images: Tensor, under: Tensor, labels: Tensor) -> Tensor:
        """(batch,) the loss if every other label leads by as much as it can."""
        with torch.autocast("cuda", torch.bfloat16, enabled=images.is_cuda and self.config.precision == "bf16"):
            leads = self.model.leads(hidden(images, under, self.width), labels)
        return F.cross_entropy(-leads.float(), labels, reduction="none")
