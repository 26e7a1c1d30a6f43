"""Images as people hold them: arrays, tensors, PIL images, lists and loaders say the same of the same pixels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import majorcert as mc
from majorcert.errors import DataError
from majorcert.nets.images import as_tensor
from majorcert.nets.sources.decode import read_image

SIZE = (6, 5)
ARRAY = np.random.default_rng(0).integers(0, 256, size=(4, *SIZE, 3), dtype=np.uint8)
TENSOR = torch.from_numpy(ARRAY).permute(0, 3, 1, 2).contiguous()


@pytest.mark.parametrize(
    "images",
    [
        ARRAY,
        TENSOR,
        list(ARRAY),
        tuple(TENSOR),
        [Image.fromarray(each) for each in ARRAY],
        np.asfortranarray(ARRAY),
        ARRAY[::-1].copy()[::-1],
        [ARRAY[0], TENSOR[1], Image.fromarray(ARRAY[2]), ARRAY[3:]],
        DataLoader(TensorDataset(TENSOR, torch.arange(4)), batch_size=3),
        DataLoader(TENSOR, batch_size=2),  # type: ignore[arg-type]
    ],
)
def test_all_say_the_same(images: Any) -> None:
    assert torch.equal(as_tensor(images, 3, SIZE), TENSOR)


def test_arrays_of_any_byte_order_and_those_that_cannot_be_written_to() -> None:
    for kind in (">f4", ">f8", "<f4"):
        assert torch.equal(as_tensor((ARRAY // 255).astype(kind), 3, SIZE), (TENSOR // 255).float())
    with pytest.raises(DataError, match=r"got torch\.uint16"):
        as_tensor(ARRAY.astype(">u2"), 3, SIZE)
    if np.longdouble(0).itemsize > 8:
        with pytest.raises(DataError, match="got float"):
            as_tensor(ARRAY.astype(np.longdouble), 3, SIZE)
    mapped = ARRAY[..., 0].copy()
    mapped.flags.writeable = False
    assert torch.equal(as_tensor(mapped, 1, SIZE), TENSOR[:, :1])


def test_grey_ones_and_single_pictures() -> None:
    grey = ARRAY[..., 0]
    expected = torch.from_numpy(grey.copy())[:, None]
    for images in (grey, list(grey), [Image.fromarray(each) for each in grey]):
        assert torch.equal(as_tensor(images, 1, SIZE), expected)
    assert torch.equal(as_tensor(Image.fromarray(grey[0]), 1, SIZE), expected[:1])
    assert as_tensor([], 3, SIZE).shape == (0, 3, *SIZE)


def test_pictures_say_what_their_files_say(tmp_path: Path) -> None:
    """Upright, on white where they are transparent, with 16 bits of grey in 8; as `predict` reads the file."""
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(ARRAY[0]).save(tmp_path / "turned.png", exif=exif)
    Image.fromarray(np.dstack([ARRAY[0], ARRAY[1, ..., 0]])).save(tmp_path / "clear.png")
    Image.fromarray(ARRAY[0, ..., 0].astype(np.uint16) * 257).save(tmp_path / "deep.png")
    for name in ("turned.png", "clear.png", "deep.png"):
        for channels in (1, 3):
            expected = read_image(tmp_path / name, SIZE, channels)
            assert np.array_equal(as_tensor(Image.open(tmp_path / name), channels, SIZE)[0].numpy(), expected), name


def test_pictures_are_resized_and_defenders_take_them() -> None:
    large = Image.new("RGBA", (50, 60), (10, 20, 30, 255))
    assert as_tensor(large, 3, SIZE)[0, :, 2, 2].tolist() == [10, 20, 30]
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(5 * 6 * 2, 3))
    ensemble = mc.Ensemble([mc.Defender(network, "columns:2", image_size=SIZE, class_names=["a", "b", "<i>"])])
    pictures = [Image.fromarray(each) for each in ARRAY]
    assert np.array_equal(ensemble.predict(pictures), ensemble.predict(ARRAY))
    html = ensemble._repr_html_()
    assert "columns:2" in html
    assert "3 classes, images of 6x5" in html


def test_all_defenders_see_what_a_loader_gives_in_one_order() -> None:
    """One that shuffles gives another order each time it is asked; labels of different images are no majority."""
    brightness = lambda views: torch.stack([views.mean(dim=(1, 2, 3)), torch.full((len(views),), 0.5)], dim=1)  # noqa: E731
    bright = torch.full((64, 3, *SIZE), 255, dtype=torch.uint8)
    bright[::2] = 0
    defenders = [mc.Defender(brightness, "columns:5", threshold=None, image_size=SIZE) for _ in range(3)]
    ensemble, loader = mc.Ensemble(defenders), DataLoader(bright, shuffle=True)  # type: ignore[arg-type]
    assert np.bincount(ensemble.predict(bright)).tolist() == [32, 32]
    assert np.bincount(ensemble.predict(loader)).tolist() == [32, 32]
    assert ensemble.certify(loader, 1).certified.shape == (64,)
    assert mc.Ensemble(defenders, pooled=True).predict(loader).shape == (64,)


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ([ARRAY[0], TENSOR[1].float() / 255], "some floating point"),
        ("photo.png", "got str"),
        ([ARRAY[0, :3]], "expected an array"),
        ([TENSOR.float()], "divide by 255"),
        (Image.new("F", SIZE), "a PIL image cannot be used: its pixels are not whole numbers"),
    ],
)
def test_other_things_are_refused(images: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        as_tensor(images, 3, SIZE)
