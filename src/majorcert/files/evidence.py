"""Evidence of any kind to a store and back; what kinds there are, and what each consists of, is said in `kinds.py`."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.defences.patchguard import MaskedPool, MaskedScores
from majorcert.defences.pool import Pool
from majorcert.defences.scores import Scores
from majorcert.errors import EvidenceError, MajorcertError, StoreError
from majorcert.files.atomic import replacing
from majorcert.files.kinds import BALLOTS, Array, Arrays, Facts, MaskFacts, PoolFacts, kind_of, scores_of
from majorcert.files.packing import PLAIN, Packing
from majorcert.files.seal import plain_provenance
from majorcert.files.store import Store, unwritten
from majorcert.files.untrusted import check_room, reason, typed

E = TypeVar("E")
POOLED = ("pool", "masked-pool")
"""Kinds that a verdict says are made of several stores."""


def save_evidence(evidence: Evidence, path: str | PathLike[str]) -> None:
    """Write a store, without a tolerance; an earlier store at that path is replaced, whole or not at all."""
    save_arrays(kind_of(evidence).arrays(evidence), attributes_of(evidence), evidence.images, path)


def save_arrays(
    arrays: Arrays, attributes: Mapping[str, Any], images: Array, path: str | PathLike[str], packing: Packing = PLAIN
) -> None:
    """The same of the columns of evidence, and what else is to be kept with it."""
    if Path(path).exists():
        Store.open(path)
    if not np.array_equal(images, np.arange(len(images))):
        arrays = {**arrays, "images": images}
    known = plain_provenance(dict(attributes), path)
    with replacing(path) as beside:
        shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        Store.create(beside, shapes, known, packing).write(slice(None), arrays)


def load_evidence(path: str | PathLike[str], images: slice = slice(None)) -> Evidence:
    """The evidence in a store, or the given slice of its images, whatever its kind, checked as if it were new."""
    store = Store.open(path)
    arrays = _read(store, {name: column.optional for name, column in store.kind.columns.items()}, images)
    if unwritten(arrays[store.kind.leading]).any():
        raise StoreError(f"{path}: incomplete, some of these images have no votes yet; finish it with `majorcert vote`")
    try:
        facts = typed(store.attributes, Facts)
        _check_claims(facts, arrays["images"])
        origin = {key: value for key, value in store.attributes.items() if key != "kind"}
        return store.kind.made(arrays, origin)
    except (ValueError, MajorcertError) as error:
        raise StoreError(
            f"{path}: damaged, its arrays and its provenance do not fit together ({reason(error)})"
        ) from error


def _check_claims(facts: Facts, images: Array) -> None:
    """Refuse images that the split has not, and what would not fit in memory when it is asked for certificates."""
    if facts.split_size is not None and (last := images.max(initial=0)) >= facts.split_size:
        raise ValueError(f"image {last} of a split that has {facts.split_size} images")
    height, width = facts.image_size
    check_room(len(images) * facts.n_classes * 8, f"the counts of {facts.n_classes} classes")
    check_room(len(images) * height * width, "the maps of all placements (read fewer images at a time)")
    check_room(16 * max(height, width) ** 2, f"what patches touch in images of {height}x{width}")


def load_as(wanted: type[E], path: str | PathLike[str], images: slice = slice(None)) -> E:
    """The same of a store that is known to be of one kind; any other is refused."""
    evidence = load_evidence(path, images)
    if not isinstance(evidence, wanted):
        raise StoreError(f"{path}: holds {kind_of(evidence).name}; mc.load_evidence reads evidence of any kind")
    return evidence


def load_scores(path: str | PathLike[str], images: slice = slice(None)) -> Scores:
    """The scores of a store, whether they are its evidence or were kept beside votes."""
    store = Store.open(path)
    if "scores" not in store:
        raise StoreError(f"{path}: holds no scores; vote again and keep the scores")
    arrays = _read(store, {"scores": False}, images)
    try:
        return scores_of(arrays, store.attributes)
    except (ValueError, MajorcertError) as error:
        raise StoreError(f"{path}: its scores cannot be used ({reason(error)})") from error


def kept_scores(path: str | PathLike[str]) -> Scores | None:
    """The scores that votes were kept with; None where there are none."""
    store = Store.open(path)
    return load_scores(path) if store.kind is BALLOTS and "scores" in store else None


def load_masked(path: str | PathLike[str], patch: Patch, mask: Patch | None, threshold: float) -> MaskedScores:
    """A defender that masks (PatchGuard), from the scores of a store; of votes alone, each counts as one point.

    Args:
        mask: what it guards against; None for what is on record, or else `patch`.
    """
    store = Store.open(path)
    if store.kind is not BALLOTS and "scores" not in store:
        raise StoreError(f"{path}: PatchGuard (pg-drs) masks votes or scores, and {store.kind.name} have neither")
    if mask is None and store.kind is not BALLOTS:
        return load_as(MaskedScores, path)
    points = load_scores(path) if "scores" in store else Scores.of_votes(load_as(Ballots, path))
    return MaskedScores(points, mask or patch, threshold)


def load_recorded(origins: Sequence[Mapping[str, Any]], paths: Sequence[str | PathLike[str]]) -> list[Evidence]:
    """The evidence that a verdict was made from, used as its records say: as it is, masked, or pooled."""
    try:
        wanted = [len(typed(origin, PoolFacts).members) if origin.get("kind") in POOLED else 1 for origin in origins]
        if sum(wanted) != len(paths):
            raise EvidenceError(
                f"evidence stores: expected {sum(wanted)}, got {len(paths)}; give those that the verdict was made from "
                "and in that order"
            )
        left = iter(paths)
        return [_recorded(origin, [next(left) for _ in range(n)]) for origin, n in zip(origins, wanted, strict=True)]
    except ValueError as error:
        raise EvidenceError(f"the verdict's record of a defender is damaged ({reason(error)}); certify again") from None


def _recorded(origin: Mapping[str, Any], paths: Sequence[str | PathLike[str]]) -> Evidence:
    if origin.get("kind") in POOLED:
        pooled = typed(origin, PoolFacts)
        pool = Pool([load_as(Ballots, path) for path in paths], weights=pooled.weights)
        if pooled.mask is None:
            return pool
        return MaskedPool(pool, Patch.parse(pooled.mask), float(Fraction(pooled.mask_threshold)))
    if "mask" not in origin or Store.open(paths[0]).kind is not BALLOTS:
        return load_evidence(paths[0])
    facts = typed(origin, MaskFacts)
    points = Scores.of_votes(load_as(Ballots, paths[0])) if facts.scores_one == 1 else load_scores(paths[0])
    return MaskedScores(points, Patch.parse(facts.mask), float(Fraction(facts.mask_threshold)))


def attributes_of(evidence: Evidence) -> dict[str, Any]:
    """The provenance as it is stored, with the kind; without a tolerance, which belongs to a question."""
    kind = kind_of(evidence)
    given = {key: value for key, value in evidence.provenance.items() if key not in ("fragile", "kind")}
    return given if kind is BALLOTS else {**given, "kind": kind.name}


def _read(store: Store, optional: Mapping[str, bool], images: slice) -> Arrays:
    """Columns of some images, and the numbers of these; each has as many images as the store."""
    n_images = store.n_images
    arrays = dict[str, Array]()
    for name in [name for name in (*optional, "images") if name in store or not optional.get(name, True)]:
        if (found := store.array(name).shape[0]) != n_images:
            raise StoreError(f"{store.path}: damaged, {name!r} is of {found} images, and there are {n_images}")
        arrays[name] = store.read(name, images)
    store.check_unchanged()
    return {"images": np.arange(*images.indices(n_images)), **arrays}
