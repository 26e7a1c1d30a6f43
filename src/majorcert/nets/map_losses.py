"""What a network that gives a map learns from: every cell for itself, and what all of them come to."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

LEAD = 0.6
"""By so much of all votes the truth is to lead: a patch of a sixth of a side moves about a quarter, and twice."""
SHARPNESS = 16.0
"""From the mean of clipped scores to logits: they differ by at most 1, and a loss must be able to end."""


def image_scores(maps: Tensor, rule: str) -> Tensor:
    """(N, classes) the mean score of each label over the cells of (N, classes, rows, columns) logits."""
    return (maps.sigmoid() if rule == "clipped" else maps.softmax(dim=1)).mean(dim=(2, 3))


def map_losses(maps: Tensor, labels: Tensor, rule: str, margin: float, smoothing: float) -> Tensor:
    """(N,) the loss of each image, by the rule that makes a label of its map.

    "clipped": the cross-entropy of the mean of the clipped scores. Any other: the mean cross-entropy of the cells, and
    `margin` times what the truth lacks of a firm lead.
    """
    scores = image_scores(maps, rule)
    if rule == "clipped":
        return F.cross_entropy(SHARPNESS * scores, labels, reduction="none", label_smoothing=smoothing)
    truth = labels[:, None, None].expand(-1, *maps.shape[2:])
    losses = F.cross_entropy(maps, truth, reduction="none", label_smoothing=smoothing).mean(dim=(1, 2))
    own = scores.gather(1, labels[:, None])[:, 0]
    others = scores.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    return losses + margin * (LEAD - own + others).relu()
