"""Ensemble: several defenders, of whatever kinds, that classify under one certificate."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from majorcert.core.ballots import Ballots
from majorcert.core.detection import detect
from majorcert.core.majority import ReachKind, clean_label, majorcert
from majorcert.core.plurality import Ints, plurality_of_labels
from majorcert.core.reach import Evidence
from majorcert.core.threat import ImageSize, Patch, as_patch
from majorcert.core.verdict import Verdict
from majorcert.defences.bounds import Sizes
from majorcert.defences.largest import largest_patch
from majorcert.defences.masking import Masks
from majorcert.defences.pool import Pool
from majorcert.errors import ModelError
from majorcert.errors.frozen import filled
from majorcert.files.html import table
from majorcert.files.names import file_names
from majorcert.files.photo import SQUASHED, Resizing
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.bounding import BoundsDefender
from majorcert.nets.compact import Bits
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble_file import member_folders, resolved, saved_pooled, suited_to, write_members
from majorcert.nets.images import Images, as_tensor
from majorcert.nets.masking import MaskingDefender
from majorcert.nets.member import Member, Promise
from majorcert.nets.rules import VOTES


@dataclass(frozen=True, init=False, eq=False)
class Ensemble:
    """Several defenders of the same images and classes; its label is the plurality of their labels.

    >>> evidence = Ensemble.load("cifar10").evidence(images)            # vote once
    >>> mc.certify(evidence, 5), mc.detect(evidence, (3, 7)), mc.largest_patch(evidence)

    Args:
        pooled: add up their votes instead, as `mc.Pool` does; for defenders that vote.
    """

    defenders: tuple[Member, ...]
    pooled: bool

    def __init__(self, defenders: Sequence[Member], *, pooled: bool = False) -> None:
        if not defenders:
            raise ModelError("an ensemble is a list of one or more defenders, got none")
        for each in defenders:
            if not isinstance(each, Member):
                raise ModelError(
                    f"an ensemble is a list of defenders, got {type(each).__name__}; make one of each network: "
                    'mc.Defender(network, "columns:4", image_size=(32, 32))'
                )
        kinds = [(each.image_size, each.channels, each.class_names) for each in defenders]
        for place, kind in enumerate(kinds[1:], start=2):
            if kind != kinds[0]:
                raise ModelError(f"defenders 1 and {place} are for different images or classes: {kinds[0]} and {kind}")
        filled(self, defenders=tuple(defenders), pooled=pooled)
        if pooled:
            _ = self.voting

    def _repr_html_(self) -> str:
        rows = [
            [str(each.strategy), type(each).__name__, str(each.threshold or "top label")] for each in self.defenders
        ]
        height, width = self.image_size
        rule = "votes added up" if self.pooled else "plurality of their labels"
        title = f"Ensemble of {len(rows)}: {rule}, {len(self.class_names)} classes, images of {height}x{width}"
        return table(title, ["defender", "kind", "votes from"], rows)

    def to(self, device: torch.device | str) -> "Ensemble":
        """The same on another device."""
        return Ensemble([defender.to(device) for defender in self.defenders], pooled=self.pooled)

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.defenders[0].class_names

    @property
    def image_size(self) -> ImageSize:
        return self.defenders[0].image_size

    @property
    def channels(self) -> int:
        return self.defenders[0].channels

    @property
    def resizing(self) -> Resizing:
        """The one way in which all defenders see photos."""
        found = {each.resizing for each in self.defenders if each.blueprint is not None} or {SQUASHED}
        if len(found) > 1:
            raise ModelError(f"the defenders were trained on photos that were resized in different ways: {found}")
        return found.pop()

    @property
    def voting(self) -> tuple[Defender, ...]:
        """The defenders, if all of them vote."""
        found = tuple(each for each in self.defenders if isinstance(each, Defender) and each.rule == VOTES)
        if len(found) < len(self.defenders):
            raise ModelError(
                f"this is for defenders that vote, got {', '.join(str(e.strategy) for e in self.defenders)}"
            )
        return found

    def ballots(self, images: Images) -> list[Ballots]:
        """The ballots of each defender, if all of them vote."""
        seen = self._seen(images)
        return [defender.ballots(seen) for defender in self.voting]

    def evidence(self, images: Images, *, promise: Promise | None = None) -> list[Evidence]:
        """The evidence of each defender, or of their pool; images and promise as for `Defender.evidence`."""
        if self.pooled:
            return [Pool(self.ballots(images))]
        seen = self._seen(images)
        return [defender.evidence(seen, promise=promise) for defender in self.defenders]

    def predict(self, images: Images) -> Ints:
        """(images,) the label of each image: the plurality of the defenders' labels, or of all their votes."""
        if self.pooled:
            return clean_label(self.evidence(images))
        seen = self._seen(images)
        labels = np.stack([defender.predict(seen) for defender in self.defenders], axis=1)
        return plurality_of_labels(labels, len(self.class_names))

    def _seen(self, images: Images) -> Images:
        """The same images for all defenders: a loader may give other ones, or another order, when asked again."""
        if isinstance(images, torch.Tensor | np.ndarray):
            return images
        return as_tensor(images, self.channels, self.image_size, self.resizing)

    def certify(self, images: Images, patch: Patch, *, reach: ReachKind = "exact") -> Verdict:
        """Whether any placement of the patch could change the label that `predict` gives to each image."""
        return majorcert(self.evidence(images, promise="recovery"), patch, reach=reach)

    def detect(self, images: Images, patch: Patch, *, slack: int = 0) -> Verdict:
        """The label of each image, whether it raises an alert, and whether a patch could change it without one."""
        return detect(self.evidence(images, promise="detection"), patch, slack=slack)

    def largest_patch(self, images: Images) -> Ints:
        """(images,) the side of the largest square patch that each image is certified against."""
        return largest_patch(self.evidence(images, promise="recovery"))

    def save(self, folder: str | Path, *, bits: Bits = 32) -> None:
        """Write ensemble.json and a sub-folder for each defender; bits are those of `Defender.save`."""
        names = file_names([str(defender.strategy) for defender in self.defenders])
        for name, defender in zip(names, self.defenders, strict=True):
            defender.save(Path(folder) / name, bits=bits)
        write_members(Path(folder), names, pooled=self.pooled)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        pooled: bool | None = None,
        bound: Patch | int | tuple[int, int] | str | None = None,
        **options: Any,
    ) -> "Ensemble":
        """The ensemble in a folder, or the bundled one of that name; options are those of `Defender.load`.

        Args:
            pooled: whether votes are added up; by default as it was saved.
            bound: no patch is larger than this. Where the folder has defenders that know such a bound, as masking
                ones must, they take the place of the others.
        """
        place = resolved(folder)
        if bound is not None:
            place = suited_to(place, as_patch(bound))
        members = [load_defender(member, **options) for member in member_folders(place)]
        return cls(members, pooled=saved_pooled(place) if pooled is None else pooled)


def load_defender(folder: str | Path, **options: Any) -> Member:
    """The defender in a folder, of whatever kind; options are those of `Defender.load`."""
    kinds: dict[type, type[Any]] = {Masks: MaskingDefender, Sizes: BoundsDefender}
    kind = kinds.get(type(Blueprint.read(Path(folder)).strategy), Defender)
    member: Member = kind.load(folder, **options)
    return member
