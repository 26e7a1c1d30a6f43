"""The tie-break in tensors: who wins, and how many votes a label lacks.

Every tie goes to the smallest label, as everywhere. The attack is steered by this; no certificate is made from it.
"""

import torch
from torch import Tensor


def standings(counts: Tensor) -> Tensor:
    """(..., labels) whole numbers that compare as labels do: more votes first, then the smaller label."""
    n_labels = counts.shape[-1]
    return counts.long() * n_labels + torch.arange(n_labels - 1, -1, -1, device=counts.device)


def winner(counts: Tensor) -> Tensor:
    """(...,) the label that wins (..., labels) vote counts."""
    return standings(counts).argmax(dim=-1)


def lacking(counts: Tensor) -> Tensor:
    """(..., labels) the votes that each label would need on top of its own to win; 0 for the winner."""
    standing = standings(counts)
    behind = standing.amax(dim=-1, keepdim=True) - standing
    n_labels = counts.shape[-1]
    return torch.div(behind + n_labels - 1, n_labels, rounding_mode="floor")


def elected(labels: Tensor, n_labels: int) -> Tensor:
    """(N,) the plurality of (N, defenders) labels."""
    return winner(torch.nn.functional.one_hot(labels, n_labels).sum(dim=1))
