"""The ImageNet study from a made-up folder to its table, by a small stand-in network; nothing is downloaded."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calls import script
from PIL import Image

import majorcert as mc
from majorcert.nets import imagenet
from majorcert.nets.models import ModelConfig, build


def study() -> Any:
    return script("studies/imagenet/study.py")


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
    given = ["study", str(tmp_path / "val"), "--limit", "5", "--masks", "3", "--device", "cpu"]
    given += ["--out", str(tmp_path / "results"), "--work", str(tmp_path / "work"), "--patches", "3%", "1%"]

    def run(*more: str) -> str:
        monkeypatch.setattr(sys, "argv", [*given, *more])
        here = study()
        monkeypatch.setattr(here, "BLOCK", 2)
        here.main()
        return capsys.readouterr().out

    assert "the same command goes on" in run("--minutes", "0")
    assert not (tmp_path / "results").exists()
    told = run()
    assert told.count("block") == 6
    assert told.count("votes of 5 of 5 images") == 2
    rows = json.loads((tmp_path / "results" / "results.json").read_text())["rows"]
    assert {(row["method"], row["n"], row["n_split"]) for row in rows} == {("double-masking", 5, 50_000)}
    assert {row["patch"] for row in rows if row["defenders"] == ["masks:3/8"]} == {"2x2"}
    truth = np.load(tmp_path / "results" / "truth.npy").tolist()
    assert sorted(truth[:3]) == [0, 7, 999], "one of each class comes first"
    stores = sorted((tmp_path / "results" / "imagenet-3x3").glob("*.zarr"))
    evidence = [mc.load_evidence(store) for store in stores]
    assert [each.provenance["masks"] for each in evidence] == ["masks:3/8", "masks:5/7"]
    assert all(each.provenance["class_names"][999] == "toilet tissue" for each in evidence)

    # The same labels, of the same images, as all of them at once.
    here = study()
    images = here.read(here.drawn(tmp_path / "val", 5), 24)
    assert images.labels.tolist() == truth
    whole = mc.protect("imagenet", "3%", masks=3).pairs(images.images, promise="recovery")
    assert np.array_equal(evidence[1].labels, whole.labels)
    assert evidence[1].provenance["images_sha256"] == whole.provenance["images_sha256"]

    # Another network has votes of its own, and the recipe says whose they are.
    torch.manual_seed(1)
    larger = imagenet.Pretrained(build(config).eval(), config, 28, imagenet.class_names(), {})
    with monkeypatch.context() as other:
        other.setattr("majorcert.nets.protect.pretrained", lambda name: larger)
        assert run("--model", "imagenet:lite1", "--out", str(tmp_path / "larger")).count("block") == 6
    recipes = json.loads((tmp_path / "larger" / "recipes.json").read_text())
    assert "--model imagenet:lite1 " in recipes["imagenet-lite1-3x3"]["command"]

    # With a patch whose last block is missing, all are cut to what is there.
    shutil.rmtree(tmp_path / "work" / "imagenet-3x3" / "1%" / "02.zarr")
    shutil.rmtree(tmp_path / "results")
    assert "1%: votes of 4 of 5 images" in run("--minutes", "0")
    assert {len(mc.load_evidence(store)) for store in stores} == {4}
    # Blocks that were made in another way are not joined with these.
    shutil.rmtree(tmp_path / "work" / "imagenet-3x3" / "1%" / "02.zarr")
    with pytest.raises(SystemExit, match="precision"):
        run("--precision", "bfloat16")
    # Nor are votes of other images.
    shutil.rmtree(tmp_path / "work" / "imagenet-3x3" / "1%" / "02.zarr")
    Image.new("RGB", (40, 30)).save(here.drawn(tmp_path / "val", 5)[0][0])
    with pytest.raises(SystemExit, match="other images"):
        run("--minutes", "0")
