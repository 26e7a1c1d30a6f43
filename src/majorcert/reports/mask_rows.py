"""The rows of a masking defender: the label under each mask that covers a patch, together with every second mask."""

from dataclasses import dataclass

import numpy as np

from majorcert.core.plurality import Ints
from majorcert.core.reach import NO_LABEL
from majorcert.core.threat import ImageSize, Patch
from majorcert.defences.masking import MaskPairs, Masks

Placement = tuple[int, int]


@dataclass(frozen=True)
class Dissent:
    """A second mask under which the label is not the defender's."""

    second: Placement
    label: int


@dataclass(frozen=True)
class MaskRow:
    """What is said under one mask that covers the patch. Masks are named by their top-left pixel."""

    mask: Placement
    alone: int  # the label without a second mask
    n_seconds: int  # all masks: the mask itself is one, and hides nothing more
    dissent: tuple[Dissent, ...]  # under the mask alone first, then in the order of masks
    n_unseen: int  # second masks under which nobody looked
    fragile: bool  # it proves nothing, even if all agree

    @property
    def agreed(self) -> bool:
        """Is the label the defender's under every second mask?"""
        return not (self.dissent or self.n_unseen)


def boxes(masks: Masks, image_size: ImageSize) -> Ints:
    """(masks, 4) the top, left, height and width of each."""
    sides = [masks.hidden(image_size).any(axis=axis) for axis in (2, 1)]
    return np.stack([each.argmax(axis=1) for each in sides] + [each.sum(axis=1) for each in sides], axis=1)


def covering_rows(one: MaskPairs, patch: Patch, placement: Placement) -> tuple[MaskRow, ...]:
    """The rows of the masks that cover the patch there, of evidence of one image."""
    covering = np.flatnonzero(one.masks.covering(patch, one.image_size)[placement])
    corners = [(int(top), int(left)) for top, left in boxes(one.masks, one.image_size)[:, :2]]
    table, n = one.table()[0], len(corners)
    fragile = np.zeros(n, dtype=bool) if one.fragile is None else one.fragile[0]
    return tuple(
        MaskRow(
            corners[mask],
            int(table[mask, mask]),
            n,
            _dissent(table[mask], mask, int(one.label[0]), corners),
            int((table[mask] == NO_LABEL).sum()),
            bool(fragile[mask]),
        )
        for mask in covering.tolist()
    )


def _dissent(row: Ints, mask: int, label: int, corners: list[Placement]) -> tuple[Dissent, ...]:
    differs = np.flatnonzero((row != label) & (row != NO_LABEL)).tolist()
    differs.sort(key=lambda second: (second != mask, second))
    return tuple(Dissent(corners[second], int(row[second])) for second in differs)
