"""Learning from bounds: each image, and the worst that a patch could make of it at a place drawn for it alone."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.defences.bounds import Sizes
from majorcert.errors import ModelError
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.ibp import IntervalNet, lowest_leads
from majorcert.nets.learner import Learner
from majorcert.nets.patched import Clean, Patches, holding, patched
from majorcert.nets.processes import Processes

N_LOTS = 3
"""Uniform numbers for a placement: which patch, its top and its left."""


class BoundLearner(Learner):
    """A learner whose views are whole images; what patches can make of them is in its loss."""

    model: IntervalNet

    def __init__(self, config: TrainConfig, dataset: Dataset, processes: Processes, *, compiled: bool = False) -> None:
        if not isinstance(config.strategy, Sizes) or processes.size > 1 or compiled:
            raise ModelError("bounds are learned by one process, of the model 'ibp', and not compiled")
        super().__init__(config, dataset, processes)
        self.width, self.clean = torch.zeros((), device=processes.device), torch.zeros((), device=processes.device)
        sides = [(patch.height, patch.width) for patch in config.strategy.patches]
        self.sides = torch.tensor(sides, device=processes.device)
        self.size = torch.tensor(dataset.image_size, device=processes.device)
        self.windows = [holding(max(each), self.model.stride) for each in zip(*sides, strict=True)]
        self.tried = 1
        """rows and columns of placements that are tried for each image, to learn from the worst"""
        self.drawn: Patches
        """those of the step that is done: of all images in turn, so many times"""

    def prepare(self, batch: Tensor, step: int, steps_per_epoch: int) -> None:
        super().prepare(batch, step, steps_per_epoch)
        width, clean = self.config.widening.at(step / (steps_per_epoch * self.config.epochs))
        self.width.fill_(width)
        self.clean.fill_(clean)

    def begin(self, epoch: int) -> bool:
        before, widening = self.tried, self.config.widening
        self.tried = widening.tried if epoch >= widening.tried_from * self.config.epochs else 1
        return super().begin(epoch) or self.tried != before

    @property
    def n_lots(self) -> int:
        return N_LOTS * self.tried**2

    def _views(self, images: Tensor, lots: Tensor, boxes: Tensor | None) -> Tensor:
        self.drawn = self._patches(lots)
        return images

    def _patches(self, lots: Tensor) -> Patches:
        """Patches at places drawn by lot, one in each part of each image."""
        lots = torch.stack(lots.split(N_LOTS, dim=1))  # type: ignore[no-untyped-call]
        part = torch.arange(len(lots), device=lots.device)
        parts = torch.stack([part // self.tried, part % self.tried], dim=1)[:, None]
        sides = self.sides[(lots[..., 0] * len(self.sides)).long().clamp(max=len(self.sides) - 1)]
        room = self.size - sides
        start = ((parts + lots[..., 1:]) / self.tried * (room + 1)).long().minimum(room)
        image = torch.arange(lots.shape[1], device=lots.device).repeat(len(lots))
        return Patches(image, start.flatten(0, 1), sides.flatten(0, 1))

    def _losses(self, views: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the loss of each image: its own, and that of the worst case under the worst patch drawn."""
        labels = targets.argmax(dim=1)
        with self._rounded():
            clean = Clean.of(self.model, views)
        logits = self.model.last(clean.features.float())
        plain = F.cross_entropy(logits, labels, reduction="none")
        drawn = self.drawn
        if self.tried > 1:
            with torch.no_grad():
                worst = self._worst_case(clean, drawn, labels).view(-1, len(labels)).argmax(dim=0)
            number = worst * len(labels) + torch.arange(len(labels), device=worst.device)
            drawn = Patches(*(each[number] for each in drawn))
        return logits, self.clean * plain + (1 - self.clean) * self._worst_case(clean, drawn, labels)

    def _worst_case(self, clean: Clean, patches: Patches, labels: Tensor) -> Tensor:
        """(patches,) the loss if every other label leads by as much as it can."""
        truth, sparing = labels[patches.image], self.config.widening.sparing
        with self._rounded():
            features = patched(self.model, clean, patches, self.windows, self.width)
        leads = lowest_leads(self.model.last, features.float(), truth)
        losses = F.cross_entropy(-leads, truth, reduction="none")
        return -torch.expm1(-sparing * losses) / sparing if sparing else losses

    def _rounded(self) -> torch.autocast:
        """What is computed inside is in the precision of the configuration."""
        rounds = self.processes.device.type == "cuda" and self.config.precision == "bf16"
        return torch.autocast("cuda", torch.bfloat16, enabled=rounds)
