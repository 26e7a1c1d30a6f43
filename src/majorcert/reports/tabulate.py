"""The case study as a table to read: our rows, the paper's rows beside them, and certified accuracy by patch size."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from majorcert.reports.casestudy import LARGEST_SIDE, SIDES, CaseStudy, Results
from majorcert.reports.published import TABLE_1

PATCHES = tuple(f"{side}x{side}" for side in SIDES)


def as_text(study: CaseStudy, results: Results) -> str:
    """Plain text, aligned, as `majorcert table` prints it. Accuracies are percent of `n` images."""
    parts = [f"Accuracy in percent of {results['n']} images, clean and certified.\n"]
    heads = [
        "",
        *(f"{patch} {kind}" for patch in PATCHES for kind in ("clean", "certified")),
        "mean clean",
        "certified",
    ]
    for recipe in study.recipes:
        cost = [f"{recipe.epochs:g} epochs" if recipe.epochs else "", _minutes(recipe.gpu_minutes), recipe.command]
        parts.append("\n".join([f"recipe {recipe.name}", *(f"  {fact}" for fact in (*cost, recipe.note) if fact)]))
        parts.append(_aligned([heads, *_ours(results, recipe.name)]))
    parts.append("the paper (Table I)\n" + _aligned([heads, *_theirs()]))
    parts.append(_by_side(results))
    return "\n\n".join(parts) + "\n"


def _ours(results: Results, recipe: str) -> Iterable[list[str]]:
    votes = {item["evidence"] for item in results["masked"] if item["recipe"] == recipe and item["masked"] == "votes"}
    for i, mean in enumerate(results["means"]):
        if mean["recipe"] == recipe:
            # Rows and means are in one order: a mean belongs to as many rows as there are patches.
            rows = results["rows"][i * len(PATCHES) : (i + 1) * len(PATCHES)]
            cells = [f"{row[kind]:.2f}" for row in (*rows, mean) for kind in ("clean", "certified")]
            yield [f"{mean['method']} {_who(mean, results)}", *cells]
    as_reported = [item["certified"] for item in results["reference"] if item["recipe"] == recipe]
    yield ["  as the released code reports it", *(text for value in as_reported for text in ("", f"{value:.2f}"))]
    if votes:
        yield [f"  (pg-drs on votes, for want of scores: {', '.join(sorted(votes))})"]


def _who(row: Mapping[str, Any], results: Results) -> str:
    """The strategies of a row, and the store where a recipe has several of one strategy."""
    alike = [
        other for other in results["means"] if all(other[key] == row[key] for key in ("recipe", "method", "defenders"))
    ]
    if len(alike) > 1:
        return Path(row["evidence"][0]).stem
    counts = Counter(row["defenders"])
    return " ".join(spec if n == 1 else f"{n} x {spec}" for spec, n in counts.items())


def _theirs() -> Iterable[list[str]]:
    for row in TABLE_1:
        pairs = (*(row.accuracy[patch] for patch in PATCHES), row.mean)
        yield [row.name, *(f"{value:.1f}" for pair in pairs for value in pair)]


def _by_side(results: Results) -> str:
    heads = ["side of the patch", *(str(side) for side in range(1, LARGEST_SIDE + 1))]
    rows = [[item["recipe"], *(f"{value:.1f}" for value in item["certified"])] for item in results["by_side"]]
    counts = [
        [f"{item['recipe']}: images with this as largest", *(str(count) for count in item["images"][1:])]
        for item in results["largest"]
    ]
    return "certified accuracy by patch size (majorcert-exact)\n" + _aligned([heads, *rows, *counts])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; a row of one cell is a remark and does not count."""
    table = [row for row in rows if len(row) > 1]
    n_columns = max(len(row) for row in table)
    widths = [max(len(row[i]) for row in table if i < len(row)) for i in range(n_columns)]
    lines = []
    for row in rows:
        cells = [f"{cell:<{widths[0]}}" if i == 0 else f"{cell:>{widths[i]}}" for i, cell in enumerate(row)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _minutes(minutes: float | None) -> str:
    return "" if minutes is None else f"{minutes:g} GPU minutes"
