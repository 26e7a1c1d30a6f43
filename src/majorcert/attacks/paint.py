"""Patches on images: pasting them, and the cheap ones that need no network to make.

The attacker's promise is kept here: `paste` writes the pixels of one placement and leaves all others as they were.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from majorcert.core.threat import Patch

Pixels = npt.NDArray[np.uint8]


def paste(images: Tensor, patches: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """(N, C, H, W): each image with its own (C, h, w) patch at its own placement; gradients reach the patches."""
    n_images, n_channels = images.shape[:2]
    height, width = patches.shape[2:]
    device = images.device
    image = torch.arange(n_images, device=device)[:, None, None, None]
    channel = torch.arange(n_channels, device=device)[None, :, None, None]
    row = (top[:, None] + torch.arange(height, device=device))[:, None, :, None]
    column = (left[:, None] + torch.arange(width, device=device))[:, None, None, :]
    return images.index_put((image, channel, row, column), patches)


@dataclass(frozen=True, eq=False)
class Stock:
    """Labelled uint8 images that pieces are taken from."""

    images: Tensor
    labels: Tensor

    def pieces(self, n: int, patch: Patch, rng: np.random.Generator, label: int | None = None) -> Pixels:
        """(n, C, h, w): pieces of random images, of one label where there are any, each from a random place."""
        some = np.arange(len(self.images))
        if label is not None and bool((self.labels == label).any()):
            some = np.flatnonzero(self.labels.numpy() == label)
        image = rng.choice(some, size=n)
        n_tops, n_lefts = patch.n_placements((self.images.shape[2], self.images.shape[3]))
        top, left = rng.integers(n_tops, size=n), rng.integers(n_lefts, size=n)
        row = (top[:, None] + np.arange(patch.height))[:, None, :, None]
        column = (left[:, None] + np.arange(patch.width))[:, None, None, :]
        channel = np.arange(self.images.shape[1])[None, :, None, None]
        return np.asarray(self.images.numpy()[image[:, None, None, None], channel, row, column], dtype=np.uint8)


def noise(n: int, channels: int, patch: Patch, rng: np.random.Generator) -> Pixels:
    """(n, C, h, w): every value by lot; every second patch black and white in each channel."""
    values = rng.integers(256, size=(n, channels, patch.height, patch.width), dtype=np.uint8)
    values[1::2] = np.where(values[1::2] < 128, 0, 255)
    return values


def solids(n: int, channels: int, patch: Patch, rng: np.random.Generator) -> Pixels:
    """(n, C, h, w): one colour each; the extreme ones first, in random order, then any."""
    extreme = np.array(list(itertools.islice(itertools.product((0, 255), repeat=channels), 64)), dtype=np.uint8)
    colours = np.concatenate([rng.permutation(extreme), rng.integers(256, size=(n, channels), dtype=np.uint8)])[:n]
    return np.broadcast_to(colours[:, :, None, None], (n, channels, patch.height, patch.width)).copy()


def cheap_patches(n: int, patch: Patch, stock: Stock, rng: np.random.Generator) -> tuple[Pixels, list[str]]:
    """(n, C, h, w) patches that need no gradient, half of them transplanted, and of which kind each is."""
    channels = stock.images.shape[1]
    n_solid, n_noise = n - n // 2 - n // 5, n // 5
    n_pieces = n - n_solid - n_noise
    kinds = ["solid"] * n_solid + ["noise"] * n_noise + ["transplant"] * n_pieces
    parts = [
        solids(n_solid, channels, patch, rng),
        noise(n_noise, channels, patch, rng),
        stock.pieces(n_pieces, patch, rng),
    ]
    return np.concatenate(parts), kinds
