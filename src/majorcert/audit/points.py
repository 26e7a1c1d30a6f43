"""PatchGuard by its definition: of each label, the window that speaks loudest for it is left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from majorcert.audit.ensemble import Labels, Sets, Testimony, beats, winner
from majorcert.audit.geometry import Placement, Size, Touched, placements


@dataclass(frozen=True)
class Points(Testimony):
    """The points that every ablation gives to every label, and the mask that the defender guards with."""

    points: Sequence[Sequence[int]]  # of each ablation, of each label
    windows: Touched  # the ablations that the mask touches, at each of its placements
    mask: Size
    share: Fraction  # a window is left out if it holds more than this share of the points of a label
    patch: Size
    image_size: Size

    @cached_property
    def label(self) -> int:
        return winner({label: self._left(label) for label in self._labels})

    def reach(self) -> Sets:
        """The label, and every other whose most beats the label's least; all, if the mask does not cover the patch."""
        known: dict[frozenset[int], Labels] = {}
        found: dict[Placement, Labels] = {}
        for where in placements(self.patch, self.image_size):
            if self.patch[0] > self.mask[0] or self.patch[1] > self.mask[1]:
                found[where] = frozenset(self._labels)
                continue
            window = self.windows[self._mask_over(where)]
            if window not in known:
                known[window] = self._reach(window)
            found[where] = known[window]
        return found

    @property
    def _labels(self) -> range:
        return range(len(self.points[0]))

    def _mask_over(self, where: Placement) -> Placement:
        """Where the mask lies that covers the patch: at the same corner, or at the last place that it has."""
        top, left = (min(at, side - length) for at, side, length in zip(where, self.image_size, self.mask, strict=True))
        return top, left

    def _left(self, label: int) -> int:
        """The points of a label without its loudest window, if that is loud enough to be left out."""
        total = sum(each[label] for each in self.points)
        loudest = max(self._inside(label, numbers) for numbers in set(self.windows.values()))
        return total - loudest if loudest > self.share * total else total

    def _inside(self, label: int, numbers: frozenset[int]) -> int:
        return sum(self.points[number][label] for number in numbers)

    def _reach(self, window: frozenset[int]) -> Labels:
        """When this window is touched: a rival ends with at most what is outside over 1 - share, the label with at
        least what is outside, less the loudest window of that."""
        others = frozenset(range(len(self.points))) - window
        outside = {label: self._inside(label, others) for label in self._labels}
        most = {label: int(outside[label] / (1 - self.share)) for label in self._labels}
        loudest = max(self._inside(self.label, numbers - window) for numbers in set(self.windows.values()))
        least = outside[self.label] - loudest
        return frozenset(
            label for label in self._labels if label == self.label or beats(label, most[label], self.label, least)
        )
