"""The geometry of the charts: data in, coordinates and texts for the SVG of the template out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.reports.page.overview import Curve
from majorcert.reports.png import UNSAFE, address

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 14, 36
MOST_TICKS = 12


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """A line of the chart; `points` is as SVG takes it."""

    points: str
    dots: tuple[tuple[float, float, str], ...]  # x, y and what to say of it


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    text: str
    """what to say of it"""


@dataclass(frozen=True)
class Chart:
    """Axes, and lines or bars between them."""

    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def curve_chart(curves: Sequence[Curve]) -> Chart:
    """Shares of images, 0 to 100%, against the side of the patch; lines end where they reach zero."""
    longest = max(len(curve.shares) for curve in curves)
    lines = []
    for curve in curves:
        dots = tuple(
            (_across(side, longest), _up(share, 1), f"{curve.name}, {_sided(side)}: {share:.1%}")
            for side, share in enumerate(curve.shares)
        )
        lines.append(Line(" ".join(f"{x:.1f},{y:.1f}" for x, y, _ in dots), dots))
    up = tuple(Tick(_up(share, 1), f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1))
    return Chart(_side_ticks(longest), up, lines=tuple(lines))


def largest_chart(largest: Ints) -> Chart:
    """How many images have each side as their largest certified patch; side 0 means not even one pixel."""
    counts = np.bincount(largest).tolist()
    highest = max(counts)
    step = (WIDTH - LEFT - RIGHT) / len(counts)
    bars = tuple(
        Bar(LEFT + side * step + step * 0.08, y := _up(count, highest), step * 0.84, HEIGHT - BOTTOM - y, said)
        for side, count in enumerate(counts)
        for said in [f"{count:,} images: {_sided(side) if side else 'none'}"]
    )
    every = -(-len(counts) // MOST_TICKS)
    across = tuple(Tick(LEFT + (side + 0.5) * step, str(side or "none")) for side in range(0, len(counts), every))
    tops = sorted({0, highest // 2, highest})
    return Chart(across, tuple(Tick(_up(count, highest), f"{count:,}") for count in tops), bars=bars)


def heat_map(shares: npt.NDArray[np.float64]) -> str:
    """A picture with a pixel for each placement, the more opaque the larger the share, as an address to show it by."""
    highest = max(float(shares.max()), 1e-9)
    pixels = np.empty((*shares.shape, 4), dtype=np.uint8)
    pixels[..., :3] = UNSAFE
    pixels[..., 3] = np.round(shares / highest * 255)
    return address(pixels)


def _sided(side: int) -> str:
    return f"{side}x{side}" if side else "no patch"


def _side_ticks(n_sides: int) -> tuple[Tick, ...]:
    every = -(-n_sides // MOST_TICKS)
    return tuple(Tick(_across(side, n_sides), str(side)) for side in range(0, n_sides, every))


def _across(side: int, n_sides: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * side / max(n_sides - 1, 1)


def _up(value: float, highest: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / max(highest, 1e-9)
