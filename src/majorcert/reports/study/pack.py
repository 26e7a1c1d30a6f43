"""From evidence as it was voted to a case study that can be kept: few small files, described in one place."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np

from majorcert.core.reach import Evidence
from majorcert.defences.scores import Scores
from majorcert.errors import EvidenceError, StoreError
from majorcert.files.atomic import check_place, replacing
from majorcert.files.evidence import kept_scores, load_evidence
from majorcert.files.names import file_names
from majorcert.files.publish import MANY_ABLATIONS, publish
from majorcert.files.store import Store
from majorcert.files.truth import read_truth, truth_beside
from majorcert.files.untrusted import read_object
from majorcert.reports.rooms import room_of
from majorcert.reports.study import Recipe, n_bytes, recipes_of

BAND_STEPS, BLOCK_STEPS = 255, 15
"""How finely scores are kept: a byte each, or half a byte where there are very many of them."""
LARGEST_SCORES = 8_000_000
"""Scores that take more bytes than this on disk are left out, and PatchGuard masks the votes instead."""


@dataclass(frozen=True)
class Packed:
    """One store of the case study, and how it got there."""

    source: str
    store: str
    n_bytes: int
    scores: str


def pack(
    stores: Sequence[str | Path], folder: str | Path, recipe: Recipe, truth: str | Path | None = None
) -> list[Packed]:
    """Bring the evidence of one recipe into a case study, in the given order; the recipe's earlier stores go.

    Args:
        recipe: its name and what to say of it; its defenders are filled in here.
        truth: the true labels (.npy or a truth file); by default the file that `majorcert vote` left beside the stores.
    """
    folder = Path(folder)
    described = _described(folder)
    _check_apart(stores, folder, recipe.name)
    others = [folder / other["defenders"][0] for name, other in described.items() if name != recipe.name]
    images = [Store.open(store).attributes.get("images_sha256") for store in others]
    packed: list[Packed] = []
    titles: list[str] = []
    check_place(folder / "recipes.json")
    with TemporaryDirectory(prefix=".packing-", dir=folder) as beside:
        for source in map(Path, stores):
            evidence = load_evidence(source)
            images.append(evidence.provenance.get("images_sha256"))
            if images[-1] != images[0]:
                raise EvidenceError(
                    f"{source}: voted on other images than the rest of {folder}; use evidence of one split"
                )
            _keep_truth(folder, evidence, truth or truth_beside(source, evidence))
            titles.append(room_of(evidence).title(evidence))
            store = f"{recipe.name}/{file_names(titles)[-1]}.zarr"
            packed.append(_packed(evidence, source, Path(beside), store))
        for item in packed:
            with replacing(folder / item.store) as place:
                (Path(beside) / item.store).rename(place)
    _describe(folder, described, replace(recipe, defenders=tuple(item.store for item in packed)))
    return packed


def scores_of(source: Path) -> Scores | None:
    """The scores that were kept with votes, as finely as a case study keeps them; None if there are none."""
    if (scores := kept_scores(source)) is None:
        return None
    steps = BAND_STEPS if scores.points.shape[1] <= MANY_ABLATIONS else BLOCK_STEPS
    if scores.one <= steps:
        return scores
    share, size = scores.points / np.float64(scores.one), scores.image_size
    return Scores.rounded(share, one=steps, strategy=scores.strategy, image_size=size, images=scores.images)


def _packed(evidence: Evidence, source: Path, folder: Path, store: str) -> Packed:
    scores = scores_of(source)
    publish(evidence, folder / store, scores)
    said = "none" if scores is None else f"{scores.one} steps"
    if (taken := n_bytes(folder / store / "scores")) > LARGEST_SCORES and scores is not None:
        publish(evidence, folder / store)
        said = f"left out, they take {taken / 1e6:.1f} MB"
    return Packed(str(source), store, n_bytes(folder / store), said)


def _check_apart(stores: Sequence[str | Path], folder: Path, recipe: str) -> None:
    """Refuse to pack a recipe from the stores that it would replace."""
    for store in stores:
        if (folder / recipe).resolve() in Path(store).resolve().parents:
            raise StoreError(
                f"{store}: lies where recipe {recipe!r} is packed to, and would be replaced by a copy of itself; "
                "give the evidence as it was voted, or another name for the recipe"
            )


def _describe(folder: Path, described: dict[str, dict[str, Any]], recipe: Recipe) -> None:
    """Write the recipe into recipes.json, then remove the stores of its earlier entry that nothing names any more."""
    earlier = described.get(recipe.name, {"defenders": ()})["defenders"]
    told = {key: value for key, value in asdict(recipe).items() if key != "name"}
    facts = {key: value for key, value in told.items() if value not in (None, "") and value is not False}
    described = {**described, recipe.name: facts}
    with replacing(folder / "recipes.json") as beside:
        beside.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    named = {folder / store for each in described.values() for store in each["defenders"]}
    for store in {folder / store for store in earlier} - named:
        # Whatever an entry names, only stores in the recipe's own folder go.
        if store.suffix == ".zarr" and store.resolve().parent == folder.resolve() / recipe.name:
            shutil.rmtree(store)


def _described(folder: Path) -> dict[str, dict[str, Any]]:
    if not (folder / "recipes.json").exists():
        return {}
    described = read_object(folder / "recipes.json")
    if not recipes_of(folder, described):
        raise StoreError(f"{folder}: recipes.json names no recipe; delete it to begin a new case study")
    return described


def _keep_truth(folder: Path, evidence: Evidence, path: str | Path) -> None:
    """Write truth.npy the first time; later, refuse labels that differ."""
    kept = folder / "truth.npy"
    if not np.array_equal(evidence.images, np.arange(len(evidence))):
        raise EvidenceError("a case study is about every image of a split; this evidence leaves some out")
    if kept.is_file() and not Path(path).is_file():
        return
    labels = read_truth(path, evidence, _refuse)
    labels = labels.astype(np.min_scalar_type(labels.max(initial=0)))
    if not kept.is_file():
        with replacing(kept) as beside, beside.open("wb") as file:
            np.save(file, labels)
    elif not np.array_equal(read_truth(kept, evidence), labels):
        raise EvidenceError(f"{path}: these true labels are not those of {kept}")


def _refuse(doubt: str) -> NoReturn:
    raise EvidenceError(f"{doubt}: a case study is about every image of a split")
