"""Folders of photos as they come: mixed sizes, kinds and parts; what is decided is said, what is left out counted."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from majorcert.errors import DataError
from majorcert.files.photo import Photos, Resizing
from majorcert.nets.data import load, load_to_train
from majorcert.nets.sources import room
from majorcert.nets.sources.photo import photo_files, read_photos


def photo(path: Path, size: tuple[int, int] = (12, 16), colour: int | None = 90) -> None:
    """A file of (height, width); grey if it has no colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("L", size[::-1], 60) if colour is None else Image.new("RGB", size[::-1], (colour, 200, 10))
    image.save(path)


def mixed(root: Path) -> None:
    """The newcomer's folder: the first file is a small grey one, the others are of many kinds and sizes."""
    photo(root / "cat" / "0-thumbnail.png", (3, 3), None)
    for k, ending in enumerate(("jpg", "webp", "ppm", "bmp", "tiff")):
        photo(root / "cat" / f"{k + 1}.{ending}", (20, 30))
        photo(root / "dog" / f"{k}.{ending}", (20 + k, 30 + 2 * k), 20 * k)


def test_the_median_decides_the_size_and_one_coloured_file_the_colour(tmp_path: Path) -> None:
    mixed(tmp_path)
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    (tmp_path / "dog" / "inner").mkdir()
    data = load(str(tmp_path), "trainval")
    assert data.images.shape == (11, 3, 20, 30)
    said, left_out = data.notes
    assert "11 images are brought to 20x30 (the median is 20x30), in colour, as 10 files are" in said
    assert "left out as no image files: 2" in left_out
    assert data.photo_sizes is not None
    assert data.photo_sizes[0].tolist() == [3, 3]
    assert data.photos == Photos(frozenset((20 + k, 30 + 2 * k) for k in range(5)) | {(3, 3)})
    grey = tmp_path / "cat" / "0-thumbnail.png"
    assert np.unique(data.images[0]).tolist() == [60]
    for path in sorted(tmp_path.glob("*/*.*")):
        if path != grey:
            path.unlink()
    photo(tmp_path / "dog" / "grey.png", (3, 3), None)
    assert load(str(tmp_path), "trainval").channels == 1


def test_large_photos_are_brought_down_to_224(tmp_path: Path) -> None:
    for k in range(3):
        photo(tmp_path / "ab"[k % 2] / f"{k}.jpg", (375, 500))
    data = load(str(tmp_path), "trainval")
    assert data.image_size == (168, 224)
    assert "3 images are brought to 168x224 (all are 375x500)" in data.notes[0]
    assert load(str(tmp_path), "trainval", image_size=(32, 32)).image_size == (32, 32)


@pytest.mark.parametrize("held_out", ["test", "val", "valid"])
def test_train_may_stand_beside_val_or_test(held_out: str, tmp_path: Path) -> None:
    for part, n in (("train", 5), (held_out, 2)):
        for k in range(n):
            for name in ("cat", "dog"):
                photo(tmp_path / part / name / f"{k}.png")
    assert [len(load(str(tmp_path), split)) for split in ("train", "val", "trainval", "test")] == [8, 2, 10, 4]
    notes = load(str(tmp_path), "test").notes
    assert any("is taken as the split 'test'" in note for note in notes) == (held_out != "test")


def test_train_val_and_test_are_read_each_from_its_own_folder(tmp_path: Path) -> None:
    for part, n in (("train", 5), ("val", 3), ("test", 2)):
        for k in range(n):
            for name in ("cat", "dog"):
                photo(tmp_path / part / name / f"{k}.png", (12 + n, 16))
    assert [len(load(str(tmp_path), split)) for split in ("train", "val", "trainval", "test")] == [10, 6, 16, 4]
    train, validation = load_to_train(str(tmp_path), "train")
    assert validation is not None
    assert (len(train), len(validation), validation.image_size) == (10, 6, (17, 16))
    (tmp_path / "test" / "cow").mkdir()
    with pytest.raises(DataError, match=r"must hold the same class folders; only one has \['cow'\]"):
        load(str(tmp_path), "test")


def test_a_folder_without_classes_is_voted_on_and_not_trained_on(tmp_path: Path) -> None:
    mixed(tmp_path / "made")
    for k, path in enumerate(sorted((tmp_path / "made").glob("*/*"))):
        path.rename(tmp_path / f"{k:02d}{path.suffix}")
    for name in ("cat", "dog"):
        (tmp_path / "made" / name).rmdir()
    (tmp_path / "made").rmdir()
    data = load(str(tmp_path), "test", image_size=(8, 8), channels=3, class_names=("cat", "dog"))
    assert data.labels is None
    assert (len(data), data.class_names) == (11, ("cat", "dog"))
    with pytest.raises(DataError, match="has images and no class folders"):
        load(str(tmp_path), "train")


def test_images_that_memory_cannot_hold_are_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed(tmp_path)
    (tmp_path / "cat" / "bad.png").write_text("no image")
    inside = load(str(tmp_path), "trainval", skip_bad=True)
    assert "11 images are brought to" in inside.notes[0]  # the bad one is not among them
    monkeypatch.setattr(room, "memory", lambda: 1000)
    seen: list[tuple[int, int]] = []
    outside = load(str(tmp_path), "trainval", skip_bad=True, progress=lambda done, total: seen.append((done, total)))
    assert isinstance(room.room_for((300, 3, 4, 4)), np.memmap)
    assert not isinstance(room.room_for((2, 3, 4, 4)), np.memmap)
    assert outside.sha256() == inside.sha256()
    assert seen[-1] == (12, 12)
    assert len(outside.skipped) == 1
    for here, there in zip(inside.parted(), outside.parted(), strict=True):
        assert here is not None
        assert there is not None
        assert torch.equal(here.images, there.images)
        assert here.photo_sizes is not None
        assert there.photo_sizes is not None
        assert torch.equal(here.photo_sizes, there.photo_sizes)
    with pytest.raises(DataError, match=r"9.* images of 4x4 take .* bytes, more than is free"):
        room.room_for((9 * 10**15, 3, 4, 4))


def test_photos_are_read_some_at_a_time_from_files_and_folders(tmp_path: Path) -> None:
    mixed(tmp_path)
    (tmp_path / "cat" / "bad.png").write_text("no image")
    (tmp_path / "cat" / "._1.jpg").write_text("what a Mac puts beside a photo")
    files = photo_files([tmp_path, tmp_path / "dog" / "1.webp"])
    assert len(files) == 13
    told: list[str] = []
    some = list(read_photos(files, (8, 8), 3, Resizing("pad"), skip_bad=True, told=told.append))
    assert len(some) == 2
    photos = [photo for each in some for photo in each]
    assert len(photos) == 12
    assert "bad.png" in told[0]
    assert photos[-1].size == (21, 32)
    with pytest.raises(DataError, match=r"bad.png: .*--skip-bad"):
        list(read_photos(files, (8, 8), 3))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no image in the folder"):
        photo_files([tmp_path / "empty"])
