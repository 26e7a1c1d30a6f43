"""Properties of certificates that hold for all votes, and equality with the oracle, by Hypothesis."""

from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import majorcert as mc
import oracle
from cases import Case
from majorcert.reach import Reach

IMAGE_SIZES = [(1, 6), (5, 1), (3, 4), (4, 3), (5, 5)]


@st.composite
def specs(draw: st.DrawFn, image_size: tuple[int, int]) -> str:
    kind = draw(st.sampled_from(["rows", "columns", "blocks"]))
    side = {"rows": image_size[0], "columns": image_size[1], "blocks": min(image_size)}[kind]
    size, stride = draw(st.integers(1, side)), draw(st.sampled_from([1, 1, 2, 3]))
    return f"{kind}:{size}/{stride}" if stride > 1 else f"{kind}:{size}"


@st.composite
def votes_of(draw: st.DrawFn, n_ablations: int, favourite: int, labels: list[int]) -> tuple[oracle.Ballot, ...]:
    """A favourite label for most ablations, and anything for a few: none, one or several labels."""
    odd = draw(
        st.dictionaries(st.integers(0, n_ablations - 1), st.frozensets(st.sampled_from(labels)), max_size=n_ablations)
    )
    return tuple(odd.get(i, frozenset([favourite])) for i in range(n_ablations))


@st.composite
def cases(draw: st.DrawFn, max_defenders: int = 4, max_classes: int = 6, max_images: int = 3) -> Case:
    """Any ensemble on a small image, with a patch that fits; only some of the classes may occur in the votes."""
    image_size = draw(st.sampled_from(IMAGE_SIZES))
    n_classes = draw(st.integers(2, max_classes))
    occurring = sorted(draw(st.sets(st.integers(0, n_classes - 1), min_size=1, max_size=4)))
    chosen = tuple(draw(st.lists(specs(image_size), min_size=1, max_size=max_defenders)))
    n_images = draw(st.integers(1, max_images))
    favourites = [draw(st.sampled_from(occurring)) for _ in range(n_images)]
    votes = []
    for spec in chosen:
        n_ablations = len(oracle.regions(spec, image_size))
        held = [draw(st.sampled_from([favourite, favourite, favourite, *occurring])) for favourite in favourites]
        votes.append(tuple(draw(votes_of(n_ablations, label, occurring)) for label in held))
    patch = draw(st.integers(1, min(3, image_size[0]))), draw(st.integers(1, min(3, image_size[1])))
    return Case(chosen, image_size, n_classes, tuple(votes), patch)


def same(one: mc.Verdict, other: mc.Verdict) -> None:
    """Assert that two verdicts say the same of every image and placement."""
    np.testing.assert_array_equal(one.predicted, other.predicted)
    np.testing.assert_array_equal(one.certified, other.certified)
    np.testing.assert_array_equal(one.by, other.by)
    if one.safe is None or other.safe is None:
        assert one.safe is other.safe
    else:
        np.testing.assert_array_equal(one.safe, other.safe)


def reach_sets(reach: Reach, case: Case) -> dict[tuple[int, int, int], set[int]]:
    """The labels in reach for each image, top and left, asked for one by one."""
    sets: dict[tuple[int, int, int], set[int]] = {}
    shape = (case.n_images, *mc.Patch(*case.patch).n_placements(case.image_size))
    for label in range(case.n_classes):
        inside = np.broadcast_to(reach.spread(reach.has(np.full(case.n_images, label))), shape)
        for where in np.ndindex(shape):
            sets.setdefault(where, set()).update([label] if inside[where] else [])
    return sets


# ---- equal to the oracle ----


@given(cases())
def test_reaches_are_the_literal_ones(case: Case) -> None:
    patch = mc.Patch(*case.patch)
    for a, ballots in enumerate(case.ballots()):
        exact, paper = reach_sets(ballots.reach(patch), case), reach_sets(ballots.paper_reach(patch), case)
        for i in range(case.n_images):
            literal = case.defenders(i)[a]
            for place in case.placements():
                assert exact[i, *place] == oracle.reach_exact(literal, case.patch, place)
                assert paper[i, *place] == oracle.reach_paper(literal, case.patch, place)
                assert exact[i, *place] >= {literal.label()}


@given(cases())
def test_a_reach_of_one_label_is_told(case: Case) -> None:
    """`only` agrees with the set, for every label, also for those that nobody votes for."""
    patch, shape = mc.Patch(*case.patch), (case.n_images, *mc.Patch(*case.patch).n_placements(case.image_size))
    for ballots in case.ballots():
        for reach in (ballots.reach(patch), ballots.paper_reach(patch)):
            sets = reach_sets(reach, case)
            for label in range(case.n_classes):
                only = np.broadcast_to(reach.spread(reach.only(np.full(case.n_images, label))), shape)
                assert all(only[where] == (sets[where] == {label}) for where in np.ndindex(shape))


@given(cases())
def test_counts_and_labels_are_the_literal_ones(case: Case) -> None:
    for a, ballots in enumerate(case.ballots()):
        literal = [case.defenders(i)[a] for i in range(case.n_images)]
        assert len(ballots) == case.n_images
        assert ballots.counts().tolist() == [list(one.counts()) for one in literal]
        assert ballots.label.tolist() == [one.label() for one in literal]


@given(cases(), st.sampled_from(["exact", "paper"]))
def test_the_closed_form_is_the_literal_enumeration(case: Case, reach: str) -> None:
    verdict = mc.majorcert(case.ballots(), mc.Patch(*case.patch), reach=reach)
    for i in range(case.n_images):
        judged = oracle.majorcert(case.defenders(i), case.patch, reach)
        assert verdict.predicted[i] == judged.predicted
        assert verdict.certified[i] == judged.certified
        assert verdict.by[i] == judged.by
        assert {place: bool(verdict.safe[i][place]) for place in case.placements()} == judged.safe


@given(cases(max_defenders=1))
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


# ---- order among the certificates ----


@given(cases())
def test_the_exact_reach_is_within_the_papers(case: Case) -> None:
    patch = mc.Patch(*case.patch)
    for ballots in case.ballots():
        exact, paper = reach_sets(ballots.reach(patch), case), reach_sets(ballots.paper_reach(patch), case)
        assert all(exact[where] <= paper[where] for where in exact)
    exact, paper = (mc.majorcert(case.ballots(), patch, reach=reach) for reach in ("exact", "paper"))
    assert (paper.safe <= exact.safe).all()
    assert (paper.certified <= exact.certified).all()


@given(cases(max_defenders=1))
def test_margin_implies_local_implies_theorem_2_for_one_defender(case: Case) -> None:
    (ballots,), patch = case.ballots(), mc.Patch(*case.patch)
    margin = mc.drs(ballots, patch, bound="margin").certified
    local = mc.drs(ballots, patch, bound="local")
    assert (margin <= local.certified).all()
    for reach in ("exact", "paper"):
        ensemble = mc.majorcert([ballots], patch, reach=reach)
        assert (local.certified <= ensemble.certified).all()
        np.testing.assert_array_equal(local.safe, ensemble.safe)  # with one defender they are the same claim


@given(cases(), st.sampled_from(["exact", "paper"]))
def test_theorem_1_implies_theorem_2(case: Case, reach: str) -> None:
    verdict = mc.majorcert(case.ballots(), mc.Patch(*case.patch), reach=reach)
    np.testing.assert_array_equal(verdict.certified, verdict.safe.all(axis=(1, 2)))
    np.testing.assert_array_equal(verdict.certified, verdict.by != "")
    for i in range(case.n_images):
        assert (verdict.by[i] == "theorem1") == oracle.theorem1(case.defenders(i), case.patch)


@given(cases(), st.data())
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


@given(cases(max_images=2))
def test_the_largest_patch_is_found_by_a_linear_scan(case: Case) -> None:
    ballots = case.ballots()
    sides = range(1, min(case.image_size) + 1)
    certified = [mc.majorcert(ballots, mc.Patch(side)).certified for side in sides]
    expected = [
        max([0, *(side for side, yes in zip(sides, certified, strict=True) if yes[i])]) for i in range(case.n_images)
    ]
    assert mc.largest_patch(ballots).tolist() == expected


# ---- what changes nothing ----


@given(cases(), st.data())
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
    renamed = Case(case.specs, case.image_size, case.n_classes + sum(gaps), votes, case.patch)
    patch = mc.Patch(*case.patch)
    for reach in ("exact", "paper"):
        before, after = (mc.majorcert(one.ballots(), patch, reach=reach) for one in (case, renamed))
        assert [new[label] for label in before.predicted] == after.predicted.tolist()
        np.testing.assert_array_equal(before.certified, after.certified)
        np.testing.assert_array_equal(before.by, after.by)
        np.testing.assert_array_equal(before.safe, after.safe)
    for one, other in zip(case.ballots(), renamed.ballots(), strict=True):
        np.testing.assert_array_equal(mc.drs(one, patch).certified, mc.drs(other, patch).certified)


@given(cases(max_defenders=3), st.integers(2, 3), st.sampled_from(["exact", "paper"]))
def test_duplicating_every_defender_changes_nothing(case: Case, times: int, reach: str) -> None:
    patch, ballots = mc.Patch(*case.patch), case.ballots()
    same(mc.majorcert(ballots, patch, reach=reach), mc.majorcert(ballots * times, patch, reach=reach))


@given(cases(), st.randoms(use_true_random=False), st.sampled_from(["exact", "paper"]))
def test_the_order_of_the_defenders_changes_nothing(case: Case, random: Random, reach: str) -> None:
    patch, ballots = mc.Patch(*case.patch), case.ballots()
    shuffled = random.sample(ballots, len(ballots))
    same(mc.majorcert(ballots, patch, reach=reach), mc.majorcert(shuffled, patch, reach=reach))


@given(cases(max_images=7), st.data())
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


@given(cases(max_images=5), st.data())
def test_the_order_of_the_images_changes_nothing(case: Case, data: st.DataObject) -> None:
    patch, ballots = mc.Patch(*case.patch), case.ballots()
    order = np.array(data.draw(st.lists(st.integers(0, case.n_images - 1), min_size=1, max_size=8)))
    whole, picked = mc.majorcert(ballots, patch), mc.majorcert([one[order] for one in ballots], patch)
    for name in ("predicted", "certified", "by", "safe"):
        np.testing.assert_array_equal(getattr(whole, name)[order], getattr(picked, name))


@given(cases(max_defenders=2), st.randoms(use_true_random=False))
def test_the_order_within_a_ballot_changes_nothing(case: Case, random: Random) -> None:
    """mc.ABSTAIN may stand anywhere in a ballot, and more of it says nothing more."""
    patch = mc.Patch(*case.patch)
    for ballots in case.ballots():
        labels = np.pad(ballots.labels, ((0, 0), (0, 0), (0, 1)), constant_values=mc.ABSTAIN)
        order = random.sample(range(labels.shape[2]), labels.shape[2])
        other = mc.Ballots(
            labels[:, :, order], strategy=ballots.strategy, image_size=case.image_size, n_classes=case.n_classes
        )
        np.testing.assert_array_equal(ballots.counts(), other.counts())
        same(mc.majorcert([ballots], patch), mc.majorcert([other], patch))


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


# ---- at full size ----


def coherent(
    seed: int, specs: tuple[str, ...], image_size: tuple[int, int], n_classes: int, patch: tuple[int, int], n: int
) -> Case:
    """Images whose votes have a region of a rival, and some noise, so that every verdict occurs."""
    random = np.random.default_rng(seed)
    votes = []
    wanted, rival = random.integers(n_classes, size=(2, n))
    share, noise = random.choice([0.02, 0.1, 0.2, 0.3], size=n), random.choice([0.0, 0.05, 0.2], size=n)
    for spec in specs:
        rows, columns = (len(runs) for runs in mc.strategy(spec).visible(image_size))
        images = []
        for i in range(n):
            labels = np.full((rows, columns), wanted[i])
            region = np.ix_(*(np.arange(max(1, round(side * share[i] ** (1 / 2)))) for side in (rows, columns)))
            labels[region] = rival[i]
            odd = random.random((rows, columns)) < noise[i]
            labels[odd] = random.integers(-1, n_classes, size=odd.sum())
            images.append(tuple(frozenset([int(label)] if label >= 0 else []) for label in labels.ravel()))
        votes.append(tuple(images))
    return Case(specs, image_size, n_classes, tuple(votes), patch)


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
    case = coherent(5, specs, image_size, n_classes, patch, n=12)
    ballots = case.ballots()
    for reach in ("exact", "paper"):
        verdict = mc.majorcert(ballots, mc.Patch(*patch), reach=reach)
        assert 0 < verdict.safe.sum() < verdict.safe.size
        for i in range(case.n_images):
            judged = oracle.majorcert(case.defenders(i), patch, reach)
            assert (verdict.predicted[i], verdict.by[i]) == (judged.predicted, judged.by)
            assert {place: bool(verdict.safe[i][place]) for place in case.placements()} == judged.safe


def test_many_images_equal_their_parts() -> None:
    """More images than the core takes at once."""
    case = coherent(6, ("rows:4", "columns:4"), (32, 32), 10, (5, 5), n=600)
    ballots, patch = case.ballots(), mc.Patch(5)
    whole = mc.majorcert(ballots, patch)
    parts = [mc.majorcert([one[start : start + 50] for one in ballots], patch) for start in range(0, 600, 50)]
    for name in ("predicted", "certified", "by", "safe"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    assert [whole.witness(i) for i in range(600)] == [part.witness(i) for part in parts for i in range(50)]
    assert 0 < whole.certified.sum() < 600
