"""Soundness and completeness on tiny cases: every placement, every rewrite of the touched ballots, both verdicts.

Certified with the exact reach holds if and only if no rewrite flips the ensemble's label; certified by the margin,
by the local bound or with the paper's reach means that none does. Fragile ballots, where there are any, are
rewritten as well, wherever the patch is.
"""

from collections import Counter
from itertools import product

import numpy as np
import oracle
import pytest
from cases import Case, draw_case, draw_votes

import majorcert as mc

IMAGE_SIZES = {
    2: [(1, 9), (8, 1), (2, 5), (3, 5), (5, 4)],
    3: [(1, 9), (8, 1), (2, 3), (3, 4), (4, 3)],
    4: [(1, 9), (8, 1), (2, 4), (3, 3), (4, 2)],
}
"""By number of classes: non-square but for one, and small enough for the whole image to be rewritten."""
N_CASES = 80
N_IMAGES = 10


def judge(case: Case, seen: Counter[str]) -> None:
    """Compare the core with the rewrites on every image of the case; count what was seen."""
    defenders, patch = case.ballots(), mc.Patch(*case.patch)
    exact = mc.majorcert(defenders, patch, reach="exact")
    paper = mc.majorcert(defenders, patch, reach="paper")
    for i in range(case.n_images):
        literal = case.defenders(i)
        flipped = {place: oracle.flips_by_rewriting(literal, case.patch, place) for place in case.placements()}
        assert exact.predicted[i] == paper.predicted[i] == oracle.ensemble_label(literal), (case, i)
        assert exact.certified[i] == (not any(flipped.values())), (case, i)
        by_theorem1 = oracle.theorem1(literal, case.patch)
        assert exact.by[i] == ("theorem1" if by_theorem1 else "theorem2" if exact.certified[i] else ""), (case, i)
        for (top, left), flips in flipped.items():
            assert exact.safe[i, top, left] == (not flips), (case, i, top, left)
            assert not (paper.safe[i, top, left] and flips), (case, i, top, left)
        assert not (paper.certified[i] and any(flipped.values())), (case, i)
        seen[f"exact {exact.certified[i]}"] += 1
        seen[f"paper {paper.certified[i]}"] += 1
        seen[f"by {exact.by[i]}"] += 1
        count_ties(case, literal, seen)
    for a, ballots in enumerate(defenders):
        judge_alone(case, a, ballots, seen)


def judge_alone(case: Case, a: int, ballots: mc.Ballots, seen: Counter[str]) -> None:
    """Compare the two bounds for one defender with the rewrites of its own ballots."""
    patch = mc.Patch(*case.patch)
    margin, local = mc.drs(ballots, patch, bound="margin"), mc.drs(ballots, patch, bound="local")
    for i in range(case.n_images):
        alone = [case.defenders(i)[a]]
        flips = any(oracle.flips_by_rewriting(alone, case.patch, place) for place in case.placements())
        assert margin.predicted[i] == local.predicted[i] == ballots.label[i] == alone[0].label(), (case, a, i)
        assert not (margin.certified[i] and flips), (case, a, i)
        assert local.certified[i] == (not flips), (case, a, i)
        seen[f"margin {margin.certified[i]}"] += 1
        seen[f"local {local.certified[i]}"] += 1


def count_ties(case: Case, literal: list[oracle.Defender], seen: Counter[str]) -> None:
    """Ties between the ballots of a defender, between the defenders, and between a bound and another at a placement."""
    held = Counter(one.label() for one in literal).most_common(2)
    seen["tie of defenders"] += len(held) == 2 and held[0][1] == held[1][1]
    for one in literal:
        votes = sorted(one.counts())
        seen["tie of ballots"] += votes[-1] == votes[-2] > 0
        seen["ballot without a label"] += frozenset() in one.ballots
        seen["ballot of several labels"] += any(len(ballot) > 1 for ballot in one.ballots)
        for place in case.placements():
            kept, g = one.kept(case.patch, place), one.label()
            n_touched = len(one.rewritable(case.patch, place))
            seen["tie of bounds"] += any(kept[c] + n_touched == kept[g] for c in range(case.n_classes) if c != g)
    seen["whole image"] += case.patch == case.image_size


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("n_defenders", [1, 2, 3, 4])
def test_certified_iff_no_rewrite_flips_the_label(n_classes: int, n_defenders: int) -> None:
    seen: Counter[str] = Counter()
    for number in range(N_CASES):
        seed = 10_000 * n_classes + 1_000 * n_defenders + number
        judge(
            draw_case(
                seed,
                n_classes=n_classes,
                n_defenders=n_defenders,
                image_sizes=IMAGE_SIZES[n_classes],
                n_images=N_IMAGES,
            ),
            seen,
        )
    for method in ("exact", "paper", "margin", "local"):
        assert min(seen[f"{method} True"], seen[f"{method} False"]) >= 40, seen
    assert seen["by theorem1"] >= 15, seen
    assert seen["by theorem2"] >= (20 if n_defenders % 2 == 0 else 0), seen
    assert seen["whole image"] >= 4, seen
    assert min(seen["ballot without a label"], seen["ballot of several labels"]) >= 80, seen
    assert min(seen["tie of ballots"], seen["tie of bounds"]) >= 8, seen
    can_tie = n_defenders % 2 == 0 or n_defenders >= n_classes > 2
    assert seen["tie of defenders"] >= (4 if can_tie else 0), seen


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("n_defenders", [1, 2, 3])
def test_certified_iff_no_rewrite_of_fragile_ballots_flips_the_label(n_classes: int, n_defenders: int) -> None:
    seen: Counter[str] = Counter()
    about = {"n_classes": n_classes, "n_defenders": n_defenders, "image_sizes": IMAGE_SIZES[n_classes]}
    for number in range(30):
        seed = 50_000 + 1_000 * n_classes + 100 * n_defenders + number
        plain = draw_case(seed, **about, n_images=N_IMAGES)
        case = plain.shaken(seed)
        judge(case, seen)
        before, after = (mc.majorcert(each.ballots(), mc.Patch(*case.patch)) for each in (plain, case))
        assert (after.safe <= before.safe).all()
        assert (after.predicted == before.predicted).all()
        seen["lost"] += int((before.certified & ~after.certified).sum())
        without = [not any(case.fragile_of(a, i) for a in range(n_defenders)) for i in range(N_IMAGES)]
        assert (after.safe[without] == before.safe[without]).all()
        seen["certified with fragile ballots"] += int((after.certified & ~np.array(without)).sum())
    for method in ("exact", "paper", "margin", "local"):
        assert min(seen[f"{method} True"], seen[f"{method} False"]) >= 10, seen
    assert min(seen["lost"], seen["certified with fragile ballots"]) >= 5, seen


SMALLEST = [
    (("columns:1",), (1, 3), (1, 1)),
    (("columns:2",), (1, 4), (1, 1)),
    (("columns:2/2",), (1, 5), (1, 2)),
    (("rows:1", "columns:1"), (2, 3), (1, 1)),
    (("rows:1", "columns:1/2", "blocks:1/2"), (3, 3), (1, 1)),
    (("rows:1/2", "columns:1", "columns:1", "rows:1"), (3, 2), (1, 1)),
]


def assert_safe_where_no_attack_works(case: Case) -> None:
    seen: Counter[bool] = Counter()
    verdict = mc.majorcert(case.ballots(), mc.Patch(*case.patch))
    for i in range(case.n_images):
        literal = case.defenders(i)
        for top, left in case.placements():
            outcomes = {oracle.ensemble_label(after) for after in oracle.attacked(literal, case.patch, (top, left))}
            safe = outcomes == {oracle.ensemble_label(literal)}
            assert verdict.safe[i, top, left] == safe, (case, i, top, left)
            seen[safe] += 1
    assert min(seen[True], seen[False]) >= 3, seen


@pytest.mark.parametrize(("specs", "image_size", "patch"), SMALLEST)
def test_ballot_by_ballot(specs: tuple[str, ...], image_size: tuple[int, int], patch: tuple[int, int]) -> None:
    """The same claim with nothing folded together: each attack is applied to all ballots, and all are counted again."""
    votes = draw_votes(np.random.default_rng(7), specs, image_size, n_classes=2, n_images=12)
    case = Case(specs, image_size, 2, votes, patch)
    assert_safe_where_no_attack_works(case)


@pytest.mark.parametrize(
    ("specs", "image_size", "patch"),
    [
        (("columns:1",), (1, 4), (1, 1)),
        (("columns:2",), (1, 6), (1, 1)),
        (("columns:1/2",), (1, 9), (1, 2)),
        (("rows:1", "columns:1"), (3, 4), (1, 1)),
    ],
)
def test_ballot_by_ballot_with_a_fragile_one(
    specs: tuple[str, ...], image_size: tuple[int, int], patch: tuple[int, int]
) -> None:
    """Every rewrite of the touched ballots, together with every one of a fragile ballot of the first defender."""
    votes = draw_votes(np.random.default_rng(8), specs, image_size, n_classes=2, n_images=12)
    n_ablations = len(votes[0][0])
    first = tuple(frozenset([i % n_ablations]) for i in range(12))
    case = Case(specs, image_size, 2, votes, patch, (first, *[(frozenset(),) * 12] * (len(specs) - 1)))
    assert_safe_where_no_attack_works(case)


@pytest.mark.parametrize(("n_touched", "n_classes"), [(0, 3), (1, 4), (2, 3), (3, 2), (3, 3), (5, 2)])
def test_counts_of_all_rewrites_are_found_one_ballot_at_a_time(n_touched: int, n_classes: int) -> None:
    """The oracle's one fold: the same vectors of counts as from every list of ballots."""
    ballots = oracle.all_ballots(n_classes)
    assert len(set(ballots)) == 2**n_classes
    every = {oracle.count(chosen, n_classes) for chosen in product(ballots, repeat=n_touched)}
    assert oracle.rewrites(n_touched, n_classes) == every


def one_image(n_classes: int, *rows: str) -> Case:
    """Bands of one pixel, a digit for each, '-' abstains; one row for each defender; the patch is two pixels wide."""
    votes = tuple((tuple(frozenset([int(vote)]) if vote != "-" else frozenset() for vote in row),) for row in rows)
    return Case(("columns:1",) * len(rows), (1, len(rows[0])), n_classes, votes, (1, 2))


def test_the_exact_reach_certifies_what_the_papers_cannot() -> None:
    """Over its last two bands, the first defender can be made to say 0 or 1; the paper also allows it to say 2."""
    case = one_image(3, "00111", "22222", "00000")
    exact, paper = (mc.majorcert(case.ballots(), mc.Patch(1, 2), reach=reach) for reach in ("exact", "paper"))
    assert exact.by.tolist() == ["theorem2"]
    assert paper.by.tolist() == [""]
    assert not any(oracle.flips_by_rewriting(case.defenders(0), (1, 2), place) for place in case.placements())


def test_the_local_bound_certifies_what_the_margin_cannot() -> None:
    """Wherever the patch lies it touches two bands, of which only one ever votes: 3 votes stay against 2."""
    case = one_image(2, "0-0-0-")
    margin, local = (mc.drs(case.ballots()[0], mc.Patch(1, 2), bound=bound) for bound in ("margin", "local"))
    assert margin.by.tolist() == [""]
    assert local.by.tolist() == ["local"]
    assert not any(oracle.flips_by_rewriting(case.defenders(0), (1, 2), place) for place in case.placements())


def test_theorem_1_needs_more_than_half() -> None:
    """Two of four firm defenders of label 0 are certified by theorem 2 alone, and only because ties are theirs."""
    first, last = one_image(2, "00000", "00000", "11111", "11111"), one_image(2, "11111", "11111", "00000", "00001")
    assert mc.majorcert(first.ballots(), mc.Patch(1, 2)).by.tolist() == ["theorem2"]
    assert mc.majorcert(last.ballots(), mc.Patch(1, 2)).by.tolist() == [""]
    assert mc.majorcert(first.ballots()[:3], mc.Patch(1, 2)).by.tolist() == ["theorem1"]
