"""Every number of a case study, counted from verdicts of the public functions, and results.json, which keeps them."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.majority import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import ImageSize, Patch, as_patch
from majorcert.core.verdict import Verdict
from majorcert.defences.clipped import ClippedScores
from majorcert.defences.patchguard import MaskedPool, MaskedScores
from majorcert.defences.pool import Pool
from majorcert.defences.scores import Scores
from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import read_object
from majorcert.reports.bound import within
from majorcert.reports.contents import titles
from majorcert.reports.rooms import is_map, room_of
from majorcert.reports.rows import WORDS, alone, by_papers_reach, by_theorem1, detected, safe_map
from majorcert.reports.score import score
from majorcert.reports.study import CaseStudy, Recipe, n_bytes

SIDES = (2, 5)
"""The patches of the paper's table."""
SHARES = ("1%", "2%", "3%")
"""Those of photographs, as the literature has them on ImageNet."""
PHOTOGRAPH = 64
"""The least side of an image for which these are."""
LARGEST_SIDE = 16
"""Certified accuracy is told for every side up to this that fits in the image."""

Results = dict[str, Any]
Job = tuple[Callable[..., Results], CaseStudy, Recipe, tuple[str, ...]]


def compute(study: CaseStudy, *, workers: int = 1) -> Results:
    """Every number of the case study, from its evidence alone.

    Args:
        workers: processes to share the work; with more than one, a script that calls this needs a `__main__` guard.
    """
    jobs = list(_jobs(study))
    if workers == 1:
        parts = [_run(job) for job in jobs]
    else:
        # One thread of linear algebra in each process: more would compete for the same cores.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
            # The longest first, so that no process is left with a long one while the others are done.
            order = sorted(range(len(jobs)), key=lambda i: -sum(n_bytes(study.folder / store) for store in jobs[i][3]))
            done = dict(zip(order, pool.map(_run, [jobs[i] for i in order]), strict=True))
            parts = [done[i] for i in range(len(jobs))]
    listed = ("rows", "means", "reference", "by_side", "largest", "unsafe", "masked")
    merged: Results = {key: [item for part in parts for item in part.get(key, [])] for key in listed}
    recipes, words = [recipe.name for recipe in study.recipes], list(WORDS)
    for key in ("rows", "means"):
        merged[key].sort(key=lambda row: words.index(row["method"]))
        merged[key].sort(key=lambda row: (recipes.index(row["recipe"]), row["promise"] != "recovery"))
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
        return read_object(Path(folder) / "results.json")
    except StoreError as error:
        raise StoreError(f"{error}; `majorcert table {folder} --write` makes it") from None


def _run(job: Job) -> Results:
    work, study, recipe, stores = job
    return work(study, recipe, stores)


def _jobs(study: CaseStudy) -> Iterator[Job]:
    """Each ensemble, and each defender alone: in the first recipe that has it, where several share one."""
    told = set()
    for recipe in study.recipes:
        if not recipe.alternatives:
            yield _ensemble, study, recipe, recipe.defenders
        for store in recipe.defenders:
            if store not in told:
                yield _defender, study, recipe, (store,)
            told.add(store)


def _defender(study: CaseStudy, recipe: Recipe, stores: tuple[str]) -> Results:
    """The rows of one defender alone, by every method for its kind; of votes by PatchGuard, of maps clipped too.

    If the defender stands for its recipe, detection and its accuracy at every size as well.
    """
    (store,) = stores
    evidence, scores = study.evidence(store), study.scores(store)
    room, by_side, masked = room_of(evidence), [], []
    bound = within([evidence], Patch(*evidence.image_size))
    patches = patches_up_to(bound, evidence.image_size)
    verdicts = [verdict for patch in patches for verdict in alone(evidence, patch)]
    if recipe.alternatives:
        method = verdicts[-1].method
        counts = _largest_sides(study, [evidence], [each for each in verdicts if each.method == method], bound)
        told = {"recipe": recipe.name, "method": method, "defenders": titles([evidence]), "evidence": [store]}
        by_side = [{**told, "certified": _at_least(counts)}]
        verdicts += [detected([evidence], patch, method) for patch in patches if room.detects]
    if room.votes:
        points = Scores.of_votes(cast(Ballots, evidence)) if scores is None else scores
        verdicts += [verdict for patch in patches for verdict in alone(MaskedScores(points, patch), patch)]
        if scores is not None and is_map(evidence):
            verdicts += [verdict for patch in patches for verdict in alone(ClippedScores(scores), patch)]
        kind = "votes" if scores is None else f"scores of {scores.one} steps"
        masked = [{"recipe": recipe.name, "evidence": store, "masked": kind}]
    rows = [_row(study, recipe, stores, [evidence], verdict) for verdict in verdicts]
    return {"rows": rows, "means": _means(rows, evidence.image_size), "by_side": by_side, "masked": masked}


def _ensemble(study: CaseStudy, recipe: Recipe, stores: tuple[str, ...]) -> Results:
    """The rows of the whole ensemble, its accuracy at every size, and where it is unsafe."""
    defenders = together([study.evidence(store) for store in stores])
    n, size = len(defenders[0]), defenders[0].image_size
    unsafe, reference, found = [], [], []
    bound = within(defenders, Patch(*size))
    others = list(_pool_and_detection(defenders, patches := patches_up_to(bound, size)))
    rows = [_row(study, recipe, stores, defenders, verdict) for verdict in others]
    for patch in patches:
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
        found.append(exact)
    counts = _largest_sides(study, defenders, found, bound)
    return {
        "rows": rows,
        "means": _means(rows, size),
        "reference": reference,
        "by_side": [{"recipe": recipe.name, "certified": _at_least(counts)}],
        "largest": [{"recipe": recipe.name, "images": counts.tolist()}],
        "unsafe": unsafe,
    }


def together(members: list[Evidence]) -> list[Evidence]:
    """The defenders of an ensemble: its members; where others stand beside several that vote, these are one pool."""
    voters = [member for member in members if room_of(member).votes]
    others = [member for member in members if not room_of(member).votes]
    return [*others, Pool(voters)] if others and len(voters) > 1 else members


def _pool_and_detection(defenders: Sequence[Evidence], patches: Sequence[Patch]) -> Iterator[Verdict]:
    """The pool of several that vote, plain and masked, and detection by the pool and by the majority, where all can."""
    rooms = [room_of(defender) for defender in defenders]
    if len(defenders) > 1 and all(room.votes for room in rooms):
        pool = Pool(defenders)
        for patch in patches:
            yield from alone(pool, patch)
            yield from alone(MaskedPool(pool, patch), patch)
            yield detected([pool], patch, "pool")
    if all(room.detects for room in rooms):
        yield from (detected(defenders, patch, "majorcert-exact") for patch in patches)


def patches_up_to(bound: Patch, image_size: ImageSize) -> list[Patch]:
    """The patches of the table that fit in the bound, which is no larger than the image; single pixels if none does."""
    sizes: tuple[Any, ...] = SHARES if min(image_size) >= PHOTOGRAPH else SIDES
    patches = [as_patch(size, image_size) for size in sizes]
    return [each for each in patches if each.height <= min(bound.height, bound.width)] or [Patch(1)]


def _largest_sides(study: CaseStudy, defenders: Sequence[Evidence], known: Sequence[Verdict], bound: Patch) -> Ints:
    """(sides + 1,) how many images are correct and certified against squares of this side, and not of the next.

    Who is certified at one side is certified at every smaller one, so that what is known at some sides already leaves
    few images to ask about at the others.
    """
    limit = min(LARGEST_SIDE, bound.height, bound.width)
    standing = known[0].predicted == study.truth_of(known[0])
    sides = np.zeros(len(standing), dtype=np.int64)
    for side in range(1, limit + 1):
        certified = np.any([verdict.certified for verdict in known if verdict.patch.height >= side], axis=0) & standing
        if side not in [verdict.patch.height for verdict in known]:
            images = np.flatnonzero(standing & ~certified)
            some = [defender[images] for defender in defenders]
            *_, verdict = alone(some[0], Patch(side)) if len(some) == 1 else [majorcert(some, Patch(side))]
            certified[images] = verdict.certified
        standing = certified
        sides[standing] = side
    return np.bincount(sides, minlength=limit + 1)


def _at_least(counts: Ints) -> list[float]:
    """Percent of images that are correct and certified at each side."""
    return [_percent(count, int(counts.sum())) for count in counts[::-1].cumsum()[::-1][1:]]


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
        "defenders": titles(defenders),
        "evidence": list(stores),
        "patch": str(verdict.patch),
        "promise": verdict.promise,
        "clean": round(100 * found.clean, 2),
        "certified": round(100 * found.certified, 2),
        **({} if verdict.alert is None else {"alerts": _percent(verdict.alert.sum(), found.n)}),
        "n": found.n,
        "n_split": study.n_split(defenders),
    }


def _means(rows: list[dict[str, Any]], image_size: ImageSize) -> list[dict[str, Any]]:
    """Mean clean and certified accuracy over the patches of the table, for each method and promise with all of them."""
    means, n_patches = [], len(patches_up_to(Patch(*image_size), image_size))
    for kind in dict.fromkeys((row["method"], row["promise"]) for row in rows):
        some = [row for row in rows if (row["method"], row["promise"]) == kind]
        if len(some) < n_patches:
            continue
        mean = {key: round(sum(row[key] for row in some) / len(some), 3) for key in ("clean", "certified")}
        shared = ("recipe", "method", "promise", "defenders", "evidence")
        means.append({**{key: some[0][key] for key in shared}, **mean})
    return means


def _percent(count: Any, n: int) -> float:
    return round(100 * int(count) / max(n, 1), 2)
