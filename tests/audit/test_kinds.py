"""Every kind by its literal definition: the audit and the core agree on random cases, and a planted fault is named."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import majorcert as mc
from majorcert.audit import kinds
from majorcert.audit.check import Difference
from majorcert.audit.judgement import judged_anew
from majorcert.commands.app import app
from majorcert.errors import EvidenceError
from majorcert.files.evidence import save_evidence

SIZE = (6, 7)
N_CLASSES = 3
N = 12


def differences(verdict: mc.Verdict, evidence: Sequence[mc.Evidence]) -> list[Difference]:
    checks = judged_anew(verdict, evidence, range(len(verdict)))
    return [difference for check in checks for difference in check.differences]


def masked(seed: int, strategy: str, mask: mc.Patch, threshold: float) -> mc.MaskedScores:
    """A label that every ablation is for, more in the later images, and noise."""
    random = np.random.default_rng(seed)
    n_ablations = mc.strategy(strategy).n_ablations(SIZE)
    points = random.integers(0, 6, size=(N, n_ablations, N_CLASSES))
    points[np.arange(N), :, np.where(np.arange(N) % 4, 1, 2)] += 6 * np.arange(N)[:, None]
    return mc.MaskedScores(mc.Scores(points, one=20, strategy=strategy, image_size=SIZE), mask, threshold)


def pairs(seed: int, stride: int = 2, distance: bool = False) -> mc.MaskPairs:
    """Tables that are of one label, but for a few entries; for more of them in the later images."""
    random, masks = np.random.default_rng(seed), mc.Masks(2, stride=stride)
    n = masks.n_masks(SIZE)
    labels = np.full((N, n, n), 1)
    for image in range(N):
        for _ in range(image // 2):
            i, j = random.integers(n, size=2)
            labels[image, i, j] = labels[image, j, i] = random.integers(N_CLASSES)
    labels[-1, 0, :] = labels[-1, :, 0] = 2
    labels[-2] = random.integers(N_CLASSES, size=(n, n))
    labels[-2] = np.maximum(labels[-2], labels[-2].T)
    far = random.choice([0.05, 0.5], size=(N, n), p=[0.1, 0.9]) if distance else None
    return mc.MaskPairs(labels, masks=masks, image_size=SIZE, n_classes=N_CLASSES, distance=far)


def votes(seed: int, strategy: str, distance: bool = False) -> mc.Ballots:
    random = np.random.default_rng(seed)
    n_ablations = mc.strategy(strategy).n_ablations(SIZE)
    labels = np.where(
        random.random((N, n_ablations)) < np.linspace(0.05, 0.7, N)[:, None],
        random.integers(-1, N_CLASSES, size=(N, n_ablations)),
        1,
    )
    far = random.choice([0.05, 0.5], size=labels.shape, p=[0.05, 0.95]) if distance else None
    return mc.Ballots(labels, strategy=strategy, image_size=SIZE, n_classes=N_CLASSES, distance=far)


@pytest.mark.parametrize("strategy", ["rows:1", "columns:1", "blocks:3/2"])
@pytest.mark.parametrize("threshold", [0.0, 0.25])
def test_patchguard_agrees_with_its_definition(strategy: str, threshold: float) -> None:
    seen = set()
    for seed, (mask, patch) in enumerate([((2, 2), (2, 2)), ((2, 3), (1, 2)), ((1, 1), (2, 1)), ((3, 3), (2, 3))]):
        evidence = masked(seed, strategy, mc.Patch(*mask), threshold)
        verdict = mc.drs(evidence, mc.Patch(*patch), bound="local")
        assert differences(verdict, [evidence]) == []
        assert differences(replace(verdict, method="pg-drs"), [evidence]) == []
        seen |= set(verdict.certified.tolist())
    assert seen == {True, False}


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("patch", [(2, 2), (1, 2), (3, 1)])
def test_double_masking_agrees_with_its_definition(stride: int, patch: tuple[int, int]) -> None:
    evidence = pairs(stride, stride)
    verdicts = [mc.majorcert([evidence], patch), mc.detect([evidence], patch)]
    for verdict in verdicts:
        assert differences(verdict, [evidence]) == []
    if patch != (3, 1):
        assert 0 < verdicts[0].certified.sum() < N
        assert 0 < verdicts[1].certified.sum() < N


def test_tolerant_tables_agree_with_their_definition() -> None:
    evidence = pairs(5, distance=True)
    tolerant = evidence.tolerating(0.1)
    for certify in (mc.majorcert, mc.detect):
        verdict = certify([tolerant], 2)
        assert differences(verdict, [evidence]) == []
        assert verdict.certified.sum() < certify([evidence], 2).certified.sum()


@pytest.mark.parametrize("weights", [None, [3, 1]])
def test_a_pool_agrees_with_its_definition(weights: list[int] | None) -> None:
    seen = set()
    for seed in range(4):
        members = [votes(seed, "rows:2", distance=True), votes(seed + 9, "columns:2", distance=True)]
        evidence = mc.Pool(members, weights=weights)
        tolerant = mc.Pool([member.tolerating(0.1) for member in members], weights=weights)
        for pool in (evidence, tolerant):
            for verdict in (mc.majorcert([pool], (1, 2)), mc.detect([pool], 1), mc.drs(pool, 1, bound="margin")):
                assert differences(verdict, [evidence]) == []
                seen |= {(verdict.method, bool(holds)) for holds in verdict.certified}
    assert len(seen) == 6, "both outcomes of each"


def test_votes_agree_with_the_definition_of_detection() -> None:
    evidence = [votes(seed, spec, distance=True) for seed, spec in enumerate(["rows:2", "columns:2", "blocks:3/2"])]
    for some in (evidence, [each.tolerating(0.1) for each in evidence], evidence[:1]):
        verdict = mc.detect(some, 2)
        assert 0 < verdict.certified.sum() < N
        assert differences(verdict, evidence[: len(some)]) == []


def test_a_fragile_ballot_is_in_doubt_where_the_patch_does_not_touch_it() -> None:
    """Touching the one fragile ballot, and touching none, leave the same ballots out, but not the same doubt."""
    made = mc.Ballots([[0, 1]], strategy="columns:1/2", image_size=(1, 3), n_classes=2, distance=[[0.0, 0.5]])
    told = kinds.testimony(ballots := made.tolerating(0.1), ballots.provenance, 0, (1, 1))
    assert told.without() == {(0, 0): {1}, (0, 1): {0, 1}, (0, 2): {0, 1}}


def test_kinds_are_combined() -> None:
    evidence: list[mc.Evidence] = [
        masked(1, "columns:1", mc.Patch(2), 0.0),
        pairs(2),
        mc.Pool([votes(3, "rows:1"), votes(4, "blocks:3/2")]),
        votes(5, "columns:1"),
    ]
    verdict = mc.majorcert(evidence, 1)
    assert 0 < verdict.certified.sum() < N
    assert differences(verdict, evidence) == []
    with pytest.raises(EvidenceError, match="defender 2 is of mask-pairs, and its evidence is of ballots"):
        judged_anew(verdict, [evidence[0], evidence[3], evidence[2], evidence[3]], range(N))


FAULTS: dict[str, Any] = {
    "certified": lambda v, row: replace(v, certified=flipped(v.certified, row)),
    "label": lambda v, row: replace(v, predicted=np.where(np.arange(N) == row, (v.predicted + 1) % 3, v.predicted)),
    "safe": lambda v, row: replace(v, safe=flipped(v.safe, (row, 0, 0))),
}


def flipped(array: Any, place: Any) -> Any:
    copy = array.copy()
    copy[place] = ~copy[place]
    return copy


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["scores", "mask-pairs", "pool"])
def test_a_planted_fault_is_named(kind: str, fault: str) -> None:
    made: dict[str, mc.Evidence] = {
        "scores": masked(1, "columns:2", mc.Patch(2), 0.0),
        "mask-pairs": pairs(2),
        "pool": mc.Pool([votes(3, "rows:2"), votes(4, "blocks:3/2")]),
    }
    verdict = mc.drs(made[kind], 2, bound="local")
    for row in (int(np.argmin(verdict.certified)), int(np.argmax(verdict.certified))):
        named = {
            (each.what.split(" ")[0].rstrip(","), each.image)
            for each in differences(FAULTS[fault](verdict, row), [made[kind]])
        }
        assert (fault, row) in named


def test_a_wrong_alert_is_named() -> None:
    evidence = [votes(0, "rows:2")]
    verdict = mc.detect(evidence, 2)
    assert verdict.alert is not None
    (found,) = differences(replace(verdict, alert=flipped(verdict.alert, 4)), evidence)
    assert (found.what, found.image) == ("alert", 4)


def gathered(spec: str, n_bands: int) -> mc.Ballots:
    """Label 1 has the first bands, label 2 the next, one band fewer each image; the last band is fragile."""
    labels = np.full((n_bands, n_bands), 1)
    for image in range(n_bands):
        labels[image, n_bands - image - 1 :] = 2
        labels[image, -1] = image % N_CLASSES
    far = np.full(labels.shape, 0.5)
    far[:, -1] = 0.05
    return mc.Ballots(labels, strategy=spec, image_size=(8, 8), n_classes=N_CLASSES, distance=far)


@pytest.mark.parametrize("slack", [1, 2])
def test_slack_agrees_with_its_definition(slack: int) -> None:
    members = [gathered("rows:1", 8), gathered("columns:1", 8)]
    tolerant = [member.tolerating(0.1) for member in members]
    pools = [(mc.Pool(some, weights=[2, 1]), mc.Pool(members, weights=[2, 1])) for some in (members, tolerant)]
    missed = set()
    for defender, evidence in [(members[0], members[0]), (tolerant[0], members[0]), *pools]:
        verdict = mc.detect([defender], 3, slack=slack)
        assert 0 < verdict.certified.sum() < 8
        assert 0 < verdict.alert.sum() < 8
        assert differences(verdict, [evidence]) == []
        for other in (slack - 1, slack + 1):
            missed |= {each.what.split(" ")[0] for each in differences(replace(verdict, slack=other), [evidence])}
    assert missed >= {"alert", "certified", "safe"}


def test_slack_is_kept_on_disk_and_refused_for_several(tmp_path: Path) -> None:
    evidence = votes(1, "rows:1")
    mc.detect([evidence], 1, slack=2).save(tmp_path / "verdict.jsonl")
    verdict = mc.Verdict.load(tmp_path / "verdict.jsonl")
    assert (verdict.slack, verdict.promise) == (2, "detection")
    assert differences(verdict, [evidence]) == []
    together = replace(mc.detect([evidence, evidence], 1), slack=1)
    with pytest.raises(EvidenceError, match=r"slack is for one .* 2"):
        differences(together, [evidence, evidence])
    with pytest.raises(EvidenceError, match="slack"):
        differences(replace(mc.detect([pairs(1)], 1), slack=1), [pairs(1)])


def test_a_promise_that_the_method_does_not_prove_is_named() -> None:
    """What was detected is not recovered, whatever the header says, and an alert is not left out."""
    evidence = [votes(0, "rows:2")]
    verdict = mc.detect(evidence, 2)
    (found,) = differences(replace(verdict, promise="recovery"), evidence)
    assert found.what == "promise"
    assert {each.what for each in differences(replace(verdict, alert=None), evidence)} == {"alert"}


def test_a_fragile_ballot_that_a_patch_touches_is_not_given_away() -> None:
    """Of two views the second is fragile. A patch on both leaves nothing; one on the first leaves what may be any vote.

    At both places no ballot counts for anything, and yet they differ.
    """
    about: dict[str, Any] = {"strategy": "columns:3/2", "image_size": (1, 4), "n_classes": 2}
    evidence = mc.Ballots([[0, 1]], **about, distance=[[0.5, 0.05]])
    verdict = mc.detect([evidence.tolerating(0.1)], 1)
    assert verdict.safe.tolist() == [[[True, False, True, True]]]
    assert differences(verdict, [evidence]) == []


def test_a_pool_of_other_weights_is_named() -> None:
    members = [votes(3, "rows:2"), votes(4, "blocks:3/2")]
    verdict = mc.majorcert([mc.Pool(members, weights=[1, 2])], 2)
    found = differences(verdict, [mc.Pool(members, weights=[2, 1])])
    assert "weights of defender 1" in [each.what for each in found]


@pytest.mark.parametrize("kind", ["mask-pairs", "scores", "pool", "all"])
def test_the_command_takes_every_kind(kind: str, tmp_path: Path) -> None:
    """From files alone: verdicts of both promises pass, and one bit of the map that was changed does not."""
    made: dict[str, list[mc.Evidence]] = {
        "mask-pairs": [pairs(2)],
        "scores": [masked(1, "columns:2", mc.Patch(2), 0.25)],
        "pool": [mc.Pool([votes(3, "rows:2"), votes(4, "blocks:3/2")], weights=[2, 1])],
    }
    evidence = made.get(kind) or [each for some in made.values() for each in some]
    verdicts = [mc.majorcert(evidence, 2)]
    if kind in ("mask-pairs", "pool"):
        verdicts.append(mc.detect(evidence, 2, slack=3 if kind == "pool" else 0))
    stores = [part for each in evidence for part in getattr(each, "members", [each])]
    for place, store in enumerate(stores):
        save_evidence(store, tmp_path / f"{place}.zarr")
    words = ["--sample", "all", "--evidence", *(str(tmp_path / f"{place}.zarr") for place in range(len(stores)))]
    for verdict in verdicts:
        for wrong in (False, True):
            told = replace(verdict, safe=flipped(verdict.safe, (N - 1, 0, 0))) if wrong else verdict
            told.save(tmp_path / "verdict.jsonl")
            result = CliRunner().invoke(app, ["verify", str(tmp_path / "verdict.jsonl"), *words])
            assert result.exit_code == int(wrong), result.output
