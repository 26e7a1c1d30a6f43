"""Views in bulk, and one kind of them made from the other."""

import torch
from torch import Tensor

from majorcert.core.threat import ImageSize
from majorcert.nets.views import Cutter


def cut_all(cutter: Cutter, images: Tensor) -> Tensor:
    """(images x views, channels, h, w): all views of the first image, then of the second, and so on."""
    pair = torch.arange(len(images) * cutter.n_views, device=images.device)
    return cutter.take(cutter.sheet(images), pair // cutter.n_views, pair % cutter.n_views)


def canvas_of_crop(views: Tensor, image_size: ImageSize) -> Tensor:
    """Rebuild canvas views from crop views, by the coordinates that they carry: both hold the same information."""
    height, width = image_size
    n_views, n_channels = len(views), views.shape[1] - 2
    colours = views[:, :-2].flatten(2)
    place = (views[:, -2:].flatten(2).double() + 1) / 2
    row, column = (place[:, 0] * (height - 1)).round().long(), (place[:, 1] * (width - 1)).round().long()
    canvas = views.new_zeros(n_views, 2 * n_channels, height * width)
    index = (row * width + column)[:, None].expand(-1, 2 * n_channels, -1)
    return canvas.scatter(2, index, torch.cat([colours, 1 - colours], dim=1)).view(n_views, -1, height, width)
