"""One image, one placement: what each defender can be made to say, and why the label is safe there or is not.

Numbers come from the core: labels, reaches, and what the room of each kind tells. The page tells the same story in the
browser, word for word; templates/story.js is the twin of this file.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from majorcert.core.plurality import plurality_of_labels, standing
from majorcert.core.reach import Evidence, Reach
from majorcert.core.threat import Bools, Patch
from majorcert.reports.contents import defender_names
from majorcert.reports.mask_rows import Dissent, MaskRow
from majorcert.reports.promises import RECOVERY, Promise
from majorcert.reports.rooms import Told, room_of
from majorcert.reports.rows import safe_map

PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z -]*")
"""Names that read well in a sentence; all others, such as digits, stand in quotation marks."""
NAMED = 3
"""Labels, or masks, that a sentence names before it counts the others."""
DOES_NOT_COUNT = "; it is fragile and does not count"


@dataclass(frozen=True)
class Testimony:
    """One defender at one placement."""

    name: str
    label: int  # what it says of the clean image
    can_say: tuple[int, ...]  # its reach, ascending
    told: Told  # what else its kind tells of it


@dataclass(frozen=True)
class Scene:
    """One image with the patch at one placement."""

    placement: tuple[int, int]
    clean: int
    """the ensemble's label of the clean image"""
    safe: bool
    rival: int
    """the label that comes closest to winning, or wins"""
    n_clean: int
    """defenders that say the clean label whatever the patch does"""
    n_rival: int
    """defenders that can be made to say the rival"""
    forced: tuple[int, ...]
    """what each defender is made to say in the worst case for the clean label"""
    testimonies: tuple[Testimony, ...]
    promise: str = "recovery"
    """under detection, what a defender can say is what it says without all that the patch could touch"""
    slack: int = 0
    """of detection: what it says without that, if some label is given so many votes or points more"""
    alert: bool = False
    """of detection: what is left without the placement raises an alert"""


def scene(
    defenders: Sequence[Evidence],
    patch: Patch,
    image: int,
    placement: tuple[int, int],
    promise: Promise = RECOVERY,
) -> Scene:
    """The story of the image at the given position of the evidence, with the patch at (top, left)."""
    only = np.array([image])
    some = [defender[only] for defender in defenders]
    n_classes = some[0].n_classes
    reach = np.stack([_labels(promise.sets(defender, patch), defender.n_classes, placement) for defender in some])
    labels = np.stack([defender.label for defender in some], axis=1)
    clean = int(plurality_of_labels(labels, n_classes)[0])

    n_clean = int((reach[:, clean] & (reach.sum(axis=1) == 1)).sum())
    strength = standing(reach.sum(axis=0), np.arange(n_classes), n_classes)
    strength[clean] = -1
    rival = int(strength.argmax())
    others = reach.copy()
    others[:, clean] = False
    forced = [rival if row[rival] else int(row.argmax()) if row.any() else clean for row in others]
    tells = [room_of(one).tell(one, patch, placement) for one in some]
    safe = bool(safe_map(promise.judge(some, patch))[0][placement])
    return Scene(
        placement=placement,
        clean=clean,
        safe=safe,
        rival=rival,
        n_clean=n_clean,
        n_rival=int(reach[:, rival].sum()),
        forced=tuple(forced),
        testimonies=tuple(
            Testimony(name, int(one.label[0]), tuple(np.flatnonzero(inside).tolist()), told)
            for name, one, inside, told in zip(defender_names(defenders), some, reach, tells, strict=True)
        ),
        promise=promise.name,
        slack=promise.slack,
        alert=promise.alerts and not (reach[0, clean] if promise.slack else safe),
    )


def _labels(sets: Reach, n_classes: int, placement: tuple[int, int]) -> Bools:
    """(classes,): is this label in the set of the only image at this placement?"""
    top, left = (np.array([side]) for side in placement)
    return sets.at(np.array([0]), top, left, np.arange(n_classes)[None])[0]


def sentence(scene: Scene, class_names: Sequence[str]) -> str:
    """The reason in words."""
    class_names = _spoken(class_names)
    told = scene.testimonies
    clean, rival = class_names[scene.clean], class_names[scene.rival]
    if scene.promise == "detection":
        return (_left_with_slack if scene.slack else _left)(scene, class_names)
    if len(told) == 1:
        if scene.safe:
            return f"Safe here: {told[0].name} cannot be moved from {clean}."
        return f"Not safe here: {told[0].name} can be made to say {_either(scene, told[0], class_names)}."
    if not scene.safe:
        tie = f", and the tie goes to {rival}, the smaller label" if scene.n_rival == scene.n_clean else ""
        return (
            f"Not safe here: with {_forced(scene, class_names)}, "
            f"{rival} has {scene.n_rival} of {len(told)} votes and {clean} has {scene.n_clean}{tie}."
        )
    if scene.n_clean == len(told):
        return f"Safe here: every defender says {clean} and none can be moved."
    unmoved = [one.name for one in told if one.can_say == (scene.clean,)]
    clauses = [_moved(scene, one, class_names) for one in told if one.can_say != (scene.clean,)]
    tie = " and loses the tie, being the larger label" if scene.n_rival == scene.n_clean else ""
    return (
        f"Safe here: {'; '.join(clauses)}; {_all(unmoved)} cannot be moved: {clean} keeps {scene.n_clean} of "
        f"{len(told)}, {rival} gets at most {scene.n_rival}{tie}."
    )


def row_sentences(one: Testimony, class_names: Sequence[str]) -> list[str]:
    """A line for each mask that covers the patch: what breaks its row, and whether it counts."""
    names = _spoken(class_names)
    return [_row(row, one.label, names) + DOES_NOT_COUNT * row.fragile for row in one.told.rows]


def row_alone(one: Testimony, class_names: Sequence[str]) -> str:
    """The first mask that covers the patch, and what is said under it alone: all that detection asks of masks."""
    row = one.told.rows[0]
    return f"at {_corner(row.mask)}: {_spoken(class_names)[row.alone]}" + DOES_NOT_COUNT * row.fragile


def _row(row: MaskRow, label: int, names: Sequence[str]) -> str:
    mask = f"mask at {_corner(row.mask)}"
    if not row.dissent:
        return f"{mask}: {names[label]} under every second mask"
    n, few = len(row.dissent), row.dissent[:NAMED]
    told = [f"{names[each.label]} {_second(row, each)}" for each in few] + [f"{n - NAMED} more"] * (n > NAMED)
    unseen = f"; under {row.n_unseen} nobody looked" if row.n_unseen else ""
    return f"{mask}: not {names[label]} under {n} of {row.n_seconds} second masks ({'; '.join(told)}){unseen}"


def _second(row: MaskRow, dissent: Dissent) -> str:
    return "alone" if dissent.second == row.mask else f"with {_corner(dissent.second)}"


def _corner(mask: tuple[int, int]) -> str:
    return f"{mask[0]},{mask[1]}"


def _spoken(class_names: Sequence[str]) -> list[str]:
    return [name if PLAIN_NAME.fullmatch(name) else f"“{name}”" for name in class_names]


def _left(scene: Scene, class_names: Sequence[str]) -> str:
    """What is said without all that the patch could touch, and whether that raises an alert."""
    told, clean, rival = scene.testimonies, class_names[scene.clean], class_names[scene.rival]
    unsure = [one.name for one in told if len(one.can_say) > 1]
    labels = sorted(
        {one.can_say[0] for one in told if len(one.can_say) == 1}, key=lambda label: (label != scene.clean, label)
    )
    groups = [[one.name for one in told if one.can_say == (label,)] for label in labels]
    clauses = [
        f"{_all(names)} say{'s' if len(names) == 1 else ''} {class_names[label]}"
        for names, label in zip(groups, labels, strict=True)
    ]
    clauses += [f"{_all(unsure)} cannot tell"] if unsure else []
    said = f"without what the patch could touch, {_all(clauses)}"
    votes = f": {clean} has {scene.n_clean} of {len(told)}" if len(told) > 1 else ""
    if scene.safe:
        return f"No alert from here: {said}{votes}."
    tie = f", and the tie goes to {rival}, the smaller label" if scene.n_rival == scene.n_clean else ""
    return f"Alert: {said}" + (f"{votes}, {rival} {scene.n_rival}{tie}." if votes else ".")


def _left_with_slack(scene: Scene, class_names: Sequence[str]) -> str:
    """The same of one defender, where a label that is behind by no more than the slack may be the one that is left."""
    (told,), clean, slack = scene.testimonies, class_names[scene.clean], scene.slack
    without = f"without what the patch could touch, {told.name}"
    if scene.safe:
        return f"No alert from here: {without} says {clean}, whichever label is given {slack} more."
    if scene.alert:
        return f"Alert: {without} does not say {clean}, even if that is given {slack} more."
    either = f"{clean} if that is given {slack} more, and {_either(scene, told, class_names)} if that is"
    return f"No alert from here, and no proof: {without} says {either}."


def _moved(scene: Scene, one: Testimony, class_names: Sequence[str]) -> str:
    others = _either(scene, one, class_names)
    if one.label == scene.clean:
        return f"{one.name} can be made to say {others}"
    return f"{one.name} says {class_names[one.label]} already" + (f" and can be made to say {others}" if others else "")


def _forced(scene: Scene, class_names: Sequence[str]) -> str:
    labels = sorted(set(scene.forced) - {scene.clean}, key=lambda label: (label != scene.rival, label))
    names = [one.name for one in scene.testimonies]
    return _all(
        [
            f"{_all([name for name, said in zip(names, scene.forced, strict=True) if said == label])} "
            f"saying {class_names[label]}"
            for label in labels
        ]
    )


def _either(scene: Scene, one: Testimony, class_names: Sequence[str]) -> str:
    """The labels it could be moved to, the rival first: "dog", "dog or frog", "dog, frog, cat or 5 other labels"."""
    labels = sorted(set(one.can_say) - {scene.clean, one.label}, key=lambda label: (label != scene.rival, label))
    names = [class_names[label] for label in labels[:NAMED]]
    if len(labels) > NAMED:
        more = len(labels) - NAMED
        names.append(f"{more} other label{'s' if more > 1 else ''}")
    return _listing(names, "or")


def _all(names: Sequence[str]) -> str:
    return _listing(names, "and")


def _listing(names: Sequence[str], last: str) -> str:
    """ "a", "a and b", "a, b and c" """
    return ", ".join(names[:-1]) + (f" {last} " if len(names) > 1 else "") + (names[-1] if names else "")
