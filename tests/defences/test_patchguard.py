"""Robust masking: against a plain-Python oracle, and against attackers who rewrite the touched scores."""

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import oracle
import pytest

import majorcert as mc
from majorcert.defences.patchguard import MaskedScores, patchguard
from majorcert.defences.scores import Scores

Row = list[list[int]]
"""The points of one image: a list of labels' points for each ablation."""


# ---- the definitions, literally ----


def said(points: Row, windows: list[frozenset[int]], share: Fraction) -> int:
    """What the defender says: each label's loudest window is left out if it holds more than the share."""
    left = []
    for c in range(len(points[0])):
        total = sum(ablation[c] for ablation in points)
        loudest = max(sum(points[i][c] for i in window) for window in windows)
        left.append(total - loudest if loudest > share * total else total)
    return oracle.plurality(left)


def in_reach(points: Row, windows: list[frozenset[int]], hit: frozenset[int], share: Fraction) -> set[int]:
    """The labels whose highest possible points beat the lowest possible points of the clean label."""
    g = said(points, windows, share)
    kept = [[0] * len(ablation) if i in hit else ablation for i, ablation in enumerate(points)]
    total = [sum(ablation[c] for ablation in kept) for c in range(len(points[0]))]
    lower = total[g] - max(sum(kept[i][g] for i in window) for window in windows)
    rivals = [c for c in range(len(total)) if c != g]
    return {g} | {c for c in rivals if oracle.beats(c, int(total[c] / (1 - share)), g, lower)}


def rewrites(points: Row, hit: frozenset[int], one: int, random: np.random.Generator) -> list[dict[int, list[int]]]:
    """Attacks on the touched ablations: every label pushed alone, corners of the range, values beyond it, and noise."""
    n_classes, order = len(points[0]), sorted(hit)
    if not order:
        return [{}]
    attacks = []
    for c, push in product(range(n_classes), (1, one, 10**4)):
        attacks.append({i: [push if k == c else 0 for k in range(n_classes)] for i in order})
        for g in range(n_classes):
            alone = {i: [push if k == c else 0 for k in range(n_classes)] for i in order}
            alone[order[0]][g] = alone[order[-1]][g] = push
            attacks.append(alone)
    if len(order) * n_classes <= 6:
        for corner in product((0, one), repeat=len(order) * n_classes):
            attacks.append({i: list(corner[j * n_classes :][:n_classes]) for j, i in enumerate(order)})
    for _ in range(30):
        high = int(random.choice([2, one + 1, 4 * one]))
        attacks.append({i: random.integers(0, high, n_classes).tolist() for i in order})
    return attacks


# ---- tiny cases ----


def tiny(seed: int) -> tuple[Scores, mc.Patch, Fraction]:
    """Eight images of few pixels, mostly sure of one label; any strategy, any stride, a patch of any small shape."""
    random = np.random.default_rng(seed)
    size = [(1, 8), (6, 1), (4, 4), (3, 5)][int(random.integers(4))]
    kinds = {"rows": size[0], "columns": size[1], "blocks": min(size)}
    kind = str(random.choice([name for name, side in kinds.items() if side > 2 or name == "blocks"]))
    stride = int(random.choice([1, 1, 2, 3]))
    spec = f"{kind}:{int(random.integers(1, min(kinds[kind], 2) + 1))}" + (f"/{stride}" if stride > 1 else "")
    n_ablations, n_classes = len(oracle.regions(spec, size)), int(random.integers(2, 4))
    points = random.integers(0, 4, (8, n_ablations, n_classes))
    favoured = random.integers(n_classes, size=8)
    points[np.arange(8), :, favoured] += random.integers(0, 9, (8, n_ablations))
    points[random.random(points.shape) < 0.2] = 0
    patch = mc.Patch(min(size[0], int(random.integers(1, 3))), min(size[1], int(random.integers(1, 3))))
    share = Fraction(str(random.choice(["0", "0", "0.25", "0.5"])))
    return Scores(points, one=12, strategy=spec, image_size=size), patch, share


def windows_of(scores: Scores, patch: mc.Patch) -> dict[tuple[int, int], frozenset[int]]:
    return oracle.touched(str(scores.strategy), scores.image_size, (patch.height, patch.width))


@pytest.mark.parametrize("seed", range(60))
def test_the_verdict_is_the_oracles(seed: int) -> None:
    scores, patch, share = tiny(seed)
    touched = windows_of(scores, patch)
    evidence = MaskedScores(scores, patch, float(share))
    reach, verdict = evidence.reach(patch), patchguard(scores, patch, threshold=float(share))
    for i, points in enumerate(scores.points.tolist()):
        assert verdict.predicted[i] == said(points, list(touched.values()), share)
        for (top, left), hit in touched.items():
            expected = in_reach(points, list(touched.values()), hit, share)
            every = np.arange(scores.n_classes)[None]
            here = reach.at(np.array([i]), np.array([top]), np.array([left]), every)
            assert set(np.flatnonzero(here[0]).tolist()) == expected
            assert verdict.safe is not None
            assert verdict.safe[i, top, left] == (len(expected) == 1)


def test_what_is_certified_alone_is_what_the_reach_says() -> None:
    seen = Counter[bool]()
    for seed in range(300):
        scores, patch, share = tiny(seed)
        evidence = MaskedScores(scores, patch, float(share))
        literal = evidence.reach(patch).only(evidence.label).all(axis=(1, 2))
        assert evidence.certified_alone(patch).tolist() == literal.tolist()
        seen.update(literal.tolist())
    assert min(seen[True], seen[False]) > 100, seen


def test_no_rewrite_of_touched_scores_flips_a_certified_label() -> None:
    n_safe = n_unsafe = n_flipped = 0
    for seed in range(22):
        scores, patch, share = tiny(1000 + seed)
        random = np.random.default_rng(seed)
        touched = windows_of(scores, patch)
        windows = list(touched.values())
        verdict = patchguard(scores, patch, threshold=float(share))
        assert verdict.safe is not None
        same_size = len({len(window) for window in windows}) == 1
        for i, points in enumerate(scores.points.tolist()):
            for (top, left), hit in touched.items():
                clean = int(verdict.predicted[i])
                flips = any(
                    said([new.get(j, ablation) for j, ablation in enumerate(points)], windows, share) != clean
                    for new in rewrites(points, hit, scores.one, random)
                )
                safe = bool(verdict.safe[i, top, left])
                assert not (safe and flips), (seed, i, top, left)
                if share == 0 and same_size:
                    # Then the bounds are attained, so the certificate is exact.
                    assert safe or flips, (seed, i, top, left)
                n_safe, n_unsafe, n_flipped = n_safe + safe, n_unsafe + (not safe), n_flipped + flips
    assert min(n_safe, n_unsafe, n_flipped) > 120


def test_the_published_bound_fails_above_a_threshold_and_ours_does_not() -> None:
    """Label 0 is spread evenly, so no window of it is over half, and the published lower bound masks none of it.

    A patch that adds points for label 0 beside an untouched one gets that one masked: the bound did not allow for it.
    """
    points = [[1, 0], [1, 0], [1, 0], [1, 1], [1, 0], [1, 1], [1, 0], [1, 1]]
    scores = Scores([points], one=1, strategy="columns:1", image_size=(1, 8))
    windows = [frozenset({j, j + 1}) for j in range(7)]
    half = Fraction(1, 2)
    kept, rival = 6, 3
    assert oracle.beats(0, kept, 1, int(rival / (1 - half)))

    attacked = [[0, 3], [10, 0], *points[2:]]
    assert said(points, windows, half) == 0
    assert said(attacked, windows, half) == 1
    verdict = patchguard(scores, mc.Patch(1, 2), threshold=0.5)
    assert verdict.predicted.tolist() == [0]
    assert verdict.safe is not None
    assert not verdict.safe[0, 0, 0]


# ---- joining the rest ----


def example(spec: str = "blocks:3", n_images: int = 12) -> Scores:
    random = np.random.default_rng(5)
    points = random.integers(0, 60, (n_images, mc.strategy(spec).n_ablations((8, 8)), 4))
    points[np.arange(n_images), :, random.integers(4, size=n_images)] += random.integers(0, 120, (n_images, 1))
    return Scores(points, one=255, strategy=spec, image_size=(8, 8))


def test_masked_scores_join_an_ensemble_with_ballots() -> None:
    scores = example("columns:2")
    ballots = mc.Ballots.from_scores(scores.points / 310, threshold=0.5, strategy="rows:2", image_size=(8, 8))
    patch = mc.Patch(2)
    masked = MaskedScores(scores, patch)
    alone = mc.majorcert([masked], patch)
    together = mc.majorcert([masked, ballots, ballots], patch)
    assert alone.certified.tolist() == patchguard(scores, patch).certified.tolist()
    assert (together.certified | ~mc.drs(ballots, patch).certified).all()
    assert together.defenders[0]["mask"] == "2x2"


def test_a_smaller_patch_is_certified_where_the_mask_patch_is_and_a_larger_one_never() -> None:
    scores = example()
    by_mask = patchguard(scores, mc.Patch(3))
    smaller = patchguard(scores, mc.Patch(2), mask=mc.Patch(3))
    larger = patchguard(scores, mc.Patch(1, 4), mask=mc.Patch(3))
    assert by_mask.certified.any()
    assert (smaller.certified | ~by_mask.certified).all()
    assert smaller.safe is not None
    assert smaller.safe.shape == (12, 7, 7)
    assert smaller.predicted.tolist() == by_mask.predicted.tolist()
    assert not larger.certified.any()
    assert mc.largest_patch([MaskedScores(scores, mc.Patch(3))]).max() == 3


def test_of_ballots_every_vote_is_a_point() -> None:
    labels = [[[0, 2], [1, mc.ABSTAIN], [mc.ABSTAIN, mc.ABSTAIN]]]
    ballots = mc.Ballots(labels, strategy="columns:1", image_size=(1, 3), n_classes=3)
    assert Scores.of_votes(ballots).points.tolist() == [[[1, 0, 1], [0, 1, 0], [0, 0, 0]]]
    by_votes, by_points = patchguard(ballots, mc.Patch(1)), patchguard(Scores.of_votes(ballots), mc.Patch(1))
    assert by_votes.predicted.tolist() == by_points.predicted.tolist() == [0]


def test_the_result_does_not_depend_on_chunks_or_on_the_size_of_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = example()
    whole = patchguard(scores, mc.Patch(3))
    for name in ("defences.patchguard.CHUNK_POINTS", "core.majority.CHUNK_BYTES"):
        monkeypatch.setattr(f"majorcert.{name}", 1)
    monkeypatch.setattr("majorcert.defences.windows.CELL_POINTS", 1)
    fine = Scores(scores.points.astype(np.int64) * 10**6, one=255 * 10**6, strategy="blocks:3", image_size=(8, 8))
    for other in (patchguard(scores, mc.Patch(3)), patchguard(fine, mc.Patch(3))):
        assert whole.safe is not None
        assert other.safe is not None
        assert other.predicted.tolist() == whole.predicted.tolist()
        assert (other.safe == whole.safe).all()
    assert 0 < whole.certified.sum() < len(whole)
    assert 0 < whole.safe.mean() < 1


def test_no_images_are_no_verdicts() -> None:
    assert len(patchguard(example()[:0], mc.Patch(3))) == 0


@pytest.mark.parametrize("threshold", [-0.1, 1.0, float("nan"), None, "0.5"])
def test_a_threshold_is_a_share(threshold: float) -> None:
    with pytest.raises(mc.EvidenceError, match="a masking threshold is a share of 0 or more and under 1"):
        patchguard(example(), mc.Patch(2), threshold=threshold)


def test_a_mask_must_fit_in_the_image() -> None:
    with pytest.raises(mc.PatchError, match="a 9x9 patch does not fit in a 8x8 image"):
        patchguard(example(), mc.Patch(2), mask=mc.Patch(9))


@pytest.mark.parametrize("pooled", [False, True])
def test_a_mask_of_no_pixels_is_refused(pooled: bool) -> None:
    ballots = mc.Ballots([[0, 0, 1]], strategy="columns:1", image_size=(1, 3), n_classes=2)
    with pytest.raises(mc.PatchError, match="a whole number of 1 or more, got 0"):
        patchguard(mc.Pool([ballots]) if pooled else ballots, 1, mask=0)


def test_a_threshold_may_be_any_kind_of_number() -> None:
    defenders = [MaskedScores(example(), mc.Patch(2), share) for share in (0.25, np.float32(0.25), Fraction(1, 4))]
    assert {each.share for each in defenders} == {Fraction(1, 4)}


@pytest.mark.parametrize("threshold", [0.9996, 0.99999])
def test_a_threshold_that_rounds_to_all_is_refused(threshold: float) -> None:
    ballots = mc.Ballots([[0, 0, 1]], strategy="columns:1", image_size=(1, 3), n_classes=2)
    with pytest.raises(mc.EvidenceError, match="a masking threshold is a share of 0 or more and under 1"):
        mc.patchguard(ballots, mc.Patch(1), threshold=threshold)


def test_scores_are_their_own() -> None:
    points = np.zeros((1, 4, 2), np.uint8)
    scores = mc.Scores(points, one=9, strategy="columns:1", image_size=(1, 4))
    points[:] = 9
    assert not scores.points.any()


def test_points_that_64_bits_cannot_compare_are_refused() -> None:
    """With so many points, a threshold of 0.999 lifts the rival beyond 2**63, and it would seem to stand under 0."""
    points = np.zeros((1, 4096, 1100), np.int32)
    points[:, :, 5], points[:, :, 7] = 2**31 - 1, 2**31 - 1 - 2**24
    scores = mc.Scores(points, one=2**31 - 1, strategy="blocks:1", image_size=(64, 64))
    with pytest.raises(mc.EvidenceError, match="points"):
        mc.MaskedScores(scores, mc.Patch(1), 0.999)


def test_evidence_without_votes_or_scores_is_refused() -> None:
    masks = mc.Masks(2, stride=2)
    n = masks.n_masks((6, 6))
    pairs: Any = mc.MaskPairs(np.zeros((1, n, n), dtype=int), masks=masks, image_size=(6, 6), n_classes=2)
    with pytest.raises(mc.EvidenceError, match=r"of masks:2/2 \(mask-pairs\) there are none"):
        mc.patchguard(pairs, 2)
    votes: Any = mc.Ballots(np.zeros((1, 6), dtype=int), strategy="rows:1", image_size=(6, 6), n_classes=2)
    for given, of in ((votes, "rows:1"), (mc.Pool([votes]), "Pool"), ("rows.zarr", "str")):
        with pytest.raises(mc.EvidenceError, match=rf"of {of}.* there are none"):
            mc.MaskedScores(given, mc.Patch(2))
