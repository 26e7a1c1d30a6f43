"""From images to labels under masks: a network, the masks, and which pairs of them are looked at."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import NO_LABEL
from majorcert.core.tally import count_votes
from majorcert.core.threat import ImageSize
from majorcert.defences.masking import Masks, double_masking
from majorcert.nets.company import Network
from majorcert.nets.device import brought
from majorcert.nets.joined import Cascade
from majorcert.nets.masked import MaskCutter, centred
from majorcert.nets.models import ModelConfig, first_of
from majorcert.nets.scorer import Health, Scorer
from majorcert.nets.tensor_votes import distance_of, votes_of

Progress = Callable[[int], None]
Told = Callable[[Ints], None]
"""Called with the labels of some images, once they are known."""
BAND = 0.01
"""All networks are asked so far past `sure`: where both stages agree, it does not matter which one speaks."""


class Table(NamedTuple):
    """The labels of some images under pairs of masks, on the device."""

    labels: Tensor
    """(images, masks, masks); NO_LABEL where nobody looked"""
    distance: Tensor
    """(images, masks), float32: how far each row was from changing; 0 where it is not whole"""
    health: Health
    """to be checked before the labels are believed"""


@dataclass(frozen=True, eq=False)
class Masker:
    """A scorer of views under the masks of one set; make it with `Masker.of`."""

    scorer: Scorer
    cutter: MaskCutter
    second: Scorer | None = None  # of a cascade: all networks, who are asked where the first one is not sure
    sure: float = 0.0  # from which probability on the first one is sure

    @classmethod
    def of(
        cls,
        network: Network,
        masks: Masks,
        *,
        image_size: ImageSize,
        channels: int,
        config: ModelConfig | None = None,
        **how: Any,
    ) -> "Masker":
        """Put a copy of the network on the device; config and `how` as for `Scorer.of`."""
        cutter = MaskCutter.of(masks, image_size)

        def scorer(network: Network, config: ModelConfig | None) -> Scorer:
            return Scorer.of(network, (channels, *image_size), views_per_image=cutter.n_masks, config=config, **how)

        if not isinstance(network, Cascade):
            alone = scorer(network, config)
            return cls(alone, cutter.to(alone.device))
        first = scorer(network.first, config and first_of(config))
        whole = scorer(network.members[0], config and config.members[0])
        return cls(first, cutter.to(first.device), whole, network.sure)

    @property
    def n_masks(self) -> int:
        return self.cutter.n_masks

    @property
    def n_pairs(self) -> int:
        """Of masks, in any order; a mask with itself is one of them."""
        return self.n_masks * (self.n_masks + 1) // 2

    def facts(self) -> dict[str, Any]:
        """What the labels depend on beside the weights and the images, as plain JSON."""
        return {"threshold": None, "view": "masked", **self.scorer.facts()}

    def table(self, images: Tensor, progress: Progress | None = None) -> Table:
        """The labels of uint8 or float (N, C, H, W) images under every pair, perhaps still being computed."""
        look = _Look(self, images, progress)
        look.at(*torch.triu_indices(self.n_masks, self.n_masks))
        return look.table()

    def table_to_certify(self, images: Tensor, progress: Progress | None = None, told: Told | None = None) -> Table:
        """The same, but a pair of masks whose rows are both known to be mixed is not looked at.

        Neither row can become unanimous, whatever the pair would say; so it changes no label, and proves nothing at any
        placement, of any patch.

        Args:
            told: the rows that decide the label are looked at first.
        """
        look = self._singles(images, progress)
        if told is not None:
            told(self._decided(look))
        self._rounds(look, lambda: ~look.mixed())
        return look.table()

    def table_to_detect(self, images: Tensor, progress: Progress | None = None, told: Told | None = None) -> Table:
        """The same, but of two masks only what decides the label: an alert depends on single masks alone."""
        look = self._singles(images, progress)
        labels = self._decided(look)
        if told is not None:
            told(labels)
        return look.table()

    def predict(self, images: Tensor) -> Ints:
        """(images,) what double masking says: one mask at a time first, then the rows that dissent, and no others."""
        return self._decided(self._singles(images, None))

    def _decided(self, look: "_Look") -> Ints:
        """(images,) the labels, once the rows that dissent were looked at as well."""
        singles = look.checked().diagonal(axis1=1, axis2=2)
        majority = plurality(count_votes(singles[:, :, None], self.scorer.n_classes))
        dissents = torch.from_numpy(singles != majority[:, None]).to(look.labels.device)
        self._rounds(look, lambda: dissents & ~look.mixed())
        whole = (look.checked() == singles[:, :, None]).all(axis=2)
        return double_masking(singles, whole, self.scorer.n_classes)

    def _singles(self, images: Tensor, progress: Progress | None) -> "_Look":
        """Tables in which every image was looked at under each mask alone."""
        look, mask = _Look(self, images, progress), torch.arange(self.n_masks)
        scores = look.at(mask, mask)
        look.order = _order(look.labels, scores.view(*look.labels.shape[:2], scores.shape[1]))
        return look

    def _rounds(self, look: "_Look", wanted: Callable[[], Tensor]) -> None:
        """Look at the (images, masks) rows that are wanted, a few pairs at a time, as long as they are wanted."""
        done = 0
        while done < self.n_masks - 1:
            seconds = look.order[:, :, done : 2 * done + 1]
            which, first = (rows := wanted()).nonzero().repeat_interleave(seconds.shape[2], dim=0).T
            second = seconds[rows].flatten()
            # A pair that another row has asked for, now or before, is looked at once.
            asked = torch.zeros_like(look.labels, dtype=torch.bool)
            asked[which, torch.minimum(first, second), torch.maximum(first, second)] = True
            look.views(*(asked & (look.labels == NO_LABEL)).nonzero().T)
            done += seconds.shape[2]


class _Look:
    """Tables that are being filled, on the device."""

    def __init__(self, masker: Masker, images: Tensor, progress: Progress | None) -> None:
        self.masker, self.progress, scorer = masker, progress, masker.scorer
        self.sheet = centred(brought(images, scorer.device)).to(scorer.dtype)
        shape = len(images), masker.n_masks, masker.n_masks
        self.labels = torch.full(shape, NO_LABEL, dtype=torch.int32, device=scorer.device)
        self.distance = torch.zeros(shape, device=scorer.device)
        self.order = self.labels[:, :, :0]  # of the second masks of each row, once all are looked at alone
        self.health = Health(*torch.ones(2, dtype=torch.bool, device=scorer.device))

    def at(self, first: Tensor, second: Tensor) -> Tensor:
        """Look at every image under each of these pairs."""
        n_images = len(self.labels)
        which = torch.arange(n_images).repeat_interleave(len(first))
        return self.views(which, first.repeat(n_images), second.repeat(n_images))

    def views(self, *place: Tensor) -> Tensor:
        """Look at the views of these numbers of images, of first and of second masks; (views, classes) the scores."""
        which, first, second = place = tuple(each.to(self.sheet.device) for each in place)
        masker = self.masker
        if not len(which):
            return self.sheet.new_empty((0, masker.scorer.n_classes))
        probabilities = self._scored(masker.scorer, place)
        with torch.inference_mode():
            labels, distance = _said(probabilities)
            if masker.second is not None:
                top = probabilities.amax(dim=1)
                asked = (top < masker.sure + BAND).nonzero()[:, 0]
                mean = self._scored(masker.second, tuple(each[asked] for each in place), again=True)
                gap = (top - masker.sure).abs()
                some = _both((labels[asked], distance[asked]), _said(mean), top[asked] < masker.sure, gap[asked])
                distance = torch.minimum(distance, gap)
                labels[asked], distance[asked] = some
            for here in ((which, first, second), (which, second, first)):
                self.labels[here], self.distance[here] = labels, distance
        return probabilities

    def _scored(self, scorer: Scorer, place: tuple[Tensor, ...], *, again: bool = False) -> Tensor:
        """(views, classes) the probabilities of these views."""
        found = [self.sheet.new_empty((0, scorer.n_classes), dtype=torch.float32)]

        def use(probabilities: Tensor) -> None:
            found.append(probabilities)
            if self.progress is not None and not again:
                self.progress(len(probabilities))

        def cut(start: int, stop: int) -> Tensor:
            return self.masker.cutter.take(self.sheet, *(each[start:stop] for each in place))

        health = scorer.score(len(place[0]), cut, use)
        self.health = Health(*(old & new for old, new in zip(self.health, health, strict=True)))
        return torch.cat(found)

    def mixed(self) -> Tensor:
        """(images, masks) the rows in which two labels are known to differ."""
        single = self.labels.diagonal(dim1=1, dim2=2)[:, :, None]
        return ((self.labels != single) & (self.labels != NO_LABEL)).any(dim=2)

    def checked(self) -> Ints:
        """The labels so far, once they are known to come from numbers, and of each view alone."""
        self.health.check()
        labels: Ints = self.labels.cpu().numpy()
        return labels

    def table(self) -> Table:
        whole = (self.labels != NO_LABEL).all(dim=2)
        return Table(self.labels, self.distance.amin(dim=2) * whole, self.health)


def _said(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """(views,) labels, and how far every probability may move before each changes."""
    return votes_of(probabilities, None, 1)[:, 0].int(), distance_of(probabilities, None)


def _order(labels: Tensor, scores: Tensor) -> Tensor:
    """(images, masks, masks - 1) the second masks of each row: first those under which, alone, its label scores least.

    They hide what speaks for it, so a row that is mixed is soon known to be. Nothing else depends on the order.
    """
    n = labels.shape[1]
    own = labels.diagonal(dim1=1, dim2=2).long()[:, None].expand(-1, n, -1)
    kept = scores.gather(2, own).transpose(1, 2)
    itself = torch.eye(n, dtype=torch.bool, device=kept.device)
    return kept.masked_fill(itself, torch.inf).argsort(dim=2, stable=True)[:, :, :-1]


def _both(
    alone: tuple[Tensor, Tensor], mean: tuple[Tensor, Tensor], unsure: Tensor, gap: Tensor
) -> tuple[Tensor, Tensor]:
    """What a cascade says where both stages were asked.

    The label stays while the stage that speaks says it and goes on to speak, or while the other one says it as well.
    """
    own, other = torch.where(unsure, mean[1], alone[1]), torch.where(unsure, alone[1], mean[1])
    stays = torch.where(alone[0] == mean[0], torch.maximum(gap, other), gap)
    return torch.where(unsure, mean[0], alone[0]), torch.minimum(own, stays)
