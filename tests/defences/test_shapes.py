"""A strategy of another shape is one file: a cross of a row band and a column band, certified like any other."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import oracle
import pytest

import majorcert as mc
from majorcert.audit.geometry import Touched
from majorcert.audit.points import Points
from majorcert.audit.votes import Member, Votes
from majorcert.defences.shapes import Shape

SIZE, N, N_CLASSES = (6, 7), 12, 3


@dataclass(frozen=True)
class Cross(Shape):
    """A band of `size` rows and one of `size` columns, both wrapping around, from every stride-th pixel on."""

    def regions(self, image_size: mc.core.threat.ImageSize) -> npt.NDArray[np.bool_]:
        rows, columns = (
            (np.arange(side) - np.arange(0, side, self.stride)[:, None]) % side < self.size for side in image_size
        )
        crosses = rows[:, None, :, None] | columns[None, :, None, :]
        return crosses.reshape(-1, *image_size)


def touched(size: int, stride: int, patch: tuple[int, int]) -> Touched:
    """Counted pixel by pixel: the crosses that share a pixel with each placement."""
    height, width = SIZE
    crosses = [
        {
            (row, column)
            for row, column in product(range(height), range(width))
            if (row - top) % height < size or (column - left) % width < size
        }
        for top, left in product(range(0, height, stride), range(0, width, stride))
    ]
    return {
        place: frozenset(i for i, cross in enumerate(crosses) if cross & oracle.patch_pixels(patch, place))
        for place in oracle.placements(patch, SIZE)
    }


def votes(strategy: mc.core.regions.Strategy | str, seed: int = 0) -> mc.Ballots:
    """From clear images to contested ones."""
    random = np.random.default_rng(seed)
    n = (mc.strategy(strategy) if isinstance(strategy, str) else strategy).n_ablations(SIZE)
    odd = random.random((N, n)) < np.linspace(0, 0.9, N)[:, None]
    labels = np.where(odd, random.integers(-1, N_CLASSES, size=(N, n)), 1)
    far = random.choice([0.05, 0.5], size=(N, n), p=[0.04, 0.96])
    return mc.Ballots(labels, strategy=strategy, image_size=SIZE, n_classes=N_CLASSES, distance=far)


def literal(ballots: mc.Ballots, row: int, sets: Touched, tolerance: float) -> Votes:
    weak = frozenset(np.flatnonzero(ballots.distance[row] <= tolerance).tolist())
    said = [frozenset(label for label in ballot if label >= 0) for ballot in ballots.labels[row].tolist()]
    return Votes([Member(said, sets, weak)], N_CLASSES)


@pytest.mark.parametrize("tolerance", [None, 0.1])
def test_a_cross_is_certified_by_its_definition(tolerance: float | None) -> None:
    seen: Counter[str] = Counter()
    for size, stride, patch in [(1, 1, (1, 1)), (1, 2, (2, 1)), (1, 1, (2, 2)), (2, 3, (1, 1))]:
        recorded, sets = votes(Cross(size, stride)), touched(size, stride, patch)
        ballots = recorded if tolerance is None else recorded.tolerating(tolerance)
        recovered, detected = mc.majorcert([ballots], patch), mc.detect([ballots], patch)
        margin = mc.drs(ballots, patch, bound="margin")
        assert recovered.defenders[0]["strategy"] == str(Cross(size, stride))
        for i in range(N):
            one = literal(recorded, i, sets, -1.0 if tolerance is None else tolerance)
            assert recovered.predicted[i] == one.label
            assert margin.certified[i] == one.firm()
            reach, without = one.reach(), one.without()
            for place in sets:
                assert recovered.safe[i][place] == (reach[place] == {one.label})
                assert detected.safe[i][place] == (without[place] == {one.label})
            seen[f"detected {detected.certified[i]}"] += 1
            seen[f"recovered {recovered.certified[i]}"] += 1
            seen[f"margin {margin.certified[i]}"] += 1
    assert len(seen) == 6, seen
    assert min(seen.values()) >= 3, seen


def test_a_cross_is_safe_just_where_no_rewrite_flips_it() -> None:
    ballots, sets, seen = votes(Cross(1, 2)), touched(1, 2, (1, 1)), Counter[bool]()
    safe = mc.majorcert([ballots], 1).safe
    for i in range(N):
        said = [frozenset(label for label in ballot if label >= 0) for ballot in ballots.labels[i].tolist()]
        for place, hit in sets.items():
            kept = oracle.count((ballot for j, ballot in enumerate(said) if j not in hit), N_CLASSES)
            assert safe[i][place] == (oracle.reach_by_rewriting(kept, len(hit)) == {ballots.label[i]})
            seen[bool(safe[i][place])] += 1
    assert min(seen[True], seen[False]) >= 20, seen


def test_crosses_join_pools_ensembles_and_masked_scores() -> None:
    """Of the same shape as any other: a pool of one is the defender, and masking follows its literal definition."""
    cross, blocks, patch = votes(Cross(1)), votes("blocks:1", seed=1), mc.Patch(2, 1)
    alone, pooled = (mc.majorcert([each], patch) for each in (cross, mc.Pool([cross])))
    assert alone.safe.tolist() == pooled.safe.tolist()
    assert mc.majorcert([cross, blocks, mc.Pool([cross, blocks])], patch).certified.any()
    sets = touched(1, 1, (2, 1))
    for threshold in (0.0, 0.25):
        masked = mc.MaskedScores(mc.Scores.of_votes(cross), patch, threshold)
        reach = masked.reach(patch)
        for i, points in enumerate(masked.scores.points.tolist()):
            one = Points(points, sets, (2, 1), Fraction(threshold), (2, 1), SIZE)
            assert masked.label[i] == one.label
            for (top, left), expected in one.reach().items():
                here = reach.at(np.array([i]), np.array([top]), np.array([left]), np.arange(N_CLASSES)[None])
                assert set(np.flatnonzero(here[0]).tolist()) == expected
