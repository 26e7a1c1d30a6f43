"""The promises that a page or a story can be about: who judges, by which sets of labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from majorcert.core.detection import detect
from majorcert.core.majority import majorcert
from majorcert.core.reach import Evidence, Reach
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.errors import EvidenceError
from majorcert.errors.checks import check_alerting, checked_slack


@dataclass(frozen=True)
class Promise:
    """What is shown: an image is safe at a placement iff every choice of one label from each set has its plurality."""

    name: str
    judge: Callable[[Sequence[Evidence], Patch], Verdict]
    sets: Callable[[Evidence, Patch], Reach]
    slack: int = 0  # of detection: votes or points by which another label must lead for an alert

    @property
    def alerts(self) -> bool:
        return self.name == "detection"


def promised(name: str, slack: int = 0, n_defenders: int = 1) -> Promise:
    """The promise of that name; detection, of one voting defender or pool, with some slack if so asked."""
    if name not in ("recovery", "detection"):
        raise EvidenceError(f"a promise is 'recovery' or 'detection', got {name!r}")
    check_alerting(name == "detection", slack)
    slack = checked_slack(slack, n_defenders)
    if name == "recovery":
        return RECOVERY
    return Promise(
        "detection",
        lambda defenders, patch: detect(defenders, patch, slack=slack),
        lambda each, patch: each.without(patch, slack),
        slack,
    )


RECOVERY = Promise("recovery", majorcert, lambda each, patch: each.reach(patch))
