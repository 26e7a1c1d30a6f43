"""The company of a view: whatever else is in its batch, its answer must stay the same to the last bit.

A network that looks across its batch would let a patch reach views that it does not touch, and every certificate
about it would be worth nothing. So its parts are looked at, it is tried once in bad company before it may vote, and
while it votes some views are given to it again among others.
"""

import dis
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from majorcert.errors import ModelError

Network = Callable[[Tensor], Tensor]
MOST_PARTS = 100_000
"""Objects that are looked at in search of parts."""
CURE = "put it in eval mode, and use running statistics, or a normalisation of each view by itself"


def check_parts(network: Network) -> None:
    """Refuse a network that has a part which computes across the batch, or at random, as far as one can see."""
    for part in parts_of(network):
        if fault := _fault(part):
            raise ModelError(f"the network looks at its batch: {fault}; {CURE}")


def parts_of(network: Network) -> Iterator[nn.Module]:
    """Every module in a network, also those that a function or an object of the user's own holds."""
    found: list[Any] = [network]
    seen: set[int] = set()
    while found and len(seen) < MOST_PARTS:
        part: Any = found.pop()
        if id(part) in seen or isinstance(part, type | Tensor | str | int | float):
            continue
        seen.add(id(part))
        if isinstance(part, nn.Module):
            yield part
        found += _inside(part)


def _inside(part: Any) -> list[Any]:
    """What a part holds: the members of a collection, what a function was closed over, the fields of an object."""
    if isinstance(part, list | tuple | set | frozenset):
        return list(part)
    if isinstance(part, dict):
        return list(part.values())
    if isinstance(part, partial):
        return [part.func, part.args, part.keywords]
    if isinstance(part, MethodType):
        return [part.__self__, part.__func__]
    if isinstance(part, FunctionType):
        return [
            *(cell.cell_contents for cell in part.__closure__ or () if _is_filled(cell)),
            *(part.__globals__[name] for name in _global_names(part.__code__) if name in part.__globals__),
            *(part.__defaults__ or ()),
            *(part.__kwdefaults__ or {}).values(),
            *vars(part).values(),
        ]
    if callable(part) and not isinstance(part, type):
        own = type(part).__dict__.get("__call__")
        return [*getattr(part, "__dict__", {}).values(), *([own] if isinstance(own, FunctionType) else [])]
    return []


def _global_names(code: CodeType) -> set[str]:
    """The global names that a function reads, and the functions that are defined in it."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return names.union(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # of a name that was never given a value
        return False


def _fault(part: nn.Module) -> str:
    """Why the answers of this module depend on more than the view; empty if it is none of the known kinds."""
    kind = type(part).__name__
    if "BatchNorm" in kind:
        if getattr(part, "running_mean", None) is None:
            return f"its {kind} has no running statistics and takes those of the batch"
        if part.training:
            return f"its {kind} is in training mode and takes the statistics of the batch"
    if "InstanceNorm" in kind and part.training and getattr(part, "track_running_stats", False):
        return f"its {kind} is in training mode and changes from batch to batch"
    if "Drop" in kind and part.training and (getattr(part, "p", None) or getattr(part, "drop_prob", None)):
        return f"its {kind} is in training mode and drops at random"
    return ""


def odd_views(shape: tuple[int, int, int]) -> Tensor:
    """(kinds, channels, h, w): views as no photo gives them, beside a smooth and a noisy one."""
    channels, height, width = shape
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(2, *shape, generator=generator)
    ramp = torch.linspace(0, 1, height)[:, None] * torch.linspace(1, 0.2, width)
    smooth = ramp.expand(shape) * torch.linspace(0.5, 1, channels)[:, None, None]
    flat = [torch.full(shape, value) for value in (0.0, 1.0, -1.0)]
    return torch.stack([*flat, (noise[1] > 0.5).float(), smooth, noise[0]])


@dataclass(frozen=True)
class Seats:
    """Which views of a tile are given to the network again, and at which places of another tile.

    Matrix products round by the place of a row within a group of a few rows, so a view moves by whole groups.
    """

    tile: int
    n_again: int

    @property
    def shift(self) -> int:
        half = self.tile // 2
        return half // 64 * 64 or half // 4 * 4

    @property
    def before(self) -> slice:
        last = self.tile - self.shift
        return slice(last - self.n_again, last)

    @property
    def after(self) -> slice:
        return slice(self.tile - self.n_again, self.tile)


def check_company(
    network: Network, shape: tuple[int, int, int], tile: int, like: Tensor, map_size: tuple[int, ...] = ()
) -> int:
    """The number of classes that a user's own network tells apart, once it was tried in bad company.

    Args:
        like: a tensor of the device and type that views have.
        map_size: (rows, columns) of the map of logits, where the network answers with one.
    """
    views = _noise(shape, tile, like)
    logits = _answer(network, views, map_size)
    generator = torch.Generator().manual_seed(2)
    for kind in odd_views(shape).to(like):
        # Here and there, so that neighbours are parted, and groups of any size.
        stays = (torch.rand(tile, generator=generator) < 0.5).to(like.device)
        others = torch.where(stays[:, None, None, None], views, kind)
        check_same(_answer(network, others, map_size)[stays], logits[stays])
    return logits.shape[1]


def is_steady(
    network: Network, shape: tuple[int, int, int], tile: int, like: Tensor, map_size: tuple[int, ...]
) -> bool:
    """Whether a view gets the same answer at another place of a tile; in some sizes a GPU's kernels round otherwise."""
    views, shift = _noise(shape, tile, like), Seats(tile, 0).shift
    moved = _answer(network, views.roll(shift, dims=0), map_size)
    return torch.equal(moved, _answer(network, views, map_size).roll(shift, dims=0))


def _noise(shape: tuple[int, int, int], tile: int, like: Tensor) -> Tensor:
    return torch.rand(tile, *shape, generator=torch.Generator().manual_seed(1)).to(like)


def check_same(found: Tensor, expected: Tensor) -> None:
    """Refuse other answers to the same views."""
    if not torch.equal(found, expected):
        raise ModelError(
            f"the network's answer to a view changes with the other views of the batch, or its place among them; {CURE}"
        )


def _answer(network: Network, views: Tensor, map_size: tuple[int, ...]) -> Tensor:
    """The logits of the views, if that is what a network returns."""
    n_views, *shape = views.shape
    try:
        logits = network(views.clone())
    except (RuntimeError, TypeError, ValueError) as error:
        said = " ".join(str(error).split())
        raise ModelError(f"the network cannot take {'x'.join(map(str, shape))} views: {said}") from None
    got = tuple(logits.shape) if isinstance(logits, Tensor) else ()
    if len(got) < 2 or got != (n_views, max(got[1], 2), *map_size):
        found, expected = got or type(logits).__name__, ", ".join(map(str, (n_views, "classes", *map_size)))
        raise ModelError(f"a network takes {n_views} views to logits of shape ({expected}), got {found}")
    check_numbers(logits.isfinite().all())
    if bool((logits >= 0).all()) and bool(((logits.float().sum(dim=1) - 1).abs() < 1e-3).all()):
        raise ModelError(
            "the network returns probabilities, which add up to 1; it should return logits, the numbers before softmax"
        )
    return logits


def check_numbers(finite: Tensor) -> None:
    """Refuse answers that are no numbers; waits for the device."""
    if not bool(finite):
        raise ModelError("the network's output is not finite (NaN or infinite); its weights or its precision are unfit")
