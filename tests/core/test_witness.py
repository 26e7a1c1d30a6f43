"""Witnesses: applied to the ballots, they really flip the label."""

from collections import Counter

import oracle
import pytest
from cases import Case, draw_case

import majorcert as mc

IMAGE_SIZES = [(1, 7), (5, 1), (4, 5), (5, 4), (6, 6)]


def attack(literal: list[oracle.Defender], patch: tuple[int, int], witness: mc.Witness) -> list[oracle.Defender]:
    """Let every touched or fragile ballot of each defender vote for the defender's forced label alone."""
    return [
        one.rewritten({ablation: frozenset([forced]) for ablation in one.rewritable(patch, witness.placement)})
        for one, forced in zip(literal, witness.forced, strict=True)
    ]


def check(case: Case, verdict: mc.Verdict, i: int, literal: list[oracle.Defender]) -> mc.Witness:
    """Apply the witness of an uncertified image and see each defender give in, and the ensemble flip."""
    y = oracle.ensemble_label(literal)
    witness = verdict.witness(i)
    assert witness is not None
    top, left = witness.placement
    assert (top, left) in case.placements()
    assert not verdict.safe[i, top, left]
    after = attack(literal, case.patch, witness)
    assert tuple(one.label() for one in after) == tuple(witness.forced)
    assert oracle.ensemble_label(after) != y
    votes = oracle.count((frozenset([label]) for label in witness.forced), case.n_classes)
    assert witness.rival != y
    assert oracle.beats(witness.rival, votes[witness.rival], y, votes[y])
    return witness


@pytest.mark.parametrize("n_defenders", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n_classes", [2, 4, 9])
def test_the_witness_flips_the_label(n_classes: int, n_defenders: int) -> None:
    seen: Counter[str] = Counter()
    for number in range(48):
        seed = 100_000 * n_classes + 1_000 * n_defenders + number
        case = draw_case(seed, n_classes=n_classes, n_defenders=n_defenders, image_sizes=IMAGE_SIZES, n_images=12)
        case = case.shaken(seed) if number % 4 == 0 else case
        verdict = mc.majorcert(case.ballots(), mc.Patch(*case.patch), reach="exact")
        for i in range(case.n_images):
            literal = case.defenders(i)
            if verdict.certified[i]:
                assert verdict.witness(i) is None
                seen["certified"] += 1
                continue
            witness = check(case, verdict, i, literal)
            seen["flipped"] += 1
            seen["label nobody voted for"] += all(one.counts()[witness.rival] == 0 for one in literal)
            seen["defender not moved"] += any(
                one.label() == forced for one, forced in zip(literal, witness.forced, strict=True)
            )
    assert min(seen["certified"], seen["flipped"]) >= 40, seen
    assert seen["label nobody voted for"] >= (1 if n_classes > 2 else 0), seen
    assert seen["defender not moved"] >= (5 if n_defenders > 1 else 0), seen


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_local_bound_gives_a_witness(n_classes: int) -> None:
    seen: Counter[bool] = Counter()
    for seed in range(25):
        case = draw_case(seed, n_classes=n_classes, n_defenders=1, image_sizes=IMAGE_SIZES, n_images=8)
        case = case.shaken(seed) if seed % 3 == 0 else case
        verdict = mc.drs(case.ballots()[0], mc.Patch(*case.patch), bound="local")
        for i in range(case.n_images):
            seen[bool(verdict.certified[i])] += 1
            if verdict.certified[i]:
                assert verdict.witness(i) is None
            else:
                check(case, verdict, i, case.defenders(i))
    assert min(seen[True], seen[False]) >= 20, seen


def test_the_witness_of_a_slice_is_the_witness_of_the_whole() -> None:
    case = draw_case(3, n_classes=4, n_defenders=3, image_sizes=[(5, 4)], n_images=40)
    ballots, patch = case.ballots(), mc.Patch(*case.patch)
    whole = mc.majorcert(ballots, patch)
    part = mc.majorcert([one[10:30] for one in ballots], patch)
    witnesses = [part.witness(i) for i in range(20)]
    assert witnesses == [whole.witness(i) for i in range(10, 30)]
    assert any(witness is not None for witness in witnesses)
