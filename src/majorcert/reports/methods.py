"""The methods of the command line by their names: which defenders each judges, together or alone, and how."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from majorcert.core.detection import detect
from majorcert.core.majority import DrsBound, ReachKind, drs, majorcert
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.joint import STRONGEST_FIRST, joint
from majorcert.defences.patchguard import MaskedPool, patchguard
from majorcert.defences.pool import Pool
from majorcert.defences.top_k import top_k
from majorcert.errors import EvidenceError
from majorcert.files.evidence import kept_scores, load_masked
from majorcert.files.photo import containing
from majorcert.reports.contents import defender_names
from majorcert.reports.rooms import room_of
from majorcert.reports.score import summary


class Judged(NamedTuple):
    """One verdict of a method."""

    who: str
    method: str  # as the table calls it
    verdict: Verdict


def judged(
    method: str, defenders: Sequence[Evidence], patch: Patch, slack: int = 0, promise: str = "recovery"
) -> list[Judged]:
    """The verdicts on all the defenders together, or on each alone, as the method has it; of "joint" three of each.

    Args:
        method: one of METHODS, or "top-3" for the first three labels by all votes in one count.
        slack: of detection, as `detect` takes it.
        promise: "recovery", or another one of the label that the method makes.
    """
    if method == "detection":
        if promise not in ("recovery", "detection"):
            raise EvidenceError(f"the method 'detection' promises just that, not {promise}; leave --method out")
        method, promise = "majorcert-exact", "detection"
    if promise != "recovery" and method not in PROMISING:
        raise EvidenceError(f"{promise} is promised of {', '.join(PROMISING[:-1])} or {PROMISING[-1]}, not of {method}")
    names = defender_names(defenders)
    parties: list[tuple[str, Sequence[Evidence]]] = [(" + ".join(names), defenders)]
    if method in ALONE:
        parties = [(name, [each]) for name, each in zip(names, defenders, strict=True)]
    elif method == "pool" or (method.startswith("top-") and len(defenders) > 1):
        parties = [(" + ".join(names), [Pool(defenders)])]
    found = []
    for who, some in parties:
        verdicts = [_recovered(method, some, patch)] if promise == "recovery" else ALERTING[promise](some, patch, slack)
        found += [Judged(who, called(method, some), each) for each in verdicts]
    return found


def _recovered(method: str, defenders: Sequence[Evidence], patch: Patch) -> Verdict:
    """The verdict on these as one, that the label stays, or stays among the first k."""
    if method.startswith("top-"):
        return top_k(defenders[0], patch, int(method.removeprefix("top-")))
    if method in TOGETHER:
        return majorcert(defenders, patch, reach=TOGETHER[method])
    return replace(drs(defenders[0], patch, bound=ALONE[method]), method=method)


def _side_by_side(defenders: Sequence[Evidence], patch: Patch, slack: int) -> list[Verdict]:
    found = joint(defenders, patch, slack=slack)
    return [found.recovery, found.detection, found.unwavering]


def called(method: str, defenders: Sequence[Evidence]) -> str:
    """What the table calls a method: of one defender as its kind does; of several, and of plain votes, as it is asked.

    One defender alone is judged by its margin or by its reach, whatever the method is called that does so.
    """
    room = room_of(defenders[0])
    if len(defenders) > 1 or "drs-local" in room.alone:
        return method
    own = {"drs-margin" if bound == "margin" else "drs-local": name for name, bound in room.alone.items()}
    return own.get("drs-local" if method in BY_REACH else method, method)


def check_masking(methods: Sequence[str], mask: str | None, threshold: float) -> None:
    """Refuse to mask by methods that do not."""
    if (mask is not None or threshold) and not {"pg-drs", "pg-pool"} & set(methods):
        raise EvidenceError("a mask and its threshold are of --method pg-drs and pg-pool; give one of these as well")


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


def ruled(rule: str, defenders: Sequence[Evidence], patches: Sequence[Patch]) -> list[Evidence]:
    """The evidence that makes the label: of each defender, for their majority; of their pool; or of the masked pool.

    What is masked is the smallest patch that contains all that are asked about.
    """
    if rule == "majorcert-exact":
        return list(defenders)
    return [Pool(defenders) if rule == "pool" else MaskedPool(Pool(defenders), containing(patches))]


def guarded(stores: Sequence[str], patches: Sequence[Patch]) -> list[Verdict]:
    """PG-DRS, of all votes that were kept with their scores."""
    kept = (scores for store in stores if (scores := kept_scores(store)) is not None)
    return [patchguard(scores, patch) for scores in kept for patch in patches]


def counted(judged: Judged, truth: Ints | None) -> dict[str, Any]:
    """What a verdict comes to, as plain JSON; against the truth where it is known."""
    who, method, verdict = judged
    line: dict[str, Any] = {
        "defenders": who,
        "method": method,
        "patch": str(verdict.patch),
        **{key: verdict.defenders[0][key] for key in ("fragile", "mask") if key in verdict.defenders[0]},
        **({"slack": verdict.slack} if verdict.slack else {}),
        "promise": verdict.promise,
        "n": len(verdict),
        "n_certified": int(verdict.certified.sum()),
        **({} if verdict.alert is None else {"n_alerts": int(verdict.alert.sum())}),
    }
    if verdict.holds is not None:
        strongest = {name: int((verdict.holds == name).sum()) for name in (*STRONGEST_FIRST, "none")}
        line |= {"n_at_will": int((~verdict.certified).sum()), "holds": strongest}
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
    shares = {name: key for name, key in SHARES.items() if any(key in line for line in lines)}
    header = ["defenders", "method", "patch", *shares, "n"]
    return header, [_cells(line, list(shares.values())) for line in lines]


def _cells(line: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    n, promise = max(line["n"], 1), [line["promise"]] if line["promise"] in ALERTING else []
    shown = [f"{100 * line[key] / n:.2f}%" if key in line else "" for key in keys]
    how = [f"{key} {line[key]}" for key in ("fragile", "mask", "slack") if key in line]
    return [line["defenders"], ", ".join([line["method"], *promise, *how]), line["patch"], *shown, str(line["n"])]


def remarks(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What must be known to read the table, and for how many images each promise is the strongest that holds."""
    found, joint = [], [line for line in lines if "holds" in line]
    for line in joint:
        shares = ", ".join(f"{name} {100 * n / max(line['n'], 1):.2f}%" for name, n in line["holds"].items())
        whose = f"{line['method']} of {line['defenders']}, {line['patch']}"
        found.append(f"{whose}: the strongest promise that holds is {shares}")
    if joint:
        found.append(
            "at will: images on which an attacker can raise an alert; with slack or a tolerance, or where defenders do "
            "not vote, at most these"
        )
    if "n_correct" not in lines[0]:
        found.append(
            "true labels are not known: 'certified' counts all images, right or wrong (give them with --truth)"
        )
    return found


def fragility(defenders: Sequence[Any]) -> list[str]:
    """For each defender, how many of its ballots, or of the rows of its masks, the tolerance makes fragile."""
    found = []
    for name, each in zip(defender_names(defenders), defenders, strict=True):
        n_fragile, n, parts = int(each.fragile.sum()), each.fragile.size, room_of(each).fragile_parts
        found.append(
            f"{name}: {n_fragile:,} of {n:,} {parts} are fragile ({100 * n_fragile / max(n, 1):.2f}%)"
            + ("; no distance over the tolerance is on record" if n and n_fragile == n else "")
        )
    return found


TOGETHER: Mapping[str, ReachKind] = {"majorcert-exact": "exact", "majorcert-paper": "paper", "pool": "exact"}
"""The methods for all defenders, or their pool, by the reach that `majorcert` takes of each."""
ALONE: Mapping[str, DrsBound] = {"drs-margin": "margin", "drs-local": "local", "pg-drs": "local", "pg-pool": "local"}
"""Those for one defender, by the bound of `drs`."""
ALERTING: Mapping[str, Callable[[Sequence[Evidence], Patch, int], Iterable[Verdict]]] = {
    "detection": lambda defenders, patch, slack: [detect(defenders, patch, slack=slack)],
    "unwavering": lambda defenders, patch, slack: [joint(defenders, patch, slack=slack).unwavering],
    "joint": _side_by_side,
}
METHODS = (*TOGETHER, "detection", *ALONE)
PROMISING = ("majorcert-exact", "pool", "drs-local")
"""Methods whose label other promises than recovery can be about."""
BY_REACH = ("majorcert-exact", "drs-local", "pg-drs", "pg-pool")
SHARES = {
    "certified": "n_certified",
    "clean": "n_correct",
    "certified and correct": "n_certified_and_correct",
    "alerts": "n_alerts",
    "at will": "n_at_will",
}
"""What the table has of each verdict, and how it is counted."""
