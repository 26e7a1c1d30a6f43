"""Promises side by side: what no patch can do to each image, alerts that an attacker raises at will included.

An image is *unwavering* if no patch changes its label or raises an alert (docs/soundness.md has the proofs).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.detection import detect
from majorcert.core.majority import Contest, majorcert
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence, Reach
from majorcert.core.regions import Touched
from majorcert.core.tally import Candidates
from majorcert.core.threat import Bools, Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.masking import MaskPairs
from majorcert.defences.pool import Pool, as_pool, joint_cells
from majorcert.errors.frozen import filled

STRONGEST_FIRST = ("unwavering", "recovery", "detection")
CHUNK = 512
"""Images that are looked at together; results do not depend on it."""


@dataclass(frozen=True, eq=False, repr=False)
class Joint:
    """The promises that hold for each image, each a verdict of its own."""

    recovery: Verdict
    detection: Verdict
    unwavering: Verdict
    """certified: no patch changes the label or raises an alert"""

    def __len__(self) -> int:
        return len(self.recovery)

    def __repr__(self) -> str:
        shares = ", ".join(f"{n} {name}" for name, n in Counter(self.holds.tolist()).most_common())
        return f"Joint({shares}; an alert can be raised on {int(self.alertable.sum())} of {len(self)} images)"

    @property
    def predicted(self) -> Ints:
        return self.recovery.predicted

    @property
    def holds(self) -> npt.NDArray[np.str_]:
        """(images,) the strongest promise that holds: "unwavering", "recovery", "detection" or "none"."""
        return np.asarray(self.unwavering.holds)

    @property
    def alertable(self) -> Bools:
        """(images,) can an attacker raise an alert? Of votes just these; under slack, fragility or masks at most."""
        return ~self.unwavering.certified


def joint(defenders: Sequence[Evidence], patch: Patch, *, slack: int = 0) -> Joint:
    """Which promises hold for each image: recovery, detection, and that no patch can even raise an alert.

    Args:
        slack: of the alert, as `detect` takes it: with more of it fewer images are detected, and more are unwavering.
    """
    recovery, detection = majorcert(defenders, patch), detect(defenders, patch, slack=slack)
    patch, certified = recovery.patch, recovery.certified.copy()
    recovered = np.flatnonzero(certified)
    for start in range(0, len(recovered), CHUNK):
        images = recovered[start : start + CHUNK]
        certified[images] = _silent([as_pool(each[images]) for each in defenders], patch, slack)
    holds = np.select([certified, recovery.certified, detection.certified], STRONGEST_FIRST, "none")
    told: dict[str, Any] = {"certified": certified, "by": np.where(certified, "unwavering", ""), "holds": holds}
    told |= {"slack": detection.slack, "safe": None, "witnesses": (None,) * len(certified)}
    told |= {"method": "unwavering", "promise": "unwavering"}
    return Joint(recovery, detection, replace(recovery, **told))


def _silent(defenders: Sequence[Evidence], patch: Patch, slack: int) -> Bools:
    """(images,) is the clean label what is said without every placement, wherever the patch is, whatever it shows?

    Of each image one more place of the patch is looked at in every round, until none is left or one raises an alert.
    """
    watched = [WATCHED.get(type(each), Unknown)(each, patch, slack) for each in defenders]
    tops, lefts = (joint_cells(cells)[0] for cells in zip(*(each.cells() for each in watched), strict=True))
    calm = _agreed(defenders, [each.at_worst() for each in watched])[:, tops][:, :, lefts]
    doubtful, silent = ~calm.reshape(len(calm), -1), np.ones(len(calm), dtype=bool)
    while (images := np.flatnonzero(doubtful.any(axis=1))).size:
        place = doubtful[images].argmax(axis=1)
        row, column = np.unravel_index(place, (len(tops), len(lefts)))
        sets = [each.under(images, tops[row], lefts[column]) for each in watched]
        silent[images] = _agreed([each[images] for each in defenders], sets).all(axis=(1, 2))
        doubtful[images, place] = False
        doubtful &= silent[:, None]
    return silent


def _agreed(defenders: Sequence[Evidence], sets: Sequence[Reach]) -> Bools:
    """(images, placement rows, placement columns) has every choice of one label from each set the clean plurality?"""
    said = iter(sets)
    return Contest.of(defenders, lambda _: next(said)).safe()


@dataclass(frozen=True, eq=False)
class Unknown:
    """What a defender may say without each placement, of an attacked image: of a kind not known, anything."""

    evidence: Any
    patch: Patch
    slack: int

    def cells(self) -> tuple[Ints, Ints]:
        """(placement rows,) and (placement columns,) a number for each: where both are the same, so is what changes."""
        n_rows, n_columns = self.patch.n_placements(self.evidence.image_size)
        return np.arange(n_rows), np.arange(n_columns)

    def under(self, images: Ints, tops: Ints, lefts: Ints) -> Reach:
        """The labels that a patch, of each image at a place of its own, may make it say without each placement."""
        return Unknown(self.evidence[images], self.patch, self.slack).at_worst()

    def at_worst(self) -> Reach:
        """Labels enough: without any placement, a patch at each of these makes it say none but them."""
        every, anywhere = np.ones((len(self.evidence), 1, 1, 1), dtype=bool), [each * 0 for each in self.cells()]
        return Reach(self.evidence.label[:, None], every, every[:, 0] * self.evidence.n_classes, *anywhere)


class Voting(Unknown):
    """Ballots that the patch touches may become anything, unless they are left out: they are marked as fragile."""

    evidence: Pool

    def cells(self) -> tuple[Ints, Ints]:
        touched = self._touched(self.evidence)
        return joint_cells([each.rows for each in touched])[1], joint_cells([each.columns for each in touched])[1]

    def under(self, images: Ints, tops: Ints, lefts: Ints) -> Reach:
        pool = self.evidence[images]
        candidates = Candidates.of(pool.solid_points(), pool.label)
        hit = (touched.mask(tops, lefts) for touched in self._touched(pool))
        attacked = filled(copy(pool), members=tuple(map(_marked, pool.members, hit)))
        count = attacked.counted(self.patch, candidates.listed)
        kept = count.kept.astype(np.int64)
        kept[candidates.listed == pool.label[:, None]] += self.slack
        return candidates.elected(kept, count.free, count.rows, count.columns)

    def at_worst(self) -> Reach:
        """The label, and whoever beats it if all is left out that costs the label most of its lead over that rival."""
        points, label = self.evidence.solid_points(), self.evidence.label
        candidates, every = Candidates.of(points, label), np.arange(len(label))
        clean = (candidates.listed == label[:, None]).argmax(axis=1)
        count = self.evidence.counted(self.patch, candidates.listed)
        kept, named = count.kept.astype(np.int64), np.maximum(candidates.listed, 0)
        left_out = points[every[:, None], named][:, :, None, None] - kept
        lost = (left_out[every, clean][:, None] - left_out).max(axis=(2, 3), keepdims=True)
        most = left_out[every, clean].max(axis=(1, 2), keepdims=True)
        kept += lost - most[:, None]
        kept[every, clean] = count.kept[every, clean] + self.slack
        return candidates.elected(kept, count.touched + count.free + most, count.rows, count.columns, "paper")

    def _touched(self, pool: Pool) -> list[Touched]:
        return [member.strategy.touched(self.patch, member.image_size) for member in pool.members]


class Masking(Unknown):
    """A label under a mask stays if the mask covers the patch as well, and may become any other if not."""

    def under(self, images: Ints, tops: Ints, lefts: Ints) -> Reach:
        covering = self.evidence.masks.covering(self.patch, self.evidence.image_size)[tops, lefts]
        return _marked(self.evidence[images], ~covering).without(self.patch)


def _marked(evidence: Any, may_change: Bools) -> Any:
    """The same evidence with this part of it fragile too."""
    fragile = may_change if evidence.fragile is None else may_change | evidence.fragile
    return filled(copy(evidence), fragile=fragile)


WATCHED: Mapping[type, type[Unknown]] = {Pool: Voting, MaskPairs: Masking}
