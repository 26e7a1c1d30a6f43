"""Bounds by their definition: the labels that were not excluded at each recorded placement (docs/soundness.md)."""

from collections.abc import Mapping
from dataclasses import dataclass

from majorcert.audit.ensemble import Labels, Sets, Testimony
from majorcert.audit.geometry import Placement, Size, painted, placements
from majorcert.errors import EvidenceError


@dataclass(frozen=True)
class Excluded(Testimony):
    """What was recorded of one image."""

    said: int
    """what the network says of the clean image"""
    possible: Mapping[tuple[Size, Placement], Labels]
    """of each patch size and placement"""
    patch: Size
    image_size: Size
    n_classes: int

    @property
    def label(self) -> int:
        return self.said

    def firm(self) -> bool:
        return all(labels == {self.label} for labels in self.reach().values())

    def reach(self, paper: bool = False) -> Sets:
        """The labels that no recorded placement excludes which contains every pixel of the patch."""
        if paper:
            raise EvidenceError("the paper's reach is of votes, and bounds have none")
        recorded = [(painted(*place), labels) for place, labels in self.possible.items()]
        found = {}
        for where in placements(self.patch, self.image_size):
            pixels, here = painted(self.patch, where), frozenset(range(self.n_classes))
            for around, labels in recorded:
                here = here & labels if pixels <= around else here
            found[where] = here
        return found

    def without(self, slack: int = 0) -> Sets:
        raise EvidenceError("bounds do not say what the network says without a part of the image")
