"""The study of mixes: its lines, and the images that it compares."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import script

import majorcert as mc


@pytest.fixture(scope="module")
def study() -> Any:
    return script("studies/mixes.py")


def ballots(strategy: str, seed: int, n_images: int = 60) -> mc.Ballots:
    """Votes of small images, most of them for one label of three."""
    rng, n = np.random.default_rng(seed), mc.strategy(strategy).n_ablations((8, 8))
    told = rng.random((n_images, n)) < np.linspace(0.5, 1, n_images)[:, None]
    labels = np.where(told, (np.arange(n_images) % 3)[:, None], rng.integers(0, 3, (n_images, n)))
    return mc.Ballots(labels[:, :, None], strategy=strategy, image_size=(8, 8), n_classes=3)


def test_every_mix_has_a_line(
    study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for k, strategy in enumerate(("columns:2", "rows:2")):
        ballots(strategy, k, 6).save(tmp_path / f"{k}.zarr")
    np.save(tmp_path / "truth.npy", np.arange(6) % 3)
    stores = [str(tmp_path / f"{k}.zarr") for k in range(2)]
    options = ["--patch", "1", "--truth", str(tmp_path / "truth.npy"), "--say", "2", "--masked"]
    monkeypatch.setattr(sys, "argv", ["mixes", *stores, *options])
    study.main()
    shown = capsys.readouterr().out
    for rule in ("alone", "majority", "pool ", "pool 1:2", "pool 2:1", "masked"):
        assert rule in shown, rule


def test_members_are_compared_on_the_images_that_all_of_them_have(study: Any) -> None:
    whole = ballots("columns:2", 1, 6)
    some = study.in_common({"whole": whole, "some": ballots("rows:2", 2, 6)[np.array([1, 4])]})
    assert [each.images.tolist() for each in some.values()] == [[1, 4], [1, 4]]
    assert np.array_equal(some["whole"].labels, whole.labels[[1, 4]])
