"""Patches on images: nothing outside of the placement ever changes, and the cheap ones are what they say."""

import numpy as np
import torch

from majorcert.attacks.paint import Stock, cheap_patches, noise, paste, solids
from majorcert.core.threat import Patch

SIZE = (7, 9)


def pictures(n: int, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, channels, *SIZE), dtype=torch.uint8, generator=generator)


def test_pasting_writes_the_placement_and_nothing_else() -> None:
    patch = Patch(2, 3)
    n_tops, n_lefts = patch.n_placements(SIZE)
    top, left = (each.flatten() for each in torch.meshgrid(torch.arange(n_tops), torch.arange(n_lefts), indexing="ij"))
    images = pictures(len(top)) // 2
    before = images.clone()
    patches = 128 + torch.arange(len(top) * 18).view(-1, 3, 2, 3).remainder(128).to(torch.uint8)
    painted = paste(images, patches, top, left)
    assert torch.equal(images, before)
    for k in range(len(top)):
        expected = before[k].clone()
        expected[:, top[k] : top[k] + 2, left[k] : left[k] + 3] = patches[k]
        assert torch.equal(painted[k], expected)


def test_gradients_reach_the_patch_and_nothing_else() -> None:
    images = pictures(2).float().div(255).requires_grad_()
    patches = torch.zeros(2, 3, 2, 2, requires_grad=True)
    weight = torch.rand(2, 3, *SIZE)
    (paste(images, patches, torch.tensor([0, 5]), torch.tensor([7, 2])) * weight).sum().backward()
    assert patches.grad is not None
    assert torch.equal(patches.grad[0], weight[0, :, 0:2, 7:9])
    assert torch.equal(patches.grad[1], weight[1, :, 5:7, 2:4])
    assert images.grad is not None
    assert (images.grad[0, :, 0:2, 7:9] == 0).all()


def test_pieces_are_parts_of_images_of_the_wanted_label() -> None:
    images = torch.arange(4, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, *SIZE).contiguous()
    stock = Stock(images, torch.tensor([0, 1, 1, 2]))
    rng = np.random.default_rng(0)
    assert set(stock.pieces(50, Patch(2), rng, label=1).ravel().tolist()) == {1, 2}
    assert set(stock.pieces(80, Patch(2), rng).ravel().tolist()) == {0, 1, 2, 3}
    assert set(stock.pieces(80, Patch(2), rng, label=7).ravel().tolist()) == {0, 1, 2, 3}, "there is no such label"
    whole = pictures(1)
    (piece,) = Stock(whole, torch.tensor([0])).pieces(1, Patch(*SIZE), rng)
    assert np.array_equal(piece, whole[0].numpy())


def test_cheap_patches_are_solid_noise_and_transplanted() -> None:
    rng = np.random.default_rng(0)
    patches, kinds = cheap_patches(20, Patch(2, 3), Stock(pictures(5), torch.arange(5)), rng)
    assert patches.shape == (20, 3, 2, 3)
    assert patches.dtype == np.uint8
    assert [kinds.count(kind) for kind in ("solid", "noise", "transplant")] == [6, 4, 10]
    assert (patches[:6] == patches[:6, :, :1, :1]).all()
    assert set(patches[:6].ravel().tolist()) == {0, 255}
    assert len({patch.tobytes() for patch in patches[:6]}) == 6
    assert len(cheap_patches(1, Patch(1), Stock(pictures(1), torch.zeros(1)), rng)[0]) == 1


def test_noise_and_solids_have_any_number_of_channels() -> None:
    rng = np.random.default_rng(0)
    assert solids(9, 1, Patch(2), rng).shape == (9, 1, 2, 2)
    values = noise(40, 1, Patch(3), rng)
    assert set(values[1::2].ravel().tolist()) == {0, 255}
    assert len(set(values[::2].ravel().tolist())) > 100
