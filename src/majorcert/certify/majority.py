"""MajorCert: an ensemble of defenders, certified by the majority invariant (Theorems 1 and 2)."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np

from majorcert.errors import EvidenceError
from majorcert.plurality import Ints, plurality_of_labels, standing
from majorcert.reach import NO_LABEL, Evidence, Reach, list_labels, smallest_unlisted
from majorcert.threat import Bools, Patch
from majorcert.verdict import Verdict, Witness

ReachKind = Literal["exact", "paper"]
CHUNK_BYTES = 2**22
"""About what one array of a chunk of images takes; results do not depend on it."""


def majorcert(defenders: Sequence[Evidence], patch: Patch, *, reach: ReachKind = "exact") -> Verdict:
    """Certify an ensemble against every placement of `patch`.

    Sound because at each placement every defender says some label of its reach: an image is certified iff, at every
    placement, no choice of one label from each reach has another plurality than the clean one (Theorem 2).
    "exact" takes for ballots the smallest true reach, "paper" the larger one of the paper's Definition 1.
    """
    if reach not in get_args(ReachKind):
        raise EvidenceError(f"reach is 'exact' or 'paper', got {reach!r}")
    check_together(defenders)
    for defender in defenders:
        if reach == "paper" and not hasattr(defender, "paper_reach"):
            raise EvidenceError(f"reach='paper' is for ballots, got {type(defender).__name__}; use reach='exact'")

    grid = patch.n_placements(defenders[0].image_size)
    predicted, safe, witnesses, theorem1 = [], [], [], []
    for images in _chunks(len(defenders[0]), grid, defenders[0].n_classes):
        some = [defender[images] for defender in defenders]
        reaches = [_reach_of(defender, patch, reach) for defender in some]
        labels = np.stack([defender.label for defender in some], axis=1)
        clean = plurality_of_labels(labels, some[0].n_classes)
        rivals = _rivals(labels, reaches, some[0].n_classes)
        predicted.append(clean)
        safe.append(_majority_holds(clean, rivals, reaches, some[0].n_classes, grid))
        witnesses.extend(_witnesses(clean, rivals, reaches, some[0].n_classes, safe[-1]))
        theorem1.append(_most_certified_alone(clean, labels, some, reaches, patch))

    every = np.concatenate(safe) if safe else np.ones((0, *grid), dtype=bool)
    certified = np.asarray(every.all(axis=(1, 2)))
    alone = np.concatenate(theorem1) if theorem1 else certified
    return Verdict(
        predicted=np.concatenate(predicted) if predicted else np.zeros(0, dtype=np.int64),
        certified=certified,
        by=np.where(certified, np.where(alone, "theorem1", "theorem2"), "").astype("<U8"),
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
    grid = patch.n_placements(defenders[0].image_size)
    safe = [np.ones((0, *grid), dtype=bool)]
    for images in _chunks(len(defenders[0]), grid, defenders[0].n_classes):
        some = [defender[images] for defender in defenders]
        reaches = [_reach_of(defender, patch, reach) for defender in some]
        labels = np.stack([defender.label for defender in some], axis=1)
        clean = plurality_of_labels(labels, some[0].n_classes)
        rivals = _rivals(labels, reaches, some[0].n_classes)
        safe.append(_majority_holds(clean, rivals, reaches, some[0].n_classes, grid))
    return np.concatenate(safe)


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
        hashes = [defender.provenance.get("images_sha256") for defender in (first, other)]
        if (None not in hashes and hashes[0] != hashes[1]) or not np.array_equal(first.images, other.images):
            raise EvidenceError(f"defenders 1 and {place} voted on different images; use evidence of one split")


def _chunks(n_images: int, grid: tuple[int, int], n_classes: int) -> Iterator[slice]:
    """Slices of images that keep the arrays small, whatever the number of images is."""
    bytes_per_image = 4 * grid[0] * grid[1] * min(n_classes, 64)
    step = max(1, CHUNK_BYTES // bytes_per_image)
    return (slice(start, start + step) for start in range(0, n_images, step))


def _reach_of(defender: Any, patch: Patch, kind: ReachKind) -> Reach:
    reach: Reach = defender.reach(patch) if kind == "exact" else defender.paper_reach(patch)
    return reach


def _rivals(labels: Ints, reaches: Sequence[Reach], n_classes: int) -> Ints:
    """(images, rivals) labels enough to decide: all that any defender lists, and the smallest that none lists.

    Labels that nobody lists are in the same reaches whenever they are smaller, and win more ties the smaller they
    are, so where any of them breaks the majority the smallest one does.
    """
    present = np.zeros((len(labels), n_classes + 1), dtype=bool)
    for listed in (labels, *(reach.listed for reach in reaches)):
        present[np.arange(len(labels))[:, None], listed] = True
    present = present[:, :n_classes]
    rest = smallest_unlisted(present)
    has_rest = np.flatnonzero(rest < n_classes)
    present[has_rest, rest[has_rest]] = True
    return list_labels(present)


def _majority_holds(
    clean: Ints, rivals: Ints, reaches: Sequence[Reach], n_classes: int, grid: tuple[int, int]
) -> Bools:
    """(images, placement rows, placement columns) Theorem 2 in closed form.

    A rival is said by at most the defenders that have it in reach, the clean label by at least those that have nothing
    else; both happen in one choice of labels. So the clean label wins every choice iff it beats every rival at these
    two counts, ties included.
    """
    counter: type[np.signedinteger[Any]] = np.int16 if (len(reaches) + 1) * n_classes < 2**15 else np.int64
    unmoved = _count([reach.spread(reach.only(clean)) for reach in reaches], counter)
    firm = standing(unmoved, clean.astype(counter)[:, None, None], n_classes)
    safe = np.ones((len(clean), *grid), dtype=bool)
    for rival in rivals.T:
        said = _count([reach.spread(reach.has(rival)) for reach in reaches], counter)
        loses = standing(said, rival.astype(counter)[:, None, None], n_classes) > firm
        contested = (rival != clean) & (rival != NO_LABEL)
        safe &= ~(loses & contested[:, None, None])
        if not safe.any():
            break
    return safe


def _count(holds: Sequence[Bools], counter: type[np.signedinteger[Any]]) -> Ints:
    """How many of these arrays, which broadcast against each other, are true at each place."""
    total = holds[0].astype(counter)
    for more in holds[1:]:
        total = total + more
    return total


def _witnesses(
    clean: Ints, rivals: Ints, reaches: Sequence[Reach], n_classes: int, safe: Bools
) -> list[Witness | None]:
    """For each image None, or its first unsafe placement and the choice of labels there that breaks the majority.

    The strongest rival is said by every defender that can say it; of the others, all that can avoid the clean label do.
    """
    found: list[Witness | None] = [None] * len(clean)
    images = np.flatnonzero(~safe.all(axis=(1, 2)))
    top, left = np.unravel_index(safe[images].reshape(len(images), safe[0].size).argmin(axis=1), safe.shape[1:])
    here = [reach.at(images, top, left) for reach in reaches]
    clean, rivals = clean[images], rivals[images]
    contested = (rivals != clean[:, None]) & (rivals != NO_LABEL)
    says = np.stack([np.stack([reach.has(rival)[:, 0, 0] for rival in rivals.T], axis=1) for reach in here], axis=1)
    strength = np.where(contested, standing(says.sum(axis=1), rivals, n_classes), -1)
    for i, strongest in enumerate(strength.argmax(axis=1)):
        forced = []
        for can_say in says[i] & contested[i]:
            choices = [strongest] if can_say[strongest] else np.flatnonzero(can_say)
            forced.append(int(rivals[i, choices[0]] if len(choices) else clean[i]))
        found[images[i]] = Witness((int(top[i]), int(left[i])), int(rivals[i, strongest]), tuple(forced))
    return found


def _most_certified_alone(
    clean: Ints, labels: Ints, defenders: Sequence[Any], reaches: Sequence[Reach], patch: Patch
) -> Bools:
    """(images,) Theorem 1: more than half of the defenders say the clean label and are each certified alone.

    Ballots are certified alone by their margin; evidence that has no margin, by its reach.
    """
    alone = [
        defender.margin_certified(patch)
        if hasattr(defender, "margin_certified")
        else reach.only(defender.label).all(axis=(1, 2))
        for defender, reach in zip(defenders, reaches, strict=True)
    ]
    n_firm = (np.stack(alone, axis=1) & (labels == clean[:, None])).sum(axis=1)
    return n_firm * 2 > len(defenders)
