"""The kinds of evidence: one row says which arrays a store of it has, and how they become evidence and back.

A new kind is a room in `defences/` and one row here; stores, their writer, and everything downstream follow the row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.defences.bounds import Bounds
from majorcert.defences.clipped import ClippedScores
from majorcert.defences.masking import MaskPairs
from majorcert.defences.patchguard import MaskedScores
from majorcert.defences.scores import Scores
from majorcert.errors import BallotsError, EvidenceError
from majorcert.errors.checks import MAX_SIDE
from majorcert.files.scoring import stored_distance
from majorcert.files.untrusted import check_room, typed

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
HALF_ONE = 2**24
"""Every float16 from 0 to 1 is a whole multiple of 1 / HALF_ONE, so stored halves become integers without rounding."""
INDEX_BYTES = 64
"""That are taken for each pair of masks, however few the images are, to find its place in the table."""


@dataclass(frozen=True)
class Column:
    """One array of a store; its first axis is the images."""

    types: str  # NumPy's letters for the numbers that it may hold: "i" for integers, "f" for floats
    n_axes: int
    optional: bool = False
    room: int = 4  # how many times its bytes are taken while it is decoded, copied and checked


IMAGES = Column("i", 1, optional=True)
"""The array `images` of any store: the place of each image in its data set, where that is not 0, 1, 2, ..."""


@dataclass(frozen=True)
class Kind:
    """One kind of evidence on disk."""

    name: str
    """as in the attribute `kind` of a store; one without that attribute holds ballots"""
    evidence: type[Any]
    columns: Mapping[str, Column]
    """the first one leads: where it was written, everything was"""
    arrays: Callable[[Any], dict[str, Array]]
    """the columns of evidence"""
    made: Callable[[Arrays, Mapping[str, Any]], Evidence]
    """evidence of columns, `images`, and attributes"""
    beside: Mapping[str, Column] = field(default_factory=dict)
    """arrays that may be kept with it, and are read by those who ask for them"""

    @property
    def leading(self) -> str:
        return next(iter(self.columns))

    @property
    def every(self) -> Mapping[str, Column]:
        """All arrays that a store of this kind may have."""
        return {**self.columns, **self.beside, "images": IMAGES}


Side = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIDE)]


class Facts(msgspec.Struct):
    """What the attributes of every store say."""

    image_size: tuple[Side, Side]
    n_classes: int
    split_size: Annotated[int, msgspec.Meta(ge=1)] | None = None  # how many images the split has that these are of


class VotingFacts(Facts, kw_only=True):
    strategy: str


class ScoresFacts(VotingFacts):
    scores_one: int | None = None


Share = Annotated[str, msgspec.Meta(pattern=r"^\d{1,4}(/[1-9]\d{0,3})?$")]


class MaskFacts(ScoresFacts, kw_only=True):
    mask: str
    mask_threshold: Share = "0"


class PoolFacts(msgspec.Struct):
    """What a verdict says of a pool, plain or masked."""

    weights: list[int]
    members: list[dict[str, Any]]
    mask: str | None = None
    mask_threshold: Share = "0"


class PairsFacts(Facts, kw_only=True):
    masks: str


def _ballot_arrays(ballots: Ballots | MaskPairs) -> dict[str, Array]:
    known = {} if ballots.distance is None else {"distance": stored_distance(ballots.distance)}
    return {"labels": ballots.labels, **known}


def _about(facts: Facts, arrays: Arrays, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"image_size": facts.image_size, "images": arrays["images"], "provenance": attributes}


def _ballots(arrays: Arrays, attributes: Mapping[str, Any]) -> Ballots:
    facts = typed(attributes, VotingFacts)
    if "mask" in attributes:
        raise BallotsError("votes with a mask on record, which only a verdict says of what was made of them")
    about, far = _about(facts, arrays, attributes), arrays.get("distance")
    return Ballots(arrays["labels"], strategy=facts.strategy, n_classes=facts.n_classes, distance=far, **about)


def scores_of(arrays: Arrays, attributes: Mapping[str, Any]) -> Scores:
    """Scores as they are stored: half floats, or integers with their `scores_one` in the attributes."""
    facts, points = typed(attributes, ScoresFacts), arrays["scores"]
    one = HALF_ONE if points.dtype.kind == "f" else facts.scores_one
    if one is None:
        raise BallotsError("whole scores without `scores_one`, the points of a score of 1")
    whole = _exact_halves(points) if points.dtype.kind == "f" else points
    return Scores(whole, one=one, strategy=facts.strategy, **_about(facts, arrays, attributes))


def _exact_halves(scores: Array) -> Array:
    if scores.dtype != np.float16 or not ((scores >= 0) & (scores <= 1)).all():
        raise BallotsError(f"expected float16 scores from 0 to 1, all of them written, got {scores.dtype}")
    return (scores.astype(np.float32) * HALF_ONE).astype(np.int32)


def stored_points(scores: Scores) -> Array:
    """Points in the smallest type; signed, so that what was never written can be told."""
    largest = max(scores.one, int(scores.points.max(initial=0)))
    return scores.points.astype(np.int8 if largest < 2**7 else np.int16 if largest < 2**15 else np.int32)


def _points(evidence: Any) -> dict[str, Array]:
    return {"scores": stored_points(evidence.scores)}


def _masked_scores(arrays: Arrays, attributes: Mapping[str, Any]) -> MaskedScores:
    facts = typed(attributes, MaskFacts)
    return MaskedScores(scores_of(arrays, attributes), Patch.parse(facts.mask), float(Fraction(facts.mask_threshold)))


def _mask_pairs(arrays: Arrays, attributes: Mapping[str, Any]) -> MaskPairs:
    facts, labels = typed(attributes, PairsFacts), arrays["labels"]
    check_room(INDEX_BYTES * labels.shape[1], "the table of all pairs of masks")
    about, far = _about(facts, arrays, attributes), arrays.get("distance")
    return MaskPairs(labels, masks=facts.masks, n_classes=facts.n_classes, distance=far, **about)


def _bounds(arrays: Arrays, attributes: Mapping[str, Any]) -> Bounds:
    facts = typed(attributes, VotingFacts)
    kind = {"sizes": facts.strategy, "n_classes": facts.n_classes, **_about(facts, arrays, attributes)}
    return Bounds(arrays["labels"], arrays["possible"], **kind)


LABELS, SCORES = Column("i", 3), Column("if", 3, room=8)
BALLOTS = Kind(
    "ballots",
    Ballots,
    {"labels": LABELS, "distance": Column("f", 2, optional=True)},
    _ballot_arrays,
    _ballots,
    beside={"scores": SCORES},
)
KINDS = (
    BALLOTS,
    Kind("scores", MaskedScores, {"scores": SCORES}, _points, _masked_scores),
    Kind("clipped", ClippedScores, {"scores": SCORES}, _points, lambda *stored: ClippedScores(scores_of(*stored))),
    Kind(
        "mask-pairs",
        MaskPairs,
        {"labels": Column("i", 2), "distance": Column("f", 2, optional=True)},
        _ballot_arrays,
        _mask_pairs,
    ),
    Kind(
        "bounds",
        Bounds,
        {"possible": Column("i", 3), "labels": Column("i", 1)},
        lambda evidence: {"possible": evidence.words, "labels": evidence.label.astype(np.int32)},
        _bounds,
    ),
)


def kind_of(evidence: Evidence) -> Kind:
    """The row of evidence in memory."""
    for kind in KINDS:
        if type(evidence) is kind.evidence:
            return kind
    raise EvidenceError(f"{type(evidence).__name__} is no kind of evidence that is written to a store")
