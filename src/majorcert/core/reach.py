"""The narrow waist: what every kind of evidence says, and all that certificates are made from.

A kind says its clean *label*; its *reach*, the labels that a patch at each placement can make it output; and, where it
can, its *without*, the labels that it may give when all that the patch could touch is left out. A reach must contain
every label that the defender can be made to say; then everything built on it is sound, whatever the kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.errors import EvidenceError
from majorcert.errors.checks import check_everywhere, check_sets, checked_tolerance
from majorcert.errors.frozen import filled

NO_LABEL = -1  # fills the unused slots of a list of labels
SHORT_CUTS = {"paper_reach": "reach", "margin_certified": "reach", "certified_alone": "reach", "stays_alone": "without"}
"""Methods of evidence that are true of one way to say the sets, and of no other."""


@dataclass(frozen=True, eq=False)
class Reach:
    """A set of labels for every image and every placement, compactly.

    Labels are *listed* per image, in `slots`; a label that is not listed is in the set iff it is smaller than `below`,
    which is how labels that nobody voted for behave (they differ by the tie rule alone).
    """

    listed: Ints  # (images, slots) labels, ascending, then NO_LABEL
    members: Bools  # (images, slots, cell rows, cell columns): is this listed label in the set?
    below: Ints  # (images, cell rows, cell columns)
    rows: Ints  # (placement rows,) the row of cells of each
    columns: Ints  # (placement columns,) the column of cells of each

    def __post_init__(self) -> None:
        check_sets(self.listed, self.members, self.below, (self.rows, self.columns), NO_LABEL)

    def has(self, label: Ints, images: Ints | None = None) -> Bools:
        """(images, cell rows, cell columns): is the label of each, or of those images, in the set? NO_LABEL is not."""
        images = np.arange(len(label)) if images is None else images
        found = self.listed[images] == label[:, None]
        in_set, unlisted = self.members[images, found.argmax(axis=1)], np.flatnonzero(~found.any(axis=1))
        in_set[unlisted] = label[unlisted, None, None] < self.below[images[unlisted]]
        in_set[label == NO_LABEL] = False
        return in_set

    def only(self, label: Ints) -> Bools:
        """(images, cell rows, cell columns): is the given label of each image in the set, and no other?"""
        listed = self.listed[:, :, None, None]
        n_listed_below = ((listed < self.below[:, None]) & (listed != NO_LABEL)).sum(axis=1)
        return self.has(label) & (self.members.sum(axis=1) + self.below - n_listed_below == 1)

    def everywhere(self, patch: Patch, image_size: ImageSize) -> "Reach":
        """The same, once it is known to speak of every placement of the patch."""
        check_everywhere((len(self.rows), len(self.columns)), patch.n_placements(image_size), patch)
        return self

    def at(self, images: Ints, top: Ints, left: Ints, labels: Ints) -> Bools:
        """(images, labels): which labels are in the set of each of those images, at its placement? NO_LABEL is not."""
        row, column = self.rows[top], self.columns[left]
        found, below = labels[:, :, None] == self.listed[images][:, None], self.below[images, row, column][:, None]
        in_set = (found & self.members[images, :, row, column][:, None]).any(axis=2)
        return (in_set | (~found.any(axis=2) & (labels < below))) & (labels != NO_LABEL)

    def spread(self, cells: Bools) -> Bools:
        """Cells to placements; an axis that has one cell for all placements stays 1 long and broadcasts."""
        for axis, index in ((1, self.rows), (2, self.columns)):
            if cells.shape[axis] > 1 and not np.array_equal(index, np.arange(cells.shape[axis])):
                cells = cells.take(index, axis=axis)
        return cells


class Evidence(ABC):
    """What was recorded of one defender on the clean images. A new kind says its label and its reach."""

    n_classes: int
    image_size: ImageSize
    images: Ints  # (images,) the place of each image in its data set; defenders of one ensemble must agree on it
    provenance: Mapping[str, Any]  # where it comes from, as plain JSON; `images_sha256` names the images
    label: Ints  # (images,) what the defender says of the clean image; it is in reach at every placement
    distance: npt.NDArray[Any] | None = None  # how far every score may move before this can change, if known
    fragile: Bools | None = None  # what may change within a tolerance, and so counts as touched everywhere

    def __init_subclass__(cls) -> None:
        """What says its own reach or `without` takes over no short cut to another one."""
        for short_cut, sets in SHORT_CUTS.items():
            nearest = next(vars(each) for each in cls.__mro__ if {sets, short_cut} & vars(each).keys())
            if short_cut not in nearest:
                setattr(cls, short_cut, getattr(Evidence, short_cut))

    def __len__(self) -> int:
        return len(self.images)

    @abstractmethod
    def __getitem__(self, images: slice | Ints) -> Self:
        """The evidence of some of the images, by slice or by index array."""

    @abstractmethod
    def reach(self, patch: Patch) -> Reach:
        """The labels that a patch can make this defender output, at every placement, or more."""

    def paper_reach(self, patch: Patch) -> Reach:
        """The larger set of the paper's Definition 1, which is about votes."""
        raise EvidenceError(f"reach='paper' is for ballots, got {type(self).__name__}; use reach='exact'")

    def without(self, patch: Patch, slack: int = 0) -> Reach:
        """The labels that this defender may give when all that a patch there could touch is left out."""
        raise EvidenceError(f"{type(self).__name__} cannot say what it says without a part of the image; use recovery")

    def margin_certified(self, patch: Patch) -> Bools:
        """(images,) is the label safe by its lead of votes alone?"""
        raise EvidenceError(f"a margin is one of votes, {type(self).__name__} has none; use bound='local'")

    def certified_alone(self, patch: Patch) -> Bools:
        """(images,) is the label alone in reach, at every placement? Of votes, by their margin, as Theorem 1 has it."""
        return np.asarray(self.reach(patch).everywhere(patch, self.image_size).only(self.label).all(axis=(1, 2)))

    def abstained(self) -> Bools:
        """(images,) did nothing speak for any label? The label is then 0, by the tie rule alone."""
        return np.zeros(len(self), dtype=bool)

    def stays_alone(self, patch: Patch, slack: int = 0) -> Bools:
        """(images,) is `without` known to be the label alone, at every placement, before any is looked at?"""
        return np.zeros(len(self), dtype=bool)

    def tolerating(self, tolerance: float) -> Self:
        """The same evidence, to be certified even if every score moves by up to `tolerance`, on any set-up.

        Sound because what may change within that is *fragile* and counts as touched at every placement.
        """
        tolerance, distance = checked_tolerance(tolerance, self.distance, self)
        # As float64: NumPy would round the tolerance to the type of the distances.
        fragile = ~(distance.astype(np.float64) > tolerance)
        return filled(copy(self), fragile=fragile, provenance={**self.provenance, "fragile": tolerance})

    def as_recorded(self) -> Self:
        """The same evidence without a tolerance."""
        provenance = {key: value for key, value in self.provenance.items() if key != "fragile"}
        return self if self.fragile is None else filled(copy(self), fragile=None, provenance=provenance)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a Zarr store, without a tolerance; an earlier store at that path is replaced, whole or not at all."""
        from majorcert.files import evidence

        evidence.save_evidence(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], images: slice = slice(None)) -> Self:
        """Read a Zarr store of this kind, or the given slice of its images, and check it as if it were new."""
        from majorcert.files import evidence

        return evidence.load_as(cls, path, images)


def offered(evidence: Any, name: str) -> Any:
    """A method of the evidence, or what `Evidence` makes of label and reach, for kinds that only look like it."""
    return getattr(evidence, name, None) or partial(getattr(Evidence, name), evidence)


def list_labels(present: Bools) -> Ints:
    """(images, slots) the labels that are present in each row of (images, classes), ascending, then NO_LABEL."""
    listed = np.full((len(present), max(1, present.sum(axis=1).max(initial=0))), NO_LABEL, dtype=np.int32)
    image, label = np.nonzero(present)
    listed[image, (present.cumsum(axis=1) - 1)[image, label]] = label
    return listed


def smallest_unlisted(present: Bools) -> Ints:
    """(images,) the smallest label that is not present in each row of (images, classes); n_classes if all are."""
    return (~np.pad(present, ((0, 0), (0, 1)))).argmax(axis=1)
