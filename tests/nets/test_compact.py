"""Weights in fewer bits: how near they stay, what votes, and that damaged files are refused."""

import copy
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import majorcert as mc
from majorcert.nets.averaging import averaged
from majorcert.nets.compact import MOST, UNIT, compact, restored, state_of
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


class Odd(nn.Module):
    """Learned weights under their names, and what was not learned."""

    def __init__(self, learned: Mapping[str, Tensor], **beside: Tensor) -> None:
        super().__init__()
        for name, weight in learned.items():
            self.register_parameter(name, nn.Parameter(weight))
        for name, value in beside.items():
            self.register_buffer(name, value)


def test_whole_numbers_are_the_nearest_of_a_unit_for_each_output_channel() -> None:
    weights = torch.tensor([[1.0, -127.0, 0.4], [0.0, 0.0, 0.0], [0.5e-3, 1e-3, -0.1e-3], [0.0, 2.6e-43, 0.0]])
    kept = compact(Odd({"w": weights, "b": torch.tensor([0.3])}), 8)
    assert kept["w"].tolist() == [[1, -127, 0], [0, 0, 0], [64, 127, -13], [0, 0, 0]]
    assert kept["w" + UNIT].tolist() == pytest.approx([1.0, 1.0, 1e-3 / MOST, 1.0])
    assert (kept["b"].item(), sorted(kept)) == (pytest.approx(0.3), ["b", "w", "w.unit"])
    found = restored(kept)
    assert sorted(found) == ["b", "w"]
    assert ((found["w"] - weights).abs() <= 0.5001 * kept["w" + UNIT][:, None]).all()


def test_a_convolution_is_off_by_half_a_unit_of_its_channel_at_most() -> None:
    weights = torch.randn(6, 3, 3, 3) * torch.logspace(-6, 3, 6)[:, None, None, None]
    kept = compact(Odd({"c": weights}), 8)
    off = (restored(kept)["c"] - weights).abs().flatten(1).amax(dim=1)
    assert (off <= 0.5001 * weights.abs().flatten(1).amax(dim=1) / MOST).all()
    assert (off > 0).all()


def test_what_was_not_learned_and_what_is_empty_is_left_alone() -> None:
    beside = {"counts": torch.tensor([[3, -4]], dtype=torch.int8), "mask": torch.tensor([[0.1, -torch.inf]])}
    network = Odd({"none": torch.ones(3, 0)}, **beside)
    for bits in (32, 8):
        found = restored(compact(network, bits))
        assert all(torch.equal(found[name], value) for name, value in network.state_dict().items())
        assert found["counts"].dtype == torch.int8


def test_weights_that_are_not_finite_are_refused() -> None:
    with pytest.raises(mc.ModelError, match="'w' has weights that are not finite, which cannot be kept in 8 bits"):
        compact(Odd({"w": torch.tensor([[0.3, torch.nan, -0.2]])}), 8)


def test_numbers_that_are_too_large_for_half_floats_are_refused() -> None:
    beside = {"mask": torch.tensor([0.1, -torch.inf]), "spread": torch.tensor([0.3, 1e6])}
    with pytest.raises(mc.ModelError, match="'spread' has numbers that are too large to be kept in 16 bits"):
        compact(Odd({"w": torch.ones(1, 2)}, **beside), 16)
    assert compact(Odd({"w": torch.ones(1, 2)}, mask=beside["mask"]), 16)["mask"].tolist()[1] == -torch.inf


def test_parameters_that_are_whole_numbers_are_left_alone() -> None:
    network = Odd({})
    network.places = nn.Parameter(torch.tensor([[300, -7]]), requires_grad=False)
    assert torch.equal(restored(compact(network, 8))["places"], torch.tensor([[300, -7]]))


@pytest.mark.parametrize("bits", [32, 16, 8])
def test_weights_that_two_layers_share_are_kept_with_each(tmp_path: Path, bits: Any) -> None:
    network = nn.Sequential(nn.Conv2d(5, 5, 1), nn.Conv2d(5, 5, 1))
    network[1].weight = network[0].weight
    kept = compact(network, bits)
    safetensors.torch.save_file(kept, tmp_path / "w")  # refuses shared memory
    assert torch.equal(restored(kept)["0.weight"], restored(kept)["1.weight"])


def test_a_state_that_is_no_tensor_is_refused() -> None:
    class Strange(nn.Conv2d):
        def get_extra_state(self) -> dict[str, int]:
            return {"calls": 3}

    with pytest.raises(mc.ModelError, match="'_extra_state' in the state of the network is no tensor"):
        state_of(Strange(1, 1, 1))


def test_a_defender_is_of_the_network_as_it_was_given(defender: mc.Defender) -> None:
    network = copy.deepcopy(defender.model)
    assert isinstance(network, nn.Module)
    given = mc.Defender(network, "columns:3", image_size=(8, 8), config=CONFIG)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(-1)
    np.testing.assert_array_equal(given.to("cpu").scores(IMAGES), defender.scores(IMAGES))
    assert given.weights_sha256 == defender.weights_sha256


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
    loaded = mc.Ensemble.load(tmp_path / "all")
    assert loaded.pooled
    averaged([tmp_path / "all"], tmp_path / "again", bits=8)
    np.testing.assert_array_equal(mc.Ensemble.load(tmp_path / "again").predict(IMAGES), loaded.predict(IMAGES))
    assert mc.Ensemble.load(tmp_path / "again").pooled
    mc.Ensemble([defender]).save(tmp_path / "apart")
    with pytest.raises(mc.ModelError, match="one adds up the votes of its members, and the other does not"):
        averaged([tmp_path / "all", tmp_path / "apart"], tmp_path / "both")


def test_other_numbers_of_bits_are_refused_before_anything_is_written(defender: mc.Defender, tmp_path: Path) -> None:
    some: Any = 4
    with pytest.raises(mc.ModelError, match="weights are kept in 32, 16, 8 bits, got 4"):
        defender.save(tmp_path / "few", bits=some)
    assert not (tmp_path / "few").exists()


KERNEL = "1.body.0.weight"
UNITS = torch.ones(16)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"more.unit": torch.ones(1)}, "Unexpected key"),
        ({"x": torch.zeros(1, 30_000, dtype=torch.int8), "x.unit": torch.ones(30_000)}, "not one number above 0"),
        ({KERNEL + UNIT: UNITS[:3]}, "not one number above 0 for each output channel"),
        ({KERNEL + UNIT: UNITS[:1]}, "not one number above 0"),
        ({KERNEL + UNIT: torch.tensor(1.0)}, "not one number above 0"),
        ({KERNEL + UNIT: UNITS[:8].view(2, 4)}, "not one number above 0"),
        ({KERNEL + UNIT: UNITS[:8].int()}, "not one number above 0"),
        ({KERNEL + UNIT: UNITS[:8] * torch.nan}, "not one number above 0"),
        ({KERNEL + UNIT: -UNITS[:8]}, "not one number above 0"),
        ({KERNEL + UNIT: None}, "'1.body.0.weight' is of torch.int8, where the network has torch.float32"),
        ({KERNEL: None, KERNEL + UNIT: None}, "the network has 5,308 weights, and the file 4,950"),
        ({"1.body.1.num_batches_tracked": torch.tensor(0.5)}, "is of torch.float32, where the network has torch.int64"),
    ],
)
def test_files_that_say_otherwise_are_refused(
    defender: mc.Defender, tmp_path: Path, damage: dict[str, Any], message: str
) -> None:
    defender.save(tmp_path / "few", bits=8)
    path = tmp_path / "few" / "weights.safetensors"
    changed = {name: weight for name, weight in {**kept_in(path.parent), **damage}.items() if weight is not None}
    safetensors.torch.save_file(changed, path)
    about = json.loads((path.parent / "defender.json").read_text())
    about["weights_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (path.parent / "defender.json").write_text(json.dumps(about))
    with pytest.raises(mc.ModelError, match=f"do not fit the network.*{re.escape(message)}"):
        mc.Defender.load(tmp_path / "few")
