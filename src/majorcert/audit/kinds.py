"""The kinds of evidence as the audit sees them: one row each, from what was recorded of an image to its definitions."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from majorcert.audit.bounds import Excluded, recorded_around
from majorcert.audit.clipped import Clipped
from majorcert.audit.ensemble import Labels, Testimony
from majorcert.audit.geometry import Placement, Size, Touched, covering_masks, placements, touched_sets
from majorcert.audit.pairs import Pairs
from majorcert.audit.points import Points
from majorcert.audit.votes import Member, Votes
from majorcert.errors import EvidenceError

Origin = Mapping[str, Any]
"""What a verdict says of a defender."""
ANY_NUMBER = 2**31
"""Of labels: more than there are."""
POOLED = ("pool", "masked-pool")
"""Kinds whose evidence is that of several voting members, each with its points."""


def testimony(evidence: Any, origin: Origin, row: int, patch: Size) -> Testimony:
    """What one defender says of the image in this row of its evidence, used as the verdict says it was."""
    return TESTIMONIES[kind_of(origin)](evidence, origin, row, patch)


def kind_of(origin: Origin) -> str:
    """The kind of a defender, by its own record; refused if it has no definition here."""
    kind = origin.get("kind", "scores" if "mask" in origin else "ballots")
    if not isinstance(kind, str) or kind not in TESTIMONIES:
        raise EvidenceError(f"verify does not cover {str(kind)[:40]!r}; it covers {', '.join(TESTIMONIES)}")
    return kind


def members_of(origin: Origin) -> list[Origin]:
    """The records of the voting defenders of a pool, or the one record itself."""
    members = origin.get("members") if kind_of(origin) in POOLED else [origin]
    if not isinstance(members, list) or not all(isinstance(each, Mapping) for each in members):
        raise EvidenceError("the verdict's record of a pool does not list its members; certify again")
    return list(members)


def parts_of(evidence: Any, origin: Origin) -> list[Any]:
    """The same of the evidence."""
    return list(evidence.members) if kind_of(origin) in POOLED else [evidence]


def tolerance_of(origin: Origin) -> float | None:
    """How far the verdict says the scores of a defender may move; None if they may not."""
    tolerance = origin.get("fragile")
    if tolerance is None or (type(tolerance) in (int, float) and 0 <= tolerance < float("inf")):
        return tolerance
    raise EvidenceError(f"the verdict's 'fragile' is a number of 0 or more, got {tolerance!r}; certify again")


def labels_per_ballot(origin: Origin) -> int:
    """The most labels that a ballot may name, as the verdict says; of a defender that votes for its top label, one."""
    told = origin.get("per_ballot")
    if told is None:
        return 1 if all(each.get("threshold", 0) is None for each in members_of(origin)) else ANY_NUMBER
    if type(told) is not int or told < 1:
        raise EvidenceError(f"the verdict's 'per_ballot' is a whole number of 1 or more, got {told!r}; certify again")
    return told


def ballots_of(evidence: Any, row: int) -> list[Labels]:
    """The labels that each ablation of one image votes for."""
    return [frozenset(label for label in ballot if label >= 0) for ballot in evidence.labels[row].tolist()]


def fragile_of(evidence: Any, origin: Origin, row: int) -> frozenset[int]:
    """What of one image can change when every score moves by up to the tolerance: ablations, or rows of a table."""
    tolerance = tolerance_of(origin)
    if tolerance is None or evidence.distance is None:
        return frozenset()
    return frozenset(number for number, far in enumerate(evidence.distance[row].tolist()) if not far > tolerance)


def weights_of(origin: Origin) -> list[int]:
    """Points that each vote of a member is worth."""
    return list(origin["weights"]) if kind_of(origin) in POOLED else [1]


def _votes(evidence: Any, origin: Origin, row: int, patch: Size) -> Votes:
    parts = zip(parts_of(evidence, origin), members_of(origin), weights_of(evidence.provenance), strict=True)
    members = []
    for each, record, weight in parts:
        touched = touched_sets(str(each.provenance["strategy"]), each.image_size, patch)
        members.append(Member(ballots_of(each, row), touched, fragile_of(each, record, row), weight))
    return Votes(members, evidence.n_classes)


def _points(evidence: Any, origin: Origin, row: int, patch: Size) -> Points:
    mask = _mask_of(evidence.provenance)
    windows = touched_sets(str(evidence.provenance["strategy"]), evidence.image_size, mask)
    return _masked(evidence, evidence.scores.points[row].tolist(), windows, patch)


def _pooled_points(evidence: Any, origin: Origin, row: int, patch: Size) -> Points:
    """Every vote of every member as its points, numbered on from member to member."""
    mask, points = _mask_of(evidence.provenance), list[list[int]]()
    windows: dict[Placement, frozenset[int]] = dict.fromkeys(placements(mask, evidence.image_size), frozenset())
    for member, weight in zip(evidence.members, weights_of(evidence.provenance), strict=True):
        touched = touched_sets(str(member.provenance["strategy"]), member.image_size, mask)
        windows = {at: known | {len(points) + number for number in touched[at]} for at, known in windows.items()}
        points += [[weight * (c in told) for c in range(evidence.n_classes)] for told in ballots_of(member, row)]
    return _masked(evidence, points, windows, patch)


def _mask_of(known: Origin) -> Size:
    height, _, width = str(known["mask"]).partition("x")
    return int(height), int(width)


def _masked(evidence: Any, points: list[list[int]], windows: Touched, patch: Size) -> Points:
    known = evidence.provenance
    share = Fraction(known["mask_threshold"])
    return Points(points, windows, _mask_of(known), share, patch, evidence.image_size)


def _clipped(evidence: Any, origin: Origin, row: int, patch: Size) -> Clipped:
    known = evidence.provenance
    touched = touched_sets(str(known["strategy"]), evidence.image_size, patch)
    return Clipped(evidence.scores.points[row].tolist(), int(known["scores_one"]), touched)


def _pairs(evidence: Any, origin: Origin, row: int, patch: Size) -> Pairs:
    flat = iter(evidence.labels[row].tolist())
    covering = covering_masks(str(evidence.provenance["masks"]), evidence.image_size, patch)
    n = round((2 * len(evidence.labels[row]) + 0.25) ** 0.5 - 0.5)
    table = [[0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            table[i][j] = table[j][i] = next(flat)
    return Pairs(table, covering, fragile_of(evidence, origin, row), evidence.n_classes)


def _bounds(evidence: Any, origin: Origin, row: int, patch: Size) -> Excluded:
    sides = [size.partition("x") for size in str(evidence.provenance["strategy"]).partition(":")[2].split(",")]
    sizes = tuple((int(height), int(width or height)) for height, _, width in sides)
    possible = [
        frozenset(label for label in range(evidence.n_classes) if words[label // 15] & 1 << label % 15)
        for words in evidence.words[row].tolist()
    ]
    around = recorded_around(sizes, evidence.image_size, patch)
    return Excluded(int(evidence.label[row]), possible, around, evidence.n_classes)


TESTIMONIES: Mapping[str, Callable[[Any, Origin, int, Size], Testimony]] = {
    "ballots": _votes,
    "pool": _votes,
    "scores": _points,
    "masked-pool": _pooled_points,
    "clipped": _clipped,
    "mask-pairs": _pairs,
    "bounds": _bounds,
}
