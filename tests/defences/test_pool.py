"""Pools: exactly what rewriting the ballots of all members can do, in both directions, and the literal definition."""

from collections import Counter
from itertools import product
from typing import Any

import kinds_oracle
import numpy as np
import oracle
import pytest
from cases import Case, draw_case, draw_votes
from ensembles import ensembles
from hypothesis import given
from hypothesis import strategies as st

import majorcert as mc
from majorcert.audit import kinds as literally

WEIGHTS: dict[int, list[list[int]]] = {
    1: [[1], [5]],
    2: [[1, 1], [3, 2], [0, 1], [4, 0]],
    3: [[1, 1, 1], [1, 2, 5], [0, 3, 1]],
}
SIZES = {2: [(1, 7), (3, 4), (4, 3)], 3: [(1, 6), (2, 3), (5, 1)]}


def judge(case: Case, weights: list[int], seen: Counter[str]) -> None:
    """The pool of a case against every rewrite, at every placement: its reach is just what rewriting reaches."""
    pool, patch = mc.Pool(case.ballots(), weights=weights), mc.Patch(*case.patch)
    verdict, margin = mc.majorcert([pool], patch), mc.drs(pool, patch, bound="margin")
    reach = case.reach_sets(pool.reach(patch))
    for i in range(case.n_images):
        members = case.defenders(i)
        clean = kinds_oracle.pool_label(members, weights)
        assert pool.label[i] == verdict.predicted[i] == clean, (case, weights, i)
        for place in case.placements():
            outcomes = kinds_oracle.pool_outcomes(members, weights, case.patch, place)
            assert reach[i, *place] == outcomes, (case, weights, i, place)
            assert verdict.safe[i][place] == (outcomes == {clean}), (case, weights, i, place)
        assert verdict.certified[i] == verdict.safe[i].all()
        assert not (margin.certified[i] and not verdict.certified[i]), (case, weights, i)
        seen[f"certified {verdict.certified[i]}"] += 1
        seen[f"margin {margin.certified[i]}"] += 1
        seen["several labels"] += any(len(ballot) > 1 for one in members for ballot in one.ballots)
        equal = kinds_oracle.pool_label(members, [1] * len(members))
        seen["weights decide"] += clean != equal


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_members", [1, 2, 3])
@pytest.mark.parametrize("shaken", [False, True])
def test_the_reach_is_what_rewriting_reaches(n_classes: int, n_members: int, shaken: bool) -> None:
    seen: Counter[str] = Counter()
    about: dict[str, Any] = {"n_classes": n_classes, "n_defenders": n_members, "image_sizes": SIZES[n_classes]}
    for seed in range(12 if n_members < 3 else 6):
        case = draw_case(70_000 + seed, **about, n_images=6)
        few = [len(one.rewritable(case.patch, place)) for one in case.defenders(0) for place in case.placements()]
        if n_classes == 3 and n_members == 3 and max(few) > 3:
            continue
        for weights in WEIGHTS[n_members]:
            judge(case.shaken(seed) if shaken else case, weights, seen)
    assert min(seen["certified True"], seen["certified False"]) >= 10, seen
    assert min(seen["margin True"], seen["margin False"]) >= 3, seen
    assert seen["several labels"] >= 20, seen
    assert seen["weights decide"] >= (3 if n_members > 1 else 0), seen


@pytest.mark.parametrize(("weights", "fragile"), [([1, 1], 0), ([3, 2], 0), ([0, 1], 1), ([2, 1], 1)])
def test_ballot_by_ballot(weights: list[int], fragile: int) -> None:
    """With nothing folded together: each attack is applied to all ballots, and all are counted again."""
    specs, size = ("rows:1", "columns:1"), (3, 4)
    votes = draw_votes(np.random.default_rng(9), specs, size, n_classes=2, n_images=16)
    marks = tuple(frozenset(range(fragile)) for _ in range(16))
    case = Case(specs, size, 2, votes, (1, 1), (marks, (frozenset(),) * 16))
    safe = mc.majorcert([mc.Pool(case.ballots(), weights=weights)], 1).safe
    seen: Counter[bool] = Counter()
    for i in range(case.n_images):
        members = case.defenders(i)
        clean = kinds_oracle.pool_label(members, weights)
        for place in case.placements():
            outcomes = {kinds_oracle.pool_label(after, weights) for after in oracle.attacked(members, (1, 1), place)}
            assert safe[i][place] == (outcomes == {clean})
            seen[outcomes == {clean}] += 1
    assert min(seen.values()) >= 10, seen


@given(ensembles(max_defenders=1), st.sampled_from([1, 4]), st.integers(0, 2))
def test_a_pool_of_one_is_that_defender(case: Case, weight: int, slack: int) -> None:
    (ballots,), patch = case.ballots(), mc.Patch(*case.patch)
    pool = mc.Pool([ballots], weights=[weight])
    assert case.reach_sets(pool.reach(patch)) == case.reach_sets(ballots.reach(patch))
    pairs = [
        (mc.majorcert([pool], patch), mc.majorcert([ballots], patch)),
        (mc.detect([pool], patch, slack=weight * slack), mc.detect([ballots], patch, slack=slack)),
    ]
    for ours, theirs in pairs:
        assert ours.predicted.tolist() == theirs.predicted.tolist()
        assert ours.by.tolist() == theirs.by.tolist()
        assert ours.safe.tolist() == theirs.safe.tolist()
        assert (ours.alert is None) == (theirs.alert is None)
        assert ours.alert is None or ours.alert.tolist() == theirs.alert.tolist()
    assert pool.margin_certified(patch).tolist() == ballots.margin_certified(patch).tolist()


@given(ensembles(max_defenders=3), st.lists(st.integers(0, 4), min_size=3, max_size=3), st.integers(0, 3))
def test_a_pool_is_its_literal_definition(case: Case, drawn: list[int], slack: int) -> None:
    weights = drawn[: len(case.specs)] if any(drawn[: len(case.specs)]) else None
    pool, patch = mc.Pool(case.ballots(), weights=weights), mc.Patch(*case.patch)
    reach, without = case.reach_sets(pool.reach(patch)), case.reach_sets(pool.without(patch, slack))
    for i in range(case.n_images):
        literal = literally.testimony(pool, pool.provenance, i, case.patch)
        assert pool.label[i] == literal.label
        assert pool.margin_certified(patch)[i] == literal.firm()
        for place in case.placements():
            assert reach[i, *place] == literal.reach()[place]
            assert without[i, *place] == literal.without(slack)[place]


def bands(spec: str = "rows:4", label: int = 0, n_images: int = 2) -> mc.Ballots:
    labels = np.full((n_images, mc.strategy(spec).n_ablations((32, 32))), label)
    return mc.Ballots(labels, strategy=spec, image_size=(32, 32), n_classes=10)


def test_by_default_every_strategy_has_the_same_say() -> None:
    pool = mc.Pool([bands("rows:4"), bands("columns:4"), bands("blocks:12", 1)])
    assert pool.weights == (32, 32, 1)
    assert pool.provenance["weights"] == [32, 32, 1]
    assert [member["strategy"] for member in pool.provenance["members"]] == ["rows:4", "columns:4", "blocks:12"]
    assert pool.label.tolist() == [0, 0]
    assert mc.Pool([bands("blocks:12", 1), bands("rows:4"), bands("columns:4")], weights=[1, 1, 1]).label.tolist() == [
        1,
        1,
    ]
    assert len(pool[:1].members[2]) == len(pool[:1]) == 1


@pytest.mark.parametrize("weights", [[1], [1, -1], [0, 0], [1, 0.5], [2**30, 2**30]])
def test_weights_are_whole_points_one_for_each(weights: list[Any]) -> None:
    with pytest.raises(mc.EvidenceError, match="weights are whole points per vote, one for each of 2 members"):
        mc.Pool([bands(), bands("columns:4")], weights=weights)


def test_a_pool_is_of_votes_on_the_same_images() -> None:
    with pytest.raises(mc.EvidenceError, match="its members are ballots; of Pool there are none"):
        mc.Pool([bands(), mc.Pool([bands()])])  # type: ignore[list-item]
    with pytest.raises(mc.EvidenceError, match="defenders 1 and 2"):
        mc.Pool([bands(), bands(n_images=3)])
    with pytest.raises(mc.EvidenceError, match="one or more"):
        mc.Pool([])


def test_large_weights_do_not_overflow() -> None:
    """The largest points that are allowed: the winner leads by one point out of 2^31."""
    half = 2**30 - 1
    labels = [mc.Ballots([[c]], strategy="rows:1", image_size=(1, 2), n_classes=2) for c in (0, 1)]
    pool = mc.Pool(labels, weights=[half, half + 1])
    assert pool.label.tolist() == [1]
    assert pool.reach(mc.Patch(1)).has(np.array([0])).all()


def test_a_pool_is_of_the_images_that_any_member_names() -> None:
    def ballots(**origin: Any) -> mc.Ballots:
        return mc.Ballots([[0, 0]], strategy="columns:1", image_size=(1, 2), n_classes=2, provenance=origin)

    known = ballots(images_sha256="a")
    for unknown, turn in product((ballots(), ballots(images_sha256=None)), (1, -1)):
        pool = mc.Pool([unknown, known][::turn])
        mc.certify([pool, known], 1)
        with pytest.raises(mc.EvidenceError, match="SHA-256"):
            mc.certify([pool, ballots(images_sha256="b")], 1)


def test_a_pool_says_what_all_its_members_tolerate() -> None:
    facts: dict[str, Any] = {"strategy": "columns:1", "image_size": (1, 2), "n_classes": 2}
    ballots = mc.Ballots([[0, 0]], **facts, distance=[[0.5, 0.5]])
    assert mc.Pool([ballots, ballots]).tolerating(0.1).provenance["fragile"] == 0.1
    assert mc.Pool([ballots.tolerating(0.2), ballots.tolerating(0.1)]).provenance["fragile"] == 0.1
    assert "fragile" not in mc.Pool([ballots, ballots.tolerating(0.1)]).provenance
    assert "fragile" not in mc.Pool([ballots]).tolerating(0.1).as_recorded().provenance
