"""A second opinion on one image, straight from the definitions and slow on purpose.

Sets of pixels, loops over all placements, enumeration of what defenders can be made to say. Nothing here is shared
with the code that certifies, so that a mistake would have to be made twice.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from majorcert.errors import EvidenceError

MAX_PICKS = 1000
"""Up to so many picks of one label from each reach are all tried; of more, those that hurt most."""

Placement = tuple[int, int]
Labels = frozenset[int]
Touched = Mapping[Placement, frozenset[int]]
"""The numbers of the ablations that share a pixel with the patch, at each placement."""


@dataclass(frozen=True)
class Opinion:
    """What the definitions say of one image."""

    predicted: int
    certified: bool
    by: str
    safe: Mapping[Placement, bool]
    """every placement, in order; empty for a margin"""
    reaches: Mapping[Placement, tuple[Labels, ...]]
    """what each defender can be made to say; empty for a margin"""


def regions(spec: str, image_size: tuple[int, int]) -> list[frozenset[tuple[int, int]]]:
    """The pixels that each ablation of "rows:4", "blocks:12" or "columns:19/5" shows, in the order of the ballots."""
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


def touched_sets(spec: str, image_size: tuple[int, int], patch: tuple[int, int]) -> Touched:
    """Which ablations share a pixel with the patch, at every placement at which it lies in the image."""
    shown = regions(spec, image_size)
    touched: dict[Placement, frozenset[int]] = {}
    for top in range(image_size[0] - patch[0] + 1):
        for left in range(image_size[1] - patch[1] + 1):
            painted = {(top + i, left + j) for i in range(patch[0]) for j in range(patch[1])}
            touched[top, left] = frozenset(
                number for number, pixels in enumerate(shown) if not painted.isdisjoint(pixels)
            )
    return touched


def beats(label: int, n_votes: int, other: int, n_other: int) -> bool:
    """More votes win, and on a tie the smaller label."""
    return n_votes > n_other or (n_votes == n_other and label < other)


def winner(votes: Mapping[int, int]) -> int:
    """The label that beats all others."""
    return min(votes, key=lambda label: (-votes[label], label))


def count(ballots: Sequence[Labels], left_out: frozenset[int], n_classes: int) -> dict[int, int]:
    """The votes for every label, without those of the ablations that are left out."""
    votes = dict.fromkeys(range(n_classes), 0)
    for number, ballot in enumerate(ballots):
        if number not in left_out:
            for label in ballot:
                votes[label] += 1
    return votes


def reach_of(kept: Mapping[int, int], n_touched: int, clean: int, *, paper: bool) -> Labels:
    """What a defender can be made to say: labels that win if all touched ballots are theirs alone.

    In the paper's larger set they need only beat the clean label.
    """
    if paper:
        return frozenset(c for c in kept if c == clean or beats(c, kept[c] + n_touched, clean, kept[clean]))
    strongest_first = sorted(kept, key=lambda label: (-kept[label], label))
    return frozenset(
        c for c in kept if all(beats(c, kept[c] + n_touched, k, kept[k]) for k in strongest_first if k != c)
    )


def margin_holds(votes: Mapping[int, int], label: int, most_touched: int, n_fragile: int) -> bool:
    """Does the label lead every other by twice what any placement touches, and by one more where it loses ties?

    The votes are those of the solid ballots; each fragile one may go to the other label.
    """
    return all(votes[label] >= 2 * most_touched + n_fragile + votes[c] + (label > c) for c in votes if c != label)


@lru_cache(maxsize=2**16)
def majority_holds(reaches: tuple[Labels, ...], label: int) -> bool:
    """Has every pick of one label from each reach this plurality?

    Of too many picks only the worst for each rival is tried: all say it who can, and of the others all who can say
    something else than the label. If any pick breaks the majority, one of these does (docs/soundness.md).
    """
    if prod(len(reach) for reach in reaches) <= MAX_PICKS:
        return all(winner(Counter(pick)) == label for pick in product(*reaches))
    for rival in frozenset().union(*reaches) - {label}:
        pick = [rival if rival in reach else min(reach - {label}, default=label) for reach in reaches]
        if winner(Counter(pick)) != label:
            return False
    return True


def opinion_of(
    method: str,
    votes: Sequence[Sequence[Labels]],
    touched: Sequence[Touched],
    fragile: Sequence[frozenset[int]],
    n_classes: int,
) -> Opinion:
    """Judge one image, given what each ablation of each defender votes for, and which of them are fragile."""
    labels = [winner(count(ballots, frozenset(), n_classes)) for ballots in votes]
    predicted = winner(Counter(labels))
    firm = [
        margin_holds(count(ballots, weak, n_classes), label, max(len(numbers) for numbers in sets.values()), len(weak))
        for ballots, label, sets, weak in zip(votes, labels, touched, fragile, strict=True)
    ]
    # A fragile ballot counts as touched wherever the patch is.
    touched = [
        {where: numbers | weak for where, numbers in sets.items()} for sets, weak in zip(touched, fragile, strict=True)
    ]
    if method == "drs-margin":
        return Opinion(predicted, firm[0], "margin" if firm[0] else "", {}, {})
    by_defender = [
        _reach_everywhere(ballots, sets, label, n_classes, paper=method == "majorcert-paper")
        for ballots, sets, label in zip(votes, touched, labels, strict=True)
    ]
    reaches = {where: tuple(each[where] for each in by_defender) for where in touched[0]}
    if method == "drs-local":
        safe = {where: reach == {predicted} for where, (reach,) in reaches.items()}
        argument = "local"
    else:
        safe = {where: majority_holds(sets, predicted) for where, sets in reaches.items()}
        n_firm = sum(holds and label == predicted for holds, label in zip(firm, labels, strict=True))
        argument = "theorem1" if 2 * n_firm > len(votes) else "theorem2"
    certified = all(safe.values())
    return Opinion(predicted, certified, argument if certified else "", safe, reaches)


def _reach_everywhere(
    ballots: Sequence[Labels], touched: Touched, clean: int, n_classes: int, *, paper: bool
) -> dict[Placement, Labels]:
    """The reach at each placement, worked out once for placements that touch the same ablations."""
    known: dict[frozenset[int], Labels] = {}
    for numbers in touched.values():
        if numbers not in known:
            known[numbers] = reach_of(count(ballots, numbers, n_classes), len(numbers), clean, paper=paper)
    return {where: known[numbers] for where, numbers in touched.items()}
