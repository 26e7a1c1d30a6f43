"""One defender as an attacker sees it: the scores of the touched views, and votes that have a gradient."""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, Patch
from majorcert.nets.views import Cutter
from majorcert.nets.voter import PRECISIONS, Network, Precision, Voter


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A copy of a voter's network through which gradients flow, and which views each placement touches."""

    network: Network
    cutter: Cutter
    threshold: float | None
    dtype: torch.dtype
    rows: Tensor
    columns: Tensor
    """(placement rows,), (placement columns,) the cell of each placement"""
    listed: Tensor
    """(cell rows, cell columns, most touched) the ablations that a patch there touches; the first one fills up"""
    real: Tensor
    """which of them do not merely fill up"""

    @classmethod
    def of(cls, voter: Voter, patch: Patch, precision: Precision) -> "Surrogate":
        network, dtype = voter.network, torch.float32
        if isinstance(network, nn.Module):
            dtype = PRECISIONS[precision]
            network = copy.deepcopy(network).to(dtype).requires_grad_(False)
        touched = voter.cutter.strategy.touched(patch, voter.cutter.image_size)
        listed, real = _listed(touched.masks())
        tables = (torch.from_numpy(each).to(voter.device) for each in (touched.rows, touched.columns, listed, real))
        return cls(network, voter.cutter, voter.threshold, dtype, *tables)

    @property
    def n_pixels(self) -> int:
        """Pixels of all touched views of one candidate, at most."""
        height, width = self.cutter.view_size
        return self.n_touched * height * width

    @property
    def n_touched(self) -> int:
        """Views that one placement touches, at most."""
        return self.listed.shape[2]

    def touched(self, top: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        """(N, touched) the ablations that each placement touches, and which of them do not merely fill up."""
        cell = self.rows[top], self.columns[left]
        return self.listed[cell], self.real[cell]

    def log_scores(self, images: Tensor, ablations: Tensor) -> Tensor:
        """(N, touched, labels) the logarithm of the score of each label in each of these views of N images."""
        n_images, n_views = ablations.shape
        which = torch.arange(n_images, device=images.device).repeat_interleave(n_views)
        views = self.cutter.take(self.cutter.sheet(images), which, ablations.flatten()).to(self.dtype)
        views = views.contiguous(memory_format=torch.channels_last if images.is_cuda else torch.contiguous_format)
        return self.network(views).float().log_softmax(dim=1).view(n_images, n_views, -1)

    def votes(self, log_scores: Tensor) -> Tensor:
        """(N, touched, labels) the true votes, 0 or 1."""
        if self.threshold is None:
            return nn.functional.one_hot(log_scores.argmax(dim=2), log_scores.shape[2])
        return (log_scores.exp() >= float(np.float32(self.threshold))).long()

    def soft_votes(self, log_scores: Tensor, temperature: float) -> Tensor:
        """(N, touched, labels) votes between 0 and 1 that have a gradient; the lower the temperature the truer."""
        if self.threshold is None:
            return (log_scores / temperature).softmax(dim=2)
        return ((log_scores.exp() - self.threshold) / temperature).sigmoid()


def _listed(masks: Bools) -> tuple[Ints, Bools]:
    """(..., most touched) the ablations of each mask, filled up with its first one, and which do not merely fill up."""
    most = max(1, int(masks.sum(axis=-1).max()))
    listed = np.argsort(~masks, axis=-1, kind="stable")[..., :most]
    own = np.take_along_axis(masks, listed, axis=-1)
    return np.where(own, listed, listed[..., :1]), own
