"""Properties that hold for all votes: the order among the certificates, and what changes nothing."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import oracle
from cases import Case, draw_coherent
from ensembles import ensembles
from hypothesis import given
from hypothesis import strategies as st

import majorcert as mc


def same(one: mc.Verdict, other: mc.Verdict) -> None:
    """Assert that two verdicts say the same of every image and placement."""
    np.testing.assert_array_equal(one.predicted, other.predicted)
    np.testing.assert_array_equal(one.certified, other.certified)
    np.testing.assert_array_equal(one.by, other.by)
    if one.safe is None or other.safe is None:
        assert one.safe is other.safe
    else:
        np.testing.assert_array_equal(one.safe, other.safe)


@given(ensembles())
def test_the_exact_reach_is_within_the_papers(case: Case) -> None:
    patch = mc.Patch(*case.patch)
    for ballots in case.ballots():
        exact, paper = case.reach_sets(ballots.reach(patch)), case.reach_sets(ballots.paper_reach(patch))
        assert all(exact[where] <= paper[where] for where in exact)
    exact, paper = (mc.majorcert(case.ballots(), patch, reach=reach) for reach in ("exact", "paper"))
    assert (paper.safe <= exact.safe).all()
    assert (paper.certified <= exact.certified).all()


@given(ensembles(max_defenders=1))
def test_margin_implies_local_implies_theorem_2_for_one_defender(case: Case) -> None:
    (ballots,), patch = case.ballots(), mc.Patch(*case.patch)
    margin = mc.drs(ballots, patch, bound="margin").certified
    local = mc.drs(ballots, patch, bound="local")
    assert (margin <= local.certified).all()
    for reach in ("exact", "paper"):
        ensemble = mc.majorcert([ballots], patch, reach=reach)
        assert (local.certified <= ensemble.certified).all()
        np.testing.assert_array_equal(local.safe, ensemble.safe)  # with one defender they are the same claim


@given(ensembles(), st.sampled_from(["exact", "paper"]))
def test_theorem_1_implies_theorem_2(case: Case, reach: str) -> None:
    verdict = mc.majorcert(case.ballots(), mc.Patch(*case.patch), reach=reach)
    np.testing.assert_array_equal(verdict.certified, verdict.safe.all(axis=(1, 2)))
    np.testing.assert_array_equal(verdict.certified, verdict.by != "")
    for i in range(case.n_images):
        assert (verdict.by[i] == "theorem1") == oracle.theorem1(case.defenders(i), case.patch)


@given(ensembles(), st.data())
def test_a_larger_patch_certifies_no_more(case: Case, data: st.DataObject) -> None:
    ballots = case.ballots()
    (height, width), (most_rows, most_columns) = case.patch, case.image_size
    larger = (data.draw(st.integers(height, most_rows)), data.draw(st.integers(width, most_columns)))
    small, large = mc.Patch(*case.patch), mc.Patch(*larger)
    for reach in ("exact", "paper"):
        by_small, by_large = (mc.majorcert(ballots, patch, reach=reach) for patch in (small, large))
        assert (by_large.certified <= by_small.certified).all()
        for top, left in oracle.placements(larger, case.image_size):
            inside = by_small.safe[
                :, top : top + larger[0] - small.height + 1, left : left + larger[1] - small.width + 1
            ]
            assert (by_large.safe[:, top, left] <= inside.all(axis=(1, 2))).all()
    for bound in ("margin", "local"):
        for one in ballots:
            assert (mc.drs(one, large, bound=bound).certified <= mc.drs(one, small, bound=bound).certified).all()


@given(ensembles(max_images=2), st.sampled_from(["exact", "paper"]))
def test_the_largest_patch_is_found_by_a_linear_scan(case: Case, reach: str) -> None:
    ballots = case.ballots()
    sides = range(1, min(case.image_size) + 1)
    certified = np.array([mc.majorcert(ballots, mc.Patch(side), reach=reach).certified for side in sides])
    expected = [max(side * yes for side, yes in zip(sides, column, strict=True)) for column in certified.T]
    assert mc.largest_patch(ballots, reach=reach).tolist() == expected


def test_the_largest_patch_depends_on_the_reach() -> None:
    votes = tuple((tuple(frozenset([int(vote)]) for vote in row),) for row in ("00111", "22222", "00000"))
    ballots = Case(("columns:1",) * 3, (2, 5), 3, votes, (1, 1)).ballots()
    assert mc.largest_patch(ballots).tolist() == mc.largest_patch(ballots, reach="exact").tolist() == [2]
    assert mc.largest_patch(ballots, reach="paper").tolist() == [1]


@given(ensembles(), st.data())
def test_relabelling_with_the_order_kept_changes_nothing(case: Case, data: st.DataObject) -> None:
    """Labels that nobody votes for may be put between the others or after them, but not before the first:
    there, a new label would win ties that label 0 used to win."""
    gaps = data.draw(
        st.lists(st.sampled_from([0, 0, 1, 3, 130, 33_000]), min_size=case.n_classes, max_size=case.n_classes)
    )
    new = [label + sum(gaps[:label]) for label in range(case.n_classes)]
    votes = tuple(
        tuple(tuple(frozenset(new[label] for label in ballot) for ballot in image) for image in images)
        for images in case.votes
    )
    renamed = replace(case, n_classes=case.n_classes + sum(gaps), votes=votes)
    patch = mc.Patch(*case.patch)
    for reach in ("exact", "paper"):
        before, after = (mc.majorcert(one.ballots(), patch, reach=reach) for one in (case, renamed))
        assert [new[label] for label in before.predicted] == after.predicted.tolist()
        np.testing.assert_array_equal(before.certified, after.certified)
        np.testing.assert_array_equal(before.by, after.by)
        np.testing.assert_array_equal(before.safe, after.safe)
    for one, other in zip(case.ballots(), renamed.ballots(), strict=True):
        np.testing.assert_array_equal(mc.drs(one, patch).certified, mc.drs(other, patch).certified)


@given(ensembles(max_defenders=3), st.integers(2, 3), st.sampled_from(["exact", "paper"]))
def test_duplicating_every_defender_changes_nothing(case: Case, times: int, reach: str) -> None:
    patch, ballots = mc.Patch(*case.patch), case.ballots()
    same(mc.majorcert(ballots, patch, reach=reach), mc.majorcert(ballots * times, patch, reach=reach))


@given(ensembles(), st.randoms(use_true_random=False), st.sampled_from(["exact", "paper"]))
def test_the_order_of_the_defenders_changes_nothing(case: Case, random: Random, reach: str) -> None:
    patch, ballots = mc.Patch(*case.patch), case.ballots()
    shuffled = random.sample(ballots, len(ballots))
    same(mc.majorcert(ballots, patch, reach=reach), mc.majorcert(shuffled, patch, reach=reach))


@given(ensembles(max_defenders=3, max_images=5), st.data())
def test_chunked_equals_whole(case: Case, data: st.DataObject) -> None:
    patch, ballots = mc.Patch(*case.patch), case.ballots()
    cuts = sorted(data.draw(st.sets(st.integers(1, case.n_images))) | {0, case.n_images})
    chunks = [slice(start, stop) for start, stop in pairwise(cuts)]
    for certify in (
        lambda parts: mc.majorcert(parts, patch),
        lambda parts: mc.majorcert(parts, patch, reach="paper"),
        lambda parts: mc.drs(parts[0], patch, bound="margin"),
        lambda parts: mc.drs(parts[0], patch, bound="local"),
    ):
        whole, pieces = certify(ballots), [certify([one[chunk] for one in ballots]) for chunk in chunks]
        for name in ("predicted", "certified", "by", "safe"):
            if getattr(whole, name) is not None:
                joined = np.concatenate([getattr(piece, name) for piece in pieces])
                np.testing.assert_array_equal(joined, getattr(whole, name))
    np.testing.assert_array_equal(
        np.concatenate([mc.largest_patch([one[chunk] for one in ballots]) for chunk in chunks]),
        mc.largest_patch(ballots),
    )


@given(ensembles(max_images=5), st.data())
def test_the_order_of_the_images_changes_nothing(case: Case, data: st.DataObject) -> None:
    patch, ballots = mc.Patch(*case.patch), case.ballots()
    order = np.array(data.draw(st.lists(st.integers(0, case.n_images - 1), min_size=1, max_size=8, unique=True)))
    whole, picked = mc.majorcert(ballots, patch), mc.majorcert([one[order] for one in ballots], patch)
    for name in ("predicted", "certified", "by", "safe"):
        np.testing.assert_array_equal(getattr(whole, name)[order], getattr(picked, name))


@given(ensembles(max_defenders=2), st.randoms(use_true_random=False))
def test_the_order_within_a_ballot_changes_nothing(case: Case, random: Random) -> None:
    """mc.ABSTAIN may stand anywhere in a ballot, and more of it says nothing more."""
    patch = mc.Patch(*case.patch)
    for ballots in case.ballots():
        labels = np.pad(ballots.labels, ((0, 0), (0, 0), (0, 1)), constant_values=mc.ABSTAIN)
        order = random.sample(range(labels.shape[2]), labels.shape[2])
        other = mc.Ballots(
            labels[:, :, order],
            strategy=ballots.strategy,
            image_size=case.image_size,
            n_classes=case.n_classes,
            distance=ballots.distance,
        )
        other = other if ballots.fragile is None else other.tolerating(0.2)
        np.testing.assert_array_equal(ballots.counts(), other.counts())
        same(mc.majorcert([ballots], patch), mc.majorcert([other], patch))


def test_many_images_equal_their_parts() -> None:
    """More images than the core takes at once."""
    case = draw_coherent(6, ("rows:4", "columns:4"), (32, 32), 10, (5, 5), n=600)
    ballots, patch = case.ballots(), mc.Patch(5)
    whole = mc.majorcert(ballots, patch)
    parts = [mc.majorcert([one[start : start + 50] for one in ballots], patch) for start in range(0, 600, 50)]
    for name in ("predicted", "certified", "by", "safe"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    assert [whole.witness(i) for i in range(600)] == [part.witness(i) for part in parts for i in range(50)]
    assert 0 < whole.certified.sum() < 600


def test_counts_stay_exact_for_millions_of_classes() -> None:
    """4,096 ablations times 1.2 million classes is past what 32 bits hold, and most placements leave a tie."""
    labels = np.repeat([[0], [1]], 4096, axis=1)
    labels[:, :256] = mc.ABSTAIN
    few, many = (
        mc.majorcert([mc.Ballots(labels, strategy=mc.Blocks(1), image_size=(64, 64), n_classes=n)], mc.Patch(30, 64))
        for n in (3, 1_200_003)
    )
    assert few.safe.all(axis=(1, 2)).tolist() == [True, False]  # 1,920 votes left against 1,920: label 0 wins
    same(few, many)
