"""What the network is given for an ablation: the `canvas` and the `crop` view, cut by one gather; or `whole` images.

The promise that every certificate rests on: a view does not depend on any hidden pixel. It holds by construction.
`Cutter.pixels` lists, for each ablation, the pixels that its view is made of, and it lists visible pixels only (in a
canvas the hidden places point at one extra row of zeros), so the values of hidden pixels are never read. A `whole`
image is for a network that gives a map, and there it is the network that must not look: see `sight`.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from majorcert.core.regions import Strategy
from majorcert.core.threat import Bools, ImageSize
from majorcert.errors import StrategyError

View = Literal["canvas", "crop", "masked", "whole", "bounds"]
VIEWS: tuple[View, ...] = ("canvas", "crop")
"""Those of any strategy; the views under masks are cut in `masked`, and `whole` images are for fields."""


def to_unit(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Pixels of 0 to 255 as floats from 0 to 1, and floats as they are: the conversion that everything here shares."""
    return (images.float().div(255) if images.dtype == torch.uint8 else images).to(dtype)


def in_channels(view: View, channels: int) -> int:
    """The channels of a view of images with `channels` channels: colour and complement, colour and place, or colour."""
    extra = {"canvas": channels, "crop": 2, "masked": 0, "whole": 2, "bounds": 0}
    return channels + extra[view]


def view_size(strategy: Strategy, view: View, image_size: ImageSize) -> ImageSize:
    """The (height, width) of a view: the whole image for a canvas, the visible window for a crop."""
    if view in ("canvas", "whole"):
        return image_size
    first = strategy.regions(image_size)[0]
    return int(first.any(axis=1).sum()), int(first.any(axis=0).sum())


@dataclass(frozen=True, eq=False)
class Cutter:
    """Cuts the views of one strategy out of images of one size; make it with `Cutter.of` and keep it."""

    strategy: Strategy
    view: View
    image_size: ImageSize
    view_size: ImageSize
    pixels: Tensor
    """(ablations, view pixels): which pixel (row-major) of the image each pixel of the view shows; the number after
    the last pixel stands for a hidden one."""
    places: Tensor
    """(pixels, 2): row and column of each pixel of the image, from -1 to 1."""

    @classmethod
    def of(cls, strategy: Strategy, view: View, image_size: ImageSize) -> "Cutter":
        """Prepare the index tables for one strategy, view and image size."""
        regions = np.ones((1, *image_size), dtype=bool) if view == "whole" else strategy.regions(image_size)
        table = _visible_pixels(regions) if view == "canvas" else _window_pixels(regions)
        return cls(
            strategy=strategy,
            view=view,
            image_size=image_size,
            view_size=view_size(strategy, view, image_size),
            pixels=torch.from_numpy(table),
            places=_places(image_size),
        )

    def to(self, device: torch.device | str) -> "Cutter":
        """The same on another device."""
        return replace(self, pixels=self.pixels.to(device), places=self.places.to(device))

    @property
    def n_views(self) -> int:
        """Of one image: a view for each ablation, or the whole image for all of them."""
        return len(self.pixels)

    @property
    def map_size(self) -> tuple[int, ...]:
        """(rows, columns) of the map of ablations that one view is scored to; nothing where it is one ablation."""
        return tuple(map(len, self.strategy.visible(self.image_size))) if self.view == "whole" else ()

    @property
    def n_ablations(self) -> int:
        return self.n_views * prod(self.map_size)

    def cut(self, images: Tensor, ablations: Tensor) -> Tensor:
        """(images, channels, h, w): of each image the view for its own ablation, as in training."""
        return self.take(self.sheet(images), torch.arange(len(images), device=images.device), ablations)

    def sheet(self, images: Tensor) -> Tensor:
        """(images, pixels + 1, view channels): each pixel's values, from 0 to 1, and a last row of zeros.

        To cut several batches from the same images, make the sheet once and `take` from it.
        """
        colours = images.flatten(2).transpose(1, 2)
        if self.view == "canvas":
            rows = torch.cat([colours, 1 - colours], dim=2)
        else:
            rows = torch.cat([colours, self.places.to(images.dtype).expand(len(images), -1, -1)], dim=2)
        return torch.nn.functional.pad(rows, (0, 0, 0, 1))

    def take(self, sheet: Tensor, which: Tensor, ablations: Tensor) -> Tensor:
        """(views, channels, h, w): of image `which[k]` of a sheet the view for ablation `ablations[k]`, as in voting.

        The result is channels-last in memory, as convolutions on GPUs like it.
        """
        n_images, n_rows, n_channels = sheet.shape
        index = self.pixels.index_select(0, ablations) + which[:, None] * n_rows
        taken = sheet.reshape(n_images * n_rows, n_channels).index_select(0, index.flatten())
        return taken.view(len(ablations), *self.view_size, n_channels).permute(0, 3, 1, 2)


def _places(image_size: ImageSize) -> Tensor:
    rows, columns = (torch.linspace(-1, 1, side, dtype=torch.float64).float() for side in image_size)
    return torch.cartesian_prod(rows, columns)


def _visible_pixels(regions: Bools) -> npt.NDArray[np.int64]:
    """(ablations, pixels): each pixel's own number where it is visible, else the number after the last pixel."""
    visible = regions.reshape(len(regions), -1)
    n_pixels = visible.shape[1]
    return np.where(visible, np.arange(n_pixels), n_pixels)


def _window_pixels(regions: Bools) -> npt.NDArray[np.int64]:
    """(ablations, window pixels): the numbers of the visible pixels, in the order of the window."""
    rows, columns = (np.asarray(regions.any(axis=axis)) for axis in (2, 1))
    sizes = np.stack([rows.sum(axis=1), columns.sum(axis=1)], axis=1)
    if (sizes != sizes[0]).any() or (sizes.prod(axis=1) != regions.sum(axis=(1, 2))).any():
        raise StrategyError(
            "a crop shows a rectangle of one size, these regions are of other shapes; use view='canvas'"
        )
    row, column = _unwrapped(rows), _unwrapped(columns)
    pixels: npt.NDArray[np.int64] = row[:, :, None] * regions.shape[2] + column[:, None, :]
    return pixels.reshape(len(regions), -1)


def _unwrapped(runs: Bools) -> npt.NDArray[np.int64]:
    """(runs, visible): the visible pixels of each run from its first one on, across the seam; from 0 if all are."""
    first: npt.NDArray[np.int64] = (runs & ~np.roll(runs, 1, axis=1)).argmax(axis=1)
    return np.asarray((first[:, None] + np.arange(runs[0].sum())) % runs.shape[1])
