"""Verdicts of joint promises and of the first k labels: kept, read again, and judged anew by the definitions."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import majorcert as mc
from majorcert.audit.judgement import judged_anew
from majorcert.commands.app import app

SIZE, N_CLASSES, N = (5, 6), 4, 14


def votes(strategy: str, per_ballot: int = 2, seed: int = 3, **more: Any) -> mc.Ballots:
    """Label 2 nearly everywhere, less so in the later images, and now and then a second label."""
    random = np.random.default_rng(seed)
    n_ablations = mc.strategy(strategy).n_ablations(SIZE)
    labels = np.full((N, n_ablations, per_ballot), mc.ABSTAIN)
    odd = random.random((N, n_ablations)) < np.linspace(0, 0.7, N)[:, None]
    labels[:, :, 0] = np.where(odd, random.integers(N_CLASSES, size=odd.shape), 2)
    if per_ballot > 1:
        second = (labels[:, :, 0] + random.integers(1, N_CLASSES, size=odd.shape)) % N_CLASSES
        labels[:, :, 1] = np.where(odd, second, mc.ABSTAIN)
    return mc.Ballots(labels, strategy=strategy, image_size=SIZE, n_classes=N_CLASSES, **more)


def differences(verdict: mc.Verdict, evidence: Sequence[mc.Evidence]) -> list[str]:
    checks = judged_anew(verdict, evidence, range(len(verdict)))
    return [difference.what for check in checks for difference in check.differences]


def verdicts() -> list[tuple[mc.Verdict, list[mc.Evidence]]]:
    distance = np.random.default_rng(1).choice([0.01, 0.5], p=[0.1, 0.9], size=(N, 6))
    columns, rows = votes("columns:1"), votes("rows:1")
    shaken = votes("columns:1", distance=distance)
    masks = mc.MaskPairs(np.full((N, 6, 6), 2), masks="masks:2/2", image_size=SIZE, n_classes=N_CLASSES)
    clipped = mc.ClippedScores(mc.Scores.of_votes(columns))
    pool, single = mc.Pool([columns, rows]), votes("columns:1", 1, provenance={"threshold": None})
    return [
        (mc.joint([columns, rows, masks], 1).unwavering, [columns, rows, masks]),
        (mc.joint([columns, clipped, rows], 1).unwavering, [columns, clipped, rows]),
        (mc.joint([pool], 1, slack=3).unwavering, [pool]),
        (mc.joint([shaken.tolerating(0.1)], 1).unwavering, [shaken]),
        (mc.top_k(columns, 1, 2), [columns]),
        (mc.top_k(pool, (2, 1), 3), [pool]),
        (mc.top_k(shaken.tolerating(0.1), 1, 2, per_ballot=2), [shaken]),
        (mc.top_k(single, (1, 2), 2), [single]),
        (mc.top_k(votes("blocks:2"), 2, 1), [votes("blocks:2")]),
    ]


def test_what_is_kept_is_read_again_and_judged_alike(tmp_path: Path) -> None:
    for verdict, evidence in verdicts():
        assert 0 < verdict.certified.sum() < N, verdict
        verdict.save(tmp_path / "verdict.jsonl")
        read = mc.Verdict.load(tmp_path / "verdict.jsonl")
        assert (read.by.tolist(), read.witnesses) == (verdict.by.tolist(), verdict.witnesses)
        assert (read.promise, read.slack, read.method) == (verdict.promise, verdict.slack, verdict.method)
        assert (read.holds is None) == (verdict.promise != "unwavering")
        assert np.array_equal(read.holds, verdict.holds)
        assert differences(read, evidence) == []


def test_what_was_changed_is_named() -> None:
    (unwavering, ensemble), *_, (ranked, alone) = verdicts()
    i = int(np.flatnonzero(~unwavering.certified)[0])
    claimed = unwavering.certified.copy()
    claimed[i] = True
    forged = replace(unwavering, certified=claimed, by=np.where(claimed, "unwavering", ""))
    assert differences(forged, ensemble) == ["holds", "certified", "by"]
    assert differences(replace(unwavering, promise="recovery"), ensemble) == ["promise"]
    assert differences(replace(ranked, promise="recovery"), alone) == ["promise"]
    assert differences(replace(ranked, slack=1), alone) == ["slack, which is of detection"]
    assert "certified" in differences(replace(ranked, method="top-2"), alone)
    i = next(i for i, witness in enumerate(ranked.witnesses) if witness)
    other = replace(ranked.witnesses[i], forced=(2,), rival=2)
    assert set(
        differences(replace(ranked, witnesses=(*ranked.witnesses[:i], other, *ranked.witnesses[i + 1 :])), alone)
    )


def test_a_rival_that_is_not_the_one_made_to_be_said_is_named() -> None:
    columns = votes("columns:1")
    pool = mc.Pool([columns, votes("rows:1")])
    asked = (columns, mc.certify([columns], 2)), (pool, mc.certify([pool], 2)), (columns, mc.top_k(columns, 2, 2))
    for each, verdict in asked:
        i, witness = next((i, witness) for i, witness in enumerate(verdict.witnesses) if witness)
        others = {-1, N_CLASSES, *witness.forced} - {witness.rival}
        assert differences(verdict, [each]) == []
        for rival in others:
            witnesses = (*verdict.witnesses[:i], replace(witness, rival=rival), *verdict.witnesses[i + 1 :])
            assert differences(replace(verdict, witnesses=witnesses), [each]) == ["rival"]


@pytest.mark.parametrize("slack", [0, 2])
def test_another_promise_than_the_strongest_is_named(slack: int) -> None:
    pool = mc.Pool([votes("columns:1", seed=2), votes("rows:1", seed=3)])
    verdict = mc.joint([pool], 1, slack=slack).unwavering
    assert set(verdict.holds) == {"unwavering", "recovery", "detection", "none"}
    for said in ("recovery", "detection", "none"):
        for claimed in {"recovery", "detection", "none"} - {said}:
            holds = verdict.holds.copy()
            holds[holds.tolist().index(said)] = claimed
            assert differences(replace(verdict, holds=holds), [pool]) == ["holds"]
    assert differences(verdict, [pool]) == differences(replace(verdict, holds=None), [pool]) == []


def test_rows_that_do_not_all_say_what_holds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "verdict.jsonl"
    mc.joint([votes("columns:1")], 1).unwavering.save(path)
    text = path.read_text()
    for before, after in (
        (',"holds":"none"', ""),
        ('"promise":"unwavering"', '"promise":"recovery"'),
        ('"holds":"none"', '"holds":"all"'),
    ):
        assert before in text
        path.write_text(text.replace(before, after, 1))
        with pytest.raises(mc.StoreError, match=r"rows say what holds|holds"):
            mc.Verdict.load(path)
    path.write_text(re.sub(',"holds":"[a-z]+"', "", text))
    assert mc.Verdict.load(path).holds is None


def test_how_many_labels_a_ballot_names_must_fit_the_ballots() -> None:
    columns = votes("columns:1")
    wide = mc.top_k(columns, 1, 2)
    narrow = replace(wide, defenders=({**wide.defenders[0], "per_ballot": 1},))
    with pytest.raises(mc.EvidenceError, match="1 labels at most"):
        differences(narrow, [columns])
    with pytest.raises(mc.EvidenceError, match=r"per_ballot.*-1"):
        differences(replace(wide, defenders=({**wide.defenders[0], "per_ballot": -1},)), [columns])
    single = votes("columns:1", 1)
    audit = mc.verify(mc.top_k(single, 1, 2, per_ballot=1), [single], sample=None)
    assert not audit.differences
    assert any("1 labels at most" in remark for remark in audit.remarks())
    assert not any("labels at most" in remark for remark in mc.verify(mc.top_k(single, 1, 2), [single]).remarks())


def test_methods_that_are_none_are_refused() -> None:
    verdict, evidence = verdicts()[4]
    for method in ("top-0", "top-", "top-two", "top-2 "):
        with pytest.raises(mc.EvidenceError, match="does not cover"):
            differences(replace(verdict, method=method), evidence)
    with pytest.raises(mc.EvidenceError, match="2 evidence stores"):
        differences(verdict, [*evidence, *evidence])
    masks = mc.MaskPairs(np.full((N, 6, 6), 2), masks="masks:2/2", image_size=SIZE, n_classes=N_CLASSES)
    with pytest.raises(mc.EvidenceError, match="votes, and Pairs has none"):
        differences(replace(verdict, defenders=(masks.provenance,)), [masks])
    alone = replace(mc.drs(masks, 1, bound="local"), method="drs-margin", safe=None)
    with pytest.raises(mc.EvidenceError, match="margin is about ballots or pool, and the evidence is of mask-pairs"):
        differences(alone, [masks])
    columns = [votes("columns:1", 1)]
    local = mc.drs(columns[0], 1, bound="local")
    assert differences(local, columns) == []
    for method in ("pg-drs", "pg-pool"):
        with pytest.raises(mc.EvidenceError, match=f"{method} is about .*, and the evidence is of ballots"):
            differences(replace(local, method=method), columns)


def test_an_alert_is_told_as_recorded_whatever_tolerance_the_evidence_came_with() -> None:
    shaken = votes("columns:1", distance=np.full((N, 6), 0.01)).tolerating(0.1)
    for evidence in ([shaken], [mc.Pool([shaken])]):
        verdict = mc.detect(evidence, 1)
        assert not np.all(verdict.alert)
        assert differences(verdict, evidence) == []


def test_a_word_of_pools_in_a_record_of_votes_is_just_a_word() -> None:
    columns = votes("columns:1", provenance={"members": "two"})
    assert differences(mc.certify([columns], 1), [columns]) == []


def test_from_the_command_line(tmp_path: Path) -> None:
    stores = [str(tmp_path / name) for name in ("columns.zarr", "rows.zarr")]
    for store, strategy in zip(stores, ("columns:1", "rows:1"), strict=True):
        votes(strategy).save(store)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    for method in (["--promise", "unwavering"], ["--top", "2"]):
        verdict = str(tmp_path / "verdict.jsonl")
        shown = run("certify", *stores, "--patch", "1", *method, "-o", verdict)
        assert "unwavering" in shown or "top-2" in shown
        assert "no difference found" in run("verify", verdict, "--evidence", *stores, "--sample", "all")
    said = run("certify", *stores, "--patch", "1", "--promise", "joint", "--method", "pool", "--slack", "2", "--json")
    found = {line["promise"]: line["n_certified"] for line in json.loads(said)}
    expected = mc.joint([mc.Pool([votes("columns:1"), votes("rows:1")])], 1, slack=2)
    names = ("recovery", "detection", "unwavering")
    assert found == {name: getattr(expected, name).certified.sum() for name in names}


@pytest.mark.slow
def test_the_published_shares_are_what_the_evidence_gives() -> None:
    study = Path(__file__).parents[2] / "results" / "cifar10"
    published = json.loads((study / "promises.json").read_text(encoding="utf-8"))
    defenders = [mc.load_evidence(path) for path in sorted((study / "small").glob("*.zarr"))]
    pool, found = mc.Pool(defenders), {"majority": mc.joint(defenders, 5), "pool": mc.joint([mc.Pool(defenders)], 5)}
    rows = [row for row in published if (row["recipe"], row["patch"]) == ("small", "5x5")]
    for row in rows:
        if row["promise"].startswith("top-"):
            ranked = mc.top_k(pool, 5, int(row["promise"].removeprefix("top-")))
            assert row["certified"] == round(100 * ranked.certified.mean(), 2)
        elif not row.get("slack"):
            holds = found[row["who"]].holds
            for name in ("unwavering", "recovery", "detection", "none"):
                assert row[name] == round(100 * (holds == name).mean(), 2)
            assert row["at_will"] == round(100 * found[row["who"]].alertable.mean(), 2)
    assert len(rows) == 9


def test_a_threshold_of_null_is_not_one_that_is_not_there() -> None:
    about: dict[str, Any] = {"strategy": "columns:1", "image_size": (1, 6), "n_classes": 3}
    labels = np.array([[0, 0, 0, 0, 1, 2]])
    unknown, single = mc.Ballots(labels, **about), mc.Ballots(labels, **about, provenance={"threshold": None})
    claimed = mc.top_k(single, (1, 2), 2)
    assert claimed.certified.all()
    assert not mc.top_k(unknown, (1, 2), 2).certified.any()
    assert differences(claimed, [single]) == []
    assert "threshold of defender 1" in differences(claimed, [unknown])


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path: Path) -> None:
    columns = votes("columns:1", 1)
    for verdict in (
        mc.joint([columns], 1, slack=np.int64(2)).unwavering,
        mc.top_k(columns, 1, np.int64(2), per_ballot=np.int64(1)),
    ):
        verdict.save(tmp_path / "verdict.jsonl")
        assert differences(mc.Verdict.load(tmp_path / "verdict.jsonl"), [columns]) == []


def test_words_for_what_is_not_there_are_not_what_is_not_there() -> None:
    columns = votes("columns:1", 1)
    verdict = mc.majorcert([columns], 1)
    forged = replace(verdict, defenders=({**verdict.defenders[0], "view": "not on record"},))
    assert "view of defender 1" in differences(forged, [columns])


def test_a_record_of_tuples_is_the_same_in_a_file(tmp_path: Path) -> None:
    about: dict[str, Any] = {"strategy": "columns:1", "image_size": (1, 6), "n_classes": 3}
    columns = mc.Ballots(np.zeros((1, 6), int), **about, provenance={"class_names": ("a", "b", "c")})
    mc.majorcert([columns], 1).save(tmp_path / "verdict.jsonl")
    assert differences(mc.Verdict.load(tmp_path / "verdict.jsonl"), [columns]) == []


@pytest.mark.parametrize("forged", [{"kind": ["ballots"]}, {"kind": {}}, {"kind": None}, {"fragile": [0.1]}])
def test_a_record_that_cannot_be_read_is_refused(forged: dict[str, Any]) -> None:
    columns = votes("columns:1", 1)
    for evidence in (columns, mc.Pool([columns])):
        verdict = mc.majorcert([evidence], 1)
        with pytest.raises(mc.MajorcertError, match=r"cover|number"):
            mc.verify(replace(verdict, defenders=({**verdict.defenders[0], **forged},)), [evidence])


def test_a_tolerance_of_null_is_none() -> None:
    about: dict[str, Any] = {"strategy": "columns:1", "image_size": (1, 6), "n_classes": 3}
    evidence = [mc.Ballots(np.zeros((1, 6), int), **about, distance=np.full((1, 6), 0.5)) for _ in range(2)]
    verdict = mc.majorcert([evidence[0], evidence[1].tolerating(0.1)], 1)
    first, second = verdict.defenders
    audit = mc.verify(replace(verdict, defenders=({**first, "fragile": None}, second)), evidence)
    assert audit.tolerances == (0.1,)
    assert audit.all_clear() == "no difference found, with fragile ballots at 0.1"
