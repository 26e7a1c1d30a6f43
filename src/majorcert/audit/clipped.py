"""Clipped scores by their definition: most points win, and a touched ablation may give any label up to `one`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from majorcert.audit.ensemble import Labels, Sets, Testimony, beats, winner
from majorcert.audit.geometry import Placement, Touched
from majorcert.errors import EvidenceError


@dataclass(frozen=True)
class Clipped(Testimony):
    """The points that every ablation gives to every label."""

    points: Sequence[Sequence[int]]
    """of each ablation, of each label"""
    one: int
    touched: Touched

    @cached_property
    def label(self) -> int:
        return winner(self._without(frozenset()))

    def firm(self) -> bool:
        return all(labels == {self.label} for labels in self.reach().values())

    def reach(self, paper: bool = False) -> Sets:
        """Labels that win if every touched ablation gives them all it can, and nothing to any other."""
        if paper:
            raise EvidenceError("the paper's reach is of votes, and a sum of clipped scores has none")
        return {where: self._winners(hit, self.one * len(hit)) for where, hit in self.touched.items()}

    def without(self, slack: int = 0) -> Sets:
        """The labels that win without the touched ablations, if they are given the slack."""
        return {where: self._winners(hit, slack) for where, hit in self.touched.items()}

    def provoked(self, where: Placement, slack: int = 0) -> Sets:
        """Any label: nothing is promised of what an attack makes of the rest."""
        return dict.fromkeys(self.touched, frozenset(range(len(self.points[0]))))

    def _winners(self, left_out: frozenset[int], gain: int) -> Labels:
        kept = self._without(left_out)
        return frozenset(c for c in kept if all(beats(c, kept[c] + gain, k, kept[k]) for k in kept if k != c))

    def _without(self, left_out: frozenset[int]) -> Mapping[int, int]:
        kept = [each for number, each in enumerate(self.points) if number not in left_out]
        return {label: sum(each[label] for each in kept) for label in range(len(self.points[0]))}
