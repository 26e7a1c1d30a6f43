"""The comparison of set-ups runs, here with a tiny network, and finds the differences that are there."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from calls import script

import majorcert as mc
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.views import in_channels

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return script("benchmarks/bench_numerics.py")


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numerics")
    members = []
    for seed, spec in enumerate(("rows:2", "columns:2")):
        torch.manual_seed(seed)
        config = ModelConfig("small", in_channels("crop", 1), 4, width=8)
        network: Any = build(config)
        with torch.no_grad():
            centred = network[-1].weight - network[-1].weight.mean(dim=1, keepdim=True)
            network[-1].weight.copy_(40 * centred)  # opinions strong enough to vote
        about: dict[str, Any] = {"class_names": ["0", "1", "2", "3"], "config": config}
        members.append(Defender(network, spec, "crop", 0.3, image_size=(8, 8), channels=1, **about))
    Ensemble(members).save(folder / "ensemble")
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1)).astype(np.uint8)
    labels = np.arange(40) % 4
    np.savez(folder / "data.npz", images=images, labels=labels, test_images=images, test_labels=labels)
    return folder


def test_set_ups_are_compared_and_written_down(
    bench: ModuleType, ensemble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = (bench.SetUp(), bench.SetUp(tile=5), bench.SetUp(precision="bfloat16"))
    monkeypatch.setattr(bench, "CPU", ways)
    out = tmp_path / "numbers.json"
    words = [str(ensemble / "ensemble"), str(ensemble / "data.npz"), "--images", "30", "--out", str(out)]
    assert bench.main(words) == 0
    found = json.loads(out.read_text())
    tiles, reduced = found["rows"]
    assert (tiles["set_up"], reduced["set_up"]) == ("cpu float32, tiles of 5", "cpu bfloat16")
    assert tiles["reference"] == "cpu float32"
    assert tiles["n_ballots"] == 30 * 16
    assert tiles["largest_move"] < 1e-5 < reduced["largest_move"] < 0.1
    assert tiles["n_moved"] == {"0.001": 0, "0.01": 0}
    assert tiles["n_contradictions"] == reduced["n_contradictions"] == 0
    assert found["not measured"] == {}


def test_what_differs_is_counted(bench: ModuleType) -> None:
    """Three ballots: one at the threshold that changes, one far from it that changes, one that stays."""

    def voted(*first: float) -> Any:
        scores = np.array([[[score, 0.0, 0.0] for score in first]], dtype=np.float32)
        ballots = mc.Ballots.from_scores(scores, threshold=0.5, strategy="columns:1", image_size=(1, 3))
        return bench.Voted(scores, ballots, mc.Scores.of_votes(ballots).points.astype(bool))

    found = bench.compared(bench.SetUp(), [voted(0.5005, 0.9, 0.8)], bench.SetUp(tile=1), [voted(0.4998, 0.1, 0.8)])
    assert found.n_differ == 2
    assert found.n_solid_differ == {"0.001": 1, "0.01": 1}
    assert found.n_moved == {"0.001": 1, "0.01": 1}
    assert found.largest_move == pytest.approx(0.8)
    assert found.n_contradictions == 0


def test_what_cannot_be_compiled_is_said(bench: ModuleType, ensemble: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vote = bench.voted

    def no_compiler(folder: str, images: torch.Tensor, way: Any) -> Any:
        if way.compiled:
            raise RuntimeError("InvalidCxxCompiler: no working C++ compiler found")
        return vote(folder, images, way)

    monkeypatch.setattr(bench, "voted", no_compiler)
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    ways = (bench.SetUp(), bench.SetUp(compiled=True), bench.SetUp(tile=3))
    results, failed = bench.measure(str(ensemble / "ensemble"), images, ways)
    assert [each.set_up for each in results] == ["cpu float32, tiles of 3"]
    assert failed == {"cpu float32, compiled": "InvalidCxxCompiler: no working C++ compiler found"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_a_gpu_that_is_not_there_is_said(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["cifar10", "cifar10", "--cuda"])
    assert "this torch sees no CUDA device" in capsys.readouterr().err
