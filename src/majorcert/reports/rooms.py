"""What a page and a story show of each kind of evidence beside its label and its reach: one room a kind.

A room has a name, NAME.html and NAME.js among the templates, and a row here; a kind without one is shown by its reach.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from typing import Any

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.majority import DrsBound
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence, Reach
from majorcert.core.threat import Bools, Patch
from majorcert.defences.bounds import Bounds
from majorcert.defences.clipped import ClippedScores
from majorcert.defences.masking import MaskPairs
from majorcert.defences.patchguard import MaskedPool, MaskedScores
from majorcert.defences.pool import Pool
from majorcert.errors import EvidenceError
from majorcert.reports.mask_rows import MaskRow, Placement, boxes, covering_rows
from majorcert.reports.payload import Block

Sets = Callable[[Evidence, Patch], Reach]
"""What a defender can be made to say at each placement, or what it says without each: as the promise has it."""


@dataclass(frozen=True)
class Tally:
    """The votes for one label: all of them, those that no patch here can touch, and the most it can end up with."""

    label: int
    votes: int
    kept: int
    most: int


@dataclass(frozen=True)
class Told:
    """What a kind tells of one image at one placement."""

    tallies: tuple[Tally, ...] = ()  # of every label with a vote, the most votes first
    n_touched: int = 0
    n_fragile: int = 0  # others that may change by themselves, and count as touched
    n_ablations: int = 0
    unit: str = "votes"  # what is counted
    remark: str = ""  # of kinds that have something else to say
    rows: tuple[MaskRow, ...] = ()  # of the masks that cover the patch


def _reach_images(name: str, some: Evidence, patches: Sequence[Patch], sets: Sets) -> Iterator[Block]:
    for patch in patches:
        reach = sets(some, patch)
        n_images, n_slots = reach.listed.shape
        head = np.concatenate([[n_slots, *reach.below.shape[1:]], reach.rows, reach.columns])
        yield Block.of(f"cells{name}.{patch}", head.astype(np.int32))
        yield Block.of(f"listed{name}.{patch}", reach.listed.astype(np.int32))
        yield Block.of(f"members{name}.{patch}", np.packbits(reach.members.reshape(n_images, -1), axis=1))
        yield Block.of(f"below{name}.{patch}", reach.below.astype(np.int32))


@dataclass(frozen=True)
class Room:
    """How one kind is shown; by default by its reach, at the patches of the report alone."""

    name: str = "reach"
    title: Callable[[Any], str] = lambda evidence: str(evidence.provenance.get("name") or type(evidence).__name__)
    """what to call a defender"""
    alone: Mapping[str, DrsBound | None] = field(default_factory=lambda: {"alone": None})
    """the methods that certify one defender of the kind alone, with the bound of votes that each takes"""
    votes: bool = False
    """its evidence is ballots, which have a paper's reach and can be masked"""
    detects: bool = False
    """it can say what it says without a part of the image"""
    bound: Callable[[Any], Patch | None] = lambda evidence: None
    """the largest patch that it says anything of; None of those that speak of all"""
    any_patch: bool = False
    """the page answers for every patch, not only for those of the report"""
    tell: Callable[[Any, Patch, Placement], Told] = lambda one, patch, placement: Told()
    """of evidence of one image"""
    facts: Callable[[Any], dict[str, Any]] = lambda evidence: {}
    """what the script is told of a defender"""
    blocks: Callable[[int, Any], Iterator[Block]] = lambda place, evidence: iter(())
    """what the script is given once, of the defender at that place"""
    images: Callable[[str, Any, Sequence[Patch], Sets], Iterator[Block]] = _reach_images
    """what it is given of some images, named after their block"""
    views: Callable[[Any], int] = lambda evidence: 1
    """that the network looks at for the label of an image; of masks, where all agree"""
    fragile_parts: str = "ballots"
    """what of it may be fragile"""
    presumes: bool = True
    """what it says depends on its bound, if it has one, which must be known when predicting"""


def room_of(evidence: Evidence) -> Room:
    """Of its kind; on the map of a local-feature network, and of a transformer, methods have names of their own."""
    room, named = ROOMS.get(type(evidence), Room()), ON_A_MAP.get(type(evidence))
    if type(evidence) is Ballots and evidence.provenance.get("network") == "vit":
        return replace(room, alone=OF_TRANSFORMERS)
    return replace(room, alone=named) if named and is_map(evidence) else room


def pooled(defenders: Sequence[Evidence]) -> list[Pool]:
    """Their votes in one count, if all of several vote, and so many points as an equal say takes can be counted."""
    if len(defenders) < 2 or not all(room_of(each).votes for each in defenders):
        return []
    try:
        return [Pool(defenders)]
    except EvidenceError:  # numbers of ablations that have little in common take many points
        return []


def is_map(evidence: Evidence) -> bool:
    """Did one pass of a local-feature network say all of it?"""
    return str(evidence.provenance.get("strategy", "")).startswith("fields:")


def _tell_ballots(one: Ballots, patch: Patch, placement: Placement) -> Told:
    touched = one.strategy.touched(patch, one.image_size).mask(*placement)
    untouched = one.solid()[0][~touched]
    kept = np.bincount(untouched[untouched >= 0], minlength=one.n_classes)
    n_fragile = 0 if one.fragile is None else int(one.fragile[0][~touched].sum())
    return _counted(one.counts()[0], kept, touched, np.flatnonzero(one.counts()[0]), n_fragile=n_fragile)


def _tell_pool(one: Pool, patch: Patch, placement: Placement) -> Told:
    """Of all members together, in points."""
    told = [_tell_ballots(member, patch, placement) for member in one.members]
    gain, votes, kept = 0, Counter[int](), Counter[int]()
    for weight, each in zip(one.weights, told, strict=True):
        gain += weight * (each.n_touched + each.n_fragile)
        for tally in each.tallies:
            votes[tally.label] += weight * tally.votes
            kept[tally.label] += weight * tally.kept
    order = sorted(votes, key=lambda label: (-votes[label], label))
    tallies = tuple(Tally(at, votes[at], kept[at], kept[at] + gain) for at in order)
    n_touched, n_fragile = sum(each.n_touched for each in told), sum(each.n_fragile for each in told)
    return Told(tallies, n_touched, n_fragile, sum(each.n_ablations for each in told), "points")


def _tell_clipped(one: ClippedScores, patch: Patch, placement: Placement) -> Told:
    touched = one.scores.strategy.touched(patch, one.image_size).mask(*placement)
    kept = one.scores.points[0][~touched].sum(axis=0, dtype=np.int64)
    told = _counted(one.points[0], kept, touched, np.arange(one.n_classes), one.scores.one)
    return replace(told, unit="points")


def _counted(votes: Ints, kept: Ints, touched: Bools, labels: Ints, worth: int = 1, n_fragile: int = 0) -> Told:
    """The tallies of these labels; a touched or fragile ablation may give any of them so many votes or points."""
    n_touched, order = int(touched.sum()), sorted(labels.tolist(), key=lambda label: (-votes[label], label))
    tallies = (
        Tally(at, int(votes[at]), int(kept[at]), int(kept[at]) + (n_touched + n_fragile) * worth) for at in order
    )
    return Told(tuple(tallies), n_touched, n_fragile, len(touched))


def ablations_grid(regions: Bools) -> tuple[int, int]:
    """Rows and columns to draw ablations in: as they lie on the image if they are a product of both, else a square."""
    rows, columns = (len(np.unique(regions.any(axis=axis), axis=0)) for axis in (2, 1))
    if rows * columns == len(regions):
        return rows, columns
    across = ceil(sqrt(len(regions)))
    return ceil(len(regions) / across), across


def _ballots_facts(ballots: Ballots) -> dict[str, Any]:
    regions = ballots.strategy.regions(ballots.image_size)
    return {"votes": ballots.labels.shape[2], "ablations": len(regions), "grid": ablations_grid(regions)}


def _packed(place: int, regions: Bools) -> Iterator[Block]:
    yield Block.of(f"regions{place}", np.packbits(regions.reshape(len(regions), -1), axis=1))


def _ballots_images(name: str, some: Ballots, patches: Sequence[Patch], sets: Sets) -> Iterator[Block]:
    # All first votes, then all second ones: runs of equal numbers pack better.
    yield Block.of(f"votes{name}", some.labels.transpose(2, 0, 1))


def _tell_pairs(one: MaskPairs, patch: Patch, placement: Placement) -> Told:
    rows, n = covering_rows(one, patch, placement), one.masks.n_masks(one.image_size)
    n_agreed = sum(row.agreed for row in rows)
    remark = f"{len(rows)} of {n} masks cover the patch; under {n_agreed} of them no second mask changes the label"
    return Told(remark=remark, rows=rows)


def _masks_facts(pairs: MaskPairs) -> dict[str, Any]:
    found = boxes(pairs.masks, pairs.image_size)
    return {
        "ablations": len(found),
        "grid": ablations_grid(pairs.masks.hidden(pairs.image_size)),
        "boxes": found.tolist(),
    }


def _pairs_images(name: str, some: MaskPairs, patches: Sequence[Patch], sets: Sets) -> Iterator[Block]:
    """Which pairs of masks leave another label than the image's, which labels, and where those of each image end."""
    differs = some.labels != some.label[:, None]
    yield Block.of(f"differs{name}", np.packbits(differs, axis=1))
    yield Block.of(f"others{name}", some.labels[differs])
    yield Block.of(f"ends{name}", differs.sum(axis=1).cumsum().astype(np.int32))


def _around(patches: Sequence[Patch]) -> Patch | None:
    """The patch that contains all of them, if one of them does."""
    around = Patch(max(each.height for each in patches), max(each.width for each in patches))
    return around if around in patches else None


ROOMS: Mapping[type[Evidence], Room] = {
    Ballots: Room(
        "ballots",
        lambda ballots: str(ballots.strategy),
        {"drs-margin": "margin", "drs-local": "local"},
        votes=True,
        detects=True,
        any_patch=True,
        tell=_tell_ballots,
        facts=_ballots_facts,
        blocks=lambda place, ballots: _packed(place, ballots.strategy.regions(ballots.image_size)),
        images=_ballots_images,
        views=lambda ballots: 1 if is_map(ballots) else ballots.labels.shape[1],
    ),
    MaskedScores: Room(
        title=lambda masked: f"masked {masked.scores.strategy}",
        alone={"pg-drs": None},
        bound=lambda masked: masked.mask,
    ),
    MaskedPool: Room(
        title=lambda masked: f"masked pool of {masked.scores.strategy}",
        alone={"pg-pool": None},
        bound=lambda masked: masked.mask,
    ),
    Bounds: Room(
        title=lambda bounds: str(bounds.sizes),
        alone={"ibp": None},
        bound=lambda bounds: _around(bounds.sizes.patches),
        presumes=False,
    ),
    ClippedScores: Room(
        title=lambda clipped: f"clipped {clipped.scores.strategy}",
        alone={"cbn": None},
        detects=True,
        tell=_tell_clipped,
    ),
    Pool: Room(
        title=lambda pool: "pool of " + ", ".join(str(member.strategy) for member in pool.members),
        alone={"pool": "local"},
        detects=True,
        tell=_tell_pool,
    ),
    MaskPairs: Room(
        "pairs",
        lambda pairs: str(pairs.masks),
        {"double-masking": None},
        detects=True,
        fragile_parts="rows",
        bound=lambda pairs: pairs.masks.patch,
        any_patch=True,
        tell=_tell_pairs,
        facts=_masks_facts,
        blocks=lambda place, pairs: _packed(place, pairs.masks.hidden(pairs.image_size)),
        images=_pairs_images,
        views=lambda pairs: pairs.masks.n_masks(pairs.image_size),
    ),
}
ON_A_MAP: Mapping[type[Evidence], Mapping[str, DrsBound | None]] = {
    Ballots: {"bagcert": "local"},
    MaskedScores: {"pg-bn": None},
}
"""The names that methods have when one pass of a local-feature network gives all that they judge."""
OF_TRANSFORMERS: Mapping[str, DrsBound | None] = {"smoothed-vit": "margin", "vip": "local"}
"""The same, of votes by a vision transformer: Smoothed ViT has a margin, and ViP both promises."""
