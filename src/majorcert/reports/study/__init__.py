"""A case study on disk: recipes, the evidence of their defenders, and the true labels.

FOLDER/recipes.json          {recipe: {"defenders": [store, ...], "epochs", "gpu_minutes", "command", "note",
                                       "alternatives"}}
FOLDER/truth.npy             the true label of every image of the split
FOLDER/RECIPE/columns-4.zarr evidence stores, named in recipes.json relative to FOLDER
FOLDER/results.json          what `reports.study.results` makes of the above; anyone can make it again
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.verdict import Verdict
from majorcert.defences.scores import Scores
from majorcert.errors import StoreError
from majorcert.files.evidence import kept_scores, load_evidence
from majorcert.files.truth import split_size
from majorcert.files.untrusted import cleaned, read_json, read_npy, reason, typed

PLAIN_NAME = re.compile(r"[^\W_][\w .+-]{0,99}")


@dataclass(frozen=True)
class Recipe:
    """One way to train an ensemble, and the evidence of its defenders."""

    name: str
    defenders: tuple[str, ...]
    epochs: float | None = None
    gpu_minutes: float | None = None
    command: str = ""
    note: str = ""
    alternatives: bool = False
    """each defender is one to choose, such as masks for one bound on the patch; they are not one ensemble"""

    def __post_init__(self) -> None:
        if PLAIN_NAME.fullmatch(self.name) is None:
            raise StoreError(
                "the name of a recipe becomes that of a folder: up to 100 letters, digits, spaces and . _ + -, "
                f"and the first is a letter or digit; got {cleaned(self.name)!r}"
            )


@dataclass(frozen=True)
class CaseStudy:
    """The recipes of one folder and the labels that they are scored against."""

    folder: Path
    recipes: tuple[Recipe, ...]
    truth: Ints

    @classmethod
    def read(cls, folder: str | Path) -> "CaseStudy":
        """Read recipes and labels; evidence is read when it is needed."""
        folder = Path(folder)
        if not folder.is_dir():
            raise StoreError(f"{folder}: no such folder; a case study is one, such as results/cifar10")
        for name in ("recipes.json", "truth.npy"):
            if not (folder / name).is_file():
                raise StoreError(f"{folder}: not a case study, it has no {name}")
        try:
            recipes = recipes_of(folder, read_json(folder / "recipes.json"))
            truth = read_npy(folder / "truth.npy")
        except (OSError, ValueError) as error:
            raise StoreError(f"{folder}: recipes.json or truth.npy cannot be read ({reason(error)})") from error
        if not recipes:
            raise StoreError(f"{folder}: recipes.json names no recipe; `majorcert pack` adds one")
        if truth.ndim != 1 or truth.dtype.kind not in "iu":
            raise StoreError(f"{folder}: truth.npy has one whole number for each image")
        return cls(folder, recipes, truth.astype(np.int64))

    def evidence(self, store: str) -> Evidence:
        return load_evidence(self.folder / store)

    def scores(self, store: str) -> Scores | None:
        return kept_scores(self.folder / store)

    def truth_of(self, verdict: Verdict) -> Ints:
        """(images,) the true labels of what was judged."""
        if len(verdict) and int(verdict.images.max()) >= len(self.truth):
            raise StoreError(f"{self.folder}: evidence of image {verdict.images.max()}, but {len(self.truth)} labels")
        return self.truth[verdict.images]

    def n_split(self, defenders: Sequence[Evidence]) -> int:
        """How many images the whole split has, of which those of the evidence may be a part."""
        return max(split_size(defender.provenance, len(self.truth)) for defender in defenders)


def n_bytes(store: Path) -> int:
    """How much a store takes on disk, which says about how long its evidence takes to judge."""
    return sum(path.stat().st_size for path in store.rglob("*") if path.is_file())


def recipes_of(folder: Path, described: Any) -> tuple[Recipe, ...]:
    """The recipes that a recipes.json describes; their stores lie in the folder, whatever their names say."""
    try:
        listed = typed(described, dict[str, dict[str, Any]])
        recipes = tuple(typed({**facts, "name": name}, Recipe) for name, facts in listed.items())
        for recipe in recipes:
            if not recipe.defenders:
                raise ValueError(f"every recipe has one or more defenders, {recipe.name!r} has none")
            for store in recipe.defenders:
                if not store or Path(store).is_absolute() or ".." in Path(store).parts:
                    raise ValueError(f"a store is named by its path within the folder, got {store!r}")
    except ValueError as error:
        raise StoreError(f"{folder}: recipes.json cannot be read ({reason(error)})") from error
    return recipes
