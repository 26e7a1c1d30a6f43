"""Data sets are read exactly, split deterministically, and refused with a clear sentence when they cannot be used."""

import hashlib
import io
import os
import tarfile
import urllib.error
from pathlib import Path

import numpy as np
import pytest
import torch
from artifacts import python_batch
from PIL import Image

from majorcert.errors import DataError
from majorcert.nets.data import Dataset, load
from majorcert.nets.sources import cifar10
from majorcert.nets.sources.decode import read_image
from majorcert.nets.sources.order import shuffled

N = 20
"""Images in a shortened CIFAR-10 file; the layout is the real one."""


@pytest.fixture
def short_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "N_IMAGES", N)


def cifar_records(seed: int) -> np.ndarray:
    records = np.random.default_rng(seed).integers(0, 256, (N, 3073), dtype=np.uint8)
    records[:, 0] %= 10
    return records


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True)
    for seed, name in enumerate((*cifar10.TRAINING_FILES, "test_batch")):
        (folder / f"{name}.bin").write_bytes(cifar_records(seed).tobytes())


def test_digits_are_split_once_and_for_all() -> None:
    train, val, trainval, test = (load("digits", split) for split in ("train", "val", "trainval", "test"))
    assert (len(train), len(val), len(trainval), len(test)) == (1150, 287, 1437, 360)
    assert trainval.images.shape[1:] == (1, 8, 8)
    assert trainval.class_names == tuple("0123456789")
    assert trainval.labels is not None
    assert test.labels is not None
    assert test.labels[:8].tolist() == [7, 0, 9, 2, 9, 6, 9, 8]
    assert test.labels.bincount().min() > 25
    assert trainval.images.unique().tolist() == [round(value * 255 / 16) for value in range(17)]


def test_the_shuffle_never_changes() -> None:
    assert shuffled(8, seed=0).tolist() == [7, 4, 3, 2, 6, 0, 5, 1]
    assert sorted(shuffled(100, seed=1).tolist()) == list(range(100))


def test_validation_is_a_fifth_chosen_by_the_seed() -> None:
    first, again, other = (load("digits", "val", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)
    rows = [tuple(image.flatten().tolist()) for split in ("train", "val") for image in load("digits", split).images]
    assert sorted(rows) == sorted(tuple(image.flatten().tolist()) for image in load("digits", "trainval").images)


@pytest.mark.usefixtures("short_files")
def test_cifar10_is_read_from_both_folders(tmp_path: Path) -> None:
    write_binary(tmp_path / "binary" / "cifar-10-batches-bin")
    python = tmp_path / "python" / "cifar-10-batches-py"
    python.mkdir(parents=True)
    for seed, name in enumerate((*cifar10.TRAINING_FILES, "test_batch")):
        (python / name).write_bytes(python_batch(cifar_records(seed)))
    for split, seeds in (("trainval", range(5)), ("test", [5])):
        expected = np.concatenate([cifar_records(seed) for seed in seeds])
        for kind in ("binary", "python"):
            dataset = load("cifar10", split, tmp_path / kind)
            assert dataset.labels is not None
            assert dataset.labels.tolist() == expected[:, 0].tolist()
            assert np.array_equal(dataset.images.numpy(), expected[:, 1:].reshape(-1, 3, 32, 32))
            assert dataset.class_names[3] == "cat"


@pytest.mark.usefixtures("short_files")
def test_a_python_batch_is_never_executed(tmp_path: Path) -> None:
    python = tmp_path / "cifar-10-batches-py"
    python.mkdir()
    (python / "test_batch").write_bytes(b"cos\nmkdir\n(S'" + bytes(tmp_path / "broken") + b"'\ntR.")
    with pytest.raises(DataError, match="test_batch is no CIFAR-10 batch: expected 20 images"):
        load("cifar10", "test", tmp_path)
    assert not (tmp_path / "broken").exists()
    (python / "test_batch").write_bytes(b"\x80\x02}q\x01(U\xff")
    with pytest.raises(DataError, match=r"cannot read .*test_batch as a CIFAR-10 batch"):
        load("cifar10", "test", tmp_path)


@pytest.mark.usefixtures("short_files")
def test_damaged_or_missing_cifar10_files_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    write_binary(folder)
    (folder / "data_batch_3.bin").write_bytes(b"cut short")
    with pytest.raises(DataError, match=r"data_batch_3.bin has 9 bytes, expected 61460"):
        load("cifar10", "train", tmp_path)
    (folder / "test_batch.bin").unlink()
    with pytest.raises(DataError, match=r"cannot read .*test_batch.bin \(No such file"):
        load("cifar10", "test", tmp_path)


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    class Response(io.BytesIO):
        headers = {"Content-Length": str(len(content))}  # noqa: RUF012 (as urllib has it)

    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: Response(content))


@pytest.mark.usefixtures("short_files")
def test_cifar10_is_downloaded_checked_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_binary(tmp_path / "there" / "cifar-10-batches-bin")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(tmp_path / "there" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    serve(monkeypatch, packed.getvalue())
    with pytest.raises(DataError, match="not the CIFAR-10 archive"):
        load("cifar10", "test", tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []
    monkeypatch.setattr(cifar10, "ARCHIVE_SHA256", hashlib.sha256(packed.getvalue()).hexdigest())
    seen: list[tuple[int, int]] = []
    dataset = load("cifar10", "test", tmp_path / "here", progress=lambda done, total: seen.append((done, total)))
    assert dataset.sha256() == load("cifar10", "test", tmp_path / "there").sha256()
    assert seen[-1] == (len(packed.getvalue()), len(packed.getvalue()))
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["cifar-10-batches-bin"]


def test_an_absent_cifar10_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(url: str, timeout: float) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    why = r"it could not be downloaded \(no route to host\); fetch https://\S+binary.tar.gz and unpack it there"
    with pytest.raises(DataError, match=rf"CIFAR-10 is not in {tmp_path} and {why}"):
        load("cifar10", "train", tmp_path)


def write_images(root: Path, *, n: int = 3, size: tuple[int, int] = (6, 4)) -> None:
    for label, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for k in range(n):
            Image.new("RGB", size, (10 * k, 100 * label, 7)).save(root / name / f"{k}.png")


def test_an_image_folder_is_read_in_order(tmp_path: Path) -> None:
    write_images(tmp_path)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / ".cache").mkdir()
    dataset = load(str(tmp_path), "trainval")
    assert dataset.class_names == ("cat", "dog")
    assert dataset.images.shape == (6, 3, 4, 6)
    assert dataset.labels is not None
    assert dataset.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.images[:, :, 0, 0].tolist() == [[10 * k, 100 * label, 7] for label in (0, 1) for k in range(3)]
    assert load(str(tmp_path), "trainval", image_size=(8, 5), channels=1).images.shape == (6, 1, 8, 5)
    with pytest.raises(DataError, match="has no test part; use the split 'val'"):
        load(str(tmp_path), "test")


def test_an_image_folder_may_hold_train_and_test(tmp_path: Path) -> None:
    write_images(tmp_path / "train", n=5)
    write_images(tmp_path / "test", n=2)
    assert [len(load(str(tmp_path), split)) for split in ("train", "val", "trainval", "test")] == [8, 2, 10, 4]
    (tmp_path / "test" / "cow").mkdir()
    with pytest.raises(DataError, match="must hold the same class folders"):
        load(str(tmp_path), "test")


def test_corrupt_images_are_named_and_skipped_only_when_allowed(tmp_path: Path) -> None:
    write_images(tmp_path)
    whole = (tmp_path / "cat" / "0.png").read_bytes()
    (tmp_path / "cat" / "0.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "dog" / "2.png").write_text("not an image")
    with pytest.raises(DataError, match=r"cat/0.png: .*2 of 6 files cannot be read: .*--skip-bad"):
        load(str(tmp_path), "trainval")
    dataset = load(str(tmp_path), "trainval", skip_bad=True)
    assert len(dataset) == 4
    assert dataset.labels is not None
    assert dataset.labels.tolist() == [0, 0, 1, 1]
    assert [("cat/0.png" in error, "dog/2.png" in error) for error in dataset.skipped] == [(True, False), (False, True)]


def test_folders_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no readable image"):
        load(str(tmp_path), "train")
    write_images(tmp_path / "root")
    for path in (tmp_path / "root" / "dog").iterdir():
        path.unlink()
    (tmp_path / "root" / "dog").rmdir()
    with pytest.raises(DataError, match=r"at least two classes, got \['cat'\]"):
        load(str(tmp_path / "root"), "trainval")


def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    for ending in ("png", "jpg"):
        for width, height in ((9000, 9000), (10_000, 10_000), (20_000, 10_000)):
            path = tmp_path / f"bomb.{ending}"
            Image.new("1", (width, height)).save(path)
            assert path.stat().st_size < 4_000_000
            with pytest.raises(DataError, match=rf"bomb.{ending} claims {width}x{height} pixels, over the limit of"):
                read_image(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"not an image", "it is no image of a kind that is read, PNG, JPEG, WebP"),
        (b"\x89PNG\r\n\x1a\n and no more", "it is damaged or not such an image"),
        (b"\xff\xd8\xff and no more", "it is damaged or not such an image"),
        (None, "No such file or directory"),
    ],
)
def test_what_is_no_image_is_said_in_plain_words(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "image.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=rf"^cannot read the image {path}: {message}"):
        read_image(path)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_images_of_every_mode_are_read(tmp_path: Path, mode: str) -> None:
    bright = 65535 if mode == "I;16" else 255
    pixels = np.zeros((2, 3), dtype=np.uint16 if mode == "I;16" else np.uint8)
    pixels[0, 1] = bright
    image = Image.fromarray(pixels)
    (image if mode == "I;16" else image.convert(mode)).save(tmp_path / "image.png")
    expected = [[0, 255, 0], [0, 0, 0]]
    assert read_image(tmp_path / "image.png", channels=3).tolist() == [expected] * 3
    assert read_image(tmp_path / "image.png", channels=1).tolist() == [expected]
    assert len(read_image(tmp_path / "image.png")) == (3 if mode in ("P", "RGB", "RGBA") else 1)


def test_transparent_pixels_are_white_and_photos_are_upright(tmp_path: Path) -> None:
    Image.new("RGBA", (1, 1), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert read_image(tmp_path / "clear.png").ravel().tolist() == [255, 255, 255]
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (4, 2)).save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path / "turned.jpg").shape == (3, 4, 2)


@pytest.mark.parametrize(
    ("shape", "expected"), [((6, 5, 4), (6, 1, 5, 4)), ((6, 3, 5, 4), None), ((6, 5, 4, 3), (6, 3, 5, 4))]
)
def test_npz_arrays_of_each_layout(tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...] | None) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(6) % 3, test_images=images[:2], test_labels=[2, 0])
    dataset = load(str(tmp_path / "a.npz"), "trainval")
    assert tuple(dataset.images.shape) == (expected or shape)
    first_channel = images.reshape(6, 5, 4, -1)[..., 0] if expected else images[:, 0]
    assert np.array_equal(dataset.images[:, 0].numpy(), first_channel)
    assert dataset.class_names == ("0", "1", "2")
    test = load(str(tmp_path / "a.npz"), "test")
    assert test.labels is not None
    assert test.labels.tolist() == [2, 0]


def test_npz_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    images = np.zeros((4, 5, 5), dtype=np.uint8)
    cases = [
        ({"images": images, "labels": np.array([0, 1, 1])}, "4 images need as many int64 labels"),
        ({"images": images, "labels": np.zeros(4, dtype=int)}, "at least two classes"),
        ({"images": images, "labels": np.array([0, 1, -1, 0])}, "labels run from 0 to 1, got -1 to 1"),
        ({"images": images, "labels": np.ones(4)}, "whole numbers from 0 on, got float64"),
        ({"images": images[:0], "labels": np.array([0, 1])}, "there are no images"),
        ({"images": images / 255.0, "labels": np.arange(4)}, "are float64; save them as uint8"),
        ({"images": images[0], "labels": np.arange(4)}, r"have shape \(5, 5\); expected"),
        ({"pictures": images}, r"no array 'images', only \['pictures'\]"),
        ({"images": np.array([{}], dtype=object)}, "cannot read .*a.npz as an .npz file of plain arrays"),
    ]
    for arrays, message in cases:
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=message):
            load(str(path), "trainval")
    path.write_bytes(os.urandom(100))
    with pytest.raises(DataError, match=r"cannot read .*a.npz as an .npz file of plain arrays"):
        load(str(path), "trainval")


def test_unlabelled_npz_images_need_class_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((5, 4, 4), dtype=np.uint8), class_names=["cat", "dog"])
    dataset = load(str(tmp_path / "a.npz"), "val")
    assert dataset.labels is None
    assert len(dataset) == 1
    assert dataset.n_classes == 2


def test_unknown_sources_and_splits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.png").touch()
    with pytest.raises(
        DataError, match=r"photo.png' is neither a folder nor an .npz file; give 'digits', 'cifar10', an"
    ):
        load(str(tmp_path / "photo.png"), "train")
    with pytest.raises(DataError, match=r"cannot find 'cifar11'; give 'digits', 'cifar10', an image folder or an .npz"):
        load("cifar11", "train")
    with pytest.raises(DataError, match="no split 'dev'; use one of train, val, trainval, test"):
        load("digits", "dev")  # type: ignore[arg-type]


def test_the_fingerprint_is_about_values_order_and_shape() -> None:
    images = torch.arange(24, dtype=torch.uint8).reshape(2, 1, 3, 4)
    names = ("a", "b")
    prints = {
        Dataset(variant, None, names, "x", "test").sha256()
        for variant in (images, images.flip(0), images.reshape(2, 1, 4, 3), images + 1)
    }
    assert len(prints) == 4
    strided = images.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2)
    assert Dataset(strided, None, names, "y", "train").sha256() in prints


def test_wrong_arrays_are_refused() -> None:
    with pytest.raises(DataError, match=r"x: images are uint8 of shape \(N, C, H, W\), got torch.float32"):
        Dataset(torch.zeros(2, 1, 3, 3), None, ("a", "b"), "x", "test")


def test_images_are_drawn_by_lot_and_spread_over_the_classes() -> None:
    labels = torch.tensor([0] * 50 + [1] * 30 + [2] * 3)
    images = torch.arange(83, dtype=torch.uint8)[:, None, None, None].expand(83, 1, 2, 2).contiguous()
    whole = Dataset(images, labels, ("a", "b", "c"), "made", "test")
    some = whole.drawn(12, seed=1)
    assert some.numbers is not None
    assert torch.equal(whole.images[some.numbers], some.images)
    assert some.labels is not None
    assert torch.bincount(some.labels).tolist() == [5, 4, 3] or torch.bincount(some.labels).tolist() == [4, 5, 3]
    assert (some.numbers.diff() > 0).all()
    assert some.split_size == 83
    assert some.numbers.tolist() != list(range(12))
    assert torch.equal(whole.drawn(12, seed=1).images, some.images)
    assert not torch.equal(whole.drawn(12, seed=2).images, some.images)
    assert whole.drawn(83) is whole
    with pytest.raises(DataError, match="images that are drawn is a whole number of 1 or more, got -5"):
        whole.drawn(-5)
    assert whole.numbers is None
    again = some.drawn(6)
    assert again.numbers is not None
    assert set(again.numbers.tolist()) < set(some.numbers.tolist())
    assert again.split_size == 83
    unlabelled = Dataset(images, None, ("a", "b", "c"), "made", "test").drawn(12)
    assert len(unlabelled) == 12
