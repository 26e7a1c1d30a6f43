"""The narrow waist: which labels a defender can be made to output, at every placement of a patch.

Every method of certification is an evidence type: it says its clean label and its reach. What judges evidence (one
defender, an ensemble, maps, witnesses) uses these two alone. A reach must be a superset of what a patch at
that placement can make the defender say; then everything built on it is sound.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.errors import EvidenceError

NO_LABEL = -1
"""Fills the unused slots of a list of labels."""


@dataclass(frozen=True, eq=False)
class Reach:
    """A set of labels for every image and every placement, compactly.

    Labels are *listed* per image, in `slots`; a label that is not listed is in reach iff it is smaller than
    `below`, which is how labels that nobody voted for behave (they differ by the tie rule alone). Placements that
    touch the same ablations share one cell: the placement (top, left) has the cell `(rows[top], columns[left])`.
    """

    listed: Ints
    """(images, slots) labels, ascending, then NO_LABEL"""
    members: Bools
    """(images, slots, cell rows, cell columns): is this listed label in reach?"""
    below: Ints
    """(images, cell rows, cell columns)"""
    rows: Ints
    """(placement rows,) the row of cells of each"""
    columns: Ints
    """(placement columns,) the column of cells of each"""

    def __post_init__(self) -> None:
        n_images, n_slots, n_rows, n_columns = self.members.shape
        fits = self.listed.shape == (n_images, n_slots) and self.below.shape == (n_images, n_rows, n_columns)
        ascending = (self.listed[:, 1:] > self.listed[:, :-1]) | (self.listed[:, 1:] == NO_LABEL)
        indexed = all(
            len(index) and index.min() >= 0 and index.max() < n
            for index, n in ((self.rows, n_rows), (self.columns, n_columns))
        )
        if not (fits and ascending.all() and indexed and self.below.min(initial=0) >= 0):
            raise EvidenceError("a reach lists each label once, ascending, with arrays that fit; see majorcert.Reach")

    def has(self, label: Ints) -> Bools:
        """(images, cell rows, cell columns): is the given label of each image in reach? NO_LABEL never is."""
        found = self.listed == label[:, None]
        by_slot = self.members[np.arange(len(label)), found.argmax(axis=1)]
        if found.any(axis=1).all() and (label != NO_LABEL).all():
            return by_slot
        wide = label[:, None, None]
        unlisted = (wide < self.below) & (wide != NO_LABEL)
        return np.where(found.any(axis=1)[:, None, None], by_slot & (wide != NO_LABEL), unlisted)

    def only(self, label: Ints) -> Bools:
        """(images, cell rows, cell columns): is the given label of each image in reach, and no other?"""
        listed = self.listed[:, :, None, None]
        n_listed_below = ((listed < self.below[:, None]) & (listed != NO_LABEL)).sum(axis=1)
        n_members = self.members.sum(axis=1) + self.below - n_listed_below
        return self.has(label) & (n_members == 1)

    def at(self, images: Ints, top: Ints, left: Ints) -> "Reach":
        """The reach of some images, each at one placement of its own: one cell for each image."""
        row, column = self.rows[top], self.columns[left]
        return Reach(
            listed=self.listed[images],
            members=self.members[images, :, row, column][:, :, None, None],
            below=self.below[images, row, column][:, None, None],
            rows=np.zeros(1, dtype=np.intp),
            columns=np.zeros(1, dtype=np.intp),
        )

    def spread(self, cells: Bools) -> Bools:
        """Cells to placements; an axis that has one cell for all placements stays 1 long and broadcasts."""
        for axis, index in ((1, self.rows), (2, self.columns)):
            if cells.shape[axis] > 1 and not np.array_equal(index, np.arange(cells.shape[axis])):
                cells = cells.take(index, axis=axis)
        return cells


class Evidence(Protocol):
    """What was recorded of one defender on the clean images; the core accepts anything that offers this."""

    @property
    def n_classes(self) -> int: ...

    @property
    def image_size(self) -> ImageSize: ...

    @property
    def images(self) -> Ints:
        """(images,) the place of each image in its data set; defenders of one ensemble must agree on it."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where the evidence comes from, as plain JSON; `images_sha256`, when there, names the images."""

    @property
    def label(self) -> Ints:
        """(images,) what the defender says of the clean image. It is in reach at every placement."""

    def __len__(self) -> int: ...

    def __getitem__(self, images: slice | Ints) -> Self: ...

    def reach(self, patch: Patch) -> Reach: ...


def list_labels(present: Bools) -> Ints:
    """(images, slots) the labels that are present in each row of (images, classes), ascending, then NO_LABEL."""
    n_present = present.sum(axis=1)
    listed = np.full((len(present), max(1, n_present.max(initial=0))), NO_LABEL, dtype=np.int32)
    image, label = np.nonzero(present)
    listed[image, (present.cumsum(axis=1) - 1)[image, label]] = label
    return listed


def smallest_unlisted(present: Bools) -> Ints:
    """(images,) the smallest label that is not present in each row of (images, classes); n_classes if all are."""
    missing = ~np.pad(present, ((0, 0), (0, 1)))
    return missing.argmax(axis=1)


def distinct_rows(matrix: Bools) -> tuple[Bools, npt.NDArray[np.intp]]:
    """The different rows of a matrix in order of first appearance, and for each row which of them it is."""
    seen: dict[bytes, int] = {}
    index = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in matrix], dtype=np.intp)
    first = np.unique(index, return_index=True)[1]
    return matrix[first], index
