"""What an ensemble says of some images, and whether a patch can break its majority (Theorem 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from majorcert.core.plurality import Ints, plurality_of_labels, standing
from majorcert.core.reach import NO_LABEL, Evidence, Reach, list_labels, smallest_unlisted
from majorcert.core.threat import Bools, Patch
from majorcert.core.verdict import Witness

ReachKind = Literal["exact", "paper"]


@dataclass(frozen=True, eq=False)
class Contest:
    """The clean label of each image against every rival that a patch could help."""

    labels: Ints
    """(images, defenders) what each defender says of the clean image"""
    clean: Ints
    """(images,) the ensemble's label: their plurality"""
    rivals: Ints
    """(images, rivals) labels enough to decide, the clean one among them; NO_LABEL fills the rest"""
    reaches: tuple[Reach, ...]
    grid: tuple[int, int]
    """rows and columns of placements"""
    n_classes: int

    @classmethod
    def of(cls, defenders: Sequence[Evidence], patch: Patch, kind: ReachKind) -> "Contest":
        n_classes = defenders[0].n_classes
        reaches = tuple(_reach_of(defender, patch, kind) for defender in defenders)
        labels = np.stack([defender.label for defender in defenders], axis=1)
        return cls(
            labels=labels,
            clean=plurality_of_labels(labels, n_classes),
            rivals=_rivals(labels, reaches, n_classes),
            reaches=reaches,
            grid=patch.n_placements(defenders[0].image_size),
            n_classes=n_classes,
        )

    def safe(self) -> Bools:
        """(images, placement rows, placement columns) Theorem 2 in closed form.

        A rival is said by at most the defenders that have it in reach, the clean label by at least those that have
        nothing else; both happen in one choice of labels. So the clean label wins every choice iff it beats every
        rival at these two counts, ties included.
        """
        most = (len(self.reaches) + 1) * self.n_classes
        counter: type[np.signedinteger[Any]] = np.int16 if most < 2**15 else np.int64
        unmoved = _count([reach.spread(reach.only(self.clean)) for reach in self.reaches], counter)
        firm = standing(unmoved, self.clean.astype(counter)[:, None, None], self.n_classes)
        safe = np.ones((len(self.clean), *self.grid), dtype=bool)
        for rival in self.rivals.T:
            said = _count([reach.spread(reach.has(rival)) for reach in self.reaches], counter)
            loses = standing(said, rival.astype(counter)[:, None, None], self.n_classes) > firm
            contested = (rival != self.clean) & (rival != NO_LABEL)
            safe &= ~(loses & contested[:, None, None])
            if not safe.any():
                break
        return safe

    def witnesses(self, safe: Bools) -> list[Witness | None]:
        """For each image None, or its first unsafe placement and the choice of labels there that breaks the majority.

        The strongest rival is said by every defender that can say it; of the others, all that can avoid the clean
        label do.
        """
        found: list[Witness | None] = [None] * len(self.clean)
        images = np.flatnonzero(~safe.all(axis=(1, 2)))
        top, left = np.unravel_index(safe[images].reshape(len(images), safe[0].size).argmin(axis=1), self.grid)
        here = [reach.at(images, top, left) for reach in self.reaches]
        clean, rivals = self.clean[images], self.rivals[images]
        contested = (rivals != clean[:, None]) & (rivals != NO_LABEL)
        says = np.stack([np.stack([reach.has(rival)[:, 0, 0] for rival in rivals.T], axis=1) for reach in here], axis=1)
        strength = np.where(contested, standing(says.sum(axis=1), rivals, self.n_classes), -1)
        for i, strongest in enumerate(strength.argmax(axis=1)):
            forced = []
            for can_say in says[i] & contested[i]:
                choices = [strongest] if can_say[strongest] else np.flatnonzero(can_say)
                forced.append(int(rivals[i, choices[0]] if len(choices) else clean[i]))
            found[images[i]] = Witness((int(top[i]), int(left[i])), int(rivals[i, strongest]), tuple(forced))
        return found

    def most_certified_alone(self, defenders: Sequence[Any], patch: Patch) -> Bools:
        """(images,) Theorem 1: more than half of the defenders say the clean label and are each certified alone.

        Ballots are certified alone by their margin; evidence that has no margin, by its reach.
        """
        alone = [
            defender.margin_certified(patch)
            if hasattr(defender, "margin_certified")
            else reach.only(defender.label).all(axis=(1, 2))
            for defender, reach in zip(defenders, self.reaches, strict=True)
        ]
        n_firm = (np.stack(alone, axis=1) & (self.labels == self.clean[:, None])).sum(axis=1)
        return n_firm * 2 > len(defenders)


def _reach_of(defender: Any, patch: Patch, kind: ReachKind) -> Reach:
    reach: Reach = defender.reach(patch) if kind == "exact" else defender.paper_reach(patch)
    return reach


def _rivals(labels: Ints, reaches: Sequence[Reach], n_classes: int) -> Ints:
    """(images, rivals) labels enough to decide: all that any defender lists, and the smallest that none lists.

    Labels that nobody lists are in the same reaches whenever they are smaller, and win more ties the smaller they
    are, so where any of them breaks the majority the smallest one does.
    """
    present = np.zeros((len(labels), n_classes + 1), dtype=bool)
    for listed in (labels, *(reach.listed for reach in reaches)):
        present[np.arange(len(labels))[:, None], listed] = True
    present = present[:, :n_classes]
    rest = smallest_unlisted(present)
    has_rest = np.flatnonzero(rest < n_classes)
    present[has_rest, rest[has_rest]] = True
    return list_labels(present)


def _count(holds: Sequence[Bools], counter: type[np.signedinteger[Any]]) -> Ints:
    """How many of these arrays, which broadcast against each other, are true at each place."""
    total = holds[0].astype(counter)
    for more in holds[1:]:
        total = total + more
    return total
