"""One defender as an attacker sees it: the scores of the touched views, and votes that have a gradient."""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

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
    """(placement rows, most touched) the row starts that each touches; the last one is repeated to fill up"""
    columns: Tensor
    """(placement columns, most touched) the same for column starts"""
    n_rows: Tensor
    n_columns: Tensor
    """how many of them are not repeated"""
    n_column_starts: int

    @classmethod
    def of(cls, voter: Voter, patch: Patch, precision: Precision) -> "Surrogate":
        network, dtype = voter.network, torch.float32
        if isinstance(network, nn.Module):
            dtype = PRECISIONS[precision]
            network = copy.deepcopy(network).to(dtype).requires_grad_(False)
        touched = voter.cutter.strategy.touched(patch, voter.cutter.image_size)
        rows, n_rows = (each.to(voter.device) for each in _listed(touched.rows))
        columns, n_columns = (each.to(voter.device) for each in _listed(touched.columns))
        n_starts = touched.columns.shape[1]
        return cls(network, voter.cutter, voter.threshold, dtype, rows, columns, n_rows, n_columns, n_starts)

    @property
    def n_pixels(self) -> int:
        """Pixels of all touched views of one candidate, at most."""
        height, width = self.cutter.view_size
        return self.n_touched * height * width

    @property
    def n_touched(self) -> int:
        """Views that one placement touches, at most."""
        return self.rows.shape[1] * self.columns.shape[1]

    def touched(self, top: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        """(N, touched) the ablations that each placement touches, and which of them do not merely fill up."""
        rows, columns = self.rows[top], self.columns[left]
        ablations = rows[:, :, None] * self.n_column_starts + columns[:, None, :]
        real_rows = torch.arange(rows.shape[1], device=rows.device) < self.n_rows[top][:, None]
        real_columns = torch.arange(columns.shape[1], device=rows.device) < self.n_columns[left][:, None]
        return ablations.flatten(1), (real_rows[:, :, None] & real_columns[:, None, :]).flatten(1)

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


def _listed(touched: Bools) -> tuple[Tensor, Tensor]:
    """For each placement the starts that it touches, filled up with the last one, and how many there are."""
    most = int(touched.sum(axis=1).max())
    listed = np.empty((len(touched), most), dtype=np.int64)
    for place, row in enumerate(touched):
        starts = np.flatnonzero(row)
        # A placement between sparse views may touch none: then a view is computed and does not count.
        listed[place] = np.pad(starts, (0, most - len(starts)), mode="edge") if len(starts) else 0
    return torch.from_numpy(listed), torch.from_numpy(touched.sum(axis=1).astype(np.int64))
