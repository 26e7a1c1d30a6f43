"""What the attack aims at: the labels that defenders are to be made to say, and how far that is."""

from dataclasses import dataclass

import torch
from torch import Tensor

NEVER = 10**6
"""More votes than there are: what cannot be moved."""


@dataclass(frozen=True, eq=False)
class Aim:
    """What defenders are to be made to say, for each of N candidates."""

    said: Tensor  # (N, defenders) the label that each defender is to say
    movable: Tensor  # (N, defenders) does it matter what this defender says?
    needed: Tensor  # (N,) how many of the movable ones are enough

    @classmethod
    def at_rival(cls, rival: Tensor, labels: Tensor, clean: Tensor) -> "Aim":
        """Enough defenders say the rival that it beats the clean label, given what they all say of the clean image."""
        movable = (labels == clean[:, None]) | (labels == rival[:, None])
        needed = torch.div(movable.sum(dim=1) + 1 + (rival > clean), 2, rounding_mode="floor")
        return cls(rival[:, None].expand_as(labels), movable, needed)

    @classmethod
    def at_choice(cls, forced: Tensor, clean: Tensor) -> "Aim":
        """Every defender says what a witness forces it to; those that it leaves with the clean label do not matter."""
        movable = forced != clean[:, None]
        return cls(forced, movable, movable.sum(dim=1))

    def __getitem__(self, some: Tensor) -> "Aim":
        return Aim(self.said[some], self.movable[some], self.needed[some])

    def where(self, condition: Tensor, other: "Aim") -> "Aim":
        """This aim where the (N,) condition holds, and the other one elsewhere."""
        return Aim(
            torch.where(condition[:, None], self.said, other.said),
            torch.where(condition[:, None], self.movable, other.movable),
            torch.where(condition, self.needed, other.needed),
        )

    def at_said(self, values: Tensor) -> Tensor:
        """(N, defenders) of (N, defenders, labels) values the ones of the labels that are to be said."""
        return values.gather(2, self.said[:, :, None])[:, :, 0]

    def easiest(self, distance: Tensor) -> Tensor:
        """(N, defenders) which defenders are to be moved: the needed number of them, the nearest ones first."""
        order = torch.where(self.movable, distance, float(NEVER)).argsort(dim=1, stable=True)
        return (order.argsort(dim=1) < self.needed[:, None]) & self.movable

    def missing(self, distance: Tensor) -> Tensor:
        """(N,) the sum of the distances of the defenders that are easiest to move."""
        return (distance * self.easiest(distance)).sum(dim=1)


def rival_gaps(distance: Tensor, labels: Tensor, clean: Tensor) -> Tensor:
    """(N, labels) how far each rival is from beating the clean label, from (N, defenders, labels) distances.

    The clean label is no rival of itself and is out of reach.
    """
    n_labels = distance.shape[2]
    gaps = []
    for rival in range(n_labels):
        wanted = torch.full_like(clean, rival)
        gaps.append(Aim.at_rival(wanted, labels, clean).missing(distance[:, :, rival]))
    rivals = torch.arange(n_labels, device=clean.device)
    return torch.stack(gaps, dim=1).masked_fill(rivals == clean[:, None], float(NEVER))
