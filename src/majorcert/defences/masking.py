"""Double masking (PatchCleanser): masks that hide any patch, and the labels under every pair of them.

The per-placement certificate is proved in docs/soundness.md: a mask that covers the patch, and under which every second
mask leaves the same label, decides alone. That all pairs agree, the published condition, is a special case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import NO_LABEL, Evidence, Reach, list_labels
from majorcert.core.tally import count_votes
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.errors import BallotsError, EvidenceError, StrategyError
from majorcert.errors.checks import array_of, checked_labels, checked_record, checked_size, parsed, whole
from majorcert.errors.frozen import filled, taken

CHUNK_ENTRIES = 2**24
"""Entries of tables that are looked at together; results do not depend on it."""


@dataclass(frozen=True, init=False)
class Masks:
    """A set of equal rectangles that hides every patch up to a size inside at least one of them.

    `Masks(5, stride=3)` hides patches up to 5x5 by squares of 5 + 3 - 1 = 7 pixels at 0, 3, 6, ..., the last one flush
    with the border; `Masks(3, 7, stride=2)` is for patches up to 3x7. Its spec is "masks:5/3" or "masks:3x7/2".
    """

    patch: Patch
    """the largest patch"""
    stride: int

    def __init__(self, height: int, width: int | None = None, *, stride: int = 1) -> None:
        filled(self, patch=Patch(height, width), stride=whole(stride, "the stride of masks", StrategyError))

    @classmethod
    def parse(cls, spec: str) -> "Masks":
        """Read "masks:5/3" or "masks:3x7/2", as `str` gives them."""
        what = "masks; write for example 'masks:5/3' or 'masks:3x7/2'"
        size, stride = parsed(spec, r"masks:([0-9x]{1,13})(?:/([0-9]{1,6}))?", what, StrategyError)
        patch = Patch.parse(str(size))
        return cls(patch.height, patch.width, stride=int(stride or 1))

    def __str__(self) -> str:
        square = self.patch.height == self.patch.width
        return f"masks:{self.patch.height if square else self.patch}/{self.stride}"

    def n_masks(self, image_size: ImageSize) -> int:
        """How many masks there are, in row-major order."""
        rows, columns = self._runs(image_size)
        return len(rows) * len(columns)

    def hidden(self, image_size: ImageSize) -> Bools:
        """(masks, height, width): does this mask hide this pixel?"""
        rows, columns = self._runs(image_size)
        return (rows[:, None, :, None] & columns[None, :, None, :]).reshape(-1, *image_size)

    def covering(self, patch: Patch, image_size: ImageSize) -> Bools:
        """(placement rows, placement columns, masks): is the whole of the placed patch hidden by this mask?

        Counted pixel by pixel: a mask that leaves one pixel of the patch visible does not cover it.
        """
        covering, rows, columns = self.cells(patch, image_size)
        return covering[rows][:, columns]

    def cells(self, patch: Patch, image_size: ImageSize) -> tuple[Bools, Ints, Ints]:
        """(cell rows, cell columns, masks): placements that the same masks cover, in cells; and the cell of each row
        and column of placements. On large images there are far fewer cells."""
        return _cells(self, patch, image_size)

    def _runs(self, image_size: ImageSize) -> tuple[Bools, Bools]:
        """(masks down, height) and (masks across, width): the rows and the columns that are hidden."""
        self.patch.n_placements(image_size)
        runs = []
        for length, n_pixels in zip((self.patch.height, self.patch.width), image_size, strict=True):
            size = min(length + self.stride - 1, n_pixels)
            starts = np.unique([*range(0, n_pixels - size, self.stride), n_pixels - size])
            offset = np.arange(n_pixels) - starts[:, None]
            runs.append((offset >= 0) & (offset < size))
        return runs[0], runs[1]


@lru_cache(maxsize=16)  # every chunk of images asks again
def _cells(masks: Masks, patch: Patch, image_size: ImageSize) -> tuple[Bools, Ints, Ints]:
    sides = zip(masks._runs(image_size), (patch.height, patch.width), patch.n_placements(image_size), strict=True)
    covered = (np.stack([hidden[:, p : p + length].all(axis=1) for p in range(n)]) for hidden, length, n in sides)
    (rows, row_of), (columns, column_of) = (np.unique(each, axis=0, return_inverse=True) for each in covered)
    both = rows[:, None, :, None] & columns[None, :, None, :]
    return both.reshape(*both.shape[:2], -1), row_of.reshape(-1), column_of.reshape(-1)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MaskPairs(Evidence):
    """The label that a network gives to each image under every pair of masks; under one mask, the pair with itself."""

    labels: Ints
    """(images, n * (n + 1) / 2): the upper triangle row by row, diagonal included; NO_LABEL where nobody looked"""
    masks: Masks
    distance: npt.NDArray[Any] | None
    """(images, n) how far every score may move before any label of this mask's row can change, if recorded"""
    fragile: Bools | None
    """(images, n) the rows that prove nothing; only `tolerating` marks any"""
    agreed: Bools
    """(images, n): is every label of this mask's row the one under the mask alone?"""
    label: Ints
    """(images,) what double masking says"""

    def __init__(
        self,
        labels: npt.ArrayLike,
        *,
        masks: Masks | str,
        image_size: ImageSize,
        n_classes: int,
        images: npt.ArrayLike | None = None,
        provenance: Mapping[str, Any] | None = None,
        distance: npt.ArrayLike | None = None,
    ) -> None:
        masks = Masks.parse(masks) if isinstance(masks, str) else masks
        size, n_classes = checked_size(image_size), whole(n_classes, "n_classes", BallotsError, least=2)
        n = masks.n_masks(size)
        table = _checked(array_of(labels), n, n_classes, f"{masks} on {size[0]}x{size[1]}")
        described: dict[str, Any] = {"kind": "mask-pairs", "strategy": str(masks), "masks": str(masks)}
        described |= {"image_size": list(size), "n_classes": n_classes}
        record = checked_record((len(table), n), images, provenance, distance, **described)
        filled(self, labels=table, masks=masks, image_size=size, n_classes=n_classes, **record)
        if (table == NO_LABEL).any():
            self._check_unfinished()
        agreed = _agreed(table, _row_index(n))
        filled(self, agreed=agreed, label=double_masking(self.singles(), agreed, n_classes))

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"MaskPairs({len(self)} images of {height}x{width}, {self.masks}, {self.n_classes} classes)"

    def __getitem__(self, images: slice | Ints) -> "MaskPairs":
        return taken(self, images, "labels", "images", "distance", "fragile", "agreed", "label")

    def table(self) -> Ints:
        """(images, n, n) the label under each pair, in either order."""
        return self.labels[:, _row_index(self.masks.n_masks(self.image_size))]

    def singles(self) -> Ints:
        """(images, n) the label under each mask alone."""
        return self.labels[:, _row_index(self.masks.n_masks(self.image_size)).diagonal()]

    def _check_unfinished(self) -> None:
        """Pairs may be left out where both rows are known to be mixed: then nothing depends on what they would say.

        For detection alone, also where rows do not dissent: then no label does. Such a row proves no recovery.
        """
        rows = _row_index(self.masks.n_masks(self.image_size))
        certifies, detects = (self.provenance.get(alone) is True for alone in ("certify_only", "detect_only"))
        for labels in self.labels[(self.labels == NO_LABEL).any(axis=1)]:
            table, single = labels[rows], labels[rows.diagonal(), None]
            needed = ~((table != single) & (table != NO_LABEL)).any(axis=1)
            if detects:
                needed &= single[:, 0] != plurality(count_votes(single[None], self.n_classes))
            if not (certifies or detects) or NO_LABEL in single or (needed[:, None] & (table == NO_LABEL)).any():
                raise BallotsError(
                    "a table without some of its labels proves nothing; only where it was made to certify alone "
                    "(certify_only) may pairs be missing, and only in rows that are known to be mixed; or, where it "
                    "was made to detect alone (detect_only), in rows that do not dissent"
                )

    def reach(self, patch: Patch) -> Reach:
        """The label alone where a covering mask proves it; every label elsewhere, also where no mask covers."""
        covering, *places = self.masks.cells(patch, self.image_size)
        proved = self._proved(covering)
        below, members = np.where(proved, 0, self.n_classes), np.ones((len(self), 1, *proved.shape[1:]), dtype=bool)
        return Reach(self.label[:, None], members, below, *places)

    def certified_alone(self, patch: Patch) -> Bools:
        """(images,) does a covering mask prove the label at every placement?"""
        return np.asarray(self._proved(self.masks.cells(patch, self.image_size)[0]).all(axis=(1, 2)))

    def _proved(self, covering: Bools) -> Bools:
        """(images, cell rows, cell columns): does some mask that covers the patch there prove the label?"""
        rows = self.agreed if self.fragile is None else self.agreed & ~self.fragile
        flat = covering.reshape(-1, covering.shape[2]).T.astype(np.float32)
        return (rows.astype(np.float32) @ flat > 0).reshape(-1, *covering.shape[:2])

    def without(self, patch: Patch, slack: int = 0) -> Reach:
        """The label under the first mask that covers the patch; every label where none does or its row is fragile."""
        if slack:
            raise EvidenceError("slack is for one voting defender or pool; a masking defender has none")
        (covering, *places), singles = self.masks.cells(patch, self.image_size), self.singles()
        first, unknown = covering.argmax(axis=2), ~np.asarray(covering.any(axis=2))[None]
        if self.fragile is not None:
            unknown = unknown | self.fragile[:, first]
        listed = list_labels(count_votes(singles[:, :, None], self.n_classes) > 0)
        members = (singles[:, None, first.ravel()] == listed[:, :, None]).reshape(*listed.shape, *first.shape)
        below = np.broadcast_to(np.where(unknown, self.n_classes, 0), (len(self), *first.shape))
        return Reach(listed, members | unknown[:, None], below, *places)

    def stays_alone(self, patch: Patch, slack: int = 0) -> Bools:
        """(images,) does every mask alone leave the label, all placements being covered and nothing fragile?"""
        known = not slack and bool(self.masks.covering(patch, self.image_size).any(axis=2).all())
        solid = np.ones(len(self), dtype=bool) if self.fragile is None else ~self.fragile.any(axis=1)
        return known & solid & (self.singles() == self.label[:, None]).all(axis=1)


def _agreed(table: Ints, rows: npt.NDArray[np.intp]) -> Bools:
    """(images, n): is every label of each row the one on the diagonal? Tables of one label are not taken apart."""
    same = np.ones((len(table), len(rows)), dtype=bool)
    mixed = np.flatnonzero((table != table[:, :1]).any(axis=1))
    step = max(1, CHUNK_ENTRIES // rows.size)
    for start in range(0, len(mixed), step):
        some = table[mixed[start : start + step]]
        same[mixed[start : start + step]] = (some[:, rows] == some[:, rows.diagonal(), None]).all(axis=2)
    return same


def _row_index(n: int) -> npt.NDArray[np.intp]:
    """(n, n) where the pair (i, j) stands in the upper triangle, row by row."""
    index = np.zeros((n, n), dtype=np.intp)
    upper = np.triu_indices(n)
    index[upper] = np.arange(len(upper[0]))
    return np.maximum(index, index.T)


def double_masking(singles: Ints, unanimous: Bools, n_classes: int) -> Ints:
    """(images,) the plurality of the labels under one mask, or the label of the first dissenting unanimous row."""
    majority = plurality(count_votes(singles[:, :, None], n_classes))
    dissents = (singles != majority[:, None]) & unanimous
    decided = singles[np.arange(len(singles)), dissents.argmax(axis=1)]
    return np.where(dissents.any(axis=1), decided, majority)


def _checked(labels: npt.NDArray[Any], n: int, n_classes: int, what: str) -> Ints:
    """The labels as upper triangles in the smallest type, once they are known to make sense."""
    if labels.dtype.kind not in "iu" or labels.shape[1:] not in ((n, n), (n * (n + 1) // 2,)):
        raise BallotsError(
            f"{what} has {n} masks: expected labels of shape (images, {n}, {n}) or (images, {n * (n + 1) // 2}), "
            f"got {labels.dtype} {labels.shape}"
        )
    if labels.ndim == 3:
        if not np.array_equal(labels, labels.transpose(0, 2, 1)):
            raise BallotsError("the label under two masks does not depend on their order; this table is not symmetric")
        labels = labels[:, *np.triu_indices(n)]
    return checked_labels(labels, n_classes, NO_LABEL)
