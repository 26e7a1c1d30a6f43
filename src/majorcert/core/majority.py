"""MajorCert: an ensemble of defenders, certified by the majority invariant (Theorems 1 and 2)."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

import numpy as np

from majorcert.core.contest import Contest, ReachKind
from majorcert.core.reach import Evidence
from majorcert.core.threat import Bools, Patch, check_patch
from majorcert.core.verdict import Verdict, Witness
from majorcert.errors import EvidenceError

CHUNK_BYTES = 2**22
"""About what one array of a chunk of images takes; results do not depend on it."""


def majorcert(defenders: Sequence[Evidence], patch: Patch, *, reach: ReachKind = "exact") -> Verdict:
    """Certify an ensemble against every placement of `patch`.

    Sound because at each placement every defender says some label of its reach: an image is certified iff, at every
    placement, no choice of one label from each reach has another plurality than the clean one (Theorem 2).
    "exact" takes for ballots the smallest true reach, "paper" the larger one of the paper's Definition 1.
    """
    check_together(defenders)
    _check_question(defenders, patch, reach)
    predicted = [np.zeros(0, dtype=np.int64)]
    alone = [np.zeros(0, dtype=bool)]
    safe = [np.ones((0, *patch.n_placements(defenders[0].image_size)), dtype=bool)]
    witnesses: list[Witness | None] = []
    for some in _chunks(defenders, patch):
        contest = Contest.of(some, patch, reach)
        predicted.append(contest.clean)
        alone.append(contest.most_certified_alone(some, patch))
        safe.append(contest.safe())
        witnesses.extend(contest.witnesses(safe[-1]))

    every = np.concatenate(safe)
    certified = np.asarray(every.all(axis=(1, 2)))
    by = np.where(np.concatenate(alone), "theorem1", "theorem2")
    return Verdict(
        predicted=np.concatenate(predicted),
        certified=certified,
        by=np.where(certified, by, "").astype("<U8"),
        safe=every,
        witnesses=tuple(witnesses),
        images=defenders[0].images,
        patch=patch,
        method=f"majorcert-{reach}",
        defenders=tuple(defender.provenance for defender in defenders),
    )


def safe_placements(defenders: Sequence[Evidence], patch: Patch, *, reach: ReachKind = "exact") -> Bools:
    """(images, placement rows, placement columns) the `safe` of `majorcert`'s verdict, without its reasons."""
    check_together(defenders)
    _check_question(defenders, patch, reach)
    none = np.ones((0, *patch.n_placements(defenders[0].image_size)), dtype=bool)
    return np.concatenate([none, *(Contest.of(some, patch, reach).safe() for some in _chunks(defenders, patch))])


def check_together(defenders: Sequence[Evidence]) -> None:
    """Refuse what is no ensemble: no defender at all, or defenders of different images, sizes or classes."""
    if not isinstance(defenders, list | tuple) or not defenders:
        raise EvidenceError("an ensemble is a list of one or more defenders, such as [rows, columns, blocks]")
    first = defenders[0]
    for place, other in enumerate(defenders[1:], start=2):
        facts: dict[str, tuple[Any, Any]] = {
            "numbers of images": (len(first), len(other)),
            "image sizes": (first.image_size, other.image_size),
            "numbers of classes": (first.n_classes, other.n_classes),
        }
        for fact, (ours, theirs) in facts.items():
            if ours != theirs:
                raise EvidenceError(f"defenders 1 and {place} have different {fact}: {ours} and {theirs}")
        if not np.array_equal(first.images, other.images):
            raise EvidenceError(f"defenders 1 and {place} voted on different images; use evidence of one split")
    named = {place: defender.provenance.get("images_sha256") for place, defender in enumerate(defenders, start=1)}
    known = [place for place, sha256 in named.items() if sha256 is not None]
    for place in known[1:]:
        if named[place] != named[known[0]]:
            raise EvidenceError(
                f"defenders {known[0]} and {place} voted on different images; use evidence of one split"
            )


def _check_question(defenders: Sequence[Evidence], patch: Patch, reach: ReachKind) -> None:
    check_patch(patch)
    if reach not in get_args(ReachKind):
        raise EvidenceError(f"reach is 'exact' or 'paper', got {reach!r}")
    for defender in defenders:
        if reach == "paper" and not hasattr(defender, "paper_reach"):
            raise EvidenceError(f"reach='paper' is for ballots, got {type(defender).__name__}; use reach='exact'")


def _chunks(defenders: Sequence[Evidence], patch: Patch) -> Iterator[list[Evidence]]:
    """The evidence of a few images at a time, which keeps the arrays small, whatever the number of images is."""
    n_rows, n_columns = patch.n_placements(defenders[0].image_size)
    bytes_per_image = 4 * n_rows * n_columns * min(defenders[0].n_classes, 64)
    step = max(1, CHUNK_BYTES // bytes_per_image)
    for start in range(0, len(defenders[0]), step):
        yield [defender[start : start + step] for defender in defenders]
