"""Sets of pixels: what each ablation shows, what a placed patch touches, what each mask hides.

Counted pixel by pixel. Nothing here is shared with the code that certifies.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from majorcert.errors import EvidenceError

Placement = tuple[int, int]
Pixels = frozenset[tuple[int, int]]
Size = tuple[int, int]
Touched = Mapping[Placement, frozenset[int]]
"""At each placement the numbers of the ablations that share a pixel with the patch."""


def painted(patch: Size, placement: Placement) -> Pixels:
    """The pixels of a placed patch."""
    top, left = placement
    return frozenset((top + i, left + j) for i in range(patch[0]) for j in range(patch[1]))


def placements(patch: Size, image_size: Size) -> list[Placement]:
    """Every place at which the patch lies in the image, in order."""
    rows, columns = (range(side - length + 1) for side, length in zip(image_size, patch, strict=True))
    return [(top, left) for top in rows for left in columns]


@lru_cache(maxsize=64)
def regions(spec: str, image_size: Size) -> list[Pixels]:
    """The pixels that each ablation of "rows:4", "blocks:12" or "columns:19/5" shows, in the order of the ballots."""
    if spec.startswith("fields:"):
        return fields(spec, image_size)
    match = re.fullmatch(r"(rows|columns|blocks):(\d+)(?:/(\d+))?", spec)
    if match is None:
        raise EvidenceError(f"cannot read {spec!r} as a strategy; expected one such as 'columns:19/5'")
    kind, size, stride = match[1], int(match[2]), int(match[3] or 1)
    height, width = image_size
    all_rows, all_columns = [range(height)], [range(width)]
    bands_of_rows = [[(start + k) % height for k in range(size)] for start in range(0, height, stride)]
    bands_of_columns = [[(start + k) % width for k in range(size)] for start in range(0, width, stride)]
    return [
        frozenset((row, column) for row in rows for column in columns)
        for rows in (all_rows if kind == "columns" else bands_of_rows)
        for columns in (all_columns if kind == "rows" else bands_of_columns)
    ]


def fields(spec: str, image_size: Size) -> list[Pixels]:
    """The pixels that each cell of a map sees, row by row: "fields:11/2", "fields:32x5" (height x width / stride).

    The fields lie around every stride-th pixel, an even one with its extra pixel after that, and end at the border. One
    that is as long as the image sees all of that side, and is the only one there.
    """
    match = re.fullmatch(r"fields:(\d+)(?:x(\d+))?(?:/(\d+))?", spec)
    if match is None:
        raise EvidenceError(f"cannot read {spec!r} as fields; expected such as 'fields:11/2' or 'fields:32x5'")
    runs = []
    for length, side in zip((int(match[1]), int(match[2] or match[1])), image_size, strict=True):
        before, after = (length - 1) // 2, length // 2
        each = [range(max(at - before, 0), min(at + after, side - 1) + 1) for at in range(0, side, int(match[3] or 1))]
        runs.append([range(side)] if length >= side else each)
    return [frozenset((row, column) for row in rows for column in columns) for rows in runs[0] for columns in runs[1]]


@lru_cache(maxsize=64)
def touched_sets(spec: str, image_size: Size, patch: Size) -> Touched:
    """Which ablations share a pixel with the patch, at every placement at which it lies in the image."""
    shown = regions(spec, image_size)
    return {
        where: frozenset(number for number, pixels in enumerate(shown) if not pixels.isdisjoint(painted(patch, where)))
        for where in placements(patch, image_size)
    }


@lru_cache(maxsize=64)
def hidden_sets(spec: str, image_size: Size) -> list[Pixels]:
    """The pixels that each mask of "masks:5/3" or "masks:3x7/2" hides: rectangles that hide any patch up to a size.

    A mask is as large as the patch and one less than the stride on top; the last one ends at the border.
    """
    match = re.fullmatch(r"masks:(\d+)(?:x(\d+))?(?:/(\d+))?", spec)
    if match is None:
        raise EvidenceError(f"cannot read {spec!r} as masks; expected such as 'masks:5/3' or 'masks:3x7/2'")
    stride = int(match[3] or 1)
    sides, starts = [], []
    for length, side in zip((int(match[1]), int(match[2] or match[1])), image_size, strict=True):
        sides.append(min(length + stride - 1, side))
        last = side - sides[-1]
        starts.append([*(start for start in range(0, last, stride)), last])
    return [painted((sides[0], sides[1]), (top, left)) for top in starts[0] for left in starts[1]]


@lru_cache(maxsize=64)
def covering_masks(spec: str, image_size: Size, patch: Size) -> Touched:
    """At each placement the numbers of the masks that hide the whole patch."""
    return containing(hidden_sets(spec, image_size), image_size, patch)


def containing(sets: Sequence[Pixels], image_size: Size, patch: Size) -> Touched:
    """At each placement of the patch the numbers of the sets that have all of its pixels."""
    return {
        where: frozenset(number for number, pixels in enumerate(sets) if painted(patch, where) <= pixels)
        for where in placements(patch, image_size)
    }
