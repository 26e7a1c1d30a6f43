"""What a page and a story show of each kind of evidence beside its label and its reach: one room a kind.

A room has a name, NAME.html and NAME.js among the templates, and a row here; a kind without one is shown by its reach.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Any

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.majority import DrsBound
from majorcert.core.reach import NO_LABEL, Evidence, Reach
from majorcert.core.threat import Bools, Patch
from majorcert.defences.bounds import Bounds
from majorcert.defences.clipped import ClippedScores
from majorcert.defences.masking import MaskPairs
from majorcert.defences.patchguard import MaskedPool, MaskedScores
from majorcert.defences.pool import Pool
from majorcert.reports.payload import Block

Placement = tuple[int, int]
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

    tallies: tuple[Tally, ...] = ()
    """of every label with a vote, the most votes first"""
    n_touched: int = 0
    n_ablations: int = 0
    unit: str = "votes"
    """what is counted"""
    remark: str = ""
    """of kinds that have something else to say"""


@dataclass(frozen=True)
class Room:
    """How one kind is shown."""

    name: str
    title: Callable[[Any], str]
    """what to call a defender"""
    alone: Mapping[str, DrsBound | None]
    """the methods that certify one defender of the kind alone, with the bound of votes that each takes"""
    votes: bool
    """its evidence is ballots, which have a paper's reach and can be masked"""
    detects: bool
    """it can say what it says without a part of the image"""
    bound: Callable[[Any], Patch | None]
    """the largest patch that it says anything of; None of those that speak of all"""
    any_patch: bool
    """the page answers for every patch, not only for those of the report"""
    tell: Callable[[Any, Patch, Placement], Told]
    """of evidence of one image"""
    facts: Callable[[Any], dict[str, Any]]
    """what the script is told of a defender"""
    blocks: Callable[[int, Any], Iterator[Block]]
    """what the script is given once, of the defender at that place"""
    images: Callable[[str, Any, Sequence[Patch], Sets], Iterator[Block]]
    """what it is given of some images, named after their block"""
    views: Callable[[Any], int] = lambda evidence: 1
    """that the network looks at for the label of an image; of masks, where all agree"""
    presumes: bool = True
    """what it says depends on its bound, if it has one, which must be known when predicting"""


def room_of(evidence: Evidence) -> Room:
    """Of its kind; on the map of a local-feature network, and of a transformer, methods have names of their own."""
    room, named = ROOMS.get(type(evidence), REACH), ON_A_MAP.get(type(evidence))
    if type(evidence) is Ballots and evidence.provenance.get("network") == "vit":
        return replace(room, alone=OF_TRANSFORMERS)
    return replace(room, alone=named) if named and is_map(evidence) else room


def is_map(evidence: Evidence) -> bool:
    """Did one pass of a local-feature network say all of it?"""
    return str(evidence.provenance.get("strategy", "")).startswith("fields:")


def _given_name(evidence: Evidence) -> str:
    return str(evidence.provenance.get("name") or type(evidence).__name__)


def _pool_title(pool: Pool) -> str:
    return "pool of " + ", ".join(str(member.strategy) for member in pool.members)


def _tell_ballots(one: Ballots, patch: Patch, placement: Placement) -> Told:
    touched = one.strategy.touched(patch, one.image_size).mask(*placement)
    n_touched, counts = int(touched.sum()), one.counts()[0]
    untouched = one.labels[0][~touched]
    kept = np.bincount(untouched[untouched >= 0], minlength=one.n_classes)
    voted = sorted(np.flatnonzero(counts).tolist(), key=lambda label: (-counts[label], label))
    tallies = tuple(Tally(at, int(counts[at]), int(kept[at]), int(kept[at]) + n_touched) for at in voted)
    return Told(tallies, n_touched, len(touched))


def _tell_clipped(one: ClippedScores, patch: Patch, placement: Placement) -> Told:
    touched = one.scores.strategy.touched(patch, one.image_size).mask(*placement)
    kept, given = one.scores.points[0][~touched].sum(axis=0, dtype=np.int64), int(touched.sum()) * one.scores.one
    order = sorted(range(one.n_classes), key=lambda label: (-one.points[0, label], label))
    tallies = tuple(Tally(at, int(one.points[0, at]), int(kept[at]), int(kept[at]) + given) for at in order)
    return Told(tallies, int(touched.sum()), len(touched), unit="points")


def _ballots_facts(ballots: Ballots) -> dict[str, Any]:
    _, n_ablations, n_votes = ballots.labels.shape
    grid = ablations_grid(ballots.strategy.regions(ballots.image_size))
    return {"votes": n_votes, "ablations": n_ablations, "grid": grid}


def ablations_grid(regions: Bools) -> tuple[int, int]:
    """Rows and columns to draw ablations in: as they lie on the image if they are a product of both, else a square."""
    rows, columns = (len(np.unique(regions.any(axis=axis), axis=0)) for axis in (2, 1))
    if rows * columns == len(regions):
        return rows, columns
    across = ceil(sqrt(len(regions)))
    return ceil(len(regions) / across), across


def _ballots_blocks(place: int, ballots: Ballots) -> Iterator[Block]:
    regions = ballots.strategy.regions(ballots.image_size)
    yield Block.of(f"regions{place}", np.packbits(regions.reshape(len(regions), -1), axis=1))


def _ballots_images(name: str, some: Ballots, patches: Sequence[Patch], sets: Sets) -> Iterator[Block]:
    # All first votes, then all second ones: runs of equal numbers pack better.
    yield Block.of(f"votes{name}", some.labels.transpose(2, 0, 1))


def _tell_pairs(one: MaskPairs, patch: Patch, placement: Placement) -> Told:
    covering = one.masks.covering(patch, one.image_size)[placement]
    n_proving = int((covering & one.agreed[0]).sum())
    return Told(
        remark=f"{int(covering.sum())} of {len(covering)} masks cover the patch; under {n_proving} of them no second "
        "mask changes the label"
    )


def _pairs_facts(pairs: MaskPairs) -> dict[str, Any]:
    hidden = pairs.masks.hidden(pairs.image_size)
    return {"votes": 2, "ablations": len(hidden), "grid": ablations_grid(hidden)}


def _pairs_blocks(place: int, pairs: MaskPairs) -> Iterator[Block]:
    hidden = pairs.masks.hidden(pairs.image_size)
    yield Block.of(f"regions{place}", np.packbits(hidden.reshape(len(hidden), -1), axis=1))


def _pairs_images(name: str, some: MaskPairs, patches: Sequence[Patch], sets: Sets) -> Iterator[Block]:
    """The label under each mask alone, and another one that a second mask makes of it, if any does."""
    n = some.masks.n_masks(some.image_size)
    table = np.empty((len(some), n, n), dtype=some.labels.dtype)
    first, second = np.triu_indices(n)
    table[:, first, second] = table[:, second, first] = some.labels
    singles = some.singles()
    other = (table != singles[:, :, None]) & (table != NO_LABEL)
    changed = np.take_along_axis(table, other.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
    yield Block.of(f"votes{name}", np.stack([singles, np.where(some.agreed, NO_LABEL, changed)]))


def _reach_images(name: str, some: Evidence, patches: Sequence[Patch], sets: Sets) -> Iterator[Block]:
    for patch in patches:
        reach = sets(some, patch)
        n_images, n_slots = reach.listed.shape
        head = np.concatenate([[n_slots, *reach.below.shape[1:]], reach.rows, reach.columns])
        yield Block.of(f"cells{name}.{patch}", head.astype(np.int32))
        yield Block.of(f"listed{name}.{patch}", reach.listed.astype(np.int32))
        yield Block.of(f"members{name}.{patch}", np.packbits(reach.members.reshape(n_images, -1), axis=1))
        yield Block.of(f"below{name}.{patch}", reach.below.astype(np.int32))


REACH = Room(
    "reach",
    _given_name,
    {"alone": None},
    votes=False,
    detects=False,
    bound=lambda evidence: None,
    any_patch=False,
    tell=lambda one, patch, placement: Told(),
    facts=lambda evidence: {},
    blocks=lambda place, evidence: iter(()),
    images=_reach_images,
)
ROOMS: Mapping[type[Evidence], Room] = {
    Ballots: Room(
        "ballots",
        lambda ballots: str(ballots.strategy),
        {"drs-margin": "margin", "drs-local": "local"},
        votes=True,
        detects=True,
        bound=lambda ballots: None,
        any_patch=True,
        tell=_tell_ballots,
        facts=_ballots_facts,
        blocks=_ballots_blocks,
        images=_ballots_images,
        views=lambda ballots: 1 if is_map(ballots) else ballots.labels.shape[1],
    ),
    MaskedScores: replace(
        REACH,
        title=lambda masked: f"masked {masked.scores.strategy}",
        alone={"pg-drs": None},
        bound=lambda masked: masked.mask,
    ),
    MaskedPool: replace(
        REACH,
        title=lambda masked: f"masked pool of {masked.scores.strategy}",
        alone={"pg-pool": None},
        bound=lambda masked: masked.mask,
    ),
    Bounds: replace(
        REACH,
        title=lambda bounds: str(bounds.sizes),
        alone={"ibp": None},
        bound=lambda bounds: max(bounds.sizes.patches, key=lambda patch: min(patch.height, patch.width)),
        presumes=False,
    ),
    ClippedScores: replace(
        REACH,
        title=lambda clipped: f"clipped {clipped.scores.strategy}",
        alone={"cbn": None},
        detects=True,
        tell=_tell_clipped,
    ),
    Pool: replace(REACH, title=_pool_title, alone={"pool": "local"}, detects=True),
    MaskPairs: Room(
        "pairs",
        lambda pairs: str(pairs.masks),
        {"double-masking": None},
        votes=False,
        detects=True,
        bound=lambda pairs: pairs.masks.patch,
        any_patch=True,
        tell=_tell_pairs,
        facts=_pairs_facts,
        blocks=_pairs_blocks,
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
