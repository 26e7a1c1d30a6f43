"""Pool: several voting defenders whose votes are added before the plurality (docs/soundness.md has the proof).

Each vote of a member is worth a whole number of points. A patch rewrites the touched ballots of all members, so that
the mathematics is that of one voting defender, counted in points.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.plurality import Ints, plurality
from majorcert.core.reach import Evidence, Reach
from majorcert.core.tally import Candidates, contenders, kept_votes, rewritable
from majorcert.core.threat import Bools, Patch
from majorcert.errors import EvidenceError
from majorcert.errors.checks import check_together
from majorcert.errors.frozen import filled, taken

LARGEST_WEIGHT = 2**31 - 1


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Pool(Evidence):
    """Voting defenders as one: its label is the plurality of all their votes, each worth its member's points.

    >>> pool = Pool([rows, columns, blocks])        # every strategy has the same say
    >>> majorcert([pool], 5).certified
    """

    members: tuple[Ballots, ...]
    weights: tuple[int, ...]
    """points that each vote of a member is worth"""
    label: Ints

    def __init__(self, members: Sequence[Evidence], *, weights: Sequence[int] | None = None) -> None:
        """Add up the votes of some defenders.

        Args:
            members: ballots of the same images.
            weights: whole points per vote of each member; by default such that every strategy has the same say, the
                least common multiple of the numbers of ablations divided by its own.
        """
        check_together(members)
        voting = tuple(member for member in members if isinstance(member, Ballots))
        if len(voting) < len(members):
            others = ", ".join(described(member) for member in members if not isinstance(member, Ballots))
            raise EvidenceError(f"a pool adds up votes, so its members are ballots; of {others} there are none")
        first, points = voting[0], _checked_weights(voting, weights)
        counts = [weight * member.counts() for weight, member in zip(points, voting, strict=True)]
        origins = [member.provenance for member in voting]
        of_all = ("images_sha256", "class_names")  # those who know one agree
        shared = {key: each[key] for key in of_all for each in origins if each.get(key) is not None}
        if all("fragile" in each for each in origins):
            shared["fragile"] = min(each["fragile"] for each in origins)
        filled(
            self,
            members=voting,
            weights=points,
            n_classes=first.n_classes,
            image_size=first.image_size,
            images=first.images,
            provenance={**shared, "kind": "pool", "weights": list(points), "members": [dict(each) for each in origins]},
            label=plurality(np.sum(counts, axis=0)),
        )

    def __repr__(self) -> str:
        strategies = ", ".join(f"{w} x {each.strategy}" for w, each in zip(self.weights, self.members, strict=True))
        return f"Pool({len(self)} images, {strategies}, {self.n_classes} classes)"

    def __getitem__(self, images: slice | Ints) -> "Pool":
        part = taken(self, images, "images", "label")
        return filled(part, members=tuple(member[images] for member in self.members))

    def abstained(self) -> Bools:
        return np.all([member.abstained() for member in self.members], axis=0)

    def tolerating(self, tolerance: float) -> "Pool":
        """The same pool of members that tolerate as much."""
        return Pool([member.tolerating(tolerance) for member in self.members], weights=self.weights)

    def as_recorded(self) -> "Pool":
        recorded = [member.as_recorded() for member in self.members]
        same = all(ours is theirs for ours, theirs in zip(self.members, recorded, strict=True))
        return self if same else Pool(recorded, weights=self.weights)

    def reach(self, patch: Patch) -> Reach:
        """The labels that a patch can make the pool elect, at every placement; no smaller set is true."""
        return self._elected(patch)

    def without(self, patch: Patch, slack: int = 0) -> Reach:
        """The labels that may win when touched ballots are left out and every label may be given `slack` points."""
        return self._elected(patch, slack)

    def _elected(self, patch: Patch, slack: int | None = None) -> Reach:
        candidates = Candidates.of(self.solid_points() * self._contenders(patch, slack), self.label)
        count = self.counted(patch, candidates.listed)
        gain = count.free + (count.touched if slack is None else slack)
        return candidates.elected(count.kept, gain, count.rows, count.columns)

    def counted(self, patch: Patch, listed: Ints) -> "Counted":
        """The points of the (images, slots) listed labels at every placement."""
        each_touched = [member.strategy.touched(patch, member.image_size) for member in self.members]
        tops, rows = joint_cells([touched.rows for touched in each_touched])
        lefts, columns = joint_cells([touched.columns for touched in each_touched])
        # All points of an image together are at most LARGEST_WEIGHT, so that an int32 holds them.
        kept = np.zeros((*listed.shape, len(tops), len(lefts)), dtype=np.int32)
        hit, free = np.zeros((2, 1, len(tops), len(lefts)), dtype=np.int64)
        for weight, member, touched in zip(self.weights, self.members, each_touched, strict=True):
            here = touched.rows[tops], touched.columns[lefts]
            kept += weight * cells_at(kept_votes(member.solid(), listed, touched), *here)
            hit = hit + weight * cells_at(touched.n_touched()[None], *here)
            free = free + weight * cells_at(rewritable(member.fragile, touched), *here)
        return Counted(kept, hit, free, rows, columns)

    def margin_certified(self, patch: Patch) -> Bools:
        """(images,) does the winner lead by more points than any placement could take from it and give to one rival?"""
        return self._contenders(patch).sum(axis=1) == 1

    certified_alone = margin_certified

    def stays_alone(self, patch: Patch, slack: int = 0) -> Bools:
        """(images,) does the winner lead by the slack, and more than any placement could take from it?"""
        return self._contenders(patch, slack).sum(axis=1) == 1

    def _contenders(self, patch: Patch, slack: int | None = None) -> Bools:
        """(images, classes) who may win, as of `Ballots`."""
        gained = np.full(1, slack or 0)
        for weight, member in zip(self.weights, self.members, strict=True):
            n_touched = int(member.strategy.touched(patch, member.image_size).n_touched().max())
            n_fragile = 0 if member.fragile is None else member.fragile.sum(axis=1)
            gained = gained + weight * (n_fragile + n_touched * (2 if slack is None else 1))
        return contenders(self.solid_points(), self.label, gained)

    def solid_points(self) -> Ints:
        """(images, classes) the points of each label, without those of fragile ballots."""
        points = [weight * member.solid_votes() for weight, member in zip(self.weights, self.members, strict=True)]
        return np.sum(points, axis=0)


@dataclass(frozen=True, eq=False)
class Counted:
    """Points in every cell of placements: those of labels that stay, and those that may become anyone's."""

    kept: Ints  # (images, slots, cell rows, cell columns) of each listed label, in ballots neither touched nor fragile
    touched: Ints  # (1, cell rows, cell columns) of the touched ballots
    free: Ints  # (images or 1, cell rows, cell columns) of the fragile ones that are not touched
    rows: Ints  # (placement rows,) the row of cells of each
    columns: Ints  # (placement columns,) the column of cells of each


def as_pool(evidence: Any) -> Any:
    """One voting defender as a pool of itself; pools, and kinds that do not vote or not just so, as they are."""
    return Pool([evidence], weights=[1]) if type(evidence) is Ballots else evidence


def described(evidence: Any) -> str:
    """What that is, for a message: of evidence its strategy and kind, as in "masks:5/5 (mask-pairs)"; or its type."""
    known, name = getattr(evidence, "provenance", {}), type(evidence).__name__
    return f"{known['strategy']} ({known.get('kind', name)})" if "strategy" in known else name


def joint_cells(cells: Sequence[Ints]) -> tuple[Ints, Ints]:
    """(joint cells,) a placement in each, and (placements,) the joint cell of each: one cell of every member."""
    _, first, joint = np.unique(np.stack(cells), axis=1, return_index=True, return_inverse=True)
    return first, joint.ravel()


def cells_at(cells: Ints, rows: Ints, columns: Ints) -> Ints:
    """Those rows and columns of cells; an axis that has one cell for all stays 1 long and broadcasts."""
    for axis, index in ((-2, rows), (-1, columns)):
        cells = cells if cells.shape[axis] == 1 else cells.take(index, axis=axis)
    return cells


def _checked_weights(members: Sequence[Ballots], weights: Sequence[int] | None) -> tuple[int, ...]:
    n_ablations = [member.labels.shape[1] for member in members]
    try:
        whole = tuple(
            operator.index(w) for w in ([lcm(*n_ablations) // n for n in n_ablations] if weights is None else weights)
        )
    except TypeError:
        whole = ()
    most = sum(weight * n for weight, n in zip(whole, n_ablations, strict=False))
    if len(whole) != len(members) or min(whole) < 0 or not any(whole) or most > LARGEST_WEIGHT:
        raise EvidenceError(
            f"weights are whole points per vote, one for each of {len(members)} members, 0 or more, not all 0, at most "
            f"{LARGEST_WEIGHT} points an image; got {weights if weights is not None else whole}"
        )
    return whole
