"""From views to scores: a network on a device that sees tiles of one fixed shape, whatever the views are for.

The second promise that certificates rest on: a ballot depends on its own view alone. Libraries choose other kernels
for other batch shapes, and round differently in them, so the network only ever sees tiles of one size. The places
that are left over in a tile are taken by views of the tile before, in new company: they must get the same answer.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from majorcert.errors import ModelError
from majorcert.nets.ambient import settled
from majorcert.nets.company import (
    Network,
    Seats,
    check_company,
    check_numbers,
    check_parts,
    check_same,
    is_steady,
    odd_views,
)
from majorcert.nets.device import usable_device
from majorcert.nets.folded import folded
from majorcert.nets.models import ModelConfig, factories_in

Precision = Literal["float32", "bfloat16", "float16"]
PRECISIONS: dict[str, torch.dtype] = {name: getattr(torch, name) for name in get_args(Precision)}
TILE_PIXELS = 2**22
"""About how many pixels the views of one tile have on an accelerator."""
MAP_TILE = 1
"""Views in one pass on a CPU, of which each is scored to a map: whole images are large enough to be alone."""
LARGE = 2**14
"""Pixels of a view from which on it does not fit in a cache."""
BETWEEN = 64
"""Of so many views one is scored again."""


class Health(NamedTuple):
    """What is looked at later, so that the device need not be waited for."""

    finite: Tensor  # is every answer a number?
    apart: Tensor  # did every view that was scored again get the same answer?

    def check(self) -> None:
        """Refuse what came from a network that is not fit; waits for the device."""
        check_numbers(self.finite)
        check_same(self.apart, torch.ones_like(self.apart))


class _Scored(NamedTuple):
    """Views of the last tile, and what the network said to them."""

    views: Tensor
    logits: Tensor


@dataclass
class _Watch:
    """What a scorer remembers from tile to tile; nothing that a score depends on."""

    n_tiles: int = 0
    last: _Scored | None = None


@dataclass(frozen=True, eq=False)
class Scorer:
    """A network on a device, ready to score views of one shape; make it with `Scorer.of`."""

    network: Network
    shape: tuple[int, int, int]
    """(channels, height, width) of a view"""
    n_classes: int
    device: torch.device
    precision: Precision
    tile: int
    """views in one forward pass"""
    compiled: bool = False
    map_size: tuple[int, ...] = ()
    """(rows, columns) of the map of logits, where a network scores many fields of a view at once; else nothing"""
    known: bool = False
    """is it a network of this package, whose parts cannot look across a batch?"""
    _watch: _Watch = field(default_factory=_Watch, init=False, repr=False)

    @classmethod
    def of(
        cls,
        network: Network,
        shape: tuple[int, int, int],
        *,
        views_per_image: int = 1,
        map_size: tuple[int, ...] = (),
        config: ModelConfig | None = None,
        device: torch.device | str = "cpu",
        precision: Precision | None = None,
        batch_size: int | None = None,
        compiled: bool = False,
    ) -> "Scorer":
        """Put a copy of the network on the device, in eval mode.

        Args:
            views_per_image: a tile on a CPU suits one image alone.
            map_size: as above.
            config: what one of this package's networks was built from; of others it is found out what they return.
            precision: of the network's arithmetic; by default bfloat16 on CUDA and float32 elsewhere.
            batch_size: views in one forward pass on an accelerator. On a CPU it is always the same, so that
                scores never depend on it.
        """
        device, config = usable_device(device), None if config and factories_in(config) else config
        if batch_size is not None and batch_size < 1:
            raise ModelError(f"a batch has at least one view, got a batch size of {batch_size}")
        kind = suited_precision(precision, device)
        dtype = PRECISIONS[kind]
        n_pixels = shape[1] * shape[2]
        if device.type == "cpu":
            tiles = [MAP_TILE if map_size else cpu_tile(n_pixels, views_per_image)]
        else:
            tiles = [batch_size] if batch_size else gpu_tiles(n_pixels)
        with settled(device):
            if isinstance(network, nn.Module):
                network = folded(network) if config else copy.deepcopy(network).eval()
                network = network.to(device=device, dtype=dtype, memory_format=_layout(device, n_pixels))  # type: ignore[call-overload]
            check_parts(network)
            if compiled:
                network = torch.compile(network)
            like = torch.zeros((), dtype=dtype, device=device)

            def asked(views: Tensor) -> Tensor:  # in the layout that it votes in: another one has other kernels
                return network(views.contiguous(memory_format=_layout(device, n_pixels)))

            n_classes = config.n_classes if config else check_company(asked, shape, tiles[0], like, map_size)
            tile = tiles[0]
            if device.type != "cpu" or not config:
                tile = next((each for each in tiles if is_steady(asked, shape, each, like, map_size)), 0)
            if not tile:
                raise ModelError(
                    f"in batches of {tiles[-1]} the network's answer to a view changes with its place in the batch; "
                    + (f"use another batch_size than {batch_size}, or none" if batch_size else "try a small batch_size")
                )
        known = config is not None
        return cls(network, shape, n_classes, device, kind, tile, compiled, map_size, known)

    @property
    def dtype(self) -> torch.dtype:
        return PRECISIONS[self.precision]

    @property
    def layout(self) -> torch.memory_format:
        return _layout(self.device, self.shape[1] * self.shape[2])

    @cached_property
    def _odd(self) -> Tensor:
        return odd_views(self.shape).to(self.device, self.dtype)

    @property
    def n_new(self) -> int:
        """Of a full tile, the views that are new: a large tile has places for some of the one before."""
        return self.tile if self.device.type == "cpu" else self.tile - self.tile // (BETWEEN + 1)

    @property
    def seats(self) -> Seats:
        """The views of a tile that are scored again in the places left over in the next one."""
        return Seats(self.tile, self.tile - self.n_new or self.tile // 2)

    def facts(self) -> dict[str, Any]:
        """What the scores depend on beside the weights and the images, as plain JSON."""
        from majorcert import __version__

        return {
            "precision": self.precision,
            "device": self.device.type,
            "views_per_pass": self.tile,
            "compiled": self.compiled,
            "software": f"majorcert {__version__}",
        }

    def score(self, n_views: int, cut: Callable[[int, int], Tensor], use: Callable[[Tensor], None]) -> Health:
        """Give the network the views 0 to n_views - 1, tile by tile, and each tile's scores to `use`.

        Args:
            cut: gives the views from the first number up to the second, (n, channels, height, width), as `dtype`.
            use: called with (n, classes) scores of the next n views, still being computed on the device; of maps, with
                those of every cell of the first view, then of the second, and so on.
        """
        health = Health(*torch.ones(2, dtype=torch.bool, device=self.device))
        with settled(self.device):
            for start in range(0, n_views, self.n_new):
                logits, health = self._answer(cut(start, min(start + self.n_new, n_views)), health)
                use(self.scores(logits))
                if self._watch_is_due():
                    _, health = self._answer(self._odd[:0], health)
        return health

    def logits(self, views: Tensor) -> Tensor:
        """(tile, classes, and of maps rows, columns) what the network says to a tile of views, each for itself."""
        logits = self.network(views.contiguous(memory_format=self.layout))
        expected = (self.tile, self.n_classes, *self.map_size)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ModelError(f"the network takes views to logits of shape {expected}, got {got}")
        return logits.float()

    def scores(self, logits: Tensor) -> Tensor:
        """(views x cells, classes) the scores, from 0 to 1, that logits stand for."""
        scores = logits.softmax(dim=1)
        return scores.flatten(2).transpose(1, 2).flatten(0, 1) if self.map_size else scores

    def _answer(self, views: Tensor, health: Health) -> tuple[Tensor, Health]:
        """(views, classes) logits. The places left over go to odd views, the last ones to views to be scored again."""
        n_views, seats, last = len(views), self.seats, self._watch.last
        if n_views < self.tile:
            again = last.views[max(n_views - seats.after.start, 0) :] if last else views[:0]
            n_odd = self.tile - n_views - len(again)
            odd = self._odd[torch.arange(n_odd, device=self.device) % len(self._odd)]
            views = torch.cat([views, odd.contiguous(memory_format=self.layout), again])
        kept = views[seats.before].clone()
        logits = self.logits(views)
        finite, apart = health.finite & logits.isfinite().all(), health.apart
        if last and n_views < self.tile:
            apart = apart & (logits[self.tile - len(again) :] == last.logits[len(last.logits) - len(again) :]).all()
        self._watch.last = _Scored(kept, logits[seats.before].clone())
        return logits[:n_views], Health(finite, apart)

    def _watch_is_due(self) -> bool:
        """Whether a tile of views to be scored again comes next: after a stranger's first one, then now and then."""
        self._watch.n_tiles += 1
        first = self._watch.n_tiles == 1 and not self.known
        return first or (self.n_new == self.tile and self._watch.n_tiles % BETWEEN == 0)


def suited_precision(asked: Precision | None, device: torch.device) -> Precision:
    """The one that is asked for; by default bfloat16 on CUDA and float32 elsewhere."""
    precision: Precision = asked or ("bfloat16" if device.type == "cuda" else "float32")
    if precision not in PRECISIONS:
        raise ModelError(f"the precision is {' or '.join(map(repr, PRECISIONS))}, got {precision!r}")
    return precision


def cpu_tile(n_pixels: int, n_views: int) -> int:
    """Views in one pass on a CPU, for views of that many pixels: more are faster until they leave the cache.

    Of small views 64, but 32 where that leaves less to fill up when there is one image alone.
    """
    if n_pixels >= 512:
        return 32 if n_pixels < LARGE else 8
    return min((64, 32), key=lambda tile: -n_views % tile)


def gpu_tiles(n_pixels: int) -> list[int]:
    """Views in one pass on an accelerator, best first: powers of two, with places for those to be scored again."""
    fitting = min(2**14, 2 ** int(math.log2(max(1, TILE_PIXELS // n_pixels))))
    halved = [fitting // 2**k for k in range(9) if fitting // 2**k >= min(BETWEEN, fitting)]
    return [tile + tile // BETWEEN for tile in halved]


def _layout(device: torch.device, n_pixels: int) -> torch.memory_format:
    """The order of a tensor in memory that convolutions are fastest in: on a CPU another one for large views."""
    return torch.channels_last if device.type == "cuda" or n_pixels >= LARGE else torch.contiguous_format
