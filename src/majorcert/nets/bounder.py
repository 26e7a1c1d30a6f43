"""From images to the labels that bounds cannot exclude, at every placement of a patch, in float64."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.core.threat import ImageSize, Patch
from majorcert.defences.bounds import Sizes
from majorcert.errors import ModelError
from majorcert.nets.ambient import settled
from majorcert.nets.device import usable_device
from majorcert.nets.ibp import MOST, SCALE, IntervalNet, lowest_leads
from majorcert.nets.patched import Clean, Patches, Window, patched
from majorcert.nets.scorer import Health
from majorcert.nets.views import to_unit

UNIT = 2.0**-53
"""By how much of itself a float64 is rounded at most."""
WINDOWS = 4096
"""Placements of all images together that are bounded at once."""


class Found(NamedTuple):
    """What is known of some images, on the device."""

    labels: Tensor  # (images,)
    possible: Tensor  # (images, placements, classes): which labels are not excluded
    health: Health  # to be checked before it is believed


@dataclass(frozen=True, eq=False)
class Bounder:
    """A network on a device, in float64, and the patches that bounds are computed for; make it with `Bounder.of`."""

    network: IntervalNet
    sizes: Sizes
    image_size: ImageSize
    n_classes: int
    device: torch.device

    @classmethod
    def of(cls, network: Any, sizes: Sizes, *, image_size: ImageSize, device: torch.device | str = "cpu") -> "Bounder":
        """Put a copy of the network on the device."""
        if not isinstance(network, IntervalNet):
            raise ModelError(f"bounds are computed of an IntervalNet (model 'ibp'), got {type(network).__name__}")
        sizes.n_placements(image_size)
        place = usable_device(device)
        lean = copy.deepcopy(network).eval().requires_grad_(False).to(device=place, dtype=torch.float64)
        return cls(lean, sizes, image_size, lean.last.out_features, place)

    def facts(self) -> dict[str, Any]:
        """What the bounds depend on beside the weights and the images, as plain JSON."""
        from majorcert import __version__

        about = {"threshold": None, "view": "bounds", "precision": "float64", "compiled": False}
        return {**about, "device": self.device.type, "software": f"majorcert {__version__}"}

    @property
    def n_placements(self) -> int:
        return self.sizes.n_placements(self.image_size)

    def labels(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(images,) what the network says of uint8 or float images, on a tie the smaller label; and all logits."""
        with settled(self.device):
            logits = self.network(to_unit(images.to(self.device), torch.float64))
            number = torch.arange(self.n_classes, device=self.device)
            top = logits == logits.amax(dim=1, keepdim=True)
            return torch.where(top, number, self.n_classes - 1).amin(dim=1), logits

    def look(self, images: Tensor, progress: Callable[[int], None] | None = None) -> Found:
        """The labels of images, and those that no bound excludes, perhaps still being computed."""
        labels, logits = self.labels(images)
        with settled(self.device):
            clean = Clean.of(self.network, to_unit(images.to(self.device), torch.float64))
            own = F.one_hot(labels, self.n_classes) > 0
            possible = torch.ones_like(own)[:, None].repeat(1, self.n_placements, 1)
            for patch, part in self.sizes.parts(self.image_size):
                for places in self._alike(patch, len(images)):
                    leads = self._leads(clean, labels, patch, places)
                    numbers = part.start + places[:, 0] * patch.n_placements(self.image_size)[1] + places[:, 1]
                    possible[:, numbers.to(self.device)] = own[:, None] | ~(leads > self.slack)
                    if progress is not None:
                        progress(leads.shape[0] * leads.shape[1])
            finite = logits.isfinite().all()
            return Found(labels, possible, Health(finite, torch.ones_like(finite)))

    def _alike(self, patch: Patch, n_images: int) -> Iterator[Tensor]:
        """(n, 2) placements that begin at the same pixel of a stride each, some at a time; all of them in the end."""
        n_rows, n_columns = patch.n_placements(self.image_size)
        places, step = torch.cartesian_prod(torch.arange(n_rows), torch.arange(n_columns)), self.network.stride
        phase = places % step
        for alike in torch.cartesian_prod(torch.arange(step), torch.arange(step)):
            yield from places[(phase == alike).all(dim=1)].split(max(1, WINDOWS // max(1, n_images)))  # type: ignore[no-untyped-call]

    def _leads(self, clean: Clean, labels: Tensor, patch: Patch, places: Tensor) -> Tensor:
        """(images, places, classes) the least leads with a patch at such places, which begin alike."""
        n_images, n_places, begins = len(labels), len(places), places[0] % self.network.stride
        windows = [Window(int(first), side) for first, side in zip(begins, (patch.height, patch.width), strict=True)]
        image = torch.arange(n_images, device=self.device).repeat_interleave(n_places)
        start = places.to(self.device).repeat(n_images, 1)
        sides = torch.tensor([patch.height, patch.width], device=self.device).expand_as(start)
        span = patched(self.network, clean, Patches(image, start, sides), windows)
        return lowest_leads(self.network.last, span, labels[image]).view(n_images, n_places, -1)

    @cached_property
    def slack(self) -> float:
        """More than rounding can add to a lead, or take from one: what a lead must exceed (docs/soundness.md).

        A sum of n products is wrong by less than (n + 1) * UNIT times the sum of their sizes, in whatever order.
        What is counted of each layer, and why it is enough for the windows around a patch, is said there; the whole
        is counted once for the bounds and once for the painted image.
        """
        size, wrong = SCALE / 2, 0.0
        for layer, ends in self.network.layers:
            gain, offset = float(layer.weight.abs().sum(dim=(1, 2, 3)).max()), _largest(layer.bias)
            wrong = gain * wrong + 4 * (layer.weight[0].numel() + 3) * UNIT * (gain * (size + wrong) + offset)
            size = gain * size + offset
            if ends:  # tanh(x / 2) * MOST / 2 is at most MOST / 2 in size, and moves by MOST / 4 of what x does
                size, wrong = MOST / 2, MOST * (wrong / 4 + 16 * UNIT)
        height, width = self.image_size
        wrong += 4 * height * width * UNIT * MOST
        last = self.network.last
        gain, offset = 2 * float(last.weight.abs().sum(dim=1).max()), 2 * _largest(last.bias)
        return 2 * (gain * wrong + 4 * (last.in_features + 2) * UNIT * (gain * (size + wrong) + offset))


def _largest(numbers: Tensor | None) -> float:
    return 0.0 if numbers is None else float(numbers.abs().max())
