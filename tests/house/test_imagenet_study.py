"""The ImageNet study from a made-up folder to its table, by a small stand-in network; nothing is downloaded."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import majorcert as mc
from majorcert.nets import imagenet
from majorcert.nets.models import ModelConfig, build

STUDY = Path(__file__).parents[2] / "studies" / "imagenet" / "study.py"


def study() -> Any:
    spec = importlib.util.spec_from_file_location("imagenet_study", STUDY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_from_a_folder_to_the_table_and_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    config = ModelConfig("small", 3, 1000, width=4)
    known = imagenet.Pretrained(build(config).eval(), config, 24, imagenet.class_names(), {})
    monkeypatch.setattr("majorcert.nets.protect.pretrained", lambda name: known)
    rng = np.random.default_rng(0)
    for label in (0, 7, 999):
        (tmp_path / "val" / str(label)).mkdir(parents=True)
        for k in range(2):
            pixels = rng.integers(0, 256, size=(30, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "val" / str(label) / f"{label}-{k}.png")
    given = ["study", str(tmp_path / "val"), "--each", "1", "--masks", "3", "--device", "cpu", "--patches", "3%", "1%"]
    given += ["--out", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    monkeypatch.setattr(sys, "argv", [*given, "--minutes", "0"])
    study().main()
    assert "the same command goes on" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
    monkeypatch.setattr(sys, "argv", given)
    study().main()
    rows = json.loads((tmp_path / "results" / "results.json").read_text())["rows"]
    assert {(row["method"], row["n"], row["n_split"]) for row in rows} == {("double-masking", 3, 50_000)}
    assert {row["patch"] for row in rows if row["defenders"] == ["masks:3/8"]} == {"2x2"}
    assert np.load(tmp_path / "results" / "truth.npy").tolist() == [0, 7, 999]
    stores = sorted((tmp_path / "results" / "imagenet").glob("*.zarr"))
    evidence = [mc.load_evidence(store) for store in stores]
    assert [each.provenance["masks"] for each in evidence] == ["masks:3/8", "masks:5/7"]
    assert all(each.provenance["class_names"][999] == "toilet tissue" for each in evidence)
