"""The benchmark of the networks runs, here at a size that says nothing about speed."""

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from calls import script

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return script("benchmarks/bench_nets.py")


def test_what_a_gpu_runs_also_runs_on_a_cpu(bench: ModuleType, tmp_path: Path) -> None:
    found = bench.on_device("cpu", 2, 2, str(tmp_path))
    assert found.pop("bitwise equal scores") == {"alone": True, "in another order": True}
    assert found.pop("device") == "cpu"
    assert {name.split(",")[0] for name in found} == {
        "voting blocks:12 crop",
        "voting columns:4 crop",
        "training blocks:12 crop",
        "training columns:4 crop",
    }
    assert len(found) == 2 + 4


@pytest.mark.slow
def test_the_comparison_runs_and_is_written_down(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "CASES", (("columns:4", 1, 8), ("blocks:12", 2, 16)))
    bench.main(["--width", "2", "--repeats", "1", "--threads", "1", "--out", str(tmp_path / "new" / "found.json")])
    found = json.loads((tmp_path / "new" / "found.json").read_text())
    assert {"columns:4, 1 images", "blocks:12, 2 images", "ten patch sizes, 64 images, ms"} <= set(found)
    seen = [len(batch) for batch in bench.prebuilt(bench.voter("blocks:12/16", "crop", 2), bench.pictures(2))]
    assert sum(seen) == 2 * 4
