"""One defender as an attacker sees it: the scores of the touched views, and votes that have a gradient."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from majorcert.attacks.second_round import SecondRound
from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, Patch
from majorcert.defences.masking import MaskPairs
from majorcert.errors import ModelError
from majorcert.nets.bounding import BoundsDefender
from majorcert.nets.company import Network
from majorcert.nets.defender import Defender
from majorcert.nets.masked import centred
from majorcert.nets.masking import MaskingDefender
from majorcert.nets.member import Member
from majorcert.nets.rules import VOTES
from majorcert.nets.scorer import PRECISIONS, Precision, suited_precision

SOME_MASKS = 8
"""So many masks stand for all, where only the label is to be changed."""
Cut = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From (N, C, H, W) images of 0 to 1, numbers of images and numbers of views to what the network is given."""


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A copy of a defender's network through which gradients flow, and which views each placement touches."""

    views: "Views"
    network: Network
    threshold: float | None
    precision: Precision
    rows: Tensor
    columns: Tensor
    """(placement rows,), (placement columns,) the cell of each placement"""
    listed: Tensor
    """(cell rows, cell columns, most touched) the views that a patch there touches; the first one fills up"""
    real: Tensor
    """which of them do not merely fill up"""
    speaks: Tensor
    """(cell rows, cell columns, views) how much each view says of what the label is without a patch there"""

    @classmethod
    def of(
        cls, member: Member, patch: Patch, precision: Precision | None = None, *, watching: bool = True
    ) -> "Surrogate":
        """Of a defender of any kind that has a row in `VIEWS`; by default in bfloat16 on CUDA, in float32 elsewhere.

        Args:
            watching: what each placement would be without is asked as well, as under the promise of detection.
        """
        if type(member) not in VIEWS:
            raise ModelError(
                f"an attack on {type(member).__name__} is not known; a row in attacks/surrogate.py adds it"
            )
        views = VIEWS[type(member)](member, patch, watching)
        network, kind = views.network, suited_precision(precision, views.device)
        if isinstance(network, nn.Module):
            network = copy.deepcopy(network).eval().to(views.device, PRECISIONS[kind]).requires_grad_(False)
        else:
            kind = "float32"
        listed, real = _listed(views.touched)
        found = (views.rows, views.columns, listed, real, views.speaks.astype(np.float32))
        tables = (torch.from_numpy(each).to(views.device) for each in found)
        return cls(views, network, member.threshold, kind, *tables)

    @property
    def n_pixels(self) -> int:
        """Pixels of all touched views of one candidate, at most."""
        height, width = self.views.size
        return (1 if self.views.maps else self.n_touched) * height * width

    @property
    def n_touched(self) -> int:
        """Views that one placement touches, at most."""
        return self.listed.shape[2]

    def touched(self, top: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        """(N, touched) the views that each placement touches, and which of them do not merely fill up."""
        cell = self.rows[top], self.columns[left]
        return self.listed[cell], self.real[cell]

    def log_scores(self, images: Tensor, views: Tensor) -> Tensor:
        """(N, touched, labels) the logarithm of the score of each label in each of these views of N images."""
        n_images, n_views = views.shape
        if self.views.maps:
            first = torch.zeros(n_images, dtype=torch.long, device=images.device)
            shown = self.views.cut(images, torch.arange(n_images, device=images.device), first).to(
                PRECISIONS[self.precision]
            )
            logs = self.network(shown.contiguous()).float().log_softmax(dim=1).flatten(2).transpose(1, 2)
            return logs.gather(1, views[:, :, None].expand(-1, -1, logs.shape[2]))
        which = torch.arange(n_images, device=images.device).repeat_interleave(n_views)
        shown = self.views.cut(images, which, views.flatten()).to(PRECISIONS[self.precision])
        shown = shown.contiguous(memory_format=torch.channels_last if images.is_cuda else torch.contiguous_format)
        return self.network(shown).float().log_softmax(dim=1).view(n_images, n_views, -1)

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


@dataclass(frozen=True, eq=False)
class Views:
    """The views of one defender, as the core counts them."""

    network: Network
    device: torch.device
    cut: Cut
    cast: Callable[[Any], Ints]
    """from the defender's evidence to (images, views, votes) labels, negative where there is none"""
    size: tuple[int, int]
    rows: Ints
    columns: Ints
    touched: Bools
    """(cell rows, cell columns, views)"""
    speaks: Ints | Bools
    """(cell rows, cell columns, views) as in `Surrogate`"""
    whole: bool = True
    """do these votes alone make the label?"""
    maps: bool = False
    """does one pass over the image give what all of its views say?"""
    second: Callable[[Any], SecondRound | None] = lambda evidence: None
    """from the defender's evidence to the second round, if there is one; its views come after all others"""


def _voting(defender: Defender, patch: Patch, watching: bool) -> Views:
    """Ablations: without a placement, all that it does not touch vote.

    Of a rule that adds scores up, each view is taken to vote for its top label; what follows is left to the judge.
    """
    voter, cutter = defender.voter, defender.voter.cutter
    touched = cutter.strategy.touched(patch, cutter.image_size)
    masks = touched.masks()

    def cut(images: Tensor, which: Tensor, views: Tensor) -> Tensor:
        return cutter.take(cutter.sheet(images), which, views)

    voted = defender.rule == VOTES

    def cast(evidence: Any) -> Ints:
        return np.asarray(evidence.labels if voted else evidence.scores.points.argmax(axis=2)[:, :, None])

    tables = touched.rows, touched.columns, masks, ~masks
    return Views(voter.network, voter.device, cut, cast, cutter.view_size, *tables, voted, bool(cutter.map_size))


def _masking(defender: MaskingDefender, patch: Patch, watching: bool) -> Views:
    """One mask at a time, whose plurality is taken for the label; without a placement, its first cover speaks for all.

    Where no alert is to be avoided, some masks stand for all, since nearly all show the whole of a patch, and there is
    a second round. An alert is avoided only where all masks agree, so then there is none.
    """
    masker, cutter = defender.masker, defender.masker.cutter
    covering = cutter.masks.covering(patch, cutter.image_size)
    speaks = covering & (covering.cumsum(axis=2) == 1)
    n, device = cutter.n_masks, masker.scorer.device
    some = np.arange(n) if watching or n <= SOME_MASKS else np.linspace(0, n - 1, SOME_MASKS).round().astype(int)
    first, second = (torch.from_numpy(np.concatenate([some, each.ravel()])).to(device) for each in np.indices((n, n)))

    def cut(images: Tensor, which: Tensor, views: Tensor) -> Tensor:
        return cutter.take(centred(images), which, first[views], second[views])

    def cast(pairs: Any) -> Ints:
        return np.asarray(pairs.singles()[:, some, None])

    def overruling(pairs: MaskPairs) -> SecondRound | None:
        return None if watching else SecondRound.of(pairs, patch, device)

    rows, columns = (np.arange(side) for side in covering.shape[:2])
    tables = rows, columns, ~covering[:, :, some], (speaks * n)[:, :, some]
    network = defender.model if masker.second else masker.scorer.network
    return Views(network, device, cut, cast, cutter.image_size, *tables, whole=False, second=overruling)


def _bounding(defender: BoundsDefender, patch: Patch, watching: bool) -> Views:
    """One view, the whole image, which every placement touches."""
    bounder = defender.bounder
    rows, columns = (np.arange(side) for side in patch.n_placements(bounder.image_size))
    touched = np.ones((len(rows), len(columns), 1), dtype=bool)

    def cut(images: Tensor, which: Tensor, views: Tensor) -> Tensor:
        return images[which]

    def cast(bounds: Any) -> Ints:
        return np.asarray(bounds.label[:, None, None])

    return Views(bounder.network, bounder.device, cut, cast, bounder.image_size, rows, columns, touched, ~touched)


VIEWS: Mapping[type, Callable[[Any, Patch, bool], Views]] = {
    Defender: _voting,
    MaskingDefender: _masking,
    BoundsDefender: _bounding,
}
"""For each kind of defender, what a patch touches of it."""


def _listed(masks: Bools) -> tuple[Ints, Bools]:
    """(..., most touched) the views of each mask, filled up with its first one, and which do not merely fill up."""
    most = max(1, int(masks.sum(axis=-1).max()))
    listed = np.argsort(~masks, axis=-1, kind="stable")[..., :most]
    own = np.take_along_axis(masks, listed, axis=-1)
    return np.where(own, listed, listed[..., :1]), own
