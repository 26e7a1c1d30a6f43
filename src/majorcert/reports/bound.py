"""Patches beyond which a defender says nothing: what it takes for granted, and what is asked of it in vain."""

from collections.abc import Sequence

from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.reports.contents import defender_names
from majorcert.reports.rooms import room_of


def presumed(defenders: Sequence[Evidence]) -> dict[str, Patch]:
    """By the name of each defender whose label depends on a bound that must be known when it predicts: that bound."""
    found = {}
    for name, each in zip(defender_names(defenders), defenders, strict=True):
        room = room_of(each)
        if room.presumes and (bound := room.bound(each)) is not None:
            found[name] = bound
    return found


def presumption(name: str, bound: Patch | str) -> str:
    """What such a defender takes for granted, in words."""
    return f"{name} takes for granted that no patch is larger than {bound}, and promises nothing of larger ones"


def beyond(defenders: Sequence[Evidence], patches: Sequence[Patch]) -> list[str]:
    """A sentence for each defender and each patch that is larger than any which its evidence speaks of."""
    found = []
    for name, each in zip(defender_names(defenders), defenders, strict=True):
        bound = room_of(each).bound(each)
        found += [
            f"{name} speaks of patches up to {bound}: against {patch} it certifies no image; vote for larger ones"
            for patch in patches
            if bound is not None and (patch.height > bound.height or patch.width > bound.width)
        ]
    return found


def within(defenders: Sequence[Evidence], patch: Patch) -> Patch:
    """As much of the patch as all of them speak of."""
    bounds = [patch, *(bound for each in defenders if (bound := room_of(each).bound(each)) is not None)]
    return Patch(min(bound.height for bound in bounds), min(bound.width for bound in bounds))
