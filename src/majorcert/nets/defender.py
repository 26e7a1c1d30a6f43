"""Defender and Ensemble: networks that classify under a certificate. The one place where nets meets certify.

What `predict` returns is the label that `certify` is about: the core derives both from the same ballots.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from majorcert.core.ballots import Ballots
from majorcert.core.detection import detect
from majorcert.core.majority import DrsBound, ReachKind, clean_label, drs, majorcert
from majorcert.core.plurality import Ints, plurality_of_labels
from majorcert.core.reach import Evidence
from majorcert.core.regions import Strategy
from majorcert.core.regions import strategy as read_strategy
from majorcert.core.threat import ImageSize, Patch, as_patch
from majorcert.core.verdict import Verdict
from majorcert.defences.bounds import Sizes
from majorcert.defences.largest import largest_patch
from majorcert.defences.masking import Masks
from majorcert.defences.pool import Pool
from majorcert.errors import ModelError
from majorcert.errors.checks import checked_size
from majorcert.errors.frozen import filled
from majorcert.files.html import table
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.bounding import BoundsDefender
from majorcert.nets.ensemble_file import member_folders, member_names, resolved, saved_pooled, suited_to, write_members
from majorcert.nets.images import Images
from majorcert.nets.masking import MaskingDefender
from majorcert.nets.member import Member, checked_names
from majorcert.nets.models import ModelConfig, foreign
from majorcert.nets.recording import Recording
from majorcert.nets.rules import VOTES
from majorcert.nets.shards import CHUNK_IMAGES
from majorcert.nets.views import View, in_channels
from majorcert.nets.vote import of_votes
from majorcert.nets.voter import Network, Precision, Voter, checked


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Defender(Member):
    """One strategy with one classifier of views; its label is the plurality of its ballots.

    >>> defender = Defender(network, "columns:4", "crop", 0.3, image_size=(32, 32))
    >>> defender.certify(images, Patch(5)).certified

    Args:
        model: any callable from views to logits that looks at each view alone; a torch module is copied and put in
            eval mode.
        strategy: how views are cut, as an object or as a spec: "rows:4", "columns:19/5", "blocks:12".
        view: "crop", the visible window with two channels that say where it was, or "canvas", the whole image with
            hidden pixels 0 and its complement; of fields "whole", the image itself, for a network that gives a map.
        threshold: a score, from 0 to 1, at or over which a view votes for a label; None: for its top label alone.
        image_size: (height, width) of the images.
        channels: 3 for colour images, 1 for grey ones.
        class_names: one for each logit; by default "0", "1", ...
        rule: what makes a label of the scores of all views: "votes" (their plurality), "clipped" (the largest sum; a
            network's logits are taken one by one, by a sigmoid), or "masked:5x5" (PatchGuard's, against such patches).
        config: what the model was built from, if it is one of this package; with it the defender can be saved.
        factory: the function that makes such a module, if it is your own: "package.module:function"; the same.
        training: what is recorded with it of how it was trained.
        device: "cpu", "cuda", "cuda:1", or "auto" for CUDA where there is any.
        precision: "float32", "bfloat16" or "float16"; by default bfloat16 on CUDA and float32 elsewhere.
        batch_size: views in one pass on a GPU; by default as many as suit it.
        compiled: compile the network first.
    """

    model: Network
    voter: Voter
    class_names: tuple[str, ...]
    blueprint: Blueprint | None
    how: Mapping[str, Any]

    def __init__(
        self,
        model: Network,
        strategy: Strategy | str,
        view: View = "crop",
        threshold: float | None = 0.3,
        *,
        image_size: ImageSize,
        channels: int = 3,
        class_names: Sequence[str] | None = None,
        rule: str = VOTES,
        config: ModelConfig | None = None,
        factory: str | None = None,
        training: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        precision: Precision | None = None,
        batch_size: int | None = None,
        compiled: bool = False,
    ) -> None:
        size = checked_size(image_size)
        cut = read_strategy(strategy) if isinstance(strategy, str) else strategy
        how: dict[str, Any] = {"precision": precision, "batch_size": batch_size, "compiled": compiled, "rule": rule}
        about: dict[str, Any] = {"image_size": size, "channels": channels, "config": config, "device": device}
        voter = Voter.of(model, cut, view, threshold, **about, **how)
        names, blueprint = checked_names(class_names, voter.n_classes), None
        if factory is not None:
            config = foreign(factory, in_channels(view, channels), len(names))
        if config is not None:
            origin = dict(training or {})
            blueprint = Blueprint(cut, view, threshold, size, channels, names, config, rule=rule, training=origin)
        filled(self, model=model, voter=voter, class_names=names, blueprint=blueprint, how=how)

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"Defender({self.strategy}, {self.view}, {len(self.class_names)} classes, images of {height}x{width})"

    @property
    def strategy(self) -> Strategy:
        return self.voter.cutter.strategy

    @property
    def view(self) -> View:
        return self.voter.cutter.view

    @property
    def threshold(self) -> float | None:
        return self.voter.threshold

    @property
    def rule(self) -> str:
        return self.voter.rule

    @property
    def image_size(self) -> ImageSize:
        return self.voter.cutter.image_size

    @property
    def channels(self) -> int:
        return self.voter.channels

    def to(self, device: torch.device | str) -> "Defender":
        """The same on another device; a precision and a batch size that were not asked for suit that device."""
        about: dict[str, Any] = {"image_size": self.image_size, "channels": self.channels, "device": device, **self.how}
        config = None if self.blueprint is None else self.blueprint.model
        voter = Voter.of(self.model, self.strategy, self.view, self.threshold, config=config, **about)
        return filled(copy(self), voter=voter)

    def recording(self, *, scores: bool = False, certify_only: bool = False) -> Recording:
        return of_votes(self.voter, scores=scores, certify_only=certify_only)

    def scores(self, images: Images) -> npt.NDArray[np.float32]:
        """(images, ablations, classes) the probabilities that the network gives to each view."""
        found = [np.empty((0, self.voter.cutter.n_ablations, len(self.class_names)), np.float32)]
        tensor = self._tensor(images)
        for start in range(0, len(tensor), CHUNK_IMAGES):
            kept = checked(self.voter.vote(tensor[start : start + CHUNK_IMAGES], keep_scores=True)).scores
            assert kept is not None, "scores were to be kept"
            found.append(kept.cpu().numpy())
        return np.concatenate(found)

    def ballots(self, images: Images) -> Ballots:
        """What every view of the images votes for: the evidence that `predict` and `certify` use.

        Vote once, and ask `mc.certify`, `mc.largest_patch` and `mc.detect` as often as you like.
        """
        found = self.evidence(images)
        if not isinstance(found, Ballots):
            raise ModelError(f"this is for defenders that vote, got one with the rule {self.rule!r}; use its evidence")
        return found

    def certify(self, images: Images, patch: Patch, *, bound: DrsBound = "local") -> Verdict:
        """Whether any placement of the patch could change the label that `predict` gives to each image."""
        return drs(self.evidence(images), patch, bound=bound)

    @classmethod
    def _further(cls, known: Blueprint) -> dict[str, Any]:
        return {"view": known.view, "threshold": known.threshold, "rule": known.rule}


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
        return [defender.ballots(images) for defender in self.voting]

    def evidence(self, images: Images) -> list[Evidence]:
        """The evidence of each defender, or of their pool; images as for `Defender.evidence`."""
        if self.pooled:
            return [Pool(self.ballots(images))]
        return [defender.evidence(images) for defender in self.defenders]

    def predict(self, images: Images) -> Ints:
        """(images,) the label of each image: the plurality of the defenders' labels, or of all their votes."""
        if self.pooled:
            return clean_label(self.evidence(images))
        labels = np.stack([defender.predict(images) for defender in self.defenders], axis=1)
        return plurality_of_labels(labels, len(self.class_names))

    def certify(self, images: Images, patch: Patch, *, reach: ReachKind = "exact") -> Verdict:
        """Whether any placement of the patch could change the label that `predict` gives to each image."""
        return majorcert(self.evidence(images), patch, reach=reach)

    def detect(self, images: Images, patch: Patch, *, slack: int = 0) -> Verdict:
        """The label of each image, whether it raises an alert, and whether a patch could change it without one."""
        return detect(self.evidence(images), patch, slack=slack)

    def largest_patch(self, images: Images) -> Ints:
        """(images,) the side of the largest square patch that each image is certified against."""
        return largest_patch(self.evidence(images))

    def save(self, folder: str | Path, *, half: bool = False) -> None:
        """Write ensemble.json and a sub-folder for each defender."""
        names = member_names([defender.strategy for defender in self.defenders])
        for name, defender in zip(names, self.defenders, strict=True):
            defender.save(Path(folder) / name, half=half)
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
