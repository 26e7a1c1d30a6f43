"""A case study on disk, and every number that follows from it.

FOLDER/recipes.json          {recipe: {"defenders": [store, ...], "epochs", "gpu_minutes", "command", "note"}}
FOLDER/truth.npy             the true label of every image of the split
FOLDER/RECIPE/columns-4.zarr evidence stores, named in recipes.json relative to FOLDER
FOLDER/results.json          what `compute` makes of the above; anyone can make it again
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, Patch
from majorcert.defences.scores import Scores
from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.store import Store
from majorcert.files.untrusted import cleaned, read_json, read_npy, reason
from majorcert.reports.census import Census, Proved, count_masked

SIDES = (2, 5)
"""The patches of the paper's table."""
LARGEST_SIDE = 16
"""Certified accuracy is told for every side up to this."""

PLAIN_NAME = re.compile(r"[^\W_][\w .+-]{0,99}")

Results = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """One way to train an ensemble, and the evidence of its defenders."""

    name: str
    defenders: tuple[str, ...]
    epochs: float | None = None
    gpu_minutes: float | None = None
    command: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or PLAIN_NAME.fullmatch(self.name) is None:
            raise StoreError(
                "the name of a recipe becomes that of a folder: up to 100 letters, digits, spaces and . _ + -, of which "
                f"the first is a letter or digit; got {cleaned(self.name)!r}"
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
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(f"{folder}: recipes.json or truth.npy cannot be read ({reason(error)})") from error
        if not recipes:
            raise StoreError(f"{folder}: recipes.json names no recipe; `majorcert pack` adds one")
        if truth.ndim != 1 or truth.dtype.kind not in "iu":
            raise StoreError(f"{folder}: truth.npy has one whole number for each image")
        return cls(folder, recipes, truth.astype(np.int64))

    def ballots(self, store: str) -> Ballots:
        return Ballots.load(self.folder / store)

    def scores(self, store: str) -> Scores | None:
        path = self.folder / store
        return Scores.load(path) if "scores" in Store.open(path) else None

    def n_bytes(self, store: str) -> int:
        """How much a store takes on disk, which says about how long its evidence takes to judge."""
        return sum(path.stat().st_size for path in (self.folder / store / "labels").rglob("*") if path.is_file())

    def truth_of(self, evidence: Ballots | Scores) -> Ints:
        if len(evidence) and int(evidence.images.max()) >= len(self.truth):
            raise StoreError(f"{self.folder}: evidence of image {evidence.images.max()}, but {len(self.truth)} labels")
        return self.truth[evidence.images]


def compute(study: CaseStudy, *, workers: int = 1) -> Results:
    """Every number of the case study, from its evidence alone.

    Args:
        workers: processes to share the work; with more than one, a script that calls this needs a `__main__` guard.
    """
    jobs: list[tuple[Callable[..., Results], CaseStudy, Recipe, str]] = []
    for recipe in study.recipes:
        jobs.append((_ensemble, study, recipe, ""))
        jobs.extend((_defender, study, recipe, store) for store in recipe.defenders)
    if workers == 1:
        parts = [_run(job) for job in jobs]
    else:
        # One thread of linear algebra in each process: more would compete for the same cores.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
            # The longest first, so that no process is left with a long one while the others are done.
            work = [sum(map(study.n_bytes, [store] if store else recipe.defenders)) for _, _, recipe, store in jobs]
            order = sorted(range(len(jobs)), key=work.__getitem__, reverse=True)
            done = dict(zip(order, pool.map(_run, [jobs[i] for i in order]), strict=True))
            parts = [done[i] for i in range(len(jobs))]
    merged: Results = {"n": len(study.truth)}
    for key in ("rows", "means", "reference", "by_side", "largest", "unsafe", "masked"):
        merged[key] = [item for part in parts for item in part.get(key, [])]
    methods = ("drs-margin", "drs-local", "pg-drs", "majorcert-theorem1", "majorcert-paper", "majorcert-exact")
    recipes = [recipe.name for recipe in study.recipes]
    for key in ("rows", "means"):
        merged[key].sort(key=lambda row: (recipes.index(row["recipe"]), methods.index(row["method"])))
    return merged


def write(results: Results, folder: str | Path) -> None:
    """Write results.json, one item a line so that differences can be read."""
    with replacing(Path(folder) / "results.json") as beside:
        beside.write_text(as_json(results), encoding="utf-8")


def as_json(results: Results) -> str:
    parts = []
    for key, value in results.items():
        lines = [json.dumps(item) for item in value] if isinstance(value, list) else None
        text = json.dumps(value) if lines is None else "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else "[]"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def committed(folder: str | Path) -> Results:
    """The results.json of a case study, as it was written."""
    try:
        results: Results = read_json(Path(folder) / "results.json")
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder}: no readable results.json; `majorcert table {folder} --write` makes it") from error
    if not isinstance(results, dict):
        raise StoreError(f"{folder}: results.json holds no results; `majorcert table {folder} --write` makes it")
    return results


def recipes_of(folder: Path, described: dict[str, dict[str, Any]]) -> tuple[Recipe, ...]:
    """The recipes that a recipes.json describes."""
    try:
        return tuple(_recipe(name, facts) for name, facts in described.items())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{folder}: recipes.json cannot be read ({reason(error)})") from error


def _recipe(name: str, facts: dict[str, Any]) -> Recipe:
    """A recipe as it is described; its stores lie in the folder, whatever their names say."""
    stores = tuple(facts["defenders"])
    if not stores:
        raise ValueError(f"every recipe has one or more defenders, {name!r} has none")
    for store in stores:
        if not isinstance(store, str) or not store or Path(store).is_absolute() or ".." in Path(store).parts:
            raise ValueError(f"a store is named by its path within the folder, got {store!r}")
    texts = [facts.get(key, "") for key in ("command", "note")]
    numbers = [facts.get(key) for key in ("epochs", "gpu_minutes")]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(n, int | float | None) for n in numbers):
        raise ValueError(f"{name!r} is not described by numbers and texts")
    return Recipe(name, stores, **{key: value for key, value in facts.items() if key != "defenders"})


def _run(job: tuple[Callable[..., Results], CaseStudy, Recipe, str]) -> Results:
    work, study, recipe, store = job
    return work(study, recipe, store)


def _defender(study: CaseStudy, recipe: Recipe, store: str) -> Results:
    """The rows of one defender alone: DRS by margin and by placement, and PatchGuard."""
    ballots = study.ballots(store)
    truth = study.truth_of(ballots)
    census = Census.of([ballots], truth)
    proved = census.prove(SIDES, reaches=("exact",))
    rows, specs = [], [str(ballots.strategy)]
    for side in SIDES:
        for method, certified in (("drs-margin", proved[side].theorem1), ("drs-local", proved[side].exact)):
            rows.append(_row(recipe, method, [store], specs, side, census.correct, certified))
    scores = study.scores(store)
    points = Scores.of_votes(ballots) if scores is None else scores
    for side in SIDES:
        correct, certified = count_masked(points, Patch(side), study.truth_of(points))
        rows.append(_row(recipe, "pg-drs", [store], specs, side, correct, certified))
    kind = "votes" if scores is None else f"scores of {scores.one} steps"
    masked = [{"recipe": recipe.name, "evidence": store, "masked": kind}]
    return {"rows": rows, "means": _means(rows), "masked": masked}


def _ensemble(study: CaseStudy, recipe: Recipe, _: str) -> Results:
    """The rows of the whole ensemble, its accuracy at every size, and where it is unsafe."""
    defenders = [study.ballots(store) for store in recipe.defenders]
    census = Census.of(defenders, study.truth_of(defenders[0]))
    proved = census.prove(SIDES)
    largest = census.largest(proved, LARGEST_SIDE)
    n = len(largest)
    counts = np.bincount(largest, minlength=LARGEST_SIDE + 1)
    specs = [str(defender.strategy) for defender in defenders]
    rows = [
        _row(recipe, f"majorcert-{name}", recipe.defenders, specs, side, census.correct, getattr(proved[side], name))
        for name in ("theorem1", "paper", "exact")
        for side in SIDES
    ]
    at_least = counts[::-1].cumsum()[::-1]
    return {
        "rows": rows,
        "means": _means(rows),
        "reference": [_reference(recipe, side, proved[side]) for side in SIDES],
        "by_side": [{"recipe": recipe.name, "certified": [_percent(count, n) for count in at_least[1:]]}],
        "largest": [{"recipe": recipe.name, "images": counts.tolist()}],
        "unsafe": [
            {"recipe": recipe.name, "patch": f"{side}x{side}", "images": proved[side].n_unsafe.tolist()}
            for side in SIDES
        ],
    }


def _row(
    recipe: Recipe,
    method: str,
    stores: Sequence[str],
    specs: Sequence[str],
    side: int,
    correct: Bools,
    certified: Bools,
) -> dict[str, Any]:
    n = len(correct)
    return {
        "recipe": recipe.name,
        "method": method,
        "defenders": list(specs),
        "evidence": list(stores),
        "patch": f"{side}x{side}",
        "clean": _percent(correct.sum(), n),
        "certified": _percent(certified.sum(), n),
        "n": n,
    }


def _reference(recipe: Recipe, side: int, proved: Proved) -> dict[str, Any]:
    certified = _percent(proved.reference.sum(), len(proved.reference))
    return {"recipe": recipe.name, "patch": f"{side}x{side}", "certified": certified}


def _means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean clean and certified accuracy over the patches of the table, for each method among the rows."""
    means = []
    for method in dict.fromkeys(row["method"] for row in rows):
        some = [row for row in rows if row["method"] == method]
        mean = {key: round(sum(row[key] for row in some) / len(some), 3) for key in ("clean", "certified")}
        means.append({**{key: some[0][key] for key in ("recipe", "method", "defenders", "evidence")}, **mean})
    return means


def _percent(count: Any, n: int) -> float:
    return round(100 * int(count) / max(n, 1), 2)
