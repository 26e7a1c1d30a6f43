"""The networks and the images that are said to have voted: found by what evidence says of them, and loaded as then."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from majorcert.core.reach import Evidence
from majorcert.errors import EvidenceError
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.data import Dataset, load
from majorcert.nets.ensemble import load_defender
from majorcert.nets.ensemble_file import BOUNDED, member_folders, resolved
from majorcert.nets.member import Member
from majorcert.nets.resizing import reading_of
from majorcert.nets.scorer import PRECISIONS


def recorded_defenders(
    runs: Sequence[str | Path], evidence: Sequence[Evidence], *, precision: str | None = None, **how: Any
) -> list[Member]:
    """The defender of each evidence, in the precision in which it voted, and compiled if it was.

    Args:
        how: `device` and `allow`, as for `Defender.load`.
    """
    folders = [folder for run in runs for folder in member_folders(resolved(run))]
    if len(folders) != len(evidence):
        beside = [f"{run}/{BOUNDED}" for run in runs if (resolved(run) / BOUNDED).is_dir()]
        hint = f"; masking ones may be in {', '.join(beside)}" if beside else ""
        raise EvidenceError(f"got the weights of {len(folders)} defenders and the evidence of {len(evidence)}{hint}")
    found = []
    for folder, each in zip(_paired(folders, evidence), evidence, strict=True):
        recorded = each.provenance.get("precision")
        kind: Any = precision or (recorded if recorded in PRECISIONS else None)
        compiled = each.provenance.get("compiled") is True
        found.append(load_defender(folder, precision=kind, compiled=compiled, **how))
    return found


def recorded_images(spec: str, evidence: Evidence, *, split: str | None = None, **options: Any) -> Dataset:
    """The split of a data set that was voted on, in the size on record; whether it is the same is for others to say.

    Args:
        split: if it is not the one on record.
        options: as for `nets.data.load`.
    """
    part: Any = split or evidence.provenance.get("split", "test")
    return load(spec, part, image_size=evidence.image_size, **{**reading_of(evidence.provenance), **options})


def _paired(folders: Sequence[Path], evidence: Sequence[Evidence]) -> list[Path]:
    """The folders in the order of the evidence: by the fingerprint of the weights, then by strategy, then as given."""
    rules: list[Callable[[Blueprint, Evidence], bool]] = [
        lambda blueprint, each: blueprint.weights_sha256 == each.provenance.get("weights_sha256"),
        lambda blueprint, each: str(blueprint.strategy) == each.provenance.get("strategy"),
        lambda blueprint, each: True,
    ]
    left, found = [(folder, Blueprint.read(folder)) for folder in folders], dict[int, Path]()
    for fits in rules:
        for place, each in enumerate(evidence):
            fitting = [pair for pair in left if place not in found and fits(pair[1], each)]
            if fitting:
                found[place] = fitting[0][0]
                left.remove(fitting[0])
    return [found[place] for place in range(len(evidence))]
