"""From images to the labels that bounds cannot exclude, at every placement of a patch, in float64."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.core.threat import ImageSize, Patch
from majorcert.defences.bounds import WORD, Sizes
from majorcert.errors import ModelError
from majorcert.nets.ambient import settled
from majorcert.nets.device import usable_device
from majorcert.nets.ibp import MOST, SCALE, IntervalNet, Span, activated, activated_span, lowest_leads, scaled
from majorcert.nets.scorer import Health
from majorcert.nets.views import to_unit

UNIT = 2.0**-53
"""By how much of itself a float64 is rounded at most."""


class Found(NamedTuple):
    """What is known of some images, on the device."""

    labels: Tensor
    """(images,)"""
    words: Tensor
    """(images, placements, words): which labels are not excluded, as `Bounds` keeps them"""
    health: Health
    """to be checked before it is believed"""


class Window(NamedTuple):
    """A rectangle of a map: its first row and the one after its last, and its columns likewise."""

    top: int
    bottom: int
    left: int
    right: int

    def seen_by(self, layer: nn.Conv2d, size: ImageSize) -> "Window":
        """The part of the map of this size that comes out of a convolution, whose cells look at the rectangle."""
        found: list[int] = []
        for first, after, length, step, border, n_out in zip(
            self[::2], self[1::2], layer.kernel_size, layer.stride, borders(layer), size, strict=True
        ):
            found += [max(0, -((length - 1 - border - first) // step)), min(n_out, (after - 1 + border) // step + 1)]
        return Window(*found)

    def looks_at(self, layer: nn.Conv2d) -> "Window":
        """What a convolution makes it of, in the map that goes in with its border of zeros."""
        found: list[int] = []
        for first, after, length, step in zip(self[::2], self[1::2], layer.kernel_size, layer.stride, strict=True):
            found += [first * step, (after - 1) * step + length]
        return Window(*found)

    def within(self, frame: "Window", layer: nn.Conv2d) -> "Window":
        """Its place in such a frame."""
        tall, wide = borders(layer)
        down, across = tall - frame.top, wide - frame.left
        return Window(self.top + down, self.bottom + down, self.left + across, self.right + across)

    def of(self, maps: Tensor) -> Tensor:
        return maps[:, :, self.top : self.bottom, self.left : self.right]


class Clean(NamedTuple):
    """What the network makes of the clean images."""

    framed: list[Tensor]
    """what goes into each convolution, with its border of zeros"""
    sizes: list[ImageSize]
    """of the map that comes out of each"""
    features: Tensor
    """(images, features, rows, columns) what is averaged"""
    total: Tensor
    """(images, features) their sums"""


@dataclass(frozen=True, eq=False)
class Bounder:
    """A network on a device, in float64, and the patches that bounds are computed for; make it with `Bounder.of`."""

    network: IntervalNet
    sizes: Sizes
    image_size: ImageSize
    channels: int
    n_classes: int
    device: torch.device

    @classmethod
    def of(
        cls, network: Any, sizes: Sizes, *, image_size: ImageSize, channels: int, device: torch.device | str = "cpu"
    ) -> "Bounder":
        """Put a copy of the network on the device."""
        if not isinstance(network, IntervalNet):
            raise ModelError(f"bounds are computed of an IntervalNet (model 'ibp'), got {type(network).__name__}")
        sizes.n_placements(image_size)
        place = usable_device(device)
        lean = copy.deepcopy(network).eval().requires_grad_(False).to(device=place, dtype=torch.float64)
        return cls(lean, sizes, image_size, channels, lean.last.out_features, place)

    def facts(self) -> dict[str, Any]:
        """What the bounds depend on beside the weights and the images, as plain JSON."""
        from majorcert import __version__

        about = {"threshold": None, "view": "bounds", "precision": "float64", "compiled": False}
        return {**about, "device": self.device.type, "software": f"majorcert {__version__}"}

    @property
    def n_placements(self) -> int:
        return self.sizes.n_placements(self.image_size)

    @property
    def shape(self) -> tuple[int, int]:
        """Placements and words of an image."""
        return self.n_placements, -(-self.n_classes // WORD)

    def labels(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(images,) what the network says of uint8 or float images, on a tie the smaller label; and all logits."""
        with settled(self.device):
            logits = self.network(self._unit(images))
            number = torch.arange(self.n_classes, device=self.device)
            top = logits == logits.amax(dim=1, keepdim=True)
            return torch.where(top, number, self.n_classes - 1).amin(dim=1), logits

    def look(self, images: Tensor, progress: Callable[[int], None] | None = None) -> Found:
        """The labels of images, and those that no bound excludes, perhaps still being computed."""
        labels, logits = self.labels(images)
        with settled(self.device):
            clean, words, own = self._clean(images), [], F.one_hot(labels, self.n_classes) > 0
            for patch in self.sizes.patches:
                n_rows, n_columns = patch.n_placements(self.image_size)
                for place in range(n_rows * n_columns):
                    leads = self._leads(clean, labels, patch, *divmod(place, n_columns))
                    words.append(packed(own | ~(leads > self.slack)))
                    if progress is not None:
                        progress(len(images))
            finite = logits.isfinite().all()
            return Found(labels, torch.stack(words, dim=1), Health(finite, torch.ones_like(finite)))

    def _unit(self, images: Tensor) -> Tensor:
        there = images.to(self.device)
        return to_unit(there, torch.float64) if there.dtype == torch.uint8 else there.double()

    def _clean(self, images: Tensor) -> Clean:
        features, framed, sizes = scaled(self._unit(images)), [], []
        for layer, ends in self.network.layers:
            tall, wide = borders(layer)
            framed.append(F.pad(features, (wide, wide, tall, tall)))
            features = activated(layer(features), ends)
            sizes.append((features.shape[2], features.shape[3]))
        return Clean(framed, sizes, features, features.sum(dim=(2, 3)))

    def _leads(self, clean: Clean, labels: Tensor, patch: Patch, top: int, left: int) -> Tensor:
        """(images, classes) the least leads with a patch there. What sees none of it stays as on the clean image."""
        window = Window(top, top + patch.height, left, left + patch.width)
        nothing = clean.total.new_zeros(len(labels), self.channels, patch.height, patch.width)
        span = Span(nothing, nothing + SCALE / 2)
        for (layer, ends), sizes, framed, size in zip(
            self.network.layers, self.absolute, clean.framed, clean.sizes, strict=True
        ):
            window, before = window.seen_by(layer, size), window
            frame = window.looks_at(layer)
            inner, centre = before.within(frame, layer), frame.of(framed).clone()
            inner.of(centre).copy_(span.centre)
            beside = inner.left, centre.shape[3] - inner.right, inner.top, centre.shape[2] - inner.bottom
            radius = F.conv2d(F.pad(span.radius, beside), sizes, None, layer.stride)
            span = activated_span(Span(F.conv2d(centre, layer.weight, layer.bias, layer.stride), radius), ends)
        n_cells = clean.features.shape[2] * clean.features.shape[3]
        total = clean.total + (span.centre - window.of(clean.features)).sum(dim=(2, 3))
        averaged = Span(total / n_cells, span.radius.sum(dim=(2, 3)) / n_cells)
        return lowest_leads(self.network.last, averaged, labels)

    @cached_property
    def absolute(self) -> list[Tensor]:
        """The sizes of the weights of each convolution."""
        return [layer.weight.abs() for layer, _ in self.network.layers]

    @cached_property
    def slack(self) -> float:
        """More than rounding can add to a lead, or take from one: what a lead must exceed (docs/soundness.md).

        A sum of n products is wrong by less than (n + 1) * UNIT times the sum of their sizes, in whatever order.
        Four such sums are counted where one or two are made, and the whole once for the bounds and once for the
        painted image.
        """
        size, wrong = SCALE / 2, 0.0
        for layer, ends in self.network.layers:
            gain, offset = float(layer.weight.abs().sum(dim=(1, 2, 3)).max()), _largest(layer.bias)
            wrong = gain * wrong + 4 * (layer.weight[0].numel() + 2) * UNIT * (gain * (size + wrong) + offset)
            size = gain * size + offset
            if ends:  # a sigmoid is from 0 to 1, and moves by at most a quarter of what goes in
                size, wrong = MOST / 2, MOST * (wrong / 4 + 16 * UNIT)
        height, width = self.image_size
        wrong += 4 * height * width * UNIT * MOST
        last = self.network.last
        gain, offset = 2 * float(last.weight.abs().sum(dim=1).max()), 2 * _largest(last.bias)
        return 2 * (gain * wrong + 4 * (last.in_features + 2) * UNIT * (gain * (size + wrong) + offset))


def packed(possible: Tensor) -> Tensor:
    """(images, words) of (images, classes): a bit for each label, as `defences.bounds.pack` has it."""
    bits = F.pad(possible.int(), (0, -possible.shape[1] % WORD)).view(len(possible), -1, WORD)
    return (bits << torch.arange(WORD, device=possible.device)).sum(dim=2).short()


def borders(layer: nn.Conv2d) -> tuple[int, int]:
    """Rows and columns of zeros on each side."""
    return int(layer.padding[0]), int(layer.padding[1])


def _largest(numbers: Tensor | None) -> float:
    return 0.0 if numbers is None else float(numbers.abs().max())
