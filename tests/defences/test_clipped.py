"""Clipped scores: their reach against everything that touched ablations could say, and the audit's definition."""

from collections import Counter
from dataclasses import replace
from itertools import product

import kinds_oracle
import numpy as np
import oracle
import pytest

import majorcert as mc
from majorcert.audit.geometry import touched_sets
from majorcert.audit.judgement import judged_anew

SIZE, N_CLASSES = (4, 6), 3


def clipped(spec: str, one: int, n: int = 24, seed: int = 0) -> mc.ClippedScores:
    """From images that all ablations agree on to contested ones."""
    random = np.random.default_rng(seed)
    shape = n, mc.strategy(spec).n_ablations(SIZE), N_CLASSES
    points = random.integers(0, one + 1, shape)
    agreed = random.random(shape[:2]) > np.linspace(0, 0.9, n)[:, None]
    points[agreed] = np.eye(N_CLASSES, dtype=int)[1] * one
    return mc.ClippedScores(mc.Scores(points, one=one, strategy=spec, image_size=SIZE))


def labels_in(reach: mc.Reach, image: int, place: tuple[int, int]) -> set[int]:
    here = reach.at(np.array([image]), np.array([place[0]]), np.array([place[1]]), np.arange(N_CLASSES)[None])
    return set(np.flatnonzero(here[0]).tolist())


@pytest.mark.parametrize(
    ("spec", "one", "patch"), [("columns:1", 2, (1, 1)), ("fields:1x3/2", 1, (1, 1)), ("rows:1", 3, (1, 6))]
)
def test_reach_is_what_touched_ablations_can_make_it_say(spec: str, one: int, patch: tuple[int, int]) -> None:
    """Every label, and every sum of points that the touched ablations can give to it, beside every other's."""
    evidence, seen = clipped(spec, one), Counter[str]()
    reach = evidence.reach(mc.Patch(*patch))
    without = [evidence.without(mc.Patch(*patch), slack) for slack in range(3)]
    certified, stays = evidence.certified_alone(mc.Patch(*patch)), evidence.stays_alone(mc.Patch(*patch), 1)
    for image, points in enumerate(evidence.scores.points.tolist()):
        alone = []
        for place, hit in touched_sets(spec, SIZE, patch).items():
            kept = kinds_oracle.added(
                [each for number, each in enumerate(points) if number not in hit] or [[0] * N_CLASSES]
            )
            given = product(range(one * len(hit) + 1), repeat=N_CLASSES)
            said = {oracle.plurality(tuple(np.add(kept, more))) for more in given}
            assert labels_in(reach, image, place) == said
            for slack, left in enumerate(without):
                eased = {label: np.add(kept, slack * np.eye(N_CLASSES, dtype=int)[label]) for label in range(N_CLASSES)}
                wins = {label for label, each in eased.items() if oracle.plurality(tuple(each)) == label}
                assert labels_in(left, image, place) == wins
                seen[f"{len(wins)} with a slack of {slack}"] += 1
            if stays[image]:
                helped = (np.add(kept, np.eye(N_CLASSES, dtype=int)[label]) for label in range(N_CLASSES))
                assert {oracle.plurality(tuple(each)) for each in helped} == {int(evidence.label[image])}
            alone.append(said == {int(evidence.label[image])})
        assert certified[image] == all(alone)
        seen[f"{all(alone)}"] += 1
        seen["several rivals"] += len(labels_in(reach, image, (0, 0))) == N_CLASSES
    assert min(seen["True"], seen["False"], stays.sum(), (~stays).sum()) >= 3, seen
    assert min(seen[f"{n} with a slack of {slack}"] for n, slack in product((1, 2), (1, 2))) >= 3, seen


@pytest.mark.parametrize("spec", ["fields:1x2", "columns:1", "fields:2x1/2"])
def test_the_audit_agrees_and_names_a_planted_fault(spec: str) -> None:
    evidence = clipped(spec, 5, seed=2)
    eased = mc.detect([evidence], (1, 2), slack=2)
    assert eased.alert.sum() < mc.detect([evidence], (1, 2)).alert.sum()
    judged = (mc.certify([evidence], 1), mc.detect([evidence], (1, 2)), mc.drs(evidence, (1, 2), bound="local"))
    for verdict in (*judged, eased):
        assert set(verdict.certified.tolist()) == {True, False}
        assert not [each for check in judged_anew(verdict, [evidence], range(24)) for each in check.differences]
        wrong = replace(verdict, certified=~verdict.certified)
        assert [each for check in judged_anew(wrong, [evidence], range(24)) for each in check.differences]


def test_clipped_scores_join_any_ensemble() -> None:
    evidence = clipped("fields:2", 5)
    ballots = mc.Ballots(np.ones((24, 6), dtype=int), strategy="columns:1", image_size=SIZE, n_classes=N_CLASSES)
    both, sides = mc.certify([evidence, ballots, ballots], 1), mc.largest_patch([evidence])
    assert both.certified.sum() >= mc.certify([evidence], 1).certified.sum()
    assert [int(side) for side in sides] == [
        max([0, *(side for side in (1, 2, 3, 4) if mc.certify([evidence[i : i + 1]], side).certified.all())])
        for i in range(24)
    ]
    assert evidence[np.array([3, 5])].label.tolist() == evidence.label[[3, 5]].tolist()
    assert "24 images, fields:2, 3 classes, /5" in repr(evidence)


def test_what_is_no_score_is_refused() -> None:
    with pytest.raises(mc.EvidenceError, match=r"clipped scores are made of scores, mc.Scores, got str"):
        mc.ClippedScores("scores.zarr")  # type: ignore[arg-type]


def test_a_score_over_one_is_refused() -> None:
    with pytest.raises(mc.EvidenceError, match=r"0 to 2 points.* got 3"):
        mc.ClippedScores(mc.Scores(np.full((1, 6, 2), 3), one=2, strategy="columns:1", image_size=SIZE))
