"""Networks made of networks: a mean, one with its mirror image, and one that asks the others where it is unsure."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)


class Average(nn.Module):
    """Several networks as one: the softmax of its output is the mean of the members' probabilities."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, views: Tensor) -> Tensor:
        return log_mean([member(views) for member in self.members])


class Mirror(nn.Module):
    """A network that looks at each view twice, the second time left to right, and takes the mean of both.

    What it sees then is the very view of the mirrored image: in a crop or a whole image the columns count from the
    other side. What it says of that as a map is mirrored back.
    """

    def __init__(self, network: nn.Module, view: str) -> None:
        super().__init__()
        self.members = nn.ModuleList([network])
        self.crop = view in ("crop", "whole")  # whose last channel is the column

    def forward(self, views: Tensor) -> Tensor:
        network = self.members[0]
        alone, other = network(views), network(mirrored(views, crop=self.crop))
        return log_mean([alone, other.flip(3) if other.ndim == 4 else other])


class Cascade(nn.Module):
    """The first network of a mean where that one is sure, and the mean of all elsewhere: one function of the view."""

    def __init__(self, whole: nn.Module, sure: float) -> None:
        super().__init__()
        self.members = nn.ModuleList([whole])
        self.sure = sure

    @property
    def first(self) -> nn.Module:
        network = self.members[0]
        while isinstance(network, Average | Mirror):
            network = network.members[0]
        return network

    def forward(self, views: Tensor) -> Tensor:
        """Each stage for all views; `Masker` asks the second one only where it speaks."""
        alone = self.first(views).float()
        sure = alone.softmax(dim=1).amax(dim=1, keepdim=True) >= self.sure
        return torch.where(sure, alone, self.members[0](views))


def mirrored(views: Tensor, *, crop: bool) -> Tensor:
    """The views of the mirrored images. The last channel of a crop is the column, from -1 to 1."""
    flipped = views.flip(3)
    return torch.cat([flipped[:, :-1], -flipped[:, -1:]], dim=1) if crop else flipped


def log_mean(logits: list[Tensor]) -> Tensor:
    """Logits whose softmax is the mean of the softmax of each."""
    each = torch.stack([F.log_softmax(one.float(), dim=1) for one in logits])
    return each.logsumexp(dim=0) - math.log(len(logits))
