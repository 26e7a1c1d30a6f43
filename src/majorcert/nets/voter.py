"""From images to votes: every view of every image through the network, in tiles of one fixed shape.

The second promise that certificates rest on: a ballot depends on its own view alone. Libraries choose other kernels
for other batch shapes, and round differently in them, so the network only ever sees tiles of one size, the last one
filled up by repeating a view. Within a tile of fixed shape neither the place of a view nor its mates matter.
"""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from majorcert.core.regions import Strategy
from majorcert.core.threat import ImageSize
from majorcert.errors import BallotsError, ModelError
from majorcert.nets.device import usable_device
from majorcert.nets.folded import folded
from majorcert.nets.models import ModelConfig
from majorcert.nets.threshold import distance_of, most_votes, rounded_down, votes_of
from majorcert.nets.views import Cutter, View, in_channels, to_unit

Network = Callable[[Tensor], Tensor]
Precision = Literal["float32", "bfloat16"]
PRECISIONS: dict[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TILE_PIXELS = 2**22
"""About how many pixels the views of one tile have on an accelerator."""


class Votes(NamedTuple):
    """What the views of some images vote for, on the device."""

    labels: Tensor
    """(images, ablations, votes), ascending, then ABSTAIN"""
    distance: Tensor
    """(images, ablations), float16: how far each ballot was from changing, rounded down"""
    scores: Tensor | None
    """(images, ablations, classes), float32"""
    finite: Tensor
    """is every score a number? Looked at later, so that the device need not be waited for"""


@dataclass(frozen=True, eq=False)
class Voter:
    """A network on a device, ready to vote; make it with `Voter.of`."""

    network: Network
    cutter: Cutter
    threshold: float | None
    channels: int
    n_classes: int
    device: torch.device
    precision: Precision
    tile: int
    """views in one forward pass"""
    compiled: bool = False

    @classmethod
    def of(
        cls,
        network: Network,
        strategy: Strategy,
        view: View,
        threshold: float | None,
        *,
        image_size: ImageSize,
        channels: int,
        config: ModelConfig | None = None,
        device: torch.device | str = "cpu",
        precision: Precision | None = None,
        batch_size: int | None = None,
        compiled: bool = False,
    ) -> "Voter":
        """Put a copy of the network on the device, in eval mode.

        Args:
            precision: of the network's arithmetic; by default bfloat16 on CUDA and float32 elsewhere.
            batch_size: views in one forward pass on an accelerator. On a CPU it is always the same, so that
                ballots never depend on it.
            config: what one of this package's networks was built from; of others it is found out what they return.
        """
        device = usable_device(device)
        if threshold is not None and not (math.isfinite(threshold) and threshold >= 0):
            raise BallotsError(f"a threshold is a number of 0 or more, or None for the top label; got {threshold}")
        if batch_size is not None and batch_size < 1:
            raise ModelError(f"a batch has at least one view, got a batch size of {batch_size}")
        kind: Precision = precision or ("bfloat16" if device.type == "cuda" else "float32")
        if kind not in PRECISIONS:
            raise ModelError(f"the precision is 'float32' or 'bfloat16', got {precision!r}")
        if isinstance(network, nn.Module):
            network = folded(network) if config else copy.deepcopy(network).eval()
            network = network.to(device=device, dtype=PRECISIONS[kind], memory_format=_layout(device))  # type: ignore[call-overload]
        if compiled:
            network = torch.compile(network)
        cutter = Cutter.of(strategy, view, image_size, device)
        height, width = cutter.view_size
        fitting = 2 ** int(math.log2(max(1, TILE_PIXELS // (height * width))))
        tile = (
            cpu_tile(height * width, cutter.n_ablations) if device.type == "cpu" else batch_size or min(16384, fitting)
        )
        shape = in_channels(view, channels), height, width
        n_classes = config.n_classes if config else _probed(network, shape, device, PRECISIONS[kind])
        return cls(network, cutter, threshold, channels, n_classes, device, kind, tile, compiled)

    @property
    def n_votes(self) -> int:
        return most_votes(self.threshold, self.n_classes)

    def facts(self) -> dict[str, Any]:
        """What the ballots depend on beside the weights and the images, as plain JSON."""
        from majorcert import __version__

        return {
            "threshold": self.threshold,
            "view": self.cutter.view,
            "precision": self.precision,
            "device": self.device.type,
            "views_per_pass": self.tile,
            "compiled": self.compiled,
            "software": f"majorcert {__version__}",
        }

    def vote(
        self, images: Tensor, *, keep_scores: bool = False, progress: Callable[[int], None] | None = None
    ) -> Votes:
        """The votes of uint8 or float (N, C, H, W) images, still on the device and perhaps still being computed.

        Args:
            progress: called after each tile with the number of views in it.
        """
        if self.device.type == "cuda" and not images.is_cuda:
            images = images.pin_memory()
        images = images.to(self.device, non_blocking=True)
        n_views = len(images) * self.cutter.n_ablations
        labels, distances, scores, finite = [], [], [], torch.ones((), dtype=torch.bool, device=self.device)
        with torch.inference_mode(), _repeatable(self.device):
            for start in range(0, n_views, self.tile):
                probabilities = self._scores(images, start, n_views)
                labels.append(votes_of(probabilities, self.threshold, self.n_votes))
                distances.append(distance_of(probabilities, self.threshold))
                finite = finite & probabilities.isfinite().all()
                if keep_scores:
                    scores.append(probabilities)
                if progress is not None:
                    progress(min(self.tile, n_views - start))
            shape = len(images), self.cutter.n_ablations, -1
            kept = torch.cat(scores)[:n_views].view(shape) if scores else None
            distance = rounded_down(torch.cat(distances)[:n_views]).view(shape[:2])
            return Votes(torch.cat(labels)[:n_views].view(shape), distance, kept, finite)

    def _scores(self, images: Tensor, start: int, n_views: int) -> Tensor:
        """(tile, classes): the softmax of the network on one tile of views, from `start` on."""
        n_ablations = self.cutter.n_ablations
        first, last = start // n_ablations, min(start + self.tile, n_views) - 1
        pair = torch.arange(start, start + self.tile, device=self.device).clamp(max=n_views - 1)
        some = images[first : last // n_ablations + 1]
        dtype = PRECISIONS[self.precision]
        sheet = self.cutter.sheet(to_unit(some, dtype) if some.dtype == torch.uint8 else some.to(dtype))
        views = self.cutter.take(sheet, pair // n_ablations - first, pair % n_ablations)
        logits = self.network(views.contiguous(memory_format=_layout(self.device)))
        if not isinstance(logits, Tensor) or tuple(logits.shape) != (self.tile, self.n_classes):
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ModelError(f"the network takes views to logits of shape {(self.tile, self.n_classes)}, got {got}")
        return logits.float().softmax(dim=1)


def cpu_tile(n_pixels: int, n_ablations: int) -> int:
    """Views in one pass on a CPU, for views of that many pixels: more are faster until they leave the cache.

    Of small views 64, but 32 where that leaves less to fill up when there is one image alone.
    """
    if n_pixels >= 512:
        return 32 if n_pixels < 2**14 else 8
    return min((64, 32), key=lambda tile: -n_ablations % tile)


def check_finite(votes: Votes) -> Votes:
    """The same votes, once they are known to come from numbers; waits for the device."""
    if not bool(votes.finite):
        raise ModelError("the network's output is not finite (NaN or infinite); its weights or its precision are unfit")
    return votes


def _probed(network: Network, shape: tuple[int, int, int], device: torch.device, dtype: torch.dtype) -> int:
    """The number of classes that a user's own network tells apart, once it is known to keep views apart."""
    views = torch.rand(7, *shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    with torch.inference_mode():
        try:
            one, other = (network(torch.cat([views[:1], mates])) for mates in (views[1:4], views[4:]))
        except (RuntimeError, TypeError, ValueError) as error:
            raise ModelError(f"the network cannot take {shape[0]}x{shape[1]}x{shape[2]} views: {error}") from None
    if not isinstance(one, Tensor) or one.ndim != 2 or len(one) != 4 or one.shape[1] < 2:
        got = tuple(one.shape) if isinstance(one, Tensor) else type(one).__name__
        raise ModelError(f"a network takes 4 views to logits of shape (4, classes), got {got}")
    if not torch.allclose(one[0].float(), other[0].float(), rtol=0.02, atol=0.02):
        raise ModelError("the network's answer to a view changes with the other views of the batch; use its eval mode")
    return one.shape[1]


def _layout(device: torch.device) -> torch.memory_format:
    """The order of a tensor in memory that convolutions are fastest in."""
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format


@contextmanager
def _repeatable(device: torch.device) -> Iterator[None]:
    """The same kernels in every run, and float32 that is float32, so that a resumed run ends with the same ballots."""
    if device.type != "cuda":
        yield
        return
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield
