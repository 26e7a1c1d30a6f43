"""What of a verdict can be judged anew at all: the rest is refused, and says why."""

import re
from collections.abc import Mapping, Sequence

from majorcert.audit.ensemble import ALONE
from majorcert.audit.kinds import kind_of, members_of, parts_of, tolerance_of
from majorcert.core.reach import Evidence
from majorcert.core.verdict import Verdict
from majorcert.errors import EvidenceError

METHODS = ("drs-margin", *ALONE, "majorcert-exact", "majorcert-paper", "detection", "unwavering")
ONLY_OF = {"drs-margin": ("ballots", "pool"), "pg-drs": ("scores",), "pg-pool": ("masked-pool",)}
"""Methods that are about some kinds alone."""
TOLERANT = ("ballots", "pool", "mask-pairs")
"""Kinds of which it is defined what may change within a tolerance."""


def first_labels(method: str) -> int | None:
    """Among how many labels a "top-3" verdict says that the label stays; None of other methods."""
    match = re.fullmatch(r"top-([1-9]\d{0,8})", method)
    return None if match is None else int(match[1])


def check_covered(verdict: Verdict, evidence: Sequence[Evidence]) -> None:
    """Refuse a verdict of a method, or with evidence, that there is no definition for."""
    _check_method(verdict, evidence)
    (height, width), n_classes = evidence[0].image_size, evidence[0].n_classes
    for place, other in enumerate(evidence[1:], start=2):
        if (other.image_size, other.n_classes) != ((height, width), n_classes):
            raise EvidenceError(f"evidence stores 1 and {place} differ in image size or classes, so are no ensemble")
    for place, (origin, each) in enumerate(zip(verdict.defenders, evidence, strict=True), start=1):
        _check_kind(verdict.method, origin, each, place)
        _check_tolerance(origin, each, place)
    if verdict.patch.height > height or verdict.patch.width > width:
        raise EvidenceError(f"a {verdict.patch} patch does not fit in a {height}x{width} image; is it this evidence?")


def _check_method(verdict: Verdict, evidence: Sequence[Evidence]) -> None:
    """Refuse what has no definition, or is not about so many defenders."""
    if not all(isinstance(origin, Mapping) for origin in verdict.defenders):
        raise EvidenceError("the verdict does not say where its defenders come from; expected a record of each")
    ranked = first_labels(verdict.method) is not None
    if verdict.method not in METHODS and not ranked:
        known = ", ".join((*METHODS, "top-2"))
        raise EvidenceError(f"verify does not cover the method {verdict.method!r}; it covers {known}")
    alone = verdict.method in (*ALONE, "drs-margin") or ranked
    if not evidence or len(evidence) != len(verdict.defenders) or (alone and len(evidence) != 1):
        raise EvidenceError(
            f"this {verdict.method} verdict is of {len(verdict.defenders)} defenders, got {len(evidence)} evidence "
            "stores; give those that it was made from, in the same order"
        )
    if verdict.slack and len(evidence) != 1:
        raise EvidenceError(f"slack is for one voting defender or pool, and this verdict is of {len(evidence)}")


def _check_kind(method: str, origin: Mapping[str, object], evidence: Evidence, place: int) -> None:
    """Refuse evidence of another kind than the verdict says, or than its method is about."""
    claimed, kind = kind_of(origin), kind_of(evidence.provenance)
    if kind != claimed:
        raise EvidenceError(
            f"the verdict says that defender {place} is of {claimed}, and its evidence is of {kind}; give the stores "
            "that it was made from"
        )
    if kind not in (kinds := ONLY_OF.get(method, (kind,))):
        raise EvidenceError(f"{method} is about {' or '.join(kinds)}, and the evidence is of {kind}; certify again")


def _check_tolerance(origin: Mapping[str, object], evidence: Evidence, place: int) -> None:
    """Refuse a tolerance of what knows none, in one defender and in the members of a pool."""
    kind, records, parts = kind_of(origin), members_of(origin), parts_of(evidence, origin)
    if len(records) != len(parts):
        raise EvidenceError(f"the verdict pools {len(records)} defenders, the evidence {len(parts)}")
    tolerances = [tolerance_of(each) for each in (origin, *records)]  # of every kind they are numbers, or refused
    if kind not in TOLERANT and any(each is not None for each in tolerances):
        raise EvidenceError(f"the verdict claims a tolerance, and evidence of {kind} knows none; certify again")
    for record, part in zip(records, parts, strict=True):
        if tolerance_of(record) is not None and getattr(part, "distance", None) is None:
            raise EvidenceError(
                f"the verdict treats ballots as fragile, but evidence {place} was recorded without distances; give "
                "the stores that it was made from"
            )
