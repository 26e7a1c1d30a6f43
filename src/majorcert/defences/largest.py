"""The largest certified patch of each image."""

from collections.abc import Callable, Sequence

import numpy as np

from majorcert.core.majority import ReachKind, majorcert, most_certified_alone
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import Bools, Patch
from majorcert.errors.checks import check_together


def largest_patch(defenders: Sequence[Evidence], *, reach: ReachKind = "exact") -> Ints:
    """(images,) the side of the largest square patch that each image is certified against, 0 if there is none.

    Found by bisection, which is right because every placement of a smaller patch lies inside one of a larger patch: it
    touches no other ablations, so what the larger patch cannot do the smaller one cannot either. How far Theorem 1 goes
    is found first, without a look at the placements; Theorem 2 goes as far at least, and seldom much farther.
    """
    check_together(defenders)

    def some(images: Ints) -> list[Evidence]:
        return [defender[images] for defender in defenders]

    sides = np.zeros(len(defenders[0]), dtype=np.int64)
    limit = min(defenders[0].image_size)
    firm = _raised(sides, limit, limit, lambda images, patch: most_certified_alone(some(images), patch))
    return _raised(firm, limit, 1, lambda images, patch: majorcert(some(images), patch, reach=reach).certified)


def _raised(sides: Ints, limit: int, step: int, holds: Callable[[Ints, Patch], Bools]) -> Ints:
    """(images,) the largest sides at which it holds, from sides at which it does: by growing steps, and by halving."""
    sides, too_large = sides.copy(), np.full(len(sides), limit + 1)
    while (open_ := np.flatnonzero(too_large - sides > 1)).size:
        tried = np.minimum(sides[open_] + step, (sides[open_] + too_large[open_]) // 2)
        for side in np.unique(tried):
            images = open_[tried == side]
            held = holds(images, Patch(int(side)))
            sides[images[held]] = side
            too_large[images[~held]] = side
        step *= 2
    return sides
