"""Tables as plain text: of a few defenders, and of a whole case study with the paper's rows beside it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from majorcert.files.untrusted import cleaned
from majorcert.reports.rows import Row
from majorcert.reports.study import CaseStudy, Recipe
from majorcert.reports.study.published import LEADERBOARD, LEADERBOARD_PATCH, TABLE_1
from majorcert.reports.study.results import Results, part_of_split

ABOUT = """Accuracy in percent. Recovery: clean, and certified that no patch changes the label.
Detection: correct without an alert, certified that no patch changes the label without one, and alerts on clean images;
whoever predicts must give a bound on the patch size, as for pg-drs, pg-bn and pg-pool, which mask windows of it."""
ABOUT_MASKING = """MASKING: here a bound on the patch size is known at prediction time, for recovery too.
masks:5/3, for one, speak of patches up to 5x5, with a mask every 3 pixels, and promise nothing of larger ones."""
LONGEST = 2000
"""Characters of a command or a note that are shown."""


def rows_text(rows: Sequence[Row]) -> str:
    """Accuracies in percent, one column for each patch; a defender is named once."""
    patches = list(dict.fromkeys(row.patch for row in rows))
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row.who, row.method), {})[row.patch] = row
    lines = [["defender", "method", "clean", *(f"certified {patch}" for patch in patches), "n"]]
    for (who, method), by_patch in found.items():
        first = next(iter(by_patch.values()))
        certified = [f"{by_patch[patch].certified:.1f}" if patch in by_patch else "" for patch in patches]
        named = any(line[0] == who for line in lines)
        lines.append(["" if named else who, method, f"{first.clean:.1f}", *certified, str(first.n)])
    lines.insert(1, ["-" * width for width in _widths(lines)])
    return "\n".join(_aligned(lines, n_left=2))


def study_text(study: CaseStudy, results: Results) -> str:
    """What `majorcert table` prints. Accuracies are percent of the images that were certified, however few."""
    patches = list(dict.fromkeys(row["patch"] for row in results["rows"]))
    masking = {row["recipe"] for row in results["rows"] if any(who.startswith("masks:") for who in row["defenders"])}
    parts = [ABOUT]
    for recipe in study.recipes:
        if recipe.name not in masking:
            parts += _recipe(recipe, results, patches)
    if patches == list(TABLE_1[0].accuracy):
        parts.append("the paper (Table I, on CIFAR-10)\n" + _indented([_heads(patches), *_theirs(patches)]))
    if masking:
        parts.append(ABOUT_MASKING)
    for recipe in study.recipes:
        if recipe.name in masking:
            parts += _recipe(recipe, results, patches)
    if LEADERBOARD_PATCH in patches:
        theirs = [[name, *(f"{value:.1f}" for value in pair)] for name, pair in LEADERBOARD.items()]
        heads = ["", *_columns([LEADERBOARD_PATCH], ("clean", "certified"))]
        parts.append("the public patch leaderboard, on ImageNet, all 50,000 images\n" + _indented([heads, *theirs]))
    parts.append(_by_side(results))
    return "\n\n".join(parts) + "\n"


def _recipe(recipe: Recipe, results: Results, patches: Sequence[str]) -> Iterable[str]:
    """What a recipe is, what it recovers, and what it detects."""
    images = part_of_split(results, recipe.name) or f"{results['n']} images"
    minutes = "" if recipe.gpu_minutes is None else f"{recipe.gpu_minutes:g} GPU minutes"
    cost = [f"{recipe.epochs:g} epochs" if recipe.epochs else "", minutes]
    facts = [*cost, *(cleaned(text, LONGEST) for text in (recipe.command, recipe.note))]
    yield "\n".join([f"recipe {recipe.name}, on {images}", *(f"  {fact}" for fact in facts if fact)])
    yield _indented([_heads(patches, "recovery"), *_recovered(results, recipe.name, patches)])
    detected = list(_promised(results, recipe.name, patches, "detection", ("clean", "certified", "alerts")))
    if detected:
        yield _indented([["detection", *_columns(patches, ("clean", "certified", "alerts"))], *detected])


def _heads(patches: Sequence[str], promise: str = "") -> list[str]:
    return [promise, *_columns(patches, ("clean", "certified")), "mean clean", "certified"]


def _columns(patches: Sequence[str], kinds: Sequence[str]) -> list[str]:
    return [f"{patch} {kind}" for patch in patches for kind in kinds]


def _promised(
    results: Results, recipe: str, patches: Sequence[str], promise: str, kinds: Sequence[str]
) -> Iterable[list[str]]:
    """A line for every method and defender; a patch that it says nothing of is left empty."""
    found: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in results["rows"]:
        if (row["recipe"], row["promise"]) == (recipe, promise):
            found.setdefault((row["method"], *row["evidence"]), {})[row["patch"]] = row
    for by_patch in found.values():
        row = next(iter(by_patch.values()))
        cells = [f"{by_patch[patch][kind]:.2f}" if patch in by_patch else "" for patch in patches for kind in kinds]
        same = ("recipe", "method", "promise", "evidence")
        means = [mean for mean in results["means"] if all(mean[key] == row[key] for key in same)]
        if promise == "recovery":
            cells += [f"{mean[kind]:.2f}" for mean in means for kind in kinds]
        yield [f"{row['method']} {_who(row, results)}", *cells]


def _recovered(results: Results, recipe: str, patches: Sequence[str]) -> Iterable[list[str]]:
    yield from _promised(results, recipe, patches, "recovery", ("clean", "certified"))
    as_reported = [item["certified"] for item in results["reference"] if item["recipe"] == recipe]
    if as_reported:
        cells = (text for value in as_reported for text in ("", f"{value:.2f}"))
        yield ["  majorcert-paper as the released code reports it", *cells]
    masked = [item for item in results["masked"] if item["recipe"] == recipe]
    for kind in dict.fromkeys(item["masked"] for item in masked):
        stores = ", ".join(cleaned(item["evidence"]) for item in masked if item["masked"] == kind)
        names = {row["method"] for row in results["rows"] if row["recipe"] == recipe} & {"pg-drs", "pg-bn"}
        told = " and ".join(sorted(names))
        yield [f"  ({told} on {kind}{', for want of scores' if kind == 'votes' else ''}: {stores})"]


def _who(row: Mapping[str, Any], results: Results) -> str:
    """The strategies of a row, and the store where a recipe has several of one strategy."""
    same = ("recipe", "method", "promise", "defenders")
    alike = {tuple(other["evidence"]) for other in results["rows"] if all(other[key] == row[key] for key in same)}
    if len(alike) > 1:
        return cleaned(Path(row["evidence"][0]).stem)
    counts = Counter(row["defenders"])
    return " ".join(spec if n == 1 else f"{n} x {spec}" for spec, n in counts.items())


def _theirs(patches: Sequence[str]) -> Iterable[list[str]]:
    for row in TABLE_1:
        pairs = (*(row.accuracy[patch] for patch in patches), row.mean)
        yield [row.name, *(f"{value:.1f}" for pair in pairs for value in pair)]


def _by_side(results: Results) -> str:
    n_sides = max(len(item["certified"]) for item in results["by_side"])
    heads = ["side of the patch", *(str(side) for side in range(1, n_sides + 1))]
    rows = [
        [" ".join([item["recipe"], *item.get("defenders", [])]), *(f"{value:.1f}" for value in item["certified"])]
        for item in results["by_side"]
    ]
    counts = [
        [f"{item['recipe']}: images with this as largest", *(str(count) for count in item["images"][1:])]
        for item in results["largest"]
    ]
    return "certified accuracy by patch size (majorcert-exact; of alternatives, each alone)\n" + _indented(
        [heads, *rows, *counts]
    )


def _indented(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"  {line}" for line in _aligned(lines))


def _aligned(lines: Sequence[Sequence[str]], n_left: int = 1) -> list[str]:
    """Columns as wide as their widest cell, the first ones to the left and numbers to the right."""
    widths = _widths(lines)
    return [
        "  ".join(f"{cell:{'<' if i < n_left else '>'}{widths[i]}}" for i, cell in enumerate(line)).rstrip()
        for line in lines
    ]


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    """Of the columns; a line of one cell is a remark and does not count."""
    table = [line for line in lines if len(line) > 1]
    return [max(len(line[i]) for line in table if i < len(line)) for i in range(max(map(len, table)))]
