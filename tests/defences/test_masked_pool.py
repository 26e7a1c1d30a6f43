"""Masked pools: what is said and in reach by definition, and after every rewriting of the touched ballots of all."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import oracle
import pytest
from cases import Case, draw_case

import majorcert as mc
from majorcert.audit.judgement import judged_anew

Vote = tuple[int, int, frozenset[int]]
"""A member, the number of its ablation, and the labels that it votes for."""
Window = frozenset[tuple[int, int]]
"""Members and the numbers of their ablations."""
ABOUT: dict[str, Any] = {"n_classes": 3, "n_defenders": 2, "image_sizes": [(1, 7), (3, 4), (4, 3)], "n_images": 6}
CASES = [(draw_case(90_000 + seed, **ABOUT), weights) for seed in range(14) for weights in ([1, 1], [3, 2], [0, 1])]


def windows(case: Case, patch: tuple[int, int]) -> dict[tuple[int, int], Window]:
    """What each placement touches of all members."""
    members = case.defenders(0)
    return {
        place: frozenset((a, number) for a, member in enumerate(members) for number in member.touched(patch, place))
        for place in oracle.placements(patch, case.image_size)
    }


def votes(case: Case, image: int) -> list[Vote]:
    return [(a, number, ballot) for a, member in enumerate(case.votes) for number, ballot in enumerate(member[image])]


def left(some: Sequence[Vote], weights: Sequence[int], label: int, every: Sequence[Window], share: Fraction) -> int:
    """The points of a label without its loudest window."""
    points = {(a, number): weights[a] for a, number, ballot in some if label in ballot}
    total, loudest = sum(points.values()), max(sum(points.get(at, 0) for at in window) for window in every)
    return total - loudest if loudest > share * total else total


def said(case: Case, some: Sequence[Vote], weights: Sequence[int], every: Sequence[Window], share: Fraction) -> int:
    return oracle.plurality([left(some, weights, label, every, share) for label in range(case.n_classes)])


def rewritten(case: Case, some: Sequence[Vote], hit: Window) -> Iterator[list[Vote]]:
    """Every way to rewrite the touched ballots, each to any set of labels."""
    labels = range(case.n_classes)
    sets = [frozenset(each) for each in chain.from_iterable(combinations(labels, n) for n in range(case.n_classes + 1))]
    kept = [vote for vote in some if (vote[0], vote[1]) not in hit]
    for chosen in product(sets, repeat=len(hit)):
        yield kept + [(*at, ballot) for at, ballot in zip(sorted(hit), chosen, strict=True)]


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 4)])
def test_the_label_and_the_reach_are_those_of_the_definition(share: Fraction) -> None:
    seen: Counter[str] = Counter()
    for case, weights in CASES:
        pool, patch = mc.Pool(case.ballots(), weights=weights), mc.Patch(*case.patch)
        masked, found = mc.MaskedPool(pool, patch, float(share)), windows(case, case.patch)
        verdict, reach = mc.patchguard(pool, patch, threshold=float(share)), case.reach_sets(masked.reach(patch))
        assert verdict.certified.tolist() == masked.certified_alone(patch).tolist()
        for image in range(case.n_images):
            some, every = votes(case, image), list(found.values())
            label = said(case, some, weights, every, share)
            assert masked.label[image] == verdict.predicted[image] == label
            for place, hit in found.items():
                kept = [vote for vote in some if (vote[0], vote[1]) not in hit]
                least = left(kept, weights, label, every, Fraction(0))
                most = [
                    int(sum(weights[a] for a, _, ballot in kept if c in ballot) / (1 - share))
                    for c in range(case.n_classes)
                ]
                rivals = {c for c in range(case.n_classes) if c != label and oracle.beats(c, most[c], label, least)}
                assert reach[image, *place] == {label} | rivals
            seen["certified" if verdict.certified[image] else "not"] += 1
            seen["masking decides"] += label != pool.label[image]
            seen["weights decide"] += label != said(case, some, [1, 1], every, share)
    assert min(seen["certified"], seen["not"]) >= 40, seen
    assert min(seen["masking decides"], seen["weights decide"]) >= 3, seen


def test_no_rewriting_of_touched_ballots_flips_a_certified_label() -> None:
    """Of all members at once, at every placement of the patch that the mask covers, to every set of labels."""
    seen: Counter[tuple[bool, bool]] = Counter()
    for case, weights in CASES[::2]:
        if max(map(len, windows(case, case.patch).values())) > 3:
            continue
        for share in (Fraction(0), Fraction(1, 4)):
            verdict = mc.patchguard(
                mc.Pool(case.ballots(), weights=weights), mc.Patch(*case.patch), threshold=float(share)
            )
            found = windows(case, case.patch)
            for image in range(0, case.n_images, 3):
                some, every, label = votes(case, image), list(found.values()), int(verdict.predicted[image])
                for place, hit in found.items():
                    flips = any(said(case, each, weights, every, share) != label for each in rewritten(case, some, hit))
                    safe = bool(verdict.safe[image][place])
                    assert not (safe and flips), (case, weights, image, place)
                    seen[safe, flips] += 1
    assert min(seen[True, False], seen[False, True]) >= 30, seen


def test_the_audit_judges_a_masked_pool_by_its_members() -> None:
    """So that weights, and the windows of every member, are counted a second time."""
    for case, weights in CASES[:9]:
        pool, patch = mc.Pool(case.ballots(), weights=weights), mc.Patch(*case.patch)
        verdict, evidence = mc.patchguard(pool, patch), mc.MaskedPool(pool, patch)
        assert verdict.method == "pg-pool"
        assert [each for check in judged_anew(verdict, [evidence], range(6)) for each in check.differences] == []
        forged = replace(verdict, certified=~verdict.certified)
        found = {each.what for check in judged_anew(forged, [evidence], range(6)) for each in check.differences}
        assert "certified" in found


@pytest.mark.parametrize("strategy", ["columns:2", "blocks:3", "fields:8x3"])
def test_a_masked_pool_of_one_is_patchguard(strategy: str) -> None:
    rng, n = np.random.default_rng(1), mc.strategy(strategy).n_ablations((8, 8))
    told = rng.random((60, n)) < np.linspace(0.5, 1, 60)[:, None]
    labels = np.where(told, (np.arange(60) % 3)[:, None], rng.integers(0, 3, (60, n)))
    voter = mc.Ballots(labels, strategy=strategy, image_size=(8, 8), n_classes=3)
    for mask in (mc.Patch(2), mc.Patch(3)):
        pooled = mc.patchguard(mc.Pool([voter], weights=[7]), mc.Patch(2), mask=mask)
        alone = mc.patchguard(voter, mc.Patch(2), mask=mask)
        assert pooled.predicted.tolist() == alone.predicted.tolist()
        assert np.array_equal(pooled.safe, alone.safe)
        assert 0 < alone.certified.sum() < 60
    assert not mc.patchguard(mc.Pool([voter]), mc.Patch(3), mask=mc.Patch(2)).certified.any()


def test_fragile_ballots_are_refused() -> None:
    about: dict[str, Any] = {"strategy": "columns:1", "image_size": (1, 3), "n_classes": 2}
    ballots = mc.Ballots([[0, 0, 1]], **about, distance=[[0.1, 0.1, 0.1]])
    with pytest.raises(mc.BallotsError, match="masking knows no fragile ballots"):
        mc.patchguard(mc.Pool([ballots.tolerating(0.2)]), mc.Patch(1))


def test_a_masked_pool_is_no_store() -> None:
    pool = mc.Pool([mc.Ballots([[0, 0, 1]], strategy="columns:1", image_size=(1, 3), n_classes=2)])
    with pytest.raises(mc.EvidenceError, match="MaskedPool"):
        mc.MaskedPool(pool, mc.Patch(1)).save("nowhere.zarr")
