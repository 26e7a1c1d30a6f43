"""The table of results: every defender and the ensemble, every method and every patch, as rows and as plain text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.core.drs import drs
from majorcert.core.majority import majorcert
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict, summary

METHODS = ("DRS margin", "DRS local", "theorem 1 alone", "MajorCert, paper's reach", "MajorCert, exact reach")


@dataclass(frozen=True)
class Row:
    """One number of the table and what it is made of."""

    defender: str
    method: str
    patch: str
    n_correct: int
    n_certified: int
    """images that are predicted correctly and certified"""
    n: int

    @property
    def clean(self) -> float:
        return self.n_correct / max(self.n, 1)

    @property
    def certified(self) -> float:
        return self.n_certified / max(self.n, 1)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "clean": self.clean, "certified": self.certified}


def rows(defenders: Mapping[str, Ballots], truth: npt.ArrayLike, patches: Sequence[Patch]) -> list[Row]:
    """DRS for each defender, MajorCert for all of them together, for every patch."""
    found = []
    for name, ballots in defenders.items():
        for method, bound in zip(METHODS, ("margin", "local"), strict=False):
            for patch in patches:
                found.append(_row(name, method, drs(ballots, patch, bound=bound), truth))  # type: ignore[arg-type]
    together, everyone = " + ".join(defenders), list(defenders.values())
    exact = [majorcert(everyone, patch) for patch in patches]
    paper = [majorcert(everyone, patch, reach="paper") for patch in patches]
    for verdict in exact:
        counts = summary(verdict, truth)
        alone = counts.by_and_correct.get("theorem1", 0)
        found.append(Row(together, METHODS[2], str(verdict.patch), counts.n_correct, alone, counts.n))
    for method, verdicts in ((METHODS[3], paper), (METHODS[4], exact)):
        found.extend(_row(together, method, verdict, truth) for verdict in verdicts)
    return found


def _row(name: str, method: str, verdict: Verdict, truth: npt.ArrayLike) -> Row:
    counts = summary(verdict, truth)
    return Row(name, method, str(verdict.patch), counts.n_correct, counts.n_certified_and_correct, counts.n)


def as_text(table: Sequence[Row]) -> str:
    """The table as lines of plain text, accuracies in percent, one column for each patch."""
    patches = list(dict.fromkeys(row.patch for row in table))
    lines = [["defender", "method", "clean", *(f"certified {patch}" for patch in patches), "n"]]
    cells: dict[tuple[str, str], dict[str, Row]] = {}
    for row in table:
        cells.setdefault((row.defender, row.method), {})[row.patch] = row
    before = ""
    for (defender, method), by_patch in cells.items():
        first = next(iter(by_patch.values()))
        numbers = [f"{100 * by_patch[patch].certified:.1f}" if patch in by_patch else "" for patch in patches]
        shown = "" if defender == before else defender
        lines.append([shown, method, f"{100 * first.clean:.1f}", *numbers, str(first.n)])
        before = defender
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells in columns under a rule below the first line; the first two columns to the left, numbers to the right."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    sides = ["<" if k < 2 else ">" for k in range(len(widths))]
    text = [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True))
        for line in lines
    ]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in text)
