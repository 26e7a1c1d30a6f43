"""Top-k: the clean label stays among the k with most votes, compared with every rewrite of the touched ballots."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise, product
from typing import Any

import kinds_oracle
import numpy as np
import oracle
import pytest
from cases import Case, draw_case

import majorcert as mc

SIZES = {2: [(1, 8), (2, 4)], 3: [(1, 7), (3, 3)], 4: [(1, 6), (4, 1)]}


@cache
def rewrites(n_touched: int, n_classes: int, most: int) -> frozenset[oracle.Counts]:
    """Every vector of counts that so many ballots of at most so many labels can give together."""
    ballots = [
        oracle.count([frozenset(chosen)], n_classes)
        for size in range(most + 1)
        for chosen in combinations(range(n_classes), size)
    ]
    found = {(0,) * n_classes}
    for _ in range(n_touched):
        found = {kinds_oracle.added([votes, ballot]) for votes in found for ballot in ballots}
    return frozenset(found)


def outcomes(
    members: Sequence[oracle.Defender], weights: Sequence[int], patch: oracle.Size, place: oracle.Size, most: int
) -> Iterator[oracle.Counts]:
    """The votes after each attack."""
    every = [
        {
            kinds_oracle.scaled(w, kinds_oracle.added([one.kept(patch, place), new]))
            for new in rewrites(len(one.rewritable(patch, place)), one.n_classes, most)
        }
        for w, one in zip(weights, members, strict=True)
    ]
    return (kinds_oracle.added(chosen) for chosen in product(*every))


def rank(votes: oracle.Counts, label: int) -> int:
    """How many labels stand ahead."""
    return sum(oracle.beats(c, votes[c], label, votes[label]) for c in range(len(votes)) if c != label)


def narrowed(case: Case, most: int) -> Case:
    """The same case with ballots of at most so many labels."""
    votes = tuple(
        tuple(tuple(frozenset(sorted(ballot)[:most]) for ballot in image) for image in member) for member in case.votes
    )
    return Case(case.specs, case.image_size, case.n_classes, votes, case.patch, case.fragile)


@pytest.mark.parametrize("fragile", [False, True])
@pytest.mark.parametrize("n_members", [1, 2])
def test_the_label_stays_among_k_iff_no_rewrite_drives_it_out(n_members: int, fragile: bool) -> None:
    """For ballots of one label, of two, and of any number: exact in both directions, at every placement."""
    seen: Counter[str] = Counter()
    for seed, n_classes in product(range(5 - n_members), SIZES):
        plain = draw_case(seed, n_classes=n_classes, n_defenders=n_members, image_sizes=SIZES[n_classes], n_images=3)
        for most in sorted({1, 2, n_classes}):
            case = narrowed(plain.shaken(seed) if fragile else plain, most)
            ballots, weights = case.ballots(), [1] * n_members
            evidence = ballots[0] if n_members == 1 else mc.Pool(ballots, weights=weights)
            verdicts = [mc.top_k(evidence, case.patch, k, per_ballot=most) for k in range(1, n_classes + 1)]
            for i, place in product(range(case.n_images), case.placements()):
                literal = case.defenders(i)
                if sum(len(one.rewritable(case.patch, place)) for one in literal) > 4:
                    continue
                clean = kinds_oracle.pool_label(literal, weights)
                worst = max(rank(votes, clean) for votes in outcomes(literal, weights, case.patch, place, most))
                for k, verdict in enumerate(verdicts, start=1):
                    assert verdict.predicted[i] == clean
                    assert verdict.safe[i][place] == (worst < k), (case, i, place, k, most)
                    seen[f"{min(most, 2)} {min(k, 3)} {worst < k}"] += 1
    assert len(seen) == 12, seen
    assert min(seen.values()) >= 3, seen


@pytest.mark.parametrize("most", [1, 3])
def test_of_unequal_weights_the_certificate_is_sound(most: int) -> None:
    """And exact where a ballot may name as many labels as there are places."""
    seen: Counter[str] = Counter()
    for seed in range(8):
        case = narrowed(draw_case(seed, n_classes=3, n_defenders=2, image_sizes=[(1, 5), (2, 3)], n_images=4), most)
        pool, weights = mc.Pool(case.ballots(), weights=[3, 2]), [3, 2]
        for k in (1, 2):
            verdict = mc.top_k(pool, case.patch, k, per_ballot=most)
            for i, place in product(range(case.n_images), case.placements()):
                literal = case.defenders(i)
                if sum(len(one.rewritable(case.patch, place)) for one in literal) > 4:
                    continue
                after = outcomes(literal, weights, case.patch, place, most)
                stays = all(rank(votes, kinds_oracle.pool_label(literal, weights)) < k for votes in after)
                safe = bool(verdict.safe[i][place])
                assert stays or not safe
                assert stays == safe or most == 1
                seen[f"{k} {safe}"] += 1
    assert len(seen) == 4, seen
    assert min(seen.values()) >= 5, seen


def columns(*votes: str, n_classes: int = 4, **more: Any) -> mc.Ballots:
    """Bands of one pixel, a digit for the vote of each; one image."""
    labels = [[[int(digit) for digit in vote] for vote in votes]]
    return mc.Ballots(labels, strategy="columns:1", image_size=(1, len(votes)), n_classes=n_classes, **more)


def test_one_label_must_be_shared_out_and_several_need_not() -> None:
    """Without two 3s, three are left; 1 and 2 lack one vote each more than they lose ties."""
    ballots = columns("3", "3", "3", "3", "3", "1", "1", "2", "2")
    wide = mc.top_k(ballots, (1, 2), 2)
    one = mc.top_k(ballots, (1, 2), 2, per_ballot=1)
    assert not wide.safe[0, 0, 0]
    assert not one.safe[0, 0, 0], "one vote each makes three, and a tie is theirs"
    assert mc.top_k(ballots, 1, 2, per_ballot=1).certified.all(), "one band cannot raise both"
    assert not mc.top_k(columns("3", "3", "3", "1", "1", "2", "2"), 1, 2).certified.any(), "unless it names both"
    assert mc.top_k(columns("3", "3", "3", "1", "2"), 1, 2, per_ballot=1).certified.all()


def test_who_is_ahead_already_has_nothing_to_give_away() -> None:
    """Without the last three, 0 leads by 3 to 1; 2 and 3 lack two votes each, and there are only three to share out."""
    votes = ("0", "0", "0", "1", "1", "1", "1")
    assert mc.top_k(columns(*votes), (1, 3), 3, per_ballot=1).certified.tolist() == [True]
    assert mc.top_k(columns(*votes), (1, 3), 3, per_ballot=2).certified.tolist() == [False]


def test_what_is_on_record_is_used() -> None:
    votes = ("3", "3", "3", "3", "1", "1", "2", "2")
    assert not mc.top_k(columns(*votes), 1, 2).certified.any()
    assert not mc.top_k(columns(*votes, provenance={"threshold": 0.3}), 1, 2).certified.any()
    top_label = columns(*votes, provenance={"threshold": None})
    verdict = mc.top_k(top_label, 1, 2)
    assert verdict.certified.tolist() == [True]
    assert (verdict.method, verdict.promise, verdict.by.tolist()) == ("top-2", "top-k", ["top-k"])
    assert mc.top_k(mc.Pool([top_label, top_label]), 1, 2).certified.tolist() == [True]
    assert mc.top_k(mc.Pool([top_label, columns(*votes)]), 1, 2).certified.tolist() == [False]
    assert mc.top_k(top_label, 1, 2, per_ballot=2).certified.tolist() == [False]


def test_a_witness_names_labels_that_can_all_be_put_ahead() -> None:
    verdict = mc.top_k(columns("3", "3", "3", "1", "1", "2", "2"), (1, 2), 2)
    witness = verdict.witness(0)
    assert witness is not None
    assert (witness.placement, witness.rival, witness.forced) == ((0, 0), 1, (1, 2))


@pytest.mark.parametrize("n_classes", [2, 3, 40])
def test_the_first_is_recovery_and_all_labels_are_no_promise(n_classes: int) -> None:
    random = np.random.default_rng(n_classes)
    labels = np.where(random.random((20, 9)) < 0.3, random.integers(n_classes, size=(20, 9)), n_classes // 2)
    ballots = mc.Ballots(labels, strategy="columns:1", image_size=(2, 9), n_classes=n_classes)
    local = mc.drs(ballots, mc.Patch(1, 2), bound="local")
    for per_ballot in (1, None):
        first = mc.top_k(ballots, (1, 2), 1, per_ballot=per_ballot)
        assert first.safe.tolist() == local.safe.tolist()
        assert [w and w.placement for w in first.witnesses] == [w and w.placement for w in local.witnesses]
        safe = [mc.top_k(ballots, (1, 2), k, per_ballot=per_ballot).safe for k in range(1, n_classes + 1)]
        assert all((more >= less).all() for less, more in pairwise(safe))
        assert safe[-1].all()
    assert 0 < local.certified.sum() < 20


def test_the_result_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    case = draw_case(5, n_classes=3, n_defenders=1, image_sizes=[(4, 5)], n_images=9).shaken(5)
    whole = mc.top_k(case.ballots()[0], case.patch, 2)
    monkeypatch.setattr("majorcert.defences.top_k.CHUNK_POINTS", 1)
    parts = mc.top_k(case.ballots()[0], case.patch, 2)
    assert (whole.safe.tolist(), whole.witnesses) == (parts.safe.tolist(), parts.witnesses)


def test_what_makes_no_sense_is_refused() -> None:
    ballots = columns("01", "12", "20", n_classes=3)
    for k in (0, 4, 1.5):
        with pytest.raises(mc.EvidenceError, match=rf"k .*{k}"):
            mc.top_k(ballots, 1, k)
    with pytest.raises(mc.EvidenceError, match=r"names 2 labels.* 1 at most"):
        mc.top_k(ballots, 1, 2, per_ballot=1)
    with pytest.raises(mc.EvidenceError, match=r"labels per ballot .*0"):
        mc.top_k(ballots, 1, 2, per_ballot=0)
    masks = mc.MaskPairs(np.zeros((1, 3, 3), dtype=int), masks="masks:1/1", image_size=(1, 3), n_classes=2)
    with pytest.raises(
        mc.EvidenceError, match=r"votes of ballots or a pool, and of masks:1/1 \(mask-pairs\) there are none"
    ):
        mc.top_k(masks, 1, 1)
