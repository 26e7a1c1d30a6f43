"""Some images and the ensemble that is to be fooled on them: what is known of the clean votes, and how patches fare."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from majorcert.attacks.aim import Aim
from majorcert.attacks.paint import paste
from majorcert.attacks.second_round import SecondRound
from majorcert.attacks.surrogate import Surrogate
from majorcert.attacks.tiebreak import elected, lacking, winner
from majorcert.core.plurality import Ints
from majorcert.nets.views import to_unit

MOST_WATCHED = 32
"""So many rows and columns of placements at most are watched for an alert in the search; the judge watches all."""


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

    sites: Sites
    log_scores: list[Tensor]
    """for each network (N, views, labels), of the views that are looked at"""
    kept: list[Tensor]
    """for each network (N, labels): the votes that the patch cannot touch"""
    counts: Tensor
    """(N, defenders, 1 + watched, labels) the true votes: all of them, and those without each watched placement"""
    support: Tensor
    """(N, defenders, labels) the mean score of each label in the touched views, from 0 to 1"""
    slack: int = 0
    """votes or points by which the label may be behind without a watched placement; of one defender"""

    @property
    def label(self) -> Tensor:
        """(N,) what the ensemble says now."""
        return self._said()[:, 0]

    def fooled(self, clean: Tensor) -> Tensor:
        """(N,) is the label another one than the clean one, and said without each watched placement as well?"""
        said = self._said()
        silent = said == said[:, :1]
        if self.slack:
            lacks = self._lacks()[:, 0]
            silent = lacks.gather(2, said[:, :1, None].expand(*lacks.shape[:2], 1))[:, :, 0] == 0
        return (said[:, 0] != clean) & silent.all(dim=1)

    def lacking(self) -> Tensor:
        """(N, defenders, labels) the votes that each label lacks in each defender."""
        return _summed(self._lacks().float())

    def _lacks(self) -> Tensor:
        return _eased(lacking(self.counts), self.slack)

    def _said(self) -> Tensor:
        return elected(winner(self.counts), self.counts.shape[-1])


def _eased(missing: Tensor, slack: int) -> Tensor:
    """(N, defenders, 1 + watched, ...) what is missing; without a watched placement only what exceeds the slack."""
    return torch.cat([missing[:, :, :1], (missing[:, :, 1:] - slack).clamp(min=0)], dim=2) if slack else missing


def _summed(missing: Tensor) -> Tensor:
    """Over the watched placements (dimension 2): half of the worst and half of the mean."""
    return (missing.amax(dim=2) + missing.mean(dim=2)) / 2


@dataclass(frozen=True, eq=False)
class Victim:
    """The images, in units of 0 to 1, with what every view of them votes for; all on one device."""

    surrogates: tuple[Surrogate, ...]
    images: Tensor
    ballots: tuple[Tensor, ...]
    """for each network (images, views, votes) labels, negative where there is none"""
    points: Tensor
    """(defenders, networks) what a vote of each network is worth to each defender; of a pool, several are"""
    watched: tuple[Tensor, ...]
    """for each network (watched, views) how much each view says without each placement that is watched for an alert"""
    n_labels: int
    counts: Tensor
    """(images, defenders, labels) the clean votes"""
    labels: Tensor
    """(images, defenders)"""
    clean: Tensor
    """(images,)"""
    seconds: tuple[SecondRound | None, ...]
    """for each network its second round, if it has one"""
    slack: int = 0

    @classmethod
    def of(
        cls,
        surrogates: Sequence[Surrogate],
        images: Tensor,
        ballots: Sequence[Tensor],
        points: Tensor,
        labels: Tensor,
        n_labels: int,
        *,
        watching: bool = False,
        slack: int = 0,
        seconds: Sequence[SecondRound | None] = (),
    ) -> "Victim":
        """Put all on the device.

        Args:
            images: uint8 (N, C, H, W).
            ballots: of each network (N, views, votes).
            labels: (N, defenders) what each defender says of the clean image.
            watching: the ensemble raises an alert where it would say another label without a placement.
            slack: and that leads by more than so many votes or points.
            seconds: of each network its second round, if it has one.
        """
        device = surrogates[0].rows.device
        placed, worth = tuple(each.to(device).long() for each in ballots), points.to(device).float()
        counts = torch.einsum("ps,nsl->npl", worth, torch.stack([_count(each, n_labels) for each in placed], 1).float())
        watched, said = _watched(surrogates, watching), labels.to(device).long()
        unit, clean = to_unit(images.to(device)), elected(said, n_labels)
        rounds = tuple(seconds) or (None,) * len(surrogates)
        return cls(tuple(surrogates), unit, placed, worth, watched, n_labels, counts, said, clean, rounds, slack)

    @property
    def watching(self) -> bool:
        return len(self.watched[0]) > 0

    @property
    def most_touched(self) -> float:
        """Points that one placement touches at most, of the mean defender."""
        most = torch.tensor([float(each.n_touched) for each in self.surrogates], device=self.points.device)
        return float((self.points @ most).mean())

    def kept(self, sites: Sites) -> list[Tensor]:
        """For each network (N, labels): the clean votes that a patch at the site leaves alone."""
        found = []
        for surrogate, ballots in zip(self.surrogates, self.ballots, strict=True):
            views, real = surrogate.touched(sites.top, sites.left)
            lost = ballots[sites.image[:, None], views].masked_fill(~real[:, :, None], -1)
            found.append(_count(ballots, self.n_labels)[sites.image] - _count(lost, self.n_labels))
        return found

    def kept_points(self, sites: Sites) -> Tensor:
        """(N, defenders, labels) the same, in points."""
        return torch.einsum("ps,nsl->npl", self.points, torch.stack(self.kept(sites), dim=1).float())

    def n_touched(self, sites: Sites) -> Tensor:
        """(N, defenders) how many points a patch at the site touches."""
        each = [surrogate.touched(sites.top, sites.left)[1].sum(dim=1) for surrogate in self.surrogates]
        return torch.stack(each, dim=1).float() @ self.points.T

    def looked_at(self, place: int, sites: Sites) -> tuple[Tensor, Tensor]:
        """(N, views) what one network is given anew, and (N, views, labels) what a vote of each is worth to each label.

        A row that overrules says the label of the clean image, which is then worth more than all other votes.
        """
        views, real = self.surrogates[place].touched(sites.top, sites.left)
        worth, second = real[:, :, None].expand(-1, -1, self.n_labels).float(), self.seconds[place]
        if second is None:
            return views, worth
        pairs, overruling = second.pairs(sites.image, sites.top, sites.left)
        n_votes, own = self.ballots[place].shape[1], one_hot(self.labels[sites.image, place], self.n_labels)
        most = (n_votes + 1) * overruling[:, :, None] * own[:, None]
        return torch.cat([views, n_votes + pairs], dim=1), torch.cat([worth, most], dim=1)

    def look(self, sites: Sites, patches: Tensor, kept: list[Tensor]) -> Look:
        """How the candidates fare with these (N, C, h, w) patches of 0 to 1."""
        painted = paste(self.images[sites.image], patches, sites.top, sites.left)
        log_scores, votes, support = [], [], []
        for place, surrogate in enumerate(self.surrogates):
            views, worth = self.looked_at(place, sites)
            logs = surrogate.log_scores(painted, views)
            log_scores.append(logs)
            votes.append(surrogate.votes(logs.detach()).float())
            support.append(_mean(logs.detach().exp(), worth.any(dim=2)))
        return Look(sites, log_scores, kept, self.tallies(sites, votes, kept), self.by_defender(support), self.slack)

    def tallies(self, sites: Sites, votes: list[Tensor], kept: list[Tensor]) -> Tensor:
        """(N, defenders, 1 + watched, labels) the votes of each label, in all and without each watched placement.

        Args:
            votes: for each network (N, views, labels), true or soft, of the views that are looked at.
        """
        found = []
        for place, (ballots, watched, new, untouched) in enumerate(
            zip(self.ballots, self.watched, votes, kept, strict=True)
        ):
            views, worth = self.looked_at(place, sites)
            cast = new * worth
            tallies = (untouched + cast.sum(dim=1))[:, None]
            if len(watched):
                clean = _votes(ballots[sites.image], self.n_labels)
                view = views[:, :, None].expand_as(cast)
                every = clean.scatter_add(1, view, cast - clean.gather(1, view) * worth)
                tallies = torch.cat([tallies, watched @ every], dim=1)
            found.append(tallies)
        return torch.einsum("ps,nswl->npwl", self.points, torch.stack(found, dim=1))

    def by_defender(self, values: list[Tensor]) -> Tensor:
        """(N, defenders, ...) of (N, ...) values of each network the mean, each worth its points."""
        return torch.einsum("ps,ns...->np...", self.points / self.points.sum(1, keepdim=True), torch.stack(values, 1))

    def misses(self, look: Look, votes: list[Tensor], aim: Aim) -> Tensor:
        """(N, defenders) by how much such votes miss what each is to say, with and without each watched placement."""
        tallies = self.tallies(look.sites, votes, look.kept)
        said = aim.said[:, :, None, None].expand(*tallies.shape[:3], 1)
        own, other = tallies.gather(3, said)[..., 0], tallies.scatter(3, said, float("-inf")).amax(dim=3)
        return _summed(_eased((other - own + 1).relu(), self.slack)) / self.n_touched(look.sites).clamp(min=1)

    def rank(self, look: Look, aim: Aim) -> Tensor:
        """(N,) the smaller the better: under 0 if the ensemble is fooled, else the votes that the aim lacks.

        Between equal ones the mean score of what is to be said decides, which moves by less than a vote.
        """
        support = (aim.at_said(look.support) * aim.movable).sum(dim=1) / aim.movable.sum(dim=1).clamp(min=1)
        fooled = look.fooled(self.clean[look.sites.image])
        return torch.where(fooled, -1 - support, aim.missing(aim.at_said(look.lacking())) + 1 - support)


def _watched(surrogates: Sequence[Surrogate], watching: bool) -> tuple[Tensor, ...]:
    """For each network (watched, views) what speaks without each placement; of placements that are alike, one."""
    rows = _alike([each.rows.cpu().numpy() for each in surrogates])
    columns = _alike([each.columns.cpu().numpy() for each in surrogates])
    found = []
    for each in surrogates:
        down, across = each.rows[torch.from_numpy(rows)], each.columns[torch.from_numpy(columns)]
        speaks = each.speaks[down[:, None], across[None]].flatten(0, 1)
        found.append(speaks if watching else speaks[:0])
    return tuple(found)


def _alike(cells: list[Ints]) -> Ints:
    """One placement of each kind, at most MOST_WATCHED of them, evenly spaced."""
    first = np.unique(np.stack(cells), axis=1, return_index=True)[1]
    return np.sort(first)[np.unique(np.linspace(0, len(first) - 1, min(MOST_WATCHED, len(first))).round().astype(int))]


def _mean(scores: Tensor, real: Tensor) -> Tensor:
    """(N, labels) over the touched views."""
    return (scores * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1)


def _votes(ballots: Tensor, n_labels: int) -> Tensor:
    """(N, views, labels) 1 where one of (N, views, votes) ballots names the label."""
    # What is no label goes to a last column, which is cut off.
    votes = torch.zeros(*ballots.shape[:2], n_labels + 1, device=ballots.device)
    return votes.scatter_(2, torch.where(ballots < 0, n_labels, ballots), 1.0)[:, :, :n_labels]


def _count(ballots: Tensor, n_labels: int) -> Tensor:
    """(N, labels) the votes of (N, views, votes) ballots."""
    flat = ballots.flatten(1)
    counts = torch.zeros(len(flat), n_labels + 1, dtype=torch.long, device=flat.device)
    return counts.scatter_add_(1, torch.where(flat < 0, n_labels, flat), torch.ones_like(flat))[:, :n_labels]
