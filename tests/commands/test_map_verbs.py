"""Local-feature defenders by the command line: train, vote, certify, verify with the weights, explain and attack."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calls import asked, done

import majorcert as mc
from majorcert.files.evidence import save_evidence
from majorcert.nets.blueprint import Blueprint

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def shades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dark, grey and bright noise."""
    path, random = tmp_path_factory.mktemp("data") / "shades.npz", np.random.default_rng(0)
    labels = np.arange(120) % 3
    images = (40 + 60 * labels)[:, None, None] + random.integers(0, 60, (120, 9, 9))
    parts = {"images": images[:96], "test_images": images[96:]}
    np.savez(
        path,
        labels=labels[:96],
        test_labels=labels[96:],
        **{name: part.astype(np.uint8) for name, part in parts.items()},
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "rule"),
    [
        ("bagcert", "votes"),
        ("cbn", "clipped"),
        ("pg-bn", "masked:5x5"),
    ],
)
def test_a_map_goes_through_every_verb(recipe: str, rule: str, shades: Path, tmp_path: Path) -> None:
    folder, how = tmp_path / recipe, ("--epochs", 24, "--batch-size", 16, "--lr", 0.1, "--width", 4, "--device", "cpu")
    done("train", shades, "--recipe", recipe, "--strategy", "fields:9x1", "--out", folder, *how)
    blueprint = Blueprint.read(folder)
    assert (blueprint.rule, blueprint.view, str(blueprint.strategy)) == (rule, "whole", "fields:9x1")
    done("vote", folder, shades)
    store, verdict = folder / "shades.npz-test.zarr", tmp_path / "verdict.jsonl"
    (line,) = json.loads(done("certify", store, "--patch", 1, "--out", verdict, "--json"))
    assert line["clean"] > 0.5
    checked = done("verify", verdict, "--evidence", store, "--images", shades, "--weights", folder, "--sample", "all")
    assert "fields:9x1" in checked
    assert "patch" in done("explain", store, "--image", 3, "--patch", 1)
    effort = ("--limit", 4, "--restarts", 2, "--steps", 3, "--placements", 2, "--probed", 4, "--cheap", 4)
    done("attack", folder, shades, "--patch", 1, "--out", tmp_path / "attack", *effort)
    summary = json.loads((tmp_path / "attack" / "attack.json").read_text())["defended"]
    assert summary["broken"] == []


def _in_steps_of_half(store: Path, other: Path) -> Path:
    """The same scores, rounded to two steps: what another defender would add up."""
    known = mc.load_evidence(store)
    assert isinstance(known, mc.ClippedScores)
    points = np.rint(known.scores.points / 127 * 2).astype(np.int64)
    facts: dict[str, Any] = {"strategy": known.scores.strategy, "image_size": known.image_size}
    save_evidence(mc.ClippedScores(mc.Scores(points, one=2, **facts, provenance=known.provenance)), other)
    return other


def test_other_weights_are_told_apart(shades: Path, tmp_path: Path) -> None:
    """Scores on record that another rule adds up: in other steps, or masked."""
    how = ("--strategy", "fields:9x1", "--epochs", 1, "--batch-size", 32, "--width", 4, "--device", "cpu")
    done("train", shades, "--recipe", "cbn", "--out", tmp_path / "run", *how)
    done("vote", tmp_path / "run", shades)
    store, verdict = tmp_path / "run" / "shades.npz-test.zarr", tmp_path / "verdict.jsonl"
    done("certify", store, "--patch", 1, "--out", verdict)
    coarse, weights = _in_steps_of_half(store, tmp_path / "coarse.zarr"), ["--weights", tmp_path / "run"]
    done("certify", coarse, "--patch", 1, "--out", tmp_path / "coarse.jsonl")
    found = asked("verify", tmp_path / "coarse.jsonl", "--evidence", coarse, "--images", shades, *weights)
    assert found.exit_code == 1
    assert "scores_one of evidence 1, as of its network: expected 127, found 2" in found.output
    raw = json.loads((tmp_path / "run" / "defender.json").read_text())
    (tmp_path / "run" / "defender.json").write_text(json.dumps({**raw, "rule": "masked:1x1"}))
    found = asked("verify", verdict, "--evidence", store, "--images", shades, *weights)
    assert found.exit_code == 1
    assert "rule of evidence 1" in found.output
    assert mc.load_evidence(store).provenance["rule"] == "clipped"
