"""The methods of the command line by their names: which defenders each judges, together or alone, and how."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from majorcert.core.detection import detect
from majorcert.core.majority import drs, majorcert
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.joint import joint
from majorcert.defences.patchguard import MaskedPool
from majorcert.defences.pool import Pool
from majorcert.defences.top_k import top_k
from majorcert.errors import EvidenceError
from majorcert.files.evidence import load_masked
from majorcert.reports.contents import defender_names
from majorcert.reports.rooms import room_of
from majorcert.reports.score import summary

Judged = list[tuple[str, Verdict]]
"""Who was judged, and what came out."""


def judged(
    method: str, defenders: Sequence[Evidence], patch: Patch, slack: int = 0, promise: str = "recovery"
) -> Judged:
    """One verdict of all the defenders together, or one of each alone, as the method has it.

    Args:
        method: one of METHODS, or "top-3" for the first three labels by all votes in one count.
        slack: of detection, as `detect` takes it.
        promise: "recovery", or another one of the label that the method makes.
    """
    names = defender_names(defenders)
    if promise in ALERTING and method not in ALERTING:
        return _promised(promise, method, defenders, patch, slack)
    if method in ALERTING:
        return [(" + ".join(names), ALERTING[method](defenders, patch, slack))]
    if method.startswith("top-"):
        pool = defenders[0] if len(defenders) == 1 else Pool(defenders)
        return [(" + ".join(names), top_k(pool, patch, int(method.removeprefix("top-"))))]
    if method in TOGETHER:
        return [(" + ".join(names), TOGETHER[method](defenders, patch))]
    return [(name, ALONE[method](each, patch)) for name, each in zip(names, defenders, strict=True)]


def _promised(promise: str, method: str, defenders: Sequence[Evidence], patch: Patch, slack: int) -> Judged:
    """Another promise than recovery, of the label that a method makes of all together or of each alone."""
    names = defender_names(defenders)
    if method == "drs-local":
        return [(who, ALERTING[promise]([each], patch, slack)) for who, each in zip(names, defenders, strict=True)]
    if method not in ("majorcert-exact", "pool"):
        raise EvidenceError(f"{promise} is promised of majorcert-exact, pool or drs-local, not of {method}")
    together = [Pool(defenders)] if method == "pool" else defenders
    return [(" + ".join(names), ALERTING[promise](together, patch, slack))]


def used_by(
    method: str,
    stores: Sequence[str],
    defenders: Sequence[Evidence],
    patch: Patch,
    mask: Patch | None,
    threshold: float,
) -> list[Evidence]:
    """The defenders as they are, or masked if the method masks: each alone, from its scores, or their pool."""
    if method == "pg-pool":
        return [MaskedPool(Pool(defenders), mask or patch, threshold)]
    return [load_masked(each, patch, mask, threshold) for each in stores] if method == "pg-drs" else list(defenders)


def unknown(defenders: Sequence[Evidence], patches: Sequence[Patch]) -> list[str]:
    """A sentence for each defender and each patch that is larger than any which its evidence speaks of."""
    found = []
    for name, each in zip(defender_names(defenders), defenders, strict=True):
        bound = room_of(each).bound(each)
        for patch in patches:
            if bound is not None and (patch.height > bound.height or patch.width > bound.width):
                found.append(
                    f"{name} speaks of patches up to {bound}: of {patch} it proves nothing; vote for larger ones"
                )
    return found


def counted(who: str, verdict: Verdict, truth: Ints | None) -> dict[str, Any]:
    """What a verdict comes to, as plain JSON; against the truth where it is known."""
    line: dict[str, Any] = {
        "defenders": who,
        "method": verdict.method,
        "patch": str(verdict.patch),
        **{key: verdict.defenders[0][key] for key in ("fragile", "mask") if key in verdict.defenders[0]},
        **({"slack": verdict.slack} if verdict.slack else {}),
        "promise": verdict.promise,
        "n": len(verdict),
        "n_certified": int(verdict.certified.sum()),
        **({} if verdict.alert is None else {"n_alerts": int(verdict.alert.sum())}),
    }
    if truth is not None:
        counts = summary(verdict, truth)
        line |= {
            "n_correct": counts.n_correct,
            "n_certified_and_correct": counts.n_certified_and_correct,
            "clean": counts.n_correct / max(counts.n, 1),
            "certified": counts.n_certified_and_correct / max(counts.n, 1),
            "by_and_correct": counts.by_and_correct,
        }
    return line


def as_table(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The header and the cells of what was counted."""
    known = ["clean", "certified and correct"] if "clean" in lines[0] else []
    alerts = ["alerts"] if any("n_alerts" in line for line in lines) else []
    header = ["defenders", "method", "patch", "certified", *known, *alerts, "n"]
    return header, [_cells(line, len(header)) for line in lines]


def _cells(line: Mapping[str, Any], width: int) -> list[str]:
    n = max(line["n"], 1)
    shares = [line["n_certified"] / n, *(line[key] for key in ("clean", "certified") if key in line)]
    shown = [f"{100 * share:.2f}%" for share in [*shares, *([line["n_alerts"] / n] if "n_alerts" in line else [])]]
    how = [f"{key} {line[key]}" for key in ("fragile", "mask", "slack") if key in line]
    cells = [line["defenders"], ", ".join([line["method"], *how]), line["patch"], *shown]
    return [*cells, *[""] * (width - 1 - len(cells)), str(line["n"])]


def fragility(defenders: Sequence[Any]) -> list[str]:
    """For each defender, how many of its ballots the tolerance makes fragile."""
    found = []
    for name, each in zip(defender_names(defenders), defenders, strict=True):
        n_fragile, n = int(each.fragile.sum()), each.fragile.size
        found.append(
            f"{name}: {n_fragile:,} of {n:,} ballots are fragile ({100 * n_fragile / max(n, 1):.2f}%)"
            + ("; no distance over the tolerance is on record" if n and n_fragile == n else "")
        )
    return found


TOGETHER: Mapping[str, Callable[[Sequence[Evidence], Patch], Verdict]] = {
    "majorcert-exact": majorcert,
    "majorcert-paper": lambda defenders, patch: majorcert(defenders, patch, reach="paper"),
    "pool": lambda defenders, patch: majorcert([Pool(defenders)], patch),
}
ALERTING: Mapping[str, Callable[[Sequence[Evidence], Patch, int], Verdict]] = {
    "detection": lambda defenders, patch, slack: detect(defenders, patch, slack=slack),
    "unwavering": lambda defenders, patch, slack: joint(defenders, patch, slack=slack).unwavering,
}
ALONE: Mapping[str, Callable[[Evidence, Patch], Verdict]] = {
    "drs-margin": drs,
    "drs-local": lambda each, patch: drs(each, patch, bound="local"),
    "pg-drs": lambda each, patch: replace(drs(each, patch, bound="local"), method="pg-drs"),
    "pg-pool": lambda each, patch: replace(drs(each, patch, bound="local"), method="pg-pool"),
}
METHODS = (*TOGETHER, "detection", *ALONE)
