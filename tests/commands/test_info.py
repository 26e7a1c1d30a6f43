"""What `majorcert info` says: what was found stands apart from what is claimed; what is damaged is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from artifacts import make_attack, make_study
from calls import asked, done, refused, told

import majorcert as mc

FORGED = {
    "is": "a trained defender",
    "weights": "as recorded",
    "weights_sha256": "0" * 64,
    "images": 10**6,
    "state": "complete",
    "scores": True,
    "claims": {},
    "strategy": "rows:2",
}
"""What a file might say of itself to be believed."""


@pytest.mark.parametrize("name", ["defender.json", "ensemble.json"])
def test_damaged_weights_are_told_whatever_the_file_claims(name: str, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "a"):
        folder.mkdir(exist_ok=True)
        (folder / "defender.json").write_text(json.dumps({"format": "majorcert-defender", **FORGED}))
        (folder / "weights.safetensors").write_bytes(b"others")
    if name == "ensemble.json":
        (tmp_path / name).write_text(json.dumps({"format": "majorcert-ensemble", "members": ["a"], **FORGED}))
    for words in ((), ("--json",)):
        result = asked("info", tmp_path, *words)
        assert result.exit_code == 1
        assert "weights are not the ones" in result.stderr
    facts = json.loads(result.stdout)
    assert facts["weights"] == "DAMAGED"
    assert facts["claims"]["weights"] == "as recorded"


def test_what_evidence_claims_does_not_replace_what_was_found(tmp_path: Path) -> None:
    about: dict[str, Any] = {"strategy": "rows:2", "image_size": (8, 8), "n_classes": 3}
    mc.Ballots(np.zeros((5, 8), int), provenance=FORGED, **about).save(store := tmp_path / "e.zarr")
    facts = told("info", store)
    assert (facts["is"], facts["images"], facts["scores"]) == ("evidence", 5, False)
    assert facts["claims"]["images"] == 10**6
    text = done("info", store)
    found, claimed = text.split("it claims, and nobody checked:\n")
    assert "images: 5\n" in found
    assert "1000000" not in found
    assert all(line.startswith("  ") for line in claimed.splitlines())


def test_true_labels_are_counted_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "t.truth.json"
    path.write_text(json.dumps({**FORGED, "format": "majorcert-truth", "labels": [1, 2]}))
    facts = told("info", path)
    assert (facts["is"], facts["images"]) == ("true labels", 2)


def test_a_verdict_on_a_pool_names_whose_votes_it_adds_up(tmp_path: Path) -> None:
    about: dict[str, Any] = {"image_size": (8, 8), "n_classes": 3}
    ballots = [mc.Ballots(np.zeros((5, 8), int), strategy=cut, **about) for cut in ("rows:2", "columns:3")]
    mc.top_k(mc.Pool(ballots), 2, 2).save(path := tmp_path / "top.jsonl")
    facts = told("info", path)
    assert (facts["promise"], facts["strategies"]) == ("top-k", ["rows:2", "columns:3"])
    header, *rows = path.read_text().splitlines()
    for members in ("rows:2", ["rows:2"], [], {}):  # claims of any shape are no members
        claimed = json.loads(header)
        claimed["defenders"][0]["members"] = members
        path.write_text("\n".join([json.dumps(claimed), *rows]) + "\n")
        assert told("info", path)["strategies"] == ["?"]


def test_a_path_that_cannot_be_is_told_in_one_sentence(tmp_path: Path) -> None:
    assert "cannot be read" in refused("info", tmp_path / ("x" * 5000))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    make_study(tmp_path)
    return tmp_path


@pytest.fixture
def attacked(tmp_path: Path) -> Path:
    make_attack(tmp_path)
    return tmp_path


def altered(path: Path, *keys: str, value: Any) -> None:
    """Put another value in a JSON file."""
    raw = json.loads(path.read_text())
    part = raw
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path.write_text(json.dumps(raw))


def test_a_case_study_is_told(study: Path) -> None:
    facts = told("info", study)
    assert (facts["is"], facts["images"]) == ("a case study", 7)
    assert (facts["dataset"], facts["split"], facts["images_sha256"]) == ("toy", "test", "ab")
    best = facts["recipes"]["best"]
    assert best["strategies"] == ["columns:2", "columns:2"]
    assert (best["clean"], best["certified"]) == (80.0, {"2x2": 40.0, "5x5": 40.0})
    assert (best["command"], best["epochs"], best["gpu_minutes"]) == ("train", 3, 1.5)
    text = done("info", study)
    assert text.startswith("is: a case study\nimages: 7\n")
    assert '\nrecipes, best: {"strategies": ["columns:2", "columns:2"], "clean": 80.0,' in text


def test_a_case_study_with_an_attack_or_without_results_is_told(study: Path) -> None:
    make_attack(study)
    (study / "results.json").unlink()
    facts = told("info", study)
    assert "none yet" in facts["accuracies"]
    assert "clean" not in facts["recipes"]["best"]
    assert facts["attack"]["defended"]["under_attack"] == 0.5
    assert facts["attack"]["defended"]["patch"] == "2x2"


def test_a_damaged_case_study_is_refused(study: Path) -> None:
    whole = study.parent / "whole"
    shutil.copytree(study, whole)

    def again() -> None:
        shutil.rmtree(study)
        shutil.copytree(whole, study)

    altered(study / "results.json", "rows", value=[{"recipe": "best"}])
    assert "results.json is damaged (it has no 'patch')" in refused("info", study)
    again()
    raw = json.loads((study / "results.json").read_text())
    (study / "results.json").write_text(json.dumps({**raw, "rows": [{**raw["rows"][0], "certified": 140}]}))
    assert "results.json is damaged (expected a number from 0 to 100, got 140)" in refused("info", study)
    (study / "results.json").write_text("[]")
    assert "results.json: not an artifact of majorcert; `majorcert table" in refused("info", study)
    again()
    shutil.rmtree(study / "best" / "columns-2.zarr")
    assert "no such evidence store" in refused("info", study)
    again()
    np.save(study / "truth.npy", np.zeros(3, np.uint8))
    assert "is of 7 images, truth.npy of 3" in refused("info", study)
    (study / "truth.npy").unlink()
    assert "it has no truth.npy" in refused("info", study)


def test_an_attack_is_told(attacked: Path) -> None:
    for path in (attacked, attacked / "attack.json", attacked / "attack.jsonl"):
        facts = told("info", path)
        assert (facts["is"], facts["images"], facts["patch"]) == ("the summary of an attack", 4, "2x2")
        assert (facts["dataset"], facts["split"]) == ("digits", "test")
        defended = facts["defended"]
        assert (defended["clean"], defended["under_attack"], defended["certified"]) == (0.75, 0.5, 0.25)
        assert (defended["n_flipped"], defended["n_certified_flipped"], defended["broken"]) == (1, 0, 0)
        assert defended["strategies"] == ["rows:2"]
        assert "undefended" not in facts
    (attacked / "attack.json").rename(attacked / "mine.json")
    assert told("info", attacked / "mine.json")["is"] == "the summary of an attack"
    unfinished = told("info", attacked)
    assert (unfinished["is"], unfinished["rows"]) == ("the rows of an attack", {"defended": 4})


def test_a_damaged_attack_is_refused(attacked: Path) -> None:
    whole = (attacked / "attack.json").read_text()
    for keys, value, message in (
        (("defended", "n_flipped"), 0, "its under_attack is 0.5, and 3 of 4 are counted"),
        (("defended", "clean"), 1.5, "expected a number from 0 to 1, got 1.5"),
        (("defended", "n_certified_flipped"), 2, "its counts contradict each other"),
        (("defended", "n_attacked"), "three", "expected a count, got three"),
        (("n",), 5, "its clean is 0.75, and 3 of 5 are counted"),
        (("undefended",), {}, "it has no 'n_attacked'"),
        (("defended", "about"), None, "of another kind than expected"),
    ):
        altered(attacked / "attack.json", *keys, value=value)
        said = refused("info", attacked)
        assert "attack.json: not the summary of an attack, or damaged" in said
        assert message in said
        (attacked / "attack.json").write_text(whole)
    (attacked / "attack.json").write_text("{}")
    assert "not the summary of an attack, or damaged (it has no 'n')" in refused("info", attacked / "attack.json")


def test_an_attack_whose_rows_do_not_bear_it_out_is_refused(attacked: Path) -> None:
    lines = (attacked / "attack.jsonl").read_text().splitlines()
    (attacked / "attack.jsonl").write_text("\n".join(lines[:-1]))
    assert "attack.json is not what the rows of defended give" in refused("info", attacked)
    (attacked / "attack.jsonl").write_text("\n".join(lines).replace('"flipped": true', '"flipped": false'))
    assert "attack.json is not what the rows of defended give" in refused("info", attacked)
    (attacked / "attack.jsonl").write_text("")
    assert "attack.jsonl: not the record of an attack, or damaged (it is empty)" in refused("info", attacked)


@pytest.mark.parametrize("name", ["ensemble.json", "defender.json", "checkpoint.json"])
def test_a_file_that_only_has_the_name_of_an_artifact_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    assert f"{name}: not an artifact of majorcert, its format is 'None'" in refused("info", tmp_path)
