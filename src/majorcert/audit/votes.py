"""Votes by their definitions: one voting defender, or a pool of several whose votes are worth whole points."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from majorcert.audit.ensemble import Labels, Lacking, Sets, Testimony, beats, winner, winners
from majorcert.audit.geometry import Placement, Touched

T = TypeVar("T")


@dataclass(frozen=True)
class Member:
    """What one voting defender said of the image."""

    ballots: Sequence[Labels]
    """the labels that each ablation votes for"""
    touched: Touched
    fragile: frozenset[int] = frozenset()
    """ablations whose ballot may change by itself; they count as touched wherever the patch is"""
    weight: int = 1
    """points that each vote is worth"""


@dataclass(frozen=True)
class Votes(Testimony):
    """All of them together."""

    members: Sequence[Member]
    n_classes: int

    @cached_property
    def label(self) -> int:
        return winner(self._points([frozenset()] * len(self.members)))

    def firm(self) -> bool:
        """Does the label lead every other by twice what any placement touches, and by one more where it loses ties?

        The votes are those of the solid ballots; each fragile one may go to the other label.
        """
        votes = self._points([each.fragile for each in self.members])
        handicap = sum(
            each.weight * (2 * max(len(numbers) for numbers in each.touched.values()) + len(each.fragile))
            for each in self.members
        )
        return all(votes[self.label] >= handicap + votes[c] + (self.label > c) for c in votes if c != self.label)

    def reach(self) -> Sets:
        """Labels that win if all touched ballots are theirs alone."""
        return self._everywhere(winners)

    def paper_reach(self) -> Sets:
        """Labels that then beat the clean label, and itself."""
        return self._everywhere(
            lambda kept, gain: frozenset(
                c for c in kept if c == self.label or beats(c, kept[c] + gain, self.label, kept[self.label])
            )
        )

    def without(self, slack: int = 0) -> Sets:
        """The label that wins without the touched ballots, or any that may if fragile ones and the slack go to it."""
        return self._everywhere(lambda kept, gain: winners(kept, gain + slack), rewritten=False)

    def attack(self, where: Placement) -> Hashable:
        return tuple(each.touched[where] for each in self.members)

    def provoked(self, where: Placement, slack: int) -> Sets:
        """What wins without each placement, if ballots that the patch touches may be any; the label has the slack."""
        attacked = replace(
            self, members=[replace(each, fragile=each.fragile | each.touched[where]) for each in self.members]
        )
        return attacked._everywhere(
            lambda kept, gain: winners({**kept, self.label: kept[self.label] + slack}, gain), rewritten=False
        )

    def lacking(self) -> Lacking:
        """At each placement what each rival lacks to stand ahead of the label, and the points to be given away."""
        return self._everywhere(
            lambda kept, gain: (
                {c: max(0, kept[self.label] - kept[c] + (c > self.label)) for c in kept if c != self.label},
                gain,
            )
        )

    def _everywhere(
        self, judge: Callable[[Mapping[int, int], int], T], *, rewritten: bool = True
    ) -> dict[Placement, T]:
        """At each placement what is judged of the votes kept and those to be given away; once for equal placements."""
        known: dict[tuple[frozenset[int], ...], T] = {}
        found: dict[Placement, T] = {}
        for where in self.members[0].touched:
            hit = tuple(each.touched[where] for each in self.members)
            if hit not in known:
                lost = [each.fragile | numbers for each, numbers in zip(self.members, hit, strict=True)]
                free = lost if rewritten else [each - numbers for each, numbers in zip(lost, hit, strict=True)]
                gain = sum(each.weight * len(numbers) for each, numbers in zip(self.members, free, strict=True))
                known[hit] = judge(self._points(lost), gain)
            found[where] = known[hit]
        return found

    def _points(self, left_out: Sequence[frozenset[int]]) -> dict[int, int]:
        """The points of every label, without the ablations of each member that are left out."""
        points = dict.fromkeys(range(self.n_classes), 0)
        for each, numbers in zip(self.members, left_out, strict=True):
            for number, ballot in enumerate(each.ballots):
                if number not in numbers:
                    for label in ballot:
                        points[label] += each.weight
        return points
