"""Weights in fewer bits: how near they stay, what votes, and that damaged files are refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import majorcert as mc
from majorcert.nets.averaging import averaged
from majorcert.nets.compact import MOST, UNIT, compact, restored
from majorcert.nets.models import ModelConfig, build

CONFIG = ModelConfig("resnet", 5, 4, width=8, blocks=(1, 1), strides=(1, 2))
IMAGES = np.random.default_rng(5).integers(0, 256, size=(6, 8, 8, 3), dtype=np.uint8)


@pytest.fixture
def defender() -> mc.Defender:
    torch.manual_seed(7)
    network = build(CONFIG)
    network.train()
    network(torch.rand(64, 5, 8, 3))  # so that the statistics of its normalisations are its own
    return mc.Defender(network, "columns:3", image_size=(8, 8), config=CONFIG)


def kept_in(folder: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(folder / "weights.safetensors")


@pytest.mark.parametrize(("bits", "share", "near"), [(32, 1.0, 0.0), (16, 0.6, 1e-3), (8, 0.5, 0.02)])
def test_what_is_kept_is_loaded_near_to_what_was_learned(
    defender: mc.Defender, tmp_path: Path, bits: Any, share: float, near: float
) -> None:
    defender.save(tmp_path / "whole")
    defender.save(tmp_path / "few", bits=bits)
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("whole", "few")]
    assert sizes[1] <= share * sizes[0]
    again = mc.Defender.load(tmp_path / "few")
    assert isinstance(again.model, nn.Module)
    assert {tensor.dtype for tensor in again.model.state_dict().values()} == {torch.float32, torch.int64}
    scores = again.scores(IMAGES), defender.scores(IMAGES)
    np.testing.assert_allclose(*scores, atol=near)
    assert np.array_equal(*scores) == (bits == 32)


def test_whole_numbers_are_the_nearest_of_a_unit_for_each_output_channel() -> None:
    weights = torch.tensor([[1.0, -127.0, 0.4], [0.0, 0.0, 0.0], [0.5e-3, 1e-3, -0.1e-3]])
    kept = compact({"w": weights, "b": torch.tensor([0.3]), "n": torch.tensor([[4]])}, 8)
    assert kept["w"].tolist() == [[1, -127, 0], [0, 0, 0], [64, 127, -13]]
    assert kept["w" + UNIT].tolist() == pytest.approx([1.0, 1.0, 1e-3 / MOST])
    assert (kept["b"].item(), kept["n"].tolist(), sorted(kept)) == (
        pytest.approx(0.3),
        [[4]],
        ["b", "n", "w", "w.unit"],
    )
    found = restored(kept)
    assert sorted(found) == ["b", "n", "w"]
    assert ((found["w"] - weights).abs() <= 0.5001 * kept["w" + UNIT][:, None]).all()


def test_a_convolution_is_off_by_half_a_unit_of_its_channel_at_most() -> None:
    weights = torch.randn(6, 3, 3, 3) * torch.logspace(-6, 3, 6)[:, None, None, None]
    kept = compact({"c": weights}, 8)
    off = (restored(kept)["c"] - weights).abs().flatten(1).amax(dim=1)
    assert (off <= 0.5001 * weights.abs().flatten(1).amax(dim=1) / MOST).all()
    assert (off > 0).all()


def test_small_whole_numbers_of_a_network_of_its_own_are_left_alone() -> None:
    own = {"table": torch.tensor([3, -4], dtype=torch.int8), "other": torch.ones(2)}
    for bits in (32, 8):
        found = restored(compact(own, bits))
        assert found["table"].dtype == torch.int8
        assert found["table"].tolist() == [3, -4]


def test_what_is_kept_votes_everywhere_alike(defender: mc.Defender, tmp_path: Path) -> None:
    """Kept again, a second time around, it is the same network: evidence of it can be voted anew by whoever has it."""
    defender.save(tmp_path / "few", bits=8)
    loaded = mc.Defender.load(tmp_path / "few")
    loaded.save(tmp_path / "again", bits=8)
    np.testing.assert_array_equal(
        mc.Defender.load(tmp_path / "again").ballots(IMAGES).labels, loaded.ballots(IMAGES).labels
    )
    digest = hashlib.sha256((tmp_path / "few" / "weights.safetensors").read_bytes()).hexdigest()
    assert loaded.evidence(IMAGES).provenance["weights_sha256"] == loaded.weights_sha256 == digest
    assert loaded.weights_sha256 != defender.weights_sha256


def test_runs_are_kept_in_fewer_bits_by_average(defender: mc.Defender, tmp_path: Path) -> None:
    defender.save(tmp_path / "run")
    (alone,) = averaged([tmp_path / "run"], tmp_path / "few", bits=8)
    (both,) = averaged([tmp_path / "run"], tmp_path / "mirrored", mirrored=True, bits=8)
    assert alone.model == CONFIG
    assert torch.int8 in {tensor.dtype for tensor in kept_in(tmp_path / "few").values()}
    assert (both.model.name, both.training["members"][0]["weights_sha256"]) == ("mirror:crop", defender.weights_sha256)
    assert mc.Defender.load(tmp_path / "mirrored").weights_sha256 == both.weights_sha256


def test_an_ensemble_is_kept_in_fewer_bits(defender: mc.Defender, tmp_path: Path) -> None:
    mc.Ensemble([defender], pooled=True).save(tmp_path / "all", bits=8)
    assert torch.int8 in {tensor.dtype for tensor in kept_in(tmp_path / "all" / "columns-3").values()}
    assert mc.Ensemble.load(tmp_path / "all").predict(IMAGES).shape == (6,)


def test_other_numbers_of_bits_are_refused_before_anything_is_written(defender: mc.Defender, tmp_path: Path) -> None:
    some: Any = 4
    with pytest.raises(mc.ModelError, match="weights are kept in 32, 16, 8 bits, got 4"):
        defender.save(tmp_path / "few", bits=some)
    assert not (tmp_path / "few").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: {**kept, "more.unit": torch.ones(1)},
        lambda kept: {**kept, "1.body.0.weight.unit": torch.ones(3)},
        lambda kept: {**kept, "1.body.0.weight.unit": torch.ones(2, 2)},
        lambda kept: {name: weight for name, weight in kept.items() if name != "1.body.0.weight"},
    ],
)
def test_units_that_do_not_fit_are_refused(defender: mc.Defender, tmp_path: Path, damage: Any) -> None:
    defender.save(tmp_path / "few", bits=8)
    path = tmp_path / "few" / "weights.safetensors"
    safetensors.torch.save_file(damage(kept_in(tmp_path / "few")), path)
    about = json.loads((path.parent / "defender.json").read_text())
    about["weights_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (path.parent / "defender.json").write_text(json.dumps(about))
    with pytest.raises(mc.ModelError, match="do not fit the network"):
        mc.Defender.load(tmp_path / "few")
