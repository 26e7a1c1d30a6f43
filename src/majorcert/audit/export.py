"""Evidence as plain text, for the checker that is extracted from the proofs (proofs/README.md has the format)."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from majorcert.audit.geometry import Size
from majorcert.audit.kinds import Origin, fragile_of, kind_of, members_of, parts_of, weights_of
from majorcert.core.reach import Evidence
from majorcert.errors import EvidenceError

CLAIMS = ("exact", "paper", "margin", "detect")
"""Recovery by Theorem 2 with exact or with the paper's reach, or by the margin of one defender; detection."""
FIRST_LINE = "majorcert-export 1"


def exported(
    evidence: Sequence[Evidence],
    patch: Size,
    *,
    claim: str,
    slack: int = 0,
    rows: Sequence[int] | None = None,
    origins: Sequence[Origin] | None = None,
) -> Iterator[str]:
    """The lines of one question about an ensemble, and of its evidence; refused before the first is given.

    Args:
        rows: of the evidence; all of them by default.
        origins: how a verdict says that the evidence was used (its tolerance); by default as the evidence says.
    """
    if claim not in CLAIMS:
        raise EvidenceError(f"a claim is {', '.join(CLAIMS)}; got {claim!r}")
    if claim == "margin" and [kind_of(each.provenance) for each in evidence] != ["ballots"]:
        raise EvidenceError("the checker knows the margin of the ballots of one defender")
    used = [each.provenance for each in evidence] if origins is None else origins
    if unknown := {kind_of(origin) for origin in used} - set(HEADERS):
        raise EvidenceError(f"the checker does not know {', '.join(sorted(unknown))}; it knows {', '.join(HEADERS)}")
    first, told = evidence[0], list(zip(evidence, used, strict=True))
    question = [
        "question",
        f"size {first.image_size[0]} {first.image_size[1]}",
        f"classes {first.n_classes}",
        f"patch {patch[0]} {patch[1]}",
        f"claim {claim} {slack}" if claim == "detect" else f"claim {claim}",
        f"defenders {len(told)}",
        *(f"defender {HEADERS[kind_of(origin)](each.provenance)}" for each, origin in told),
    ]
    return chain(question, _records(told, range(len(first)) if rows is None else rows))


def _records(told: Sequence[tuple[Evidence, Origin]], rows: Sequence[int]) -> Iterator[str]:
    for row in rows:
        yield f"image {told[0][0].images[row]}"
        yield from (f"record {RECORDS[kind_of(origin)](each, origin, row)}" for each, origin in told)


def _numbers(pattern: str, spec: Any, what: str) -> str:
    """The groups of a spec, with 1 for what is left out."""
    match = re.fullmatch(pattern, str(spec))
    if match is None:
        raise EvidenceError(f"the checker knows {what}, not {str(spec)[:40]!r}")
    return " ".join(group or "1" for group in match.groups())


def _cut(known: Origin) -> str:
    return _numbers(r"(rows|columns|blocks):(\d+)(?:/(\d+))?", known["strategy"], "rows, columns and blocks")


def _votes_header(known: Origin) -> str:
    members = zip(members_of(known), weights_of(known), strict=True)
    return "votes " + " ".join(f"{_cut(member)} {weight}" for member, weight in members)


def _masks_header(known: Origin) -> str:
    spec = re.sub(r"^masks:(\d+)(?=/|$)", r"masks:\1x\1", str(known["masks"]))
    return "pairs " + _numbers(r"masks:(\d+)x(\d+)(?:/(\d+))?", spec, "masks such as 'masks:5/3'")


def _scores_header(known: Origin) -> str:
    mask = _numbers(r"(\d+)x(\d+)", known["mask"], "masks such as '5x5'")
    share = _numbers(r"(\d+)(?:/(\d+))?", known.get("mask_threshold", 0), "shares such as '1/4'")
    return f"scores {_cut(known)} {mask} {share}"


def _votes(evidence: Any, origin: Origin, row: int) -> str:
    parts = zip(parts_of(evidence, origin), members_of(origin), strict=True)
    told = (([_ballot(tuple(each)) for each in part.labels[row].tolist()], part, record) for part, record in parts)
    return " ".join(_marked(words, fragile_of(part, record, row)) for words, part, record in told)


@lru_cache(maxsize=2**14)
def _ballot(labels: tuple[int, ...]) -> str:
    return ",".join(str(label) for label in labels if label >= 0) or "-"


def _marked(words: list[str], places: frozenset[int] | set[int]) -> str:
    """The words in one line; those at the given places are fragile."""
    for place in places:
        words[place] += "!"
    return " ".join(words)


def _pairs(evidence: Any, origin: Origin, row: int) -> str:
    """The upper triangle row by row, "?" where nobody looked; a fragile row is marked at its entry on the diagonal."""
    words = [str(label) if label >= 0 else "?" for label in evidence.labels[row].tolist()]
    n = int((2 * len(words)) ** 0.5)
    return _marked(words, {i * n - i * (i - 1) // 2 for i in fragile_of(evidence, origin, row)})


def _scores(evidence: Any, origin: Origin, row: int) -> str:
    return " ".join(",".join(map(str, points)) for points in evidence.scores.points[row].tolist())


HEADERS: Mapping[str, Callable[[Origin], str]] = {
    "ballots": _votes_header,
    "pool": _votes_header,
    "mask-pairs": _masks_header,
    "scores": _scores_header,
}
RECORDS: Mapping[str, Callable[[Any, Origin, int], str]] = {
    "ballots": _votes,
    "pool": _votes,
    "mask-pairs": _pairs,
    "scores": _scores,
}
