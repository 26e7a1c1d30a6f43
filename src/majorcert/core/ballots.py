"""Ballots: the recorded votes of one defender on many images, the evidence that certificates are made from."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.distance import Halves, checked_distance, checked_tolerance, distance_of
from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import NO_LABEL, Reach
from majorcert.core.regions import Strategy
from majorcert.core.regions import strategy as read_strategy
from majorcert.core.tally import Bound, beats_every_rival, count_votes, solid_labels, voting_reach
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.core.threshold import label_type, votes_from_scores
from majorcert.errors import BallotsError, StrategyError

ABSTAIN = NO_LABEL
"""Fills a ballot that votes for fewer labels than there is room for."""
MAX_SIDE = 2**14
"""Of images and labels; evidence that declares more is refused before memory is taken."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ballots:
    """What every ablation of every image votes for: (images, ablations, k) labels, ABSTAIN fills the rest."""

    labels: Ints
    strategy: Strategy
    image_size: ImageSize
    n_classes: int
    images: Ints
    """(images,) the place of each image in its data set"""
    provenance: Mapping[str, Any]
    """where the ballots come from, as plain JSON: `strategy`, `threshold`, `images_sha256`, ..."""
    distance: Halves | None
    """(images, ablations) how far every score may move before the ballot can change, if that was recorded"""
    fragile: Bools | None
    """(images, ablations) the ballots that count as touched at every placement; only `tolerating` marks any"""

    def __init__(
        self,
        labels: npt.ArrayLike,
        *,
        strategy: Strategy | str,
        image_size: ImageSize,
        n_classes: int,
        images: npt.ArrayLike | None = None,
        provenance: Mapping[str, Any] | None = None,
        distance: npt.ArrayLike | None = None,
    ) -> None:
        strategy = read_strategy(strategy) if isinstance(strategy, str) else strategy
        size = checked_size(image_size)
        n_classes = _checked_classes(n_classes)
        checked = _checked(np.asarray(labels), strategy, size, n_classes)
        described = {"strategy": str(strategy), "image_size": list(size), "n_classes": n_classes}
        given = {key: value for key, value in (provenance or {}).items() if key != "fragile"}
        self.__dict__.update(
            labels=read_only(checked),
            strategy=strategy,
            image_size=size,
            n_classes=n_classes,
            images=checked_images(images, len(checked)),
            provenance={**given, **described},
            distance=None if distance is None else read_only(checked_distance(np.asarray(distance), checked.shape[:2])),
            fragile=None,
        )

    @classmethod
    def from_scores(
        cls,
        scores: npt.ArrayLike,
        *,
        threshold: float | None,
        strategy: Strategy | str,
        image_size: ImageSize,
        provenance: Mapping[str, Any] | None = None,
    ) -> "Ballots":
        """Votes from (images, ablations, classes) scores: every label at or over the threshold; None: the top one."""
        scores = np.asarray(scores)
        labels = votes_from_scores(scores, threshold)
        origin = {**(provenance or {}), "threshold": threshold}
        return cls(
            labels,
            strategy=strategy,
            image_size=image_size,
            n_classes=scores.shape[2],
            provenance=origin,
            distance=distance_of(scores, threshold),
        )

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"Ballots({len(self)} images of {height}x{width}, {self.strategy}, {self.n_classes} classes)"

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, images: slice | Ints) -> "Ballots":
        """The ballots of some of the images, by slice or by index array."""
        if not isinstance(images, slice) and np.ndim(images) != 1:
            raise BallotsError(f"ballots are taken by slice or index array, got {images!r}; for one image [i : i + 1]")
        part = object.__new__(type(self))
        some: dict[str, Any] = {
            name: read_only(self.__dict__[name][images])
            for name in ("labels", "images", "label", "distance", "fragile")
            if self.__dict__.get(name) is not None
        }
        part.__dict__.update(self.__dict__ | some, images=checked_images(some["images"], len(some["images"])))
        return part

    def tolerating(self, tolerance: float) -> "Ballots":
        """The same ballots, to be certified even if every score moves by up to `tolerance`, on any set-up.

        Sound because a ballot whose distance is larger stays as it is; every other one is *fragile*: it counts as
        touched at every placement, so whatever it becomes is among what the attacker could make of it.
        """
        tolerance = checked_tolerance(tolerance)
        if self.distance is None:
            raise BallotsError(
                f"these ballots of {self.strategy} were recorded without distances, so it is not known which are "
                "fragile; vote again, or use Ballots.from_scores"
            )
        solid = object.__new__(type(self))
        # As float64: NumPy would round the tolerance to the float16 of the distances.
        fragile = read_only(~(self.distance > np.float64(tolerance)))
        provenance = {**self.provenance, "fragile": tolerance}
        solid.__dict__.update(self.__dict__, fragile=fragile, provenance=provenance)
        return solid

    def counts(self) -> Ints:
        """(images, classes) the votes that each label got."""
        return count_votes(self.labels, self.n_classes)

    @cached_property
    def label(self) -> Ints:
        """(images,) the defender's label: the plurality of its ballots."""
        return read_only(plurality(self.counts()))

    def reach(self, patch: Patch) -> Reach:
        """The labels that a patch can make this defender output, at every placement; no smaller set is true."""
        return self._reach(patch, "exact")

    def paper_reach(self, patch: Patch) -> Reach:
        """The larger set of the paper's Definition 1: rivals are compared with the clean label alone."""
        return self._reach(patch, "paper")

    def _reach(self, patch: Patch, bound: Bound) -> Reach:
        touched = self.strategy.touched(patch, self.image_size)
        return voting_reach(self.labels, self.label, self.n_classes, touched, bound, self.fragile)

    def margin_certified(self, patch: Patch) -> Bools:
        """(images,) does the winner lead by more than any placement could take from it and give to one rival?

        Fragile ballots give nothing to the winner, and each may go to the rival.
        """
        most_touched = int(self.strategy.touched(patch, self.image_size).counts().max())
        if self.fragile is None:
            return beats_every_rival(self.counts(), self.label, 2 * most_touched)
        counts = count_votes(solid_labels(self.labels, self.fragile), self.n_classes)
        return beats_every_rival(counts, self.label, 2 * most_touched + self.fragile.sum(axis=1))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a Zarr store, without a tolerance; an earlier store at that path is replaced, whole or not at all."""
        from majorcert.files.evidence import save_evidence

        save_evidence(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], images: slice = slice(None)) -> "Ballots":
        """Read a Zarr store, or the given slice of its images, and check it as if it were new."""
        from majorcert.files.evidence import load_as

        return load_as(cls, path, images)


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array, which from now on nobody can change by mistake."""
    array.flags.writeable = False
    return array


def checked_size(image_size: ImageSize) -> ImageSize:
    """(height, width), once it is known to be two whole numbers of pixels."""
    try:
        height, width = (operator.index(side) for side in image_size)
    except (TypeError, ValueError):
        height = width = 0
    if min(height, width) < 1:
        raise StrategyError(f"an image size is (height, width) in whole pixels, got {image_size!r}")
    if max(height, width) > MAX_SIDE:
        raise StrategyError(f"images of {height}x{width} are too large, a side has at most {MAX_SIDE} pixels")
    return height, width


def checked_images(images: npt.ArrayLike | None, n_images: int) -> Ints:
    """(images,) a copy of the place of each image in its data set; 0, 1, 2, ... when none is given."""
    index = np.arange(n_images) if images is None else np.asarray(images)
    if index.shape != (n_images,) or index.dtype.kind not in "iu" or index.min(initial=0) < 0:
        raise BallotsError(
            f"expected one index, 0 or more, for each of {n_images} images, got {index.dtype} {index.shape}"
        )
    in_order = np.sort(index)
    if (again := in_order[1:][in_order[1:] == in_order[:-1]]).size:
        raise BallotsError(f"image {again[0]} is there more than once; each image of the data set counts once")
    return read_only(index.astype(np.int64))


def _checked_classes(n_classes: int) -> int:
    try:
        n = operator.index(n_classes)
    except TypeError:
        n = 0
    if n < 2:
        raise BallotsError(f"a classifier tells at least 2 classes apart, got n_classes={n_classes!r}")
    return n


def _checked(labels: npt.NDArray[Any], strategy: Strategy, image_size: ImageSize, n_classes: int) -> Ints:
    """The labels as (images, ablations, k) in the smallest type, once they are known to make sense."""
    if labels.ndim not in (2, 3) or labels.dtype.kind not in "iu" or labels.shape[2:] == (0,):
        raise BallotsError(f"expected integer labels (images, ablations, k), got {labels.dtype} {labels.shape}")
    labels = labels[:, :, None] if labels.ndim == 2 else labels
    n_ablations = strategy.n_ablations(image_size)
    if labels.shape[1] != n_ablations:
        height, width = image_size
        raise BallotsError(
            f"{strategy} makes {n_ablations} ablations of a {height}x{width} image, "
            f"got ballots of {labels.shape[1]}; check the strategy, its stride and the image size"
        )
    if labels.size and (labels.min() < ABSTAIN or labels.max() >= n_classes):
        wrong = labels.min() if labels.min() < ABSTAIN else labels.max()
        raise BallotsError(f"labels are 0 to {n_classes - 1}, or ABSTAIN ({ABSTAIN}); got {wrong}")
    ordered = np.sort(labels, axis=2)
    if ((ordered[:, :, 1:] == ordered[:, :, :-1]) & (ordered[:, :, 1:] != ABSTAIN)).any():
        raise BallotsError("a ballot names a label twice; a label may be voted for once in each ballot")
    return labels.astype(label_type(n_classes))
