"""The methods of the command line by their names: which defenders each judges, together or alone, and how."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from majorcert.core.detection import detect
from majorcert.core.drs import drs
from majorcert.core.majority import majorcert
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.pool import Pool
from majorcert.reports.contents import defender_names

Judged = list[tuple[str, Verdict]]
"""Who was judged, and what came out."""


def judged(method: str, defenders: Sequence[Evidence], patch: Patch) -> Judged:
    """One verdict of all the defenders together, or one of each alone, as the method has it."""
    names = defender_names(defenders)
    if method in TOGETHER:
        return [(" + ".join(names), TOGETHER[method](defenders, patch))]
    return [(name, ALONE[method](each, patch)) for name, each in zip(names, defenders, strict=True)]


TOGETHER: Mapping[str, Callable[[Sequence[Evidence], Patch], Verdict]] = {
    "majorcert-exact": majorcert,
    "majorcert-paper": lambda defenders, patch: majorcert(defenders, patch, reach="paper"),
    "pool": lambda defenders, patch: majorcert([Pool(_votes(defenders))], patch),
    "detection": detect,
}
ALONE: Mapping[str, Callable[[Evidence, Patch], Verdict]] = {
    "drs-margin": drs,
    "drs-local": lambda each, patch: drs(each, patch, bound="local"),
    "pg-drs": lambda each, patch: replace(drs(each, patch, bound="local"), method="pg-drs"),
}
METHODS = (*TOGETHER, *ALONE)


def _votes(defenders: Sequence[Evidence]) -> Any:
    """A pool says itself what may be in it."""
    return list(defenders)
