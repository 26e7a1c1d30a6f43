"""The threshold: which labels a view votes for, given the network's scores, and how far that is from changing."""

import numpy as np
import torch
from torch import Tensor

from majorcert.core.ballots import ABSTAIN


def votes_of(scores: Tensor, threshold: float | None, n_votes: int) -> Tensor:
    """(views, votes): the labels whose score is at or over the threshold, ascending, then ABSTAIN; None: the top one.

    The same labels as `Ballots.from_scores` gives for float32 scores, but on the device.
    """
    n_classes = scores.shape[1]
    # NumPy compares float32 scores with the threshold as float32; here the device is not left a choice either.
    least = scores.amax(dim=1, keepdim=True) if threshold is None else float(np.float32(threshold))
    chosen = scores >= least
    # The smaller the label the larger its key, so the largest keys are the first labels; 0 stands for no vote.
    keys = torch.arange(n_classes, 0, -1, dtype=torch.int32, device=scores.device) * chosen
    largest = keys.topk(n_votes, dim=1).values
    dtype = getattr(torch, np.min_scalar_type(-n_classes).name)
    return torch.where(largest > 0, n_classes - largest, ABSTAIN).to(dtype)


def distance_of(scores: Tensor, threshold: float | None) -> Tensor:
    """(views,) how far each ballot is from changing, in float32; rounded, so perhaps a little more than the truth."""
    if threshold is None:
        best, second = scores.topk(2, dim=1).values.unbind(dim=1)
        return (best - second) / 2
    return (scores - float(np.float32(threshold))).abs().amin(dim=1)


def most_votes(threshold: float | None, n_classes: int) -> int:
    """How many labels one ballot can name: probabilities add up to 1, and a little more after rounding."""
    if threshold is None:
        return 1
    return n_classes if threshold * n_classes <= 1.001 else max(1, int(1.001 / threshold))
