"""A second opinion on one image, straight from the definitions and slow on purpose.

Loops over all placements, enumeration of what defenders can be made to say. Nothing here is shared with the code that
certifies, so that a mistake would have to be made twice.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Protocol

from majorcert.audit.geometry import Placement
from majorcert.errors import EvidenceError

MAX_PICKS = 1000
"""Up to so many picks of one label from each set are all tried; of more, those that hurt most."""
ALONE = ("drs-local", "pg-drs", "pg-pool")
"""Methods for one defender that look at every placement."""

Labels = frozenset[int]
Sets = Mapping[Placement, Labels]
"""A set of labels at each placement, in order."""
Lacking = Mapping[Placement, tuple[Mapping[int, int], int]]


class Testimony(Protocol):
    """What the definitions of a kind say of one defender and one image; one file a kind."""

    @property
    def label(self) -> int: ...

    def reach(self) -> Sets:
        """The labels that a patch at each placement can make it say."""
        ...

    def paper_reach(self) -> Sets:
        """The paper's larger set."""
        raise EvidenceError(f"the paper's reach is of votes, and {type(self).__name__} has none")

    def firm(self) -> bool:
        """Is the label certified alone: of votes by their margin, of others as their reach says?"""
        return all(labels == {self.label} for labels in self.reach().values())

    def without(self, slack: int = 0) -> Sets:
        """The labels that it may say when all that a patch could touch is left out; of votes, given so many more."""
        raise EvidenceError(f"{type(self).__name__} does not say what is left without a part of the image")

    def attack(self, where: Placement) -> Hashable:
        """What a patch there can change: placements with the same are the same to it."""
        return where

    def provoked(self, where: Placement, slack: int) -> Sets:
        """The labels that it may say without each placement, on an image that is attacked at this one."""
        raise EvidenceError(f"verify does not know what {type(self).__name__} says without a part of an attacked image")

    def lacking(self) -> Lacking:
        """At each placement what each rival lacks to stand ahead of the label, and the points to be given away."""
        raise EvidenceError(f"top-k is about votes, and {type(self).__name__} has none")


@dataclass(frozen=True)
class Opinion:
    """What the definitions say of one image."""

    predicted: int
    certified: bool
    by: str
    safe: Mapping[Placement, bool]
    """every placement, in order; empty for a margin"""
    sets: Mapping[Placement, tuple[Labels, ...]]
    """what each defender can be made to say, or says without the patch; empty for a margin"""


def beats(label: int, n_votes: int, other: int, n_other: int) -> bool:
    """More votes win, and on a tie the smaller label."""
    return n_votes > n_other or (n_votes == n_other and label < other)


def winner(votes: Mapping[int, int]) -> int:
    """The label that beats all others."""
    return min(votes, key=lambda label: (-votes[label], label))


def winners(kept: Mapping[int, int], gain: int) -> Labels:
    """The labels that win if all that is to be given away is given to them alone."""
    strongest_first = sorted(kept, key=lambda label: (-kept[label], label))
    return frozenset(c for c in kept if all(beats(c, kept[c] + gain, k, kept[k]) for k in strongest_first if k != c))


@lru_cache(maxsize=2**16)
def majority_holds(sets: tuple[Labels, ...], label: int) -> bool:
    """Has every pick of one label from each set this plurality?

    Of too many picks only the worst for each rival is tried: all say it who can, and of the others all who can say
    something else than the label. If any pick breaks the majority, one of these does (docs/soundness.md).
    """
    if prod(len(each) for each in sets) <= MAX_PICKS:
        return all(winner(Counter(pick)) == label for pick in product(*sets))
    for rival in frozenset().union(*sets) - {label}:
        pick = [rival if rival in each else min(each - {label}, default=label) for each in sets]
        if winner(Counter(pick)) != label:
            return False
    return True


def opinion_of(method: str, told: Sequence[Testimony], slack: int = 0) -> Opinion:
    """Judge one image by what is known of each defender."""
    labels = [each.label for each in told]
    predicted = winner(Counter(labels))
    if method == "drs-margin":
        firm = told[0].firm()
        return Opinion(predicted, firm, "margin" if firm else "", {}, {})
    if method == "unwavering":
        silent = opinion_of("majorcert-exact", told).certified and _silent(told, predicted, slack)
        return Opinion(predicted, silent, "unwavering" if silent else "", {}, {})
    if method == "detection":
        by_defender, argument = [each.without(slack) for each in told], "detection"
    else:
        by_defender = [each.paper_reach() if method == "majorcert-paper" else each.reach() for each in told]
        argument = "local" if method in ALONE else _theorem(told, predicted)
    sets = {where: tuple(each[where] for each in by_defender) for where in by_defender[0]}
    safe = {where: majority_holds(here, predicted) for where, here in sets.items()}
    certified = all(safe.values())
    return Opinion(predicted, certified, argument if certified else "", safe, sets)


def strongest(told: Sequence[Testimony], unwavering: bool, slack: int) -> str:
    """The strongest promise that holds for one image, of which it is known whether it is unwavering."""
    if unwavering:
        return "unwavering"
    if opinion_of("majorcert-exact", told).certified:
        return "recovery"
    return "detection" if opinion_of("detection", told, slack).certified else "none"


def _silent(told: Sequence[Testimony], label: int, slack: int) -> bool:
    """Is the label all that is said without any placement, wherever a patch is?"""
    attacks = {tuple(each.attack(where) for each in told): where for where in told[0].reach()}
    for where in attacks.values():
        said = [each.provoked(where, slack) for each in told]
        if not all(majority_holds(tuple(each[left_out] for each in said), label) for left_out in said[0]):
            return False
    return True


def top_opinion(told: Testimony, k: int, most: int) -> Opinion:
    """Judge whether the label stays among the first k, if a ballot may name so many labels.

    The k rivals that lack least stand ahead together iff none lacks more than there is to be given away, and all of
    them together no more than ballots of so many labels can name.
    """
    safe, ahead = {}, {}
    for where, (lacks, given) in told.lacking().items():
        easiest = sorted(lacks, key=lambda c: (lacks[c], c))[:k]
        needs = [lacks[c] for c in easiest]
        safe[where] = len(easiest) < k or max(needs) > given or sum(needs) > min(most, k) * given
        ahead[where] = tuple(frozenset({c}) for c in easiest)
    certified = all(safe.values())
    return Opinion(told.label, certified, "top-k" if certified else "", safe, ahead)


def alert_of(told: Sequence[Testimony], slack: int) -> bool:
    """Is there an alert on this image: is the plurality of what is said without some placement another label?

    With a slack, which is for one voting defender: do another label's votes there beat the label's and the slack?
    """
    if slack:
        return any(told[0].label not in labels for labels in told[0].without(slack).values())
    return not opinion_of("detection", told).certified


def _theorem(told: Sequence[Testimony], predicted: int) -> str:
    """Theorem 1 if more than half of the defenders say the label and are certified alone, else Theorem 2."""
    n_firm = sum(each.label == predicted and each.firm() for each in told)
    return "theorem1" if 2 * n_firm > len(told) else "theorem2"
