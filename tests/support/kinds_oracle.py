"""The literal oracle of the further kinds: pools, two masks, and the alert rule, one image at a time, slow on purpose.

Like `oracle`, it shares no code with majorcert and takes no short cut that needs a proof.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import product

import oracle
from oracle import Counts, Defender, Pixels, Size

Table = tuple[tuple[int, ...], ...]
"""The label under masks i and j; on the diagonal under one."""


# ---- pools ----


def added(vectors: Iterable[Counts]) -> Counts:
    return tuple(map(sum, zip(*vectors, strict=True)))


def scaled(weight: int, votes: Counts) -> Counts:
    return tuple(weight * n for n in votes)


def pool_label(members: Sequence[Defender], weights: Sequence[int]) -> int:
    """The plurality of all votes, each worth its member's points."""
    return oracle.plurality(added(scaled(w, one.counts()) for w, one in zip(weights, members, strict=True)))


def pool_outcomes(members: Sequence[Defender], weights: Sequence[int], patch: Size, placement: Size) -> set[int]:
    """What the pool says after each rewrite of the touched and fragile ballots of all members: all are tried."""
    every = [
        {
            scaled(w, added([one.kept(patch, placement), new]))
            for new in oracle.rewrites(len(one.rewritable(patch, placement)), one.n_classes)
        }
        for w, one in zip(weights, members, strict=True)
    ]
    return {oracle.plurality(added(chosen)) for chosen in product(*every)}


# ---- what is said without a placement, and the alert ----


def left(members: Sequence[Defender], weights: Sequence[int], patch: Size, placement: Size) -> Counts:
    """The points of the ballots that a patch there does not touch, whether or not they are fragile."""
    return added(
        scaled(w, oracle.count((b for i, b in enumerate(one.ballots) if i not in hit), one.n_classes))
        for w, one in zip(weights, members, strict=True)
        for hit in [one.touched(patch, placement)]
    )


def pool_alert(members: Sequence[Defender], weights: Sequence[int], patch: Size, slack: int) -> bool:
    """Do, without some placement, the points of another label beat those of the label and the slack?"""
    y, n_classes = pool_label(members, weights), members[0].n_classes
    kept = [left(members, weights, patch, place) for place in oracle.placements(patch, members[0].image_size)]
    return any(oracle.beats(c, here[c], y, here[y] + slack) for here in kept for c in range(n_classes) if c != y)


def ensemble_alert(defenders: Sequence[Defender], patch: Size) -> bool:
    """Is, without some placement, the plurality of what the defenders say another label than theirs with it?"""
    y, n_classes = oracle.ensemble_label(defenders), defenders[0].n_classes
    return any(
        oracle.majority([oracle.plurality(left([one], [1], patch, place)) for one in defenders], n_classes) != y
        for place in oracle.placements(patch, defenders[0].image_size)
    )


def pool_without(
    members: Sequence[Defender], weights: Sequence[int], patch: Size, placement: Size, slack: int
) -> set[int]:
    """The labels that win without the placement when they are given the slack, whatever fragile ballots become."""
    every = []
    for w, one in zip(weights, members, strict=True):
        doubtful = one.fragile - one.touched(patch, placement)
        kept = one.kept(patch, placement)
        every.append({scaled(w, added([kept, new])) for new in oracle.rewrites(len(doubtful), one.n_classes)})
    found = set()
    for chosen in product(*every):
        points = added(chosen)
        labels = range(len(points))
        found |= {c for c in labels if all(oracle.beats(c, points[c] + slack, k, points[k]) for k in labels if k != c)}
    return found


# ---- two masks ----


@cache
def hidden(bound: Size, stride: int, image_size: Size) -> tuple[Pixels, ...]:
    """The pixels that each mask hides: as large as the bound and the stride less one, from every stride-th pixel on.

    One that would leave the image is moved back to the border, and two in one place are one.
    """
    starts, sides = [], []
    for length, side in zip(bound, image_size, strict=True):
        size = min(side, length + stride - 1)
        found: list[int] = []
        for start in range(0, side, stride):
            at = min(start, side - size)
            if at not in found:
                found.append(at)
        starts.append(found)
        sides.append(size)
    return tuple(oracle.patch_pixels((sides[0], sides[1]), place) for place in product(*starts))


def covering(bound: Size, stride: int, image_size: Size, patch: Size) -> dict[Size, frozenset[int]]:
    """For each placement, the masks that hide every pixel of the patch."""
    masks = hidden(bound, stride, image_size)
    return {
        place: frozenset(i for i, pixels in enumerate(masks) if oracle.patch_pixels(patch, place) <= pixels)
        for place in oracle.placements(patch, image_size)
    }


def double_masking(table: Sequence[Sequence[int]]) -> int:
    """All labels under one mask agree: that one. Else a dissenter whom no second mask changes, the first; else most."""
    single = [table[i][i] for i in range(len(table))]
    if len(set(single)) == 1:
        return single[0]
    most = oracle.majority(single, max(single) + 1)
    for i, row in enumerate(table):
        if single[i] != most and all(label == single[i] for label in row):
            return single[i]
    return most


def rewritten_tables(table: Table, cover: frozenset[int], n_classes: int) -> Iterator[list[list[int]]]:
    """The table with every label for every pair of masks of which neither hides the patch."""
    n = len(table)
    free = [(i, j) for i in range(n) for j in range(i, n) if i not in cover and j not in cover]
    for labels in product(range(n_classes), repeat=len(free)):
        after = [list(row) for row in table]
        for (i, j), label in zip(free, labels, strict=True):
            after[i][j] = after[j][i] = label
        yield after


def masking_outcomes(table: Table, cover: frozenset[int], n_classes: int) -> set[int]:
    """What double masking says after each rewrite; tables that agree in what cannot be rewritten are one."""
    n = len(table)
    fixed = tuple(tuple(table[i][j] if i in cover or j in cover else 0 for j in range(n)) for i in range(n))
    return _masking_outcomes(fixed, cover, n_classes)


@cache
def _masking_outcomes(table: Table, cover: frozenset[int], n_classes: int) -> set[int]:
    return {double_masking(after) for after in rewritten_tables(table, cover, n_classes)}
