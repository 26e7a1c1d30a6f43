"""The promises that a page or a story can be about: who judges, by which sets of labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from majorcert.core.detection import detect
from majorcert.core.majority import majorcert
from majorcert.core.reach import Evidence, Reach
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict


@dataclass(frozen=True)
class Promise:
    """What is shown: an image is safe at a placement iff every choice of one label from each set has its plurality."""

    name: str
    judge: Callable[[Sequence[Evidence], Patch], Verdict]
    sets: Callable[[Evidence, Patch], Reach]

    @property
    def alerts(self) -> bool:
        return self.name == "detection"


PROMISES: Mapping[str, Promise] = {
    "recovery": Promise("recovery", majorcert, lambda each, patch: each.reach(patch)),
    "detection": Promise("detection", detect, lambda each, patch: each.without(patch)),
}
