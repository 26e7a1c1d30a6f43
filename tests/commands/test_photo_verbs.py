"""From a folder of mixed photos to certificates in photo pixels: whatever takes a patch takes one on the photo."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

import majorcert as mc
from majorcert.commands.app import app
from majorcert.files.evidence import load_evidence
from majorcert.files.photo import Resizing, patch_from_photo
from majorcert.files.photo_sizes import find_files, find_photos
from majorcert.nets.data import load
from majorcert.nets.recorded import recorded_images
from majorcert.nets.validation import tried

QUICK = ("--recipe", "digits", "--width", "4", "--epochs", "2", "--batch-size", "8", "--device", "cpu")
SIZES = ((40, 60), (48, 48), (30, 80))

NARROW: dict[str, Any] = {"image_size": (10, 12), "channels": 3, "resizing": Resizing("pad")}
SAME = ("--patch", "2", "--patch", "2x2", "--patch", "2%", "--patch", " 2%", "--device", "cpu")
"""Two patches, each written in two ways."""


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def done(*arguments: Any) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, rng = tmp_path_factory.mktemp("made") / "photos", np.random.default_rng(0)
    for part, n in (("train", 10), ("val", 3)):
        for label, name in enumerate(("cat", "dog")):
            (root / part / name).mkdir(parents=True)
            for k in range(n):
                pixels = (rng.integers(0, 60, (*SIZES[k % 3], 3)) + 180 * label).astype(np.uint8)
                Image.fromarray(pixels).save(root / part / name / f"{k}.{('webp', 'ppm', 'jpg')[k % 3]}")
    (root / "train" / "cat" / "Thumbs.db").write_bytes(b"no image")
    return root


@pytest.fixture(scope="module")
def trained(photos: Path) -> tuple[Path, Result]:
    runs = photos.parent / "runs"
    strategies = ("--strategy", "rows:3", "--strategy", "columns:3")
    return runs, done("train", photos, "-o", runs, "--size", "10x12", "--fit", "pad", *strategies, *QUICK)


@pytest.fixture(scope="module")
def stores(trained: tuple[Path, Result], photos: Path) -> list[Path]:
    runs, _ = trained
    said = done("vote", runs, photos, "--device", "cpu").stderr
    assert "val is taken as the split 'test'" in said
    widest = max(patch_from_photo("2%", size, (10, 12), Resizing("pad")).height for size in SIZES)
    assert f"2% of each photo: at most {widest}x" in said
    assert f"Against {widest}x" in said  # as `advise --patch 2%` would have it
    assert "choose by the split 'val', not by test images" in said
    return sorted(runs.glob("*/photos-test.zarr"))


def test_training_says_what_it_does_without_a_terminal(trained: tuple[Path, Result]) -> None:
    _, result = trained
    lines = result.stderr.splitlines()
    assert "20 images are brought to 10x12" in lines[0]
    assert "left out as no image files: 1 (1 .db)" in lines[1]
    assert "this takes about" in lines[3]
    epochs = [line for line in lines if "epoch 2 of 2, loss" in line]
    assert len(epochs) == 2
    assert "clean" in epochs[1]
    widest = max(patch_from_photo("2%", size, (10, 12), Resizing("pad")).height for size in SIZES)
    assert f"({widest}x{widest}, 2% of each photo)" in epochs[1]
    assert "without a vote" in epochs[1]
    chosen = json.loads((trained[0] / "rows-3" / "defender.json").read_text())["threshold"]
    assert f"rows-3; a score of {chosen:g} or more is a vote" in lines[-3]
    assert f"Against {widest}x{widest} patches" in lines[-1]
    assert "`majorcert advise` tells more" in lines[-1]


def test_training_gives_advice_only_where_enough_images_can_be_looked_at(
    trained: tuple[Path, Result], photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, validation = [trained[0] / name for name in ("rows-3", "columns-3")], load(str(photos), "val", **NARROW)
    found = tried(runs, validation, "cpu")
    assert found is not None
    assert len(found[2]) == len(validation) == 4
    monkeypatch.setattr("majorcert.nets.validation.N_VIEWS", 3 * 12)  # of three images
    assert tried(runs, validation, "cpu") is None
    assert tried(runs, None, "cpu") is None


@pytest.mark.parametrize(
    "words",
    [
        ("train", "photos", "-o", "photos/runs"),
        ("vote", "runs", "photos", "-o", "photos"),
        ("attack", "runs", "photos", "--patch", "1", "-o", "photos/train"),
    ],
)
def test_nothing_is_written_among_the_photos(
    words: tuple[str, ...], trained: tuple[Path, Result], photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos.parent)
    before = sorted(photos.rglob("*"))
    refused = run(*words)
    assert refused.exit_code == 2
    assert "is in the folder of the images, photos" in refused.stderr
    assert sorted(photos.rglob("*")) == before


def test_a_folder_of_runs_is_not_taken_for_evidence(stores: list[Path], trained: tuple[Path, Result]) -> None:
    assert f"give the stores in it, {trained[0]}/*/*.zarr" in run("certify", trained[0], "--patch", "2").stderr


def test_no_run_among_the_photos_is_voted_with(trained: tuple[Path, Result], photos: Path) -> None:
    """Also not the second one: its store would be in its own folder."""
    with pytest.raises(mc.ModelError, match=r"inside is in the folder of the images"):
        mc.vote([trained[0] / "rows-3", photos / "inside"], str(photos), device="cpu")


def test_predicting_says_whose_classes_they_are(photos: Path) -> None:
    said = done("predict", photos / "val" / "cat" / "0.webp", "--device", "cpu").stderr
    assert "the ten classes of CIFAR-10" in said


def test_a_share_of_the_photos_is_the_largest_that_any_needs(stores: list[Path], tmp_path: Path) -> None:
    asked = ("--patch", "2%", "--patch", "3x4px", "--patch", "2")
    result = done("certify", *stores, *asked, "--json", "-o", tmp_path / "verdicts")
    padded = Resizing("pad")
    for line, given in zip(json.loads(result.stdout), ("2%", "3x4px"), strict=False):
        each = [patch_from_photo(given, size, (10, 12), padded) for size in SIZES]
        assert line["patch"] == f"{max(p.height for p in each)}x{max(p.width for p in each)}"
    assert json.loads(result.stdout)[2]["patch"] == "2x2"
    assert "2% of each photo: at most" in result.stderr
    assert "2x2 covers" in result.stderr
    assert "pixels, or more, of every decoded photo" in result.stderr
    whole = json.loads(done("certify", *stores, "--patch", "99px", "--json").stdout)
    assert (whole[0]["patch"], whole[0]["n_certified"]) == ("10x12", 0)


def test_the_page_speaks_of_the_photos_and_shows_the_same_images(
    stores: list[Path], photos: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    done("report", *stores, "--images", photos, "--patch", "3x4px", "-o", page)
    assert "On the photo:" in page.read_text(encoding="utf-8")
    assert "image 4 is val/dog/1.ppm" in done("explain", stores[0], "--image", "4", "--patch", "2%").stderr
    done("explain", stores[0], "--images", photos, "--image", "0", "--patch", "2%")
    evidence = load_evidence(stores[0])
    again = recorded_images(str(photos), evidence)
    assert again.sha256() == evidence.provenance["images_sha256"]
    assert again.resizing == Resizing("pad")


def test_photo_sizes_of_other_images_are_refused(stores: list[Path]) -> None:
    path = stores[1].with_name("photos-test.photos.json")
    kept, evidence = path.read_text(), load_evidence(stores[1])
    try:
        for wrong, message in (
            (json.dumps({**json.loads(kept), "images_sha256": "0" * 64}), "other images"),
            (json.dumps({**json.loads(kept), "sizes": [[4, 4]]}), "cannot be read as the sizes"),
            (json.dumps({**json.loads(kept), "sizes": [[0, 4]] * 6}), "cannot be read as the sizes"),
            ("rubbish", "cannot be read as the sizes"),
        ):
            path.write_text(wrong)
            assert message in run("certify", stores[1], "--patch", "2%").stderr
        path.unlink()
        assert find_photos(stores[1], evidence) is None
        assert "3x4px is in pixels of a photo" in run("certify", stores[1], "--patch", "3x4px").stderr
        assert "2% of the 10x12 pixels that the networks see: 2x2" in done("certify", stores[1], "--patch", "2%").stderr
    finally:
        path.write_text(kept)


def test_photos_of_a_subset_are_found_by_their_numbers(
    trained: tuple[Path, Result], photos: Path, tmp_path: Path
) -> None:
    """In whatever order they were voted on, and where part of the evidence is looked at."""
    whole = load(str(photos), "test", **NARROW)
    assert whole.photo_sizes is not None
    (store,) = mc.vote(trained[0] / "rows-3", whole.subset(torch.tensor([5, 1, 4])), out=tmp_path, device="cpu")
    evidence = load_evidence(store)
    assert evidence.images.tolist() == [5, 1, 4]
    assert find_files(store, evidence) == {image: (whole.files or ())[image] for image in (5, 1, 4)}
    for row, image in enumerate([5, 1, 4]):
        found = find_photos(store, evidence[np.array([row])])
        assert found is not None
        assert found.sizes == {tuple(whole.photo_sizes[image].tolist())}
    path = tmp_path / "photos-test.photos.json"
    kept = json.loads(path.read_text())
    assert kept["sizes"][:2] == [None, whole.photo_sizes[1].tolist()]
    path.write_text(json.dumps({**kept, "sizes": [None] * 6}))
    assert "3 of the 3 photos have no size there" in run("certify", store, "--patch", "2%").stderr


def test_a_flat_folder_is_voted_on_and_predicted(trained: tuple[Path, Result], photos: Path, tmp_path: Path) -> None:
    runs, flat = trained[0], tmp_path / "flat"
    flat.mkdir()
    for path in photos.glob("val/*/*"):
        (flat / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
    Image.new("RGB", (3, 3)).save(flat / "tiny.png")
    done("vote", runs, flat, "--device", "cpu", "-o", tmp_path / "votes")
    stores = sorted((tmp_path / "votes").glob("*.zarr"))
    evidence = [load_evidence(store) for store in stores]
    assert len(evidence[0]) == 7
    assert "because of tiny.png of 3x3 pixels" in done("certify", *stores, "--patch", "2%").stderr
    (flat / "tiny.png").unlink()
    assert not list((tmp_path / "votes").glob("*.truth.json"))
    asked = ("--ensemble", runs, "--patch", "2%", "--patch", "3x4px", "--device", "cpu")
    (flat / "broken.webp").write_bytes(b"RIFF0000WEBP")
    assert "broken.webp" in run("predict", flat, *asked).stderr
    rows = json.loads(done("predict", flat, *asked, "--skip-bad", "--json").stdout)
    assert len(rows) == 6
    for row in rows:
        size = tuple(row["photo_size"])
        assert row["network_pixels"]["3x4px"] == str(patch_from_photo("3x4px", size, (10, 12), Resizing("pad")))
    assert all(row["without_a_vote"] == [] for row in rows)
    one = done("predict", flat / "cat-0.webp", *asked)
    assert "pixels of this photo of 40x60" in one.stderr or "this photo of 40x60 pixels" in one.stderr
    assert "certified 2%" in one.stdout
    (twice,) = json.loads(done("predict", flat / "cat-0.webp", *asked[:2], *SAME, "--json").stdout)
    assert list(twice["certified"]) == ["2x2", "2%"]


def test_predict_tells_of_photos_without_a_vote(trained: tuple[Path, Result], photos: Path, tmp_path: Path) -> None:
    shutil.copytree(trained[0], tmp_path / "runs")
    card = tmp_path / "runs" / "rows-3" / "defender.json"
    card.write_text(json.dumps({**json.loads(card.read_text()), "threshold": 1.0}))
    found = done("predict", photos / "val" / "dog", "--ensemble", tmp_path / "runs", "--patch", "1", "--json")
    assert all(row["without_a_vote"] == ["rows:3"] for row in json.loads(found.stdout))
    assert "rows:3: none of its views votes on 3 of 3 images" in found.stderr
