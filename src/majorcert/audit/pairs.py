"""Double masking by its definition: the labels under every pair of masks (docs/soundness.md)."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from majorcert.audit.ensemble import Labels, Sets, Testimony, winner
from majorcert.audit.geometry import Placement, Touched
from majorcert.errors import EvidenceError


@dataclass(frozen=True)
class Pairs(Testimony):
    """A table: the label under masks i and j, and on its diagonal that under one mask."""

    table: Sequence[Sequence[int]]
    covering: Touched  # at each placement the masks that hide the whole patch
    fragile: frozenset[int]  # masks whose row may change by itself: it proves nothing
    n_classes: int

    @cached_property
    def label(self) -> int:
        """The plurality under single masks, unless some other label holds against every second mask: the first such."""
        single = [row[number] for number, row in enumerate(self.table)]
        majority = winner(Counter(single))
        for number, row in enumerate(self.table):
            if single[number] != majority and set(row) == {single[number]}:
                return single[number]
        return majority

    def reach(self) -> Sets:
        """The label alone where a mask covers the patch under which every second mask leaves it; else every label."""
        proving = {
            number for number, row in enumerate(self.table) if number not in self.fragile and set(row) == {self.label}
        }
        return {
            where: frozenset({self.label}) if masks & proving else self._all for where, masks in self.covering.items()
        }

    def without(self, slack: int = 0) -> Sets:
        """The label under the first mask that covers the patch; every label where none does, or its row is fragile."""
        if slack:
            raise EvidenceError("slack is a number of votes, and double masking has none")
        return {where: self._under(min(masks, default=None)) for where, masks in self.covering.items()}

    def attack(self, where: Placement) -> Hashable:
        return self.covering[where]

    def provoked(self, where: Placement, slack: int) -> Sets:
        """The same if the label under every mask that does not cover the patch may be any."""
        seen = frozenset(range(len(self.table))) - self.covering[where]
        return replace(self, fragile=self.fragile | seen).without(slack)

    def _under(self, mask: int | None) -> Labels:
        return self._all if mask is None or mask in self.fragile else frozenset({self.table[mask][mask]})

    @property
    def _all(self) -> Labels:
        return frozenset(range(self.n_classes))
