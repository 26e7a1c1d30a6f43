"""Evidence as plain text, and the checker from the proofs asked about it (`make proofs` builds it)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from calls import asked

import majorcert as mc
from majorcert.audit.checker import answers, third_opinion
from majorcert.audit.export import exported
from majorcert.errors import EvidenceError

CHECKER = Path(__file__).parents[2] / "proofs" / "build" / "checker"
SIZE = (1, 3)


def ballots() -> mc.Ballots:
    labels = [[[0, -1], [1, 2], [-1, -1]]]
    distance = [[0.0, 0.5, 0.5]]
    return mc.Ballots(labels, strategy="columns:1", image_size=SIZE, n_classes=3, images=[7], distance=distance)


def pairs() -> mc.MaskPairs:
    made = mc.MaskPairs(
        [[0, 1, 0, 2, 0, 0]], masks="masks:1x1/1", image_size=SIZE, n_classes=3, images=[7], distance=[[0.5, 0.0, 0.5]]
    )
    return made.tolerating(0.1)


def scores() -> mc.MaskedScores:
    points = mc.Scores([[[0, 2], [3, 1], [0, 0]]], one=3, strategy="columns:1", image_size=SIZE, images=[7])
    return mc.MaskedScores(points, mc.Patch(1, 2), threshold=0.25)


@pytest.mark.parametrize(
    ("evidence", "defender", "record"),
    [
        (ballots(), "votes columns 1 1 1", "0 1,2 -"),
        (ballots().tolerating(0.1), "votes columns 1 1 1", "0! 1,2 -"),
        (
            mc.Pool([ballots(), ballots().tolerating(0.1)], weights=[2, 5]),
            "votes columns 1 1 2 columns 1 1 5",
            "0 1,2 - 0! 1,2 -",
        ),
        (pairs(), "pairs 1 1 1", "0 1 0 2! 0 0"),
        (scores(), "scores columns 1 1 1 2 1 4", "0,2 3,1 0,0"),
    ],
    ids=["ballots", "fragile", "pool", "pairs", "scores"],
)
def test_every_kind_is_written(evidence: mc.Evidence, defender: str, record: str) -> None:
    assert list(exported([evidence], (1, 2), claim="detect", slack=4)) == [
        "question",
        "size 1 3",
        f"classes {evidence.n_classes}",
        "patch 1 2",
        "claim detect 4",
        "defenders 1",
        f"defender {defender}",
        "image 7",
        f"record {record}",
    ]


def test_what_the_checker_does_not_know_is_refused() -> None:
    for claim, complaint in (("margin", "margin"), ("x", "'x'")):
        with pytest.raises(EvidenceError, match=complaint):
            list(exported([pairs()], (1, 1), claim=claim))
    with pytest.raises(EvidenceError, match="does not run"):
        answers("/nowhere/checker", [])


def saying(folder: Path, text: str, code: int = 0) -> Path:
    """A checker that says the same whatever it is asked."""
    path = folder / "checker"
    path.write_text(f"#!/bin/sh\ncat > /dev/null\nprintf '{text}'\nprintf 'line 3: no' >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_the_third_opinion_is_compared_row_by_row(tmp_path: Path) -> None:
    verdict = mc.detect([ballots()], 1)
    label, certified, alert = int(verdict.predicted[0]), bool(verdict.certified[0]), bool(verdict.alert[0])  # type: ignore[index]
    said = ("yes" if certified else "no", "alert" if alert else "silent")
    same = saying(tmp_path, f"7 {label} {said[0]} {said[1]}\\n")
    assert third_opinion(same, verdict, [ballots()], [0]).differences == ()
    other = saying(tmp_path, f"7 {label + 1} {said[0]} {said[1]}\\n")
    (difference,) = third_opinion(other, verdict, [ballots()], [0]).differences
    assert (difference.expected, difference.found, difference.image) == (label + 1, label, 7)
    with pytest.raises(EvidenceError, match="line 3"):
        third_opinion(saying(tmp_path, "", code=2), verdict, [ballots()], [0])
    with pytest.raises(EvidenceError, match="1 images"):
        third_opinion(saying(tmp_path, ""), verdict, [ballots()], [0])


def test_the_verb_prints_every_patch_as_a_question(tmp_path: Path) -> None:
    ballots().save(tmp_path / "votes.zarr")
    result = asked("export", tmp_path / "votes.zarr", "--patch", 1, "--patch", "1x2", "--pool")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "majorcert-export 1"
    assert [line for line in lines if line.startswith("patch")] == ["patch 1 1", "patch 1 2"]
    assert "record 0 1,2 -" in lines
    refused = asked("export", tmp_path / "votes.zarr", "--patch", 1, "--claim", "foo")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "a claim is exact, paper, margin, detect; got 'foo'" in refused.stderr


def test_a_slack_is_refused_where_certify_refuses_it(tmp_path: Path) -> None:
    store = tmp_path / "votes.zarr"
    ballots().save(store)
    detection = ("export", "--patch", 1, "--slack", 3, "--claim", "detect")
    assert "claim detect 3" in asked(*detection, store).stdout
    assert "claim detect 3" in asked(*detection, "--pool", store, store).stdout
    assert "slack is for one voting defender" in asked(*detection, store, store).stderr
    assert "recovery has none" in asked("export", store, "--patch", 1, "--slack", 3).stderr


def test_verify_asks_the_checker_it_is_given(tmp_path: Path) -> None:
    ballots().save(tmp_path / "votes.zarr")
    verdict = mc.majorcert([mc.Ballots.load(tmp_path / "votes.zarr")], 1)
    verdict.save(tmp_path / "verdict.jsonl")
    told = "yes" if verdict.certified[0] else "no"
    for answer, code in ((told, 0), ("no" if told == "yes" else "yes", 1)):
        checker = saying(tmp_path, f"7 {verdict.predicted[0]} {answer}\\n")
        store = tmp_path / "votes.zarr"
        assert asked("verify", tmp_path / "verdict.jsonl", "--evidence", store, "--with", checker).exit_code == code


@pytest.mark.skipif(not CHECKER.exists(), reason="`make proofs` has not built the checker")
def test_the_checker_agrees_and_finds_a_planted_fault() -> None:
    random = np.random.default_rng(0)
    votes = mc.Ballots(random.integers(3, size=(30, 9)) // 2, strategy="columns:1", image_size=(4, 9), n_classes=3)
    verdict = mc.majorcert([votes], 1)
    assert 0 < verdict.certified.sum() < 30
    rows = list(range(30))
    assert third_opinion(CHECKER, verdict, [votes], rows).differences == ()
    forged = replace(verdict, certified=~verdict.certified)
    assert len(third_opinion(CHECKER, forged, [votes], rows).differences) == 30
