"""Some images and the ensemble that is to be fooled on them: what is known of the clean votes, and how patches fare."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from majorcert.attacks.aim import Aim
from majorcert.attacks.paint import paste
from majorcert.attacks.surrogate import Surrogate
from majorcert.attacks.tiebreak import elected, lacking, winner
from majorcert.nets.views import to_unit


@dataclass(frozen=True, eq=False)
class Sites:
    """N candidates: which image, and where the patch is."""

    image: Tensor
    top: Tensor
    left: Tensor

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, some: Tensor | slice) -> "Sites":
        return Sites(self.image[some], self.top[some], self.left[some])


@dataclass(frozen=True, eq=False)
class Look:
    """How N painted candidates fare: the touched views of each defender anew, all others as on the clean image."""

    log_scores: list[Tensor]
    """for each defender (N, touched, labels)"""
    real: list[Tensor]
    """for each defender (N, touched): not merely there to fill up"""
    kept: list[Tensor]
    """for each defender (N, labels): the votes that the patch cannot touch"""
    counts: Tensor
    """(N, defenders, labels) the true votes"""

    @property
    def label(self) -> Tensor:
        """(N,) what the ensemble says now."""
        return elected(winner(self.counts), self.counts.shape[2])

    def lacking(self) -> Tensor:
        """(N, defenders, labels) the votes that each label lacks in each defender."""
        return lacking(self.counts)

    def support(self) -> Tensor:
        """(N, defenders, labels) the mean score of each label in the touched views, from 0 to 1."""
        means = [
            (logs.exp() * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1)
            for logs, real in zip(self.log_scores, self.real, strict=True)
        ]
        return torch.stack(means, dim=1)


@dataclass(frozen=True, eq=False)
class Victim:
    """The images, in units of 0 to 1, with what every view of them votes for; all on one device."""

    surrogates: tuple[Surrogate, ...]
    images: Tensor
    ballots: tuple[Tensor, ...]
    """for each defender (images, ablations, votes) labels, negative where there is none"""
    n_labels: int
    counts: Tensor
    """(images, defenders, labels) the clean votes"""
    labels: Tensor
    """(images, defenders)"""
    clean: Tensor
    """(images,)"""

    @classmethod
    def of(cls, surrogates: Sequence[Surrogate], images: Tensor, ballots: Sequence[Tensor], n_labels: int) -> "Victim":
        """Args: images uint8 (N, C, H, W); ballots of each defender (N, ablations, votes); on the CPU or the device."""
        device = surrogates[0].rows.device
        placed = tuple(each.to(device).long() for each in ballots)
        counts = torch.stack([_count(each, n_labels) for each in placed], dim=1)
        labels = winner(counts)
        unit = to_unit(images.to(device))
        return cls(tuple(surrogates), unit, placed, n_labels, counts, labels, elected(labels, n_labels))

    def kept(self, sites: Sites) -> list[Tensor]:
        """For each defender (N, labels): the clean votes that a patch at the site leaves alone."""
        found = []
        for surrogate, ballots, counts in zip(self.surrogates, self.ballots, self.counts.unbind(1), strict=True):
            ablations, real = surrogate.touched(sites.top, sites.left)
            lost = ballots[sites.image[:, None], ablations].masked_fill(~real[:, :, None], -1)
            found.append(counts[sites.image] - _count(lost, self.n_labels))
        return found

    def n_touched(self, sites: Sites) -> Tensor:
        """(N, defenders) how many views a patch at the site touches."""
        each = [surrogate.touched(sites.top, sites.left)[1].sum(dim=1) for surrogate in self.surrogates]
        return torch.stack(each, dim=1)

    def look(self, sites: Sites, patches: Tensor, kept: list[Tensor]) -> Look:
        """How the candidates fare with these (N, C, h, w) patches of 0 to 1."""
        painted = paste(self.images[sites.image], patches, sites.top, sites.left)
        log_scores, reals, counts = [], [], []
        for surrogate, untouched in zip(self.surrogates, kept, strict=True):
            ablations, real = surrogate.touched(sites.top, sites.left)
            logs = surrogate.log_scores(painted, ablations)
            votes = surrogate.votes(logs.detach()) * real[:, :, None]
            log_scores.append(logs)
            reals.append(real)
            counts.append(untouched + votes.sum(dim=1))
        return Look(log_scores, reals, kept, torch.stack(counts, dim=1))

    def rank(self, look: Look, sites: Sites, aim: Aim) -> Tensor:
        """(N,) the smaller the better: under 0 if the label changed, else the votes that the aim lacks.

        Between equal ones the mean score of what is to be said decides, which moves by less than a vote.
        """
        support = (aim.at_said(look.support()) * aim.movable).sum(dim=1) / aim.movable.sum(dim=1).clamp(min=1)
        flipped = look.label != self.clean[sites.image]
        return torch.where(flipped, -1 - support, aim.missing(aim.at_said(look.lacking())) + 1 - support)


def _count(ballots: Tensor, n_labels: int) -> Tensor:
    """(N, labels) the votes of (N, ablations, votes) ballots."""
    flat = ballots.flatten(1)
    # What is no label goes to a last column, which is cut off.
    counts = torch.zeros(len(flat), n_labels + 1, dtype=torch.long, device=flat.device)
    return counts.scatter_add_(1, torch.where(flat < 0, n_labels, flat), torch.ones_like(flat))[:, :n_labels]
