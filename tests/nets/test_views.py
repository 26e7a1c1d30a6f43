"""Views show every visible pixel and no hidden one."""

import numpy as np
import pytest
import torch
from views import canvas_of_crop, cut_all

import majorcert.core.regions as st
from majorcert.nets.views import Cutter, View, in_channels, view_size

CASES = [
    ("rows:3", (6, 6), 3),
    ("columns:2", (6, 6), 3),
    ("blocks:4", (6, 6), 3),
    ("rows:3/2", (7, 5), 1),
    ("columns:4/3", (5, 8), 3),
    ("blocks:3/2", (5, 7), 2),
    ("blocks:1", (3, 4), 1),
    ("rows:4", (4, 6), 1),
]
each_case = pytest.mark.parametrize(("spec", "image_size", "channels"), CASES)
each_view = pytest.mark.parametrize("view", ["canvas", "crop"])


def random_images(n: int, channels: int, image_size: tuple[int, int], seed: int = 0) -> torch.Tensor:
    return torch.rand(n, channels, *image_size, generator=torch.Generator().manual_seed(seed))


def visible_masks(strategy: st.Strategy, image_size: tuple[int, int]) -> np.ndarray:
    rows, columns = strategy.visible(image_size)
    return np.stack([np.outer(row, column) for row in rows for column in columns])


@each_view
@each_case
def test_hidden_pixels_are_never_seen(spec: str, image_size: tuple[int, int], channels: int, view: View) -> None:
    strategy = st.strategy(spec)
    cutter = Cutter.of(strategy, view, image_size)
    masks = torch.from_numpy(visible_masks(strategy, image_size))[:, None]
    images = random_images(len(masks), channels, image_size)
    scrambled = torch.where(masks, images, random_images(len(masks), channels, image_size, seed=1))
    poisoned = torch.where(masks, images, torch.tensor(float("nan")))
    every = torch.arange(len(masks))
    views = cutter.cut(images, every)
    assert torch.equal(views, cutter.cut(scrambled, every))
    assert torch.equal(views, cutter.cut(poisoned, every))


@each_view
@each_case
def test_every_visible_pixel_is_seen(spec: str, image_size: tuple[int, int], channels: int, view: View) -> None:
    strategy = st.strategy(spec)
    cutter = Cutter.of(strategy, view, image_size)
    image = random_images(1, channels, image_size)
    height, width = image_size
    pixels = [(c, i, j) for c in range(channels) for i in range(height) for j in range(width)]
    changed = image.repeat(len(pixels), 1, 1, 1)
    for k, (c, i, j) in enumerate(pixels):
        changed[k, c, i, j] += 0.25
    clean = cut_all(cutter, image)
    per_pixel = cut_all(cutter, changed).unflatten(0, (len(pixels), cutter.n_ablations))
    differs = (per_pixel != clean).flatten(2).any(2).numpy()
    masks = visible_masks(strategy, image_size)
    expected = np.array([masks[:, i, j] for _, i, j in pixels])
    np.testing.assert_array_equal(differs, expected)


@each_view
@each_case
def test_views_match_the_definition(spec: str, image_size: tuple[int, int], channels: int, view: View) -> None:
    strategy = st.strategy(spec)
    cutter = Cutter.of(strategy, view, image_size)
    images = random_images(2, channels, image_size)
    views = cut_all(cutter, images).unflatten(0, (2, cutter.n_ablations))
    assert cutter.n_ablations == strategy.n_ablations(image_size)
    assert views.shape[2:] == (in_channels(view, channels), *view_size(strategy, view, image_size))
    for a, mask in enumerate(torch.from_numpy(visible_masks(strategy, image_size))):
        for image, got in zip(images, views[:, a], strict=True):
            if view == "canvas":
                expected = torch.cat([image, 1 - image]) * mask
                assert torch.equal(got, expected)
            else:
                height, width = image_size
                row = ((got[-2] + 1) / 2 * (height - 1)).round().long()
                column = ((got[-1] + 1) / 2 * (width - 1)).round().long()
                assert mask[row, column].all()
                assert len(set(zip(row.flatten().tolist(), column.flatten().tolist(), strict=True))) == mask.sum()
                assert torch.equal(got[:-2], image[:, row, column])


def test_the_window_of_a_crop_is_continuous_across_the_seam() -> None:
    image = torch.arange(25.0).reshape(1, 1, 5, 5) / 25
    views = cut_all(Cutter.of(st.Blocks(3), "crop", (5, 5)), image)
    corner = torch.tensor([4, 0, 1])
    assert torch.equal(views[24, 0], image[0, 0][corner][:, corner])
    assert torch.equal(views[0, 0], image[0, 0, :3, :3])


@each_case
def test_a_canvas_is_rebuilt_from_a_crop(spec: str, image_size: tuple[int, int], channels: int) -> None:
    strategy = st.strategy(spec)
    images = random_images(2, channels, image_size)
    canvas, crop = (cut_all(Cutter.of(strategy, view, image_size), images) for view in ("canvas", "crop"))
    assert torch.equal(canvas_of_crop(crop, image_size), canvas)


@each_view
def test_pairs_in_any_order_are_the_same_views(view: View) -> None:
    cutter = Cutter.of(st.Blocks(2), view, (4, 5))
    images = random_images(3, 3, (4, 5))
    every = cut_all(cutter, images)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    assert torch.equal(cutter.take(cutter.sheet(images), order // 20, order % 20), every[order])
    assert torch.equal(cutter.take(cutter.sheet(images), order // 20, order % 20), every[order])


@each_view
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_views_keep_the_dtype_and_lie_channels_last(view: View, dtype: torch.dtype) -> None:
    views = cut_all(Cutter.of(st.Columns(4), view, (32, 32)), random_images(2, 3, (32, 32)).to(dtype))
    assert views.dtype == dtype
    assert views.is_contiguous(memory_format=torch.channels_last)


def test_coordinates_tell_places_apart_in_bfloat16() -> None:
    views = cut_all(Cutter.of(st.Columns(1), "crop", (1, 256)), random_images(1, 1, (1, 256)).bfloat16())
    assert len(views[:, -1].flatten().unique()) == 256


def test_gradients_reach_visible_pixels_only() -> None:
    image = random_images(1, 1, (4, 4)).requires_grad_()
    Cutter.of(st.Columns(2), "canvas", (4, 4)).cut(image, torch.tensor([3])).square().sum().backward()
    assert image.grad is not None
    assert (image.grad[0, 0] != 0).all(0).tolist() == [True, False, False, True]
