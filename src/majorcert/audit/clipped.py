"""Clipped scores by their definition: most points win, and a touched ablation may give any label up to `one`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from majorcert.audit.ensemble import Sets, Testimony, winner, winners
from majorcert.audit.geometry import Placement, Touched


@dataclass(frozen=True)
class Clipped(Testimony):
    """The points that every ablation gives to every label."""

    points: Sequence[Sequence[int]]  # of each ablation, of each label
    one: int
    touched: Touched

    @cached_property
    def label(self) -> int:
        return winner(self._without(frozenset()))

    def reach(self) -> Sets:
        """Labels that win if every touched ablation gives them all it can, and nothing to any other."""
        return {where: winners(self._without(hit), self.one * len(hit)) for where, hit in self.touched.items()}

    def without(self, slack: int = 0) -> Sets:
        """The labels that win without the touched ablations, if they are given the slack."""
        return {where: winners(self._without(hit), slack) for where, hit in self.touched.items()}

    def provoked(self, where: Placement, slack: int) -> Sets:
        """Any label: nothing is promised of what an attack makes of the rest."""
        return dict.fromkeys(self.touched, frozenset(range(len(self.points[0]))))

    def _without(self, left_out: frozenset[int]) -> Mapping[int, int]:
        kept = [each for number, each in enumerate(self.points) if number not in left_out]
        return {label: sum(each[label] for each in kept) for label in range(len(self.points[0]))}
