"""The core against the literal oracle: counts, labels, reaches, bounds and theorems, small and at full size."""

from itertools import product

import numpy as np
import oracle
import pytest
from cases import Case, draw_coherent
from ensembles import ensembles
from hypothesis import given
from hypothesis import strategies as st

import majorcert as mc


@given(ensembles())
def test_reaches_are_the_literal_ones(case: Case) -> None:
    patch = mc.Patch(*case.patch)
    for a, ballots in enumerate(case.ballots()):
        exact, paper = case.reach_sets(ballots.reach(patch)), case.reach_sets(ballots.paper_reach(patch))
        for i in range(case.n_images):
            literal = case.defenders(i)[a]
            for place in case.placements():
                assert exact[i, *place] == oracle.reach_exact(literal, case.patch, place)
                assert paper[i, *place] == oracle.reach_paper(literal, case.patch, place)
                assert exact[i, *place] >= {literal.label()}


@given(ensembles())
def test_a_reach_of_one_label_is_told(case: Case) -> None:
    """`only` agrees with the set, for every label, also for those that nobody votes for."""
    patch, shape = mc.Patch(*case.patch), (case.n_images, *mc.Patch(*case.patch).n_placements(case.image_size))
    for ballots in case.ballots():
        for reach in (ballots.reach(patch), ballots.paper_reach(patch)):
            sets = case.reach_sets(reach)
            for label in range(case.n_classes):
                only = np.broadcast_to(reach.spread(reach.only(np.full(case.n_images, label))), shape)
                assert all(only[where] == (sets[where] == {label}) for where in np.ndindex(shape))


@given(ensembles())
def test_counts_and_labels_are_the_literal_ones(case: Case) -> None:
    for a, ballots in enumerate(case.ballots()):
        literal = [case.defenders(i)[a] for i in range(case.n_images)]
        assert len(ballots) == case.n_images
        assert ballots.counts().tolist() == [list(one.counts()) for one in literal]
        assert ballots.label.tolist() == [one.label() for one in literal]


@given(ensembles(), st.sampled_from(["exact", "paper"]))
def test_the_closed_form_is_the_literal_enumeration(case: Case, reach: str) -> None:
    verdict = mc.majorcert(case.ballots(), mc.Patch(*case.patch), reach=reach)
    for i in range(case.n_images):
        judged = oracle.majorcert(case.defenders(i), case.patch, reach)
        assert verdict.predicted[i] == judged.predicted
        assert verdict.certified[i] == judged.certified
        assert verdict.by[i] == judged.by
        assert {place: bool(verdict.safe[i][place]) for place in case.placements()} == judged.safe


@given(ensembles(max_defenders=1))
def test_both_bounds_are_the_literal_ones(case: Case) -> None:
    (ballots,), patch = case.ballots(), mc.Patch(*case.patch)
    margin, local = mc.drs(ballots, patch, bound="margin"), mc.drs(ballots, patch, bound="local")
    assert margin.safe is None
    for i in range(case.n_images):
        (literal,) = case.defenders(i)
        assert margin.predicted[i] == local.predicted[i] == literal.label()
        assert margin.certified[i] == oracle.margin(literal, case.patch)
        assert local.certified[i] == oracle.local(literal, case.patch)
        assert margin.by[i] == ("margin" if margin.certified[i] else "")
        assert local.by[i] == ("local" if local.certified[i] else "")
        for place in case.placements():
            assert local.safe[i][place] == (oracle.reach_exact(literal, case.patch, place) == {literal.label()})


@given(st.lists(st.integers(0, 6), min_size=2, max_size=4), st.integers(0, 4))
def test_the_exact_reach_is_what_rewriting_reaches(kept: list[int], n_touched: int) -> None:
    """The definition that the oracle uses above, against every rewrite of the touched ballots."""
    votes = [frozenset([label]) for label, n in enumerate(kept) for _ in range(n)]
    ballots = (*[frozenset[int]()] * n_touched, *votes)
    everywhere = oracle.Defender("columns:1", (1, len(ballots)), len(kept), ballots)
    if n_touched:
        reach = oracle.reach_exact(everywhere, (1, n_touched), (0, 0))
        assert reach == oracle.reach_by_rewriting(tuple(kept), n_touched)
    else:
        assert oracle.reach_by_rewriting(tuple(kept), 0) == {oracle.plurality(kept)}


@pytest.mark.parametrize("y", [0, 1, 3])
def test_a_label_that_nobody_votes_for_wins_ties_by_its_index(y: int) -> None:
    """One ballot abstains and can be had by any label: against a single vote that is a tie."""
    for n_classes, n_kept in product(range(max(2, y + 1), 7), (1, 2)):
        votes = ((frozenset([y]),) * n_kept + (frozenset(),),)
        case = Case(("columns:1",), (1, n_kept + 1), n_classes, (votes,), (1, 1))
        verdict = mc.majorcert(case.ballots(), mc.Patch(1))
        judged = oracle.majorcert(case.defenders(0), (1, 1))
        assert verdict.certified[0] == judged.certified
        assert verdict.safe[0, 0, n_kept] == (n_kept > 1 or y == 0)


@pytest.mark.parametrize(
    ("specs", "image_size", "n_classes", "patch"),
    [
        (("rows:4", "columns:4", "blocks:12"), (32, 32), 10, (5, 5)),
        (("rows:3/2", "columns:5/3", "blocks:5/3"), (13, 19), 12, (3, 2)),
        (("rows:2", "columns:6/4", "columns:1/7", "blocks:3"), (9, 23), 7, (1, 3)),
    ],
)
def test_full_size_equals_the_oracle(
    specs: tuple[str, ...], image_size: tuple[int, int], n_classes: int, patch: tuple[int, int]
) -> None:
    case = draw_coherent(5, specs, image_size, n_classes, patch, n=5)
    ballots = case.ballots()
    for reach in ("exact", "paper"):
        verdict = mc.majorcert(ballots, mc.Patch(*patch), reach=reach)
        assert 0 < verdict.safe.sum() < verdict.safe.size
        for i in range(case.n_images):
            judged = oracle.majorcert(case.defenders(i), patch, reach)
            assert (verdict.predicted[i], verdict.by[i]) == (judged.predicted, judged.by)
            assert {place: bool(verdict.safe[i][place]) for place in case.placements()} == judged.safe
