"""A defender by interval bounds, and a vision transformer, through every verb."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calls import asked, done

import majorcert as mc
from majorcert.audit.revote import check_bounds
from majorcert.files.evidence import load_evidence
from majorcert.nets.data import load
from majorcert.reports.bound import beyond

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures that are bright or dark all over, so that a patch cannot do much."""
    chance, labels = np.random.default_rng(0), np.arange(160) % 2
    images = (chance.integers(0, 100, (160, 12, 12)) + 150 * labels[:, None, None]).astype(np.uint8)
    path = tmp_path_factory.mktemp("data") / "shades.npz"
    kept: dict[str, Any] = {"images": images[:120], "labels": labels[:120], "class_names": ["dark", "bright"]}
    kept |= {"test_images": images[120:], "test_labels": labels[120:]}
    np.savez(path, **kept)
    return path


@pytest.fixture(scope="module")
def bounded(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run") / "bounded"
    how = ("--width", "4", "--batch-size", "12", "--device", "cpu", "--epochs", "8", "--lr", "0.01")
    done("train", data, "--recipe", "ibp", "--patch", "2", *how, "-o", run)
    return run


def test_bounds_go_through_every_verb(data: Path, bounded: Path, tmp_path: Path) -> None:
    done("vote", bounded, data, "-o", tmp_path, "--device", "cpu")
    store, verdict = tmp_path / "bounded.zarr", tmp_path / "v.jsonl"
    done("certify", store, "--patch", "2", "-o", verdict)
    result = asked("certify", store, "--patch", "3x2")
    assert "bounds:2 speaks of patches up to 2x2: against 3x2 it certifies no image" in result.output
    sizes = mc.Bounds([0], np.ones((1, 9 + 4, 2), dtype=bool), sizes="bounds:2x2,1x4", image_size=(4, 4), n_classes=2)
    assert not beyond([sizes], [mc.Patch(2), mc.Patch(1, 4)])  # neither contains the other, so neither is the largest
    found = mc.Verdict.load(verdict)
    assert found.certified.sum() > 0
    how = ("--weights", bounded, "--images", data, "--sample", "all", "--json")
    audit = json.loads(done("verify", verdict, "--evidence", store, *how))
    assert {"what": "bounds of bounds:2", "n": 40 * 121, "n_differences": 0} in audit["checks"]
    assert audit["near"] == [0.0]
    assert "bounds:2" in done("explain", store, "--image", "0", "--patch", "2")


@pytest.mark.slow
def test_bounds_are_attacked(data: Path, bounded: Path, tmp_path: Path) -> None:
    how = ("--patch", "2", "--limit", "8", "--device", "cpu", "--json")
    summary = json.loads(done("attack", bounded, data, *how, "-o", tmp_path / "a"))
    assert summary["defended"]["broken"] == []


def test_what_bounds_are_claimed_to_exclude_is_voted_anew(data: Path, bounded: Path) -> None:
    images = load(str(data), "test").images[:3]
    (defender,) = mc.Ensemble.load(bounded).defenders
    found: Any = defender.evidence(images)
    assert not check_bounds(found, range(3), found).differences
    more = np.where(np.arange(3)[:, None, None] == 1, 3, found.words).astype(np.int16)
    facts: dict[str, Any] = {"sizes": "bounds:2", "image_size": (12, 12), "n_classes": 2}
    modest = mc.Bounds(found.label, more, **facts)
    assert not check_bounds(modest, range(3), found).differences, "less may be claimed"
    boasted = check_bounds(found, range(3), modest).differences
    assert bool(boasted) == bool((found.words[1] != 3).any())
    other = mc.Bounds([1 - found.label[0], *found.label[1:]], np.full_like(more, 3), **facts)
    assert any(each.what == "the label" for each in check_bounds(other, range(3), found).differences)


def test_the_evidence_is_what_the_defender_says(data: Path, bounded: Path, tmp_path: Path) -> None:
    done("vote", bounded, data, "-o", tmp_path, "--device", "cpu", "--chunk", "7")
    stored, (defender,) = load_evidence(tmp_path / "bounded.zarr"), mc.Ensemble.load(bounded).defenders
    images = load(str(data), "test").images
    found: Any = defender.evidence(images)
    assert np.array_equal(found.words, stored.words)  # type: ignore[attr-defined]
    assert np.array_equal(defender.predict(images), stored.label)


@pytest.mark.slow
def test_a_transformer_trains_votes_and_is_certified(data: Path, tmp_path: Path) -> None:
    how = ("--width", "32", "--batch-size", "12", "--device", "cpu", "--epochs", "4", "--lr", "0.003")
    done("train", data, "--recipe", "smoothed-vit", *how, "-o", tmp_path / "vit")
    done("vote", tmp_path / "vit", data, "-o", tmp_path, "--device", "cpu")
    assert mc.certify([load_evidence(tmp_path / "vit.zarr")], 2).certified.sum() > 0
