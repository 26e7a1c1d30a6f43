"""Every number of a case study, counted from verdicts of the public functions, and results.json, which keeps them."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.largest import largest_patch
from majorcert.core.majority import majorcert
from majorcert.core.reach import Evidence
from majorcert.core.threat import ImageSize, Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.patchguard import MaskedScores
from majorcert.defences.scores import Scores
from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import cleaned, read_json
from majorcert.reports.rooms import room_of
from majorcert.reports.rows import WORDS, alone, by_papers_reach, by_theorem1, safe_map
from majorcert.reports.score import score
from majorcert.reports.study import CaseStudy, Recipe

SIDES = (2, 5)
"""The patches of the paper's table."""
LARGEST_SIDE = 16
"""Certified accuracy is told for every side up to this that fits in the image."""

Results = dict[str, Any]
Job = tuple[Callable[..., Results], CaseStudy, Recipe, tuple[str, ...]]


def compute(study: CaseStudy, *, workers: int = 1) -> Results:
    """Every number of the case study, from its evidence alone.

    Args:
        workers: processes to share the work; with more than one, a script that calls this needs a `__main__` guard.
    """
    jobs: list[Job] = [(_ensemble, study, recipe, recipe.defenders) for recipe in study.recipes]
    jobs += [(_defender, study, recipe, (store,)) for recipe in study.recipes for store in recipe.defenders]
    if workers == 1:
        parts = [_run(job) for job in jobs]
    else:
        # One thread of linear algebra in each process: more would compete for the same cores.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
            # The longest first, so that no process is left with a long one while the others are done.
            order = sorted(range(len(jobs)), key=lambda i: -sum(map(study.n_bytes, jobs[i][3])))
            done = dict(zip(order, pool.map(_run, [jobs[i] for i in order]), strict=True))
            parts = [done[i] for i in range(len(jobs))]
    listed = ("rows", "means", "reference", "by_side", "largest", "unsafe", "masked")
    merged: Results = {key: [item for part in parts for item in part.get(key, [])] for key in listed}
    recipes = [recipe.name for recipe in study.recipes]
    for key in ("rows", "means"):
        merged[key].sort(key=lambda row: (recipes.index(row["recipe"]), list(WORDS).index(row["method"])))
    sizes = {key: [row[key] for row in merged["rows"]] for key in ("n", "n_split")}
    return {"n": min(sizes["n"]), "n_split": max(sizes["n_split"]), **merged}


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


def _run(job: Job) -> Results:
    work, study, recipe, stores = job
    return work(study, recipe, stores)


def _defender(study: CaseStudy, recipe: Recipe, stores: tuple[str]) -> Results:
    """The rows of one defender alone, by every method for its kind, and of votes by PatchGuard too."""
    (store,) = stores
    evidence, scores = study.evidence(store), study.scores(store)
    patches, masked = patches_for(evidence.image_size), []
    verdicts = [verdict for patch in patches for verdict in alone(evidence, patch)]
    if room_of(evidence).votes:
        points = Scores.of_votes(cast(Ballots, evidence)) if scores is None else scores
        verdicts += [verdict for patch in patches for verdict in alone(MaskedScores(points, patch), patch)]
        kind = "votes" if scores is None else f"scores of {scores.one} steps"
        masked = [{"recipe": recipe.name, "evidence": store, "masked": kind}]
    rows = [_row(study, recipe, stores, [evidence], verdict) for verdict in verdicts]
    return {"rows": rows, "means": _means(rows), "masked": masked}


def _ensemble(study: CaseStudy, recipe: Recipe, stores: tuple[str, ...]) -> Results:
    """The rows of the whole ensemble, its accuracy at every size, and where it is unsafe."""
    defenders = [study.evidence(store) for store in stores]
    n, size = len(defenders[0]), defenders[0].image_size
    rows, unsafe, reference = [], [], []
    correct = np.zeros(n, dtype=bool)
    for patch in patches_for(size):
        exact = majorcert(defenders, patch)
        correct = exact.predicted == study.truth_of(exact)
        told = {"recipe": recipe.name, "patch": str(patch)}
        verdicts = [by_theorem1(exact), exact]
        if all(room_of(defender).votes for defender in defenders):
            paper, as_released = by_papers_reach(defenders, exact)
            verdicts.insert(1, paper)
            reference.append({**told, "certified": _percent((as_released & correct).sum(), n)})
        rows += [_row(study, recipe, stores, defenders, verdict) for verdict in verdicts]
        unsafe.append({**told, "images": (~safe_map(exact)[correct]).sum(axis=0).tolist()})
    limit = min(LARGEST_SIDE, *size)
    largest = np.where(correct, np.minimum(largest_patch(defenders), limit), 0)
    counts = np.bincount(largest, minlength=limit + 1)
    at_least = counts[::-1].cumsum()[::-1]
    return {
        "rows": rows,
        "means": _means(rows),
        "reference": reference,
        "by_side": [{"recipe": recipe.name, "certified": [_percent(count, n) for count in at_least[1:]]}],
        "largest": [{"recipe": recipe.name, "images": counts.tolist()}],
        "unsafe": unsafe,
    }


def patches_for(image_size: ImageSize) -> list[Patch]:
    """The patches of the table that fit in the image; of a very small image its single pixels."""
    return [Patch(side) for side in SIDES if side <= min(image_size)] or [Patch(1)]


def part_of_split(results: Results, recipe: str) -> str:
    """What the accuracies of a recipe are of, if that is less than the whole split."""
    row = next(row for row in results["rows"] if row["recipe"] == recipe)
    n, n_split = row["n"], row.get("n_split", row["n"])
    return "" if n == n_split else f"{n} of the split's {n_split} images"


def _row(
    study: CaseStudy, recipe: Recipe, stores: Sequence[str], defenders: Sequence[Evidence], verdict: Verdict
) -> dict[str, Any]:
    found = score(verdict, study.truth_of(verdict))
    return {
        "recipe": recipe.name,
        "method": verdict.method,
        "defenders": [cleaned(room_of(defender).title(defender)) for defender in defenders],
        "evidence": list(stores),
        "patch": str(verdict.patch),
        "promise": verdict.promise,
        "clean": round(100 * found.clean, 2),
        "certified": round(100 * found.certified, 2),
        **({} if verdict.alert is None else {"alerts": _percent(verdict.alert.sum(), found.n)}),
        "n": found.n,
        "n_split": study.n_split(verdict),
    }


def _means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean clean and certified accuracy over the patches of the table, for each method and promise among the rows."""
    means = []
    for kind in dict.fromkeys((row["method"], row["promise"]) for row in rows):
        some = [row for row in rows if (row["method"], row["promise"]) == kind]
        mean = {key: round(sum(row[key] for row in some) / len(some), 3) for key in ("clean", "certified")}
        shared = ("recipe", "method", "promise", "defenders", "evidence")
        means.append({**{key: some[0][key] for key in shared}, **mean})
    return means


def _percent(count: Any, n: int) -> float:
    return round(100 * int(count) / max(n, 1), 2)
