"""Which members should a pool have? python studies/members.py VOTES -o chosen.json

VOTES holds a folder for each candidate, `columns-5` and so on, with its store: what a short network of it voted on the
validation split. The rule, fixed before any candidate was trained:

1. Sets of three to five candidates, of at least two kinds, with at most one of blocks (whose votes take by far the most
   time and room); all members have the same say.
2. The score of a set is the mean of four shares: certified and correct at 2x2 and at 5x5, by the pool and by the masked
   pool. Only the 96 sets that the pool likes best are masked; the others are out.
3. Sets whose score is within one standard error of the best one's, of the difference image by image, are as good.
4. Of those, the one with the highest clean accuracy, the mean of the pool's and of both masked ones'; then that of
   fewer members; then the one that is first in the order of the candidates.
"""

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mixes import in_common

import majorcert as mc
from majorcert.files.truth import find_truth
from majorcert.reports.terminal import remark, say_table

CANDIDATES = ("columns:4", "columns:5", "columns:6", "columns:7", "rows:4", "rows:5", "rows:6")
CANDIDATES += ("blocks:10", "blocks:12", "blocks:14")
PATCHES = (mc.Patch(2), mc.Patch(5))
SIZES = range(3, 6)
MASKED = 96
"""So many sets are masked as well."""

Names = tuple[str, ...]
Shares = npt.NDArray[np.float64]
members: dict[str, mc.Evidence] = {}
truth: npt.NDArray[Any] = np.zeros(0)


@dataclass(frozen=True)
class Tried:
    """What a set of members reached by one rule."""

    names: Names
    each: Shares
    """(images,) the share of the patches for which the image is certified and correct"""
    clean: float
    certified: tuple[float, ...]
    """at each patch"""


@dataclass(frozen=True)
class Line:
    """A set of members beside the best one; all but the names are shares of the images."""

    members: Names
    as_good: bool
    score: float
    clean: float
    behind: float
    error: float
    """the standard error of `behind`"""
    pool: tuple[float, ...]
    masked_pool: tuple[float, ...]

    def percent(self) -> list[str]:
        return [f"{100 * share:.2f}" for share in (self.score, self.clean, *self.pool, *self.masked_pool)]


def kinds(names: Sequence[str]) -> list[str]:
    return [name.split(":")[0] for name in names]


def sets_of(candidates: Sequence[str]) -> list[Names]:
    """Those that may be chosen."""
    every = (names for size in SIZES for names in combinations(candidates, size))
    return [names for names in every if len(set(kinds(names))) > 1 and kinds(names).count("blocks") < 2]


def pooled(names: Names) -> Tried:
    pool = mc.Pool([members[name] for name in names])
    return tried(names, [mc.certify([pool], patch) for patch in PATCHES])


def masked(names: Names) -> Tried:
    pool = mc.Pool([members[name] for name in names])
    return tried(names, [mc.patchguard(pool, patch) for patch in PATCHES])


def tried(names: Names, verdicts: Sequence[mc.Verdict]) -> Tried:
    right = [verdict.predicted == truth for verdict in verdicts]
    safe = [verdict.certified & correct for verdict, correct in zip(verdicts, right, strict=True)]
    clean, certified = float(np.mean(right)), tuple(float(each.mean()) for each in safe)
    return Tried(names, np.mean(safe, axis=0, dtype=np.float64), clean, certified)


def ranked(plain: Sequence[Tried], robust: Sequence[Tried], order: Sequence[Names]) -> list[Line]:
    """Every set that was tried by both rules, the chosen one first."""
    by_names, place = {each.names: each for each in plain}, {names: number for number, names in enumerate(order)}
    score = {each.names: (by_names[each.names].each + each.each) / 2 for each in robust}
    best = max(score, key=lambda names: (score[names].mean(), -len(names), -place[names]))
    lines = []
    for each in robust:
        behind, pool = score[best] - score[each.names], by_names[each.names]
        error = float(behind.std(ddof=1) / np.sqrt(len(behind)))
        clean = (pool.clean + 2 * each.clean) / 3
        facts = (float(score[each.names].mean()), clean, float(behind.mean()), error)
        lines.append(Line(each.names, bool(behind.mean() <= error), *facts, pool.certified, each.certified))
    return sorted(lines, key=lambda line: (not line.as_good, -line.clean, len(line.members), place[line.members]))


def chosen(processes: int) -> list[Line]:
    order = sets_of(list(members))
    with get_context("fork").Pool(processes) as workers:
        plain = workers.map(pooled, order, chunksize=4)
        liked = sorted(plain, key=lambda each: (-each.each.mean(), len(each.names), order.index(each.names)))
        robust = workers.map(masked, [each.names for each in liked[:MASKED]], chunksize=1)
    return ranked(plain, robust, order)


def main() -> None:
    global truth
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("votes", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    found = {name: sorted(given.votes.glob(f"{name.replace(':', '-')}/*.zarr")) for name in CANDIDATES}
    stores = {name: each[0] for name, each in found.items() if each}
    if not sets_of(list(stores)):
        parser.error(f"no set can be made of {', '.join(stores) or 'nothing'}")
    recorded = {name: mc.load_evidence(store) for name, store in stores.items()}
    members.update(in_common(recorded))
    name, store = next(iter(stores.items()))
    known = find_truth(None, store, recorded[name], remark)
    if known is None:
        parser.error(f"the true labels are not known; they belong beside {store}")
    truth = known[np.isin(recorded[name].images, members[name].images)]
    alone = [tried((each,), [mc.certify([members[each]], patch) for patch in PATCHES]) for each in members]
    figures = {each.names[0]: [each.clean, *each.certified] for each in alone}
    lines = chosen(given.processes)
    told = {"images": len(truth), "chosen": lines[0].members, "alone": figures}
    told["sets"] = [asdict(line) for line in lines]
    given.out.write_text(json.dumps(told, indent=1) + "\n")
    rows = [[name, *(f"{100 * share:.2f}" for share in shares)] for name, shares in figures.items()]
    say_table(["alone", "clean", "2x2", "5x5"], rows)
    header = ["members", "as good", "score", "clean", "pool 2x2", "5x5", "masked 2x2", "5x5"]
    say_table(header, [[" ".join(line.members), "yes" if line.as_good else "", *line.percent()] for line in lines])


if __name__ == "__main__":
    main()
