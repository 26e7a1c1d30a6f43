"""The ensemble that comes with majorcert is the one that the published evidence is about."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import majorcert as mc
from majorcert.commands.app import app
from majorcert.nets.recorded import recorded_defenders
from majorcert.nets.stores import voting_folders

HERE = Path(__file__).parents[1]
EXPECTED = HERE / "data" / "bundled-ballots.npz"
NEAR = 1e-3
"""A score this close to the threshold may fall on either side with another processor's rounding; `distance` has how
close the closest score of each view was."""


def synthetic_images() -> np.ndarray:
    """20 images of soft coloured blobs, exactly the same everywhere: whole-number arithmetic of a seeded generator."""
    rng = np.random.default_rng(2024)
    corners = rng.integers(0, 256, size=(20, 5, 5, 3))
    position = np.arange(32) * 4
    cell, share = position // 32, position % 32
    tall = corners[:, cell] * (32 - share)[:, None, None] + corners[:, cell + 1] * share[:, None, None]
    wide = tall[:, :, cell] * (32 - share)[:, None] + tall[:, :, cell + 1] * share[:, None]
    return (wide // 1024).astype(np.uint8)


@pytest.fixture(scope="module")
def ensemble() -> mc.Ensemble:
    return mc.Ensemble.load("cifar10")


def test_it_votes_as_it_did_when_it_was_published(ensemble: mc.Ensemble) -> None:
    images = synthetic_images()
    assert int(images.astype(np.int64).sum()) == 7_794_565
    with np.load(EXPECTED) as expected:
        for defender in ensemble.defenders:
            name = str(defender.strategy)
            firm = expected[f"{name} distance"] > NEAR
            assert firm.mean() > 0.95
            assert np.array_equal(defender.ballots(images).labels[firm], expected[name][firm])


def test_the_published_evidence_is_of_these_weights(ensemble: mc.Ensemble) -> None:
    for defender in ensemble.defenders:
        store = HERE.parent / "results" / "cifar10" / "small" / f"{str(defender.strategy).replace(':', '-')}.zarr"
        facts = mc.Ballots.load(store, images=slice(0, 1)).provenance
        assert facts["weights_sha256"] == defender.weights_sha256
        assert facts["threshold"] == defender.threshold
        assert facts["precision"] == "float32"
        assert facts["view"] == defender.view


@pytest.mark.parametrize(("bound", "masked"), [(None, False), (5, True), ((2, 5), True), (6, False), ((1, 6), False)])
def test_masks_answer_where_no_patch_is_larger_than_they_cover(bound: Any, masked: bool) -> None:
    found = [str(each.strategy) for each in mc.Ensemble.load("cifar10", bound=bound).defenders]
    assert found == (["masks:5/5"] if masked else ["columns:5", "columns:6", "columns:8"])


def test_the_masking_network_is_the_one_of_the_published_evidence() -> None:
    (defender,) = mc.Ensemble.load("cifar10", bound=5).defenders
    evidence = mc.load_evidence(HERE.parent / "results" / "cifar10" / "masking-small" / "masks-5-5.zarr")
    facts = evidence.provenance
    assert (facts["weights_sha256"], facts["view"]) == (defender.weights_sha256, defender.view)
    assert (len(evidence), facts["split_size"], facts["precision"]) == (10_000, 10_000, "bfloat16")


def test_the_masking_network_votes_and_is_verified_by_its_name() -> None:
    assert [str(each.strategy) for each in mc.Ensemble.load("cifar10/bounded").defenders] == ["masks:5/5"]
    assert [folder.name for folder in voting_folders(["cifar10", "cifar10/bounded"], "out")][-2:] == [
        "columns-8",
        "bounded",
    ]
    evidence = [mc.load_evidence(HERE.parent / "results" / "cifar10" / "masking-small" / "masks-5-5.zarr", slice(1))]
    (defender,) = recorded_defenders(["cifar10/bounded"], evidence, device="cpu")
    assert str(defender.strategy) == "masks:5/5"
    with pytest.raises(mc.EvidenceError, match=r"of 3 defenders and the evidence of 1; .* in cifar10/bounded$"):
        recorded_defenders(["cifar10"], evidence)


def test_an_own_folder_of_that_name_is_not_taken_for_the_bundled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cifar10").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mc.ModelError, match="there is no folder 'cifar10/bounded'"):
        mc.Ensemble.load("cifar10/bounded")


def test_predict_works_at_once(tmp_path: Path, ensemble: mc.Ensemble) -> None:
    Image.fromarray(synthetic_images()[0]).resize((48, 64)).save(tmp_path / "photo.png")
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "photo.png"), "--json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)
    assert found["label"] in ensemble.class_names
    assert set(found["certified"]) == {"5x5"}


def test_it_is_small_enough_to_come_along() -> None:
    folder = Path(mc.__file__).parent / "bundled" / "cifar10"
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 30e6


def test_info_looks_at_the_weights_of_every_member(tmp_path: Path) -> None:
    shutil.copytree(Path(mc.__file__).parent / "bundled" / "cifar10", tmp_path / "ensemble")
    assert CliRunner().invoke(app, ["info", str(tmp_path / "ensemble")]).exit_code == 0
    weights = tmp_path / "ensemble" / "columns-6" / "weights.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    done = CliRunner().invoke(app, ["info", str(tmp_path / "ensemble")])
    assert done.exit_code == 1
    assert "weights are not the ones that defender.json is about" in done.output
