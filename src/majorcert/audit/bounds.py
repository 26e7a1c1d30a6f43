"""Bounds by their definition: the labels that were not excluded at each recorded placement (docs/soundness.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from majorcert.audit.ensemble import Labels, Sets, Testimony
from majorcert.audit.geometry import Size, Touched, containing, painted, placements


@dataclass(frozen=True)
class Excluded(Testimony):
    """What was recorded of one image."""

    said: int
    """what the network says of the clean image"""
    possible: Sequence[Labels]
    """the labels that are not excluded at each recorded placement, of all patch sizes in turn"""
    around: Touched
    """at each placement of the patch, the recorded ones that contain it"""
    n_classes: int

    @property
    def label(self) -> int:
        return self.said

    def reach(self) -> Sets:
        """The labels that no recorded placement excludes which contains every pixel of the patch."""
        every = frozenset(range(self.n_classes))
        return {
            where: every.intersection(*(self.possible[number] for number in numbers))
            for where, numbers in self.around.items()
        }


@lru_cache(maxsize=64)
def recorded_around(sizes: tuple[Size, ...], image_size: Size, patch: Size) -> Touched:
    """At each placement of the patch, the numbers of the recorded placements that contain all of its pixels."""
    recorded = [painted(size, where) for size in sizes for where in placements(size, image_size)]
    return containing(recorded, image_size, patch)
