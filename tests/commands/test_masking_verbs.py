"""A masking defender through every verb, alone and beside one that votes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calls import done
from PIL import Image

import majorcert as mc
from majorcert.files.evidence import load_evidence

torch.set_num_threads(1)
KIND = ("--width", "8", "--batch-size", "16", "--device", "cpu", "--epochs", "6")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures that are bright at the top or at the bottom."""
    chance, labels = np.random.default_rng(0), np.arange(160) % 2
    images = chance.integers(0, 120, (160, 8, 8), dtype=np.uint8)
    for label, rows in ((0, slice(0, 4)), (1, slice(4, 8))):
        images[labels == label, rows] += 100
    path = tmp_path_factory.mktemp("data") / "halves.npz"
    kept: dict[str, Any] = {"images": images[:120], "labels": labels[:120], "class_names": ["top", "bottom"]}
    kept |= {"test_images": images[120:], "test_labels": labels[120:]}
    np.savez(path, **kept)
    return path


def test_a_masking_defender_goes_through_every_verb(data: Path, tmp_path: Path) -> None:
    masked, rows = tmp_path / "masked", tmp_path / "rows"
    done("train", data, "--strategy", "masks:2/2", *KIND, "-o", masked)
    done("train", data, "--strategy", "rows:2", *KIND, "-o", rows)
    done("vote", masked, rows, data, "-o", tmp_path, "--device", "cpu")
    stores = [tmp_path / "masked.zarr", tmp_path / "rows.zarr"]
    for evidence in ([stores[0]], stores):
        verdict = tmp_path / f"{len(evidence)}.jsonl"
        done("certify", *evidence, "--patch", "2", "-o", verdict)
        found = mc.Verdict.load(verdict)
        assert found.certified.sum() > 0
        networks = [store.with_suffix("") for store in evidence]
        weights = [argument for network in networks for argument in ("--weights", network)]
        said = done("verify", verdict, "--evidence", *evidence, *weights, "--images", data)
        assert "labels of masks:2/2" in said

    images = np.load(data)["test_images"][:4]
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    told = json.loads(done("predict", *paths, "--ensemble", masked, "--ensemble", rows, "--patch", "2", "--json"))
    together = mc.Ensemble([*mc.Ensemble.load(masked).defenders, *mc.Ensemble.load(rows).defenders])
    assert [row["label"] for row in told] == [("top", "bottom")[label] for label in together.predict(images)]
    assert [row["certified"]["2x2"] for row in told] == together.certify(images, mc.Patch(2)).certified.tolist()
    assert list(told[0]["defenders"]) == ["1:masks:2/2", "2:rows:2"]


def test_what_cannot_be_certified_is_left_off_when_asked(data: Path, tmp_path: Path) -> None:
    done("train", data, "--strategy", "masks:2/2", *KIND, "-o", tmp_path / "a")
    for name, more in (("whole", ()), ("part", ("--certify-only",))):
        done("vote", tmp_path / "a", data, "-o", tmp_path / name, "--device", "cpu", *more)
    whole, part = (load_evidence(tmp_path / name / "a.zarr") for name in ("whole", "part"))
    assert (part.provenance["certify_only"], "certify_only" in whole.provenance) == (True, False)
    ours, theirs = (mc.certify([each], mc.Patch(2)) for each in (part, whole))
    assert np.array_equal(ours.safe, theirs.safe)  # type: ignore[arg-type]
