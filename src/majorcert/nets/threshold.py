"""A threshold that suits a trained network and its data: chosen on images that it was not trained on."""

import torch
from torch import Tensor

from majorcert.nets.data import Dataset
from majorcert.nets.voter import Voter

USUAL = 0.3
"""Where there is nothing to choose by."""
CHOICES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)


def suited_threshold(voter: Voter, validation: Dataset, n_views: int) -> float:
    """The threshold with which most images have a firm lead: half of the views more for the truth than for any other.

    A patch of a sixth of the image's side changes about a quarter of the ballots, and each change counts twice. Of
    thresholds that are as good the one with the larger mean lead is taken, then the smaller.

    Args:
        n_views: about how many views may be looked at; images are drawn by lot until they have so many.
    """
    some = validation.drawn(n_chosen_by(n_views, voter.cutter.n_ablations), seed=0)
    assert some.labels is not None
    leads = torch.cat(
        [
            _leads(voter.scores(images), truth)
            for images, truth in zip(some.images.split(64), some.labels.split(64), strict=True)  # type: ignore[no-untyped-call]
        ],
        dim=1,
    )
    firm = (leads >= 0.5).double().mean(dim=1)
    best = max(range(len(CHOICES)), key=lambda k: (float(firm[k]), float(leads[k].mean()), -k))
    return CHOICES[best]


def n_chosen_by(n_views: int, n_ablations: int) -> int:
    """How many images a threshold is chosen by, if there are so many, where about so many views may be looked at."""
    return max(64, n_views // n_ablations)


def _leads(scores: Tensor, truth: Tensor) -> Tensor:
    """(choices, images): by which share of the views the truth leads over the best other label, at each threshold."""
    votes = torch.stack([(scores >= choice).double().mean(dim=1) for choice in CHOICES]).cpu()
    own = votes.gather(2, truth.expand(len(CHOICES), -1)[:, :, None]).squeeze(2)
    others = votes.scatter(2, truth.expand(len(CHOICES), -1)[:, :, None], -1.0).amax(dim=2)
    return own - others
