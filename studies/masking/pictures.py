"""The images of this study: CIFAR-10 with 5,000 training images held out."""

import torch
from torch import Tensor

from majorcert.nets import data
from majorcert.nets.sources.order import shuffled

SPLITS = ("rest", "holdout", "trainval", "test")
N_HELD_OUT = 5000


def load(split: str) -> tuple[Tensor, Tensor]:
    """uint8 images (N, 3, 32, 32) and their labels (N,).

    "holdout" is the first half of what the product holds out for validation with seed 0; "rest" are the other 45,000
    training images, "trainval" all 50,000.
    """
    whole = data.load("cifar10", "test" if split == "test" else "trainval")
    assert whole.labels is not None
    if split in ("test", "trainval"):
        return whole.images, whole.labels
    order = torch.from_numpy(shuffled(len(whole), 0))
    some = (order[:N_HELD_OUT] if split == "holdout" else order[N_HELD_OUT:]).sort().values
    return whole.images[some], whole.labels[some]
