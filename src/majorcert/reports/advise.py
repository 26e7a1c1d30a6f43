"""Which defence suits? Every way to judge the same evidence, what each comes to and costs, and advice in a sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from majorcert.core.detection import detect
from majorcert.core.majority import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.reports.bound import presumed, within
from majorcert.reports.contents import defender_names
from majorcert.reports.rooms import pooled, room_of
from majorcert.reports.score import score

SHARE, BRIEF = "2%", 500
"""The patch, and so many images at most, of advice that nobody asked for."""


@dataclass(frozen=True)
class Choice:
    """One way to use some defenders, with shares of `n` images."""

    who: str
    promise: str
    clean: float  # right; under detection, and without an alert
    certified: float  # the same, and certified
    alerts: float | None  # of detection, on clean images
    views: int  # that the networks look at for the label of an image
    knows: bool  # it must know a bound on the patch when it predicts
    n: int
    usual: float = 0.0  # of the most frequent label: how often whoever always says it is right

    def cells(self) -> list[str]:
        shares = [f"{100 * self.clean:.1f}", f"{100 * self.certified:.1f}"]
        alerts = "" if self.alerts is None else f"{100 * self.alerts:.1f}"
        return [self.who, self.promise, *shares, alerts, str(self.views), "yes" if self.knows else "no"]


HEADER = ["defender", "promise", "clean %", "certified %", "alerts %", "views an image", "must know the patch"]


def choices(defenders: Sequence[Evidence], patch: Patch, truth: npt.ArrayLike) -> list[Choice]:
    """Each defender alone, their majority and their pool, under both promises where they can give them."""
    found = []
    for who, some, together in _ways(defenders):
        rooms = [room_of(each) for each in some]
        views = sum(room.views(each) for room, each in zip(rooms, some, strict=True))
        found.append(_choice(who, majorcert(together, patch), truth, views, bool(presumed(some))))
        if all(room.detects for room in rooms):
            found.append(_choice(who, detect(together, patch), truth, views, True))
    return found


def briefly(defenders: Sequence[Evidence], patch: Patch, truth: Ints) -> str:
    """Advice by some of the images, against as much of the patch as all defenders speak of."""
    n, patch = min(len(truth), BRIEF), within(defenders, patch)
    return advice(choices([each[:n] for each in defenders], patch, truth[:n]), patch)


def _ways(defenders: Sequence[Evidence]) -> Iterator[tuple[str, Sequence[Evidence], Sequence[Evidence]]]:
    """A name, the defenders that are asked, and the evidence that is judged."""
    for name, each in zip(defender_names(defenders), defenders, strict=True):
        yield name, [each], [each]
    if len(defenders) > 1:
        yield f"majority of {len(defenders)}", defenders, defenders
    for pool in pooled(defenders):
        yield f"pool of {len(defenders)}", defenders, [pool]


def _choice(who: str, verdict: Verdict, truth: npt.ArrayLike, views: int, knows: bool) -> Choice:
    found = score(verdict, truth)
    alerts = None if verdict.alert is None else float(verdict.alert.mean()) if len(verdict) else 0.0
    usual = np.unique(truth, return_counts=True)[1].max(initial=0) / max(found.n, 1)
    return Choice(who, verdict.promise, found.clean, found.certified, alerts, views, knows, found.n, float(usual))


def advice(found: Sequence[Choice], patch: Patch) -> str:
    """In one sentence what to take, and what else to think of.

    Of those that certify as much as the best, as far as so many images can tell, the most accurate is taken, and of
    several such the one that looks at the fewest views; if these are as many, the one that certifies most.
    """
    recovery = [each for each in found if each.promise == "recovery"]
    best = _best(recovery)
    if best.certified == 0:
        others = "other strategies" if best.knows else "other strategies or masks"
        told = f"Against {patch} patches no image is both right and certified: try smaller patches, {others}"
    else:
        told = f"Against {patch} patches take {_told(best)}"
    free = [each for each in recovery if not each.knows]
    if best.knows and free and (other := _best(free)).certified:
        told += f"; if no bound on the patch is known when predicting, {_told(other)}"
    detection = [each for each in found if each.promise == "detection"]
    if detection and (other := _best(detection)).certified > best.certified + _doubt(best):
        told += f"; where an alert will do, detection by {_told(other)}"
        told += f", with alerts on {_percent(other.alerts or 0)} of clean images"
    if max(each.clean for each in recovery) <= best.usual:
        told += f"; none is right more often than who always says the most frequent label, {_percent(best.usual)}"
    return f"{told} ({best.n:,} images: differences under {100 * _doubt(best):.1f} points may be chance)"


def _best(found: Sequence[Choice]) -> Choice:
    most = max(found, key=lambda each: each.certified)
    as_good = [each for each in found if each.certified >= most.certified - _doubt(most) / 2]
    return min(as_good, key=lambda each: (-round(each.clean, 3), each.views, -each.certified))


def _doubt(choice: Choice) -> float:
    """Two standard errors of the certified share."""
    return 2 * sqrt(max(choice.certified * (1 - choice.certified), 0.25 / max(choice.n, 1)) / max(choice.n, 1))


def _told(choice: Choice) -> str:
    return (
        f"{choice.who} ({_percent(choice.certified)} certified, {_percent(choice.clean)} clean, {choice.views} views)"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
