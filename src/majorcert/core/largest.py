"""The largest certified patch of each image."""

from collections.abc import Sequence

import numpy as np

from majorcert.core.majority import ReachKind, check_together, majorcert
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch


def largest_patch(defenders: Sequence[Evidence], *, reach: ReachKind = "exact") -> Ints:
    """(images,) the side of the largest square patch that each image is certified against, 0 if there is none.

    Found by bisection, which is right because every placement of a smaller patch lies inside one of a larger patch: it
    touches no other ablations, so what the larger patch cannot do the smaller one cannot either.
    """
    check_together(defenders)
    certified = np.zeros(len(defenders[0]), dtype=np.int64)
    too_large = np.full(len(certified), 1 + min(defenders[0].image_size))
    while (open_ := np.flatnonzero(too_large - certified > 1)).size:
        middle = (certified[open_] + too_large[open_]) // 2
        for side in np.unique(middle):
            images = open_[middle == side]
            holds = majorcert([defender[images] for defender in defenders], Patch(int(side)), reach=reach).certified
            certified[images[holds]] = side
            too_large[images[~holds]] = side
    return certified
