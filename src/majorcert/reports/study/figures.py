"""The figures of a case study, from its results alone: plain SVG, the same bytes for the same numbers."""

from collections.abc import Callable, Iterable, Iterator
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import reason
from majorcert.reports.study.plot import Plot
from majorcert.reports.study.published import TABLE_1, Published
from majorcert.reports.study.results import Results, part_of_split
from majorcert.reports.study.svg import CARD, FAINT, SOFT, Drawing, number

RECIPE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#872d2d", "#4a36c8", "#a38400", "#56b4e9")
"""Told apart by people with any kind of colour vision; shapes tell techniques apart besides."""
PAPER_COLOUR = "#3d444d"
TECHNIQUES = {
    "drs-local": ("circle", "DRS"),
    "pg-drs": ("square", "PG-DRS"),
    "majorcert-exact": ("star", "MajorCert"),
    "double-masking": ("diamond", "double masking"),
    "bagcert": ("triangle", "BagCert-style"),
    "pg-bn": ("triangle", "PG-BN"),
    "cbn": ("triangle", "CBN"),
    "ibp": ("triangle", "IBP"),
    "vip": ("triangle", "ViP"),
}
PEERS = {method for method, (shape, _) in TECHNIQUES.items() if shape == "triangle"}
"""Other systems: where there are recipes without them, these have a figure of their own."""
PUBLISHED = {"drs": "drs-local", "majorcert": "majorcert-exact"}
SHADES = ("#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b")
"""One hue from light to dark, which every kind of colour vision orders alike."""
N_SHADES = 25
IMAGE = 224.0
"""Points of a drawing that the image under a map is wide and high."""


def draw(results: Results, folder: str | Path) -> list[Path]:
    """Write every figure into the folder; returns the files. Alternatives alone, without an ensemble, have no maps."""
    try:
        texts = {f"{name}.svg": figure(results) for name, figure in _figures(results)}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, StopIteration) as error:
        raise StoreError(f"results.json does not hold what a figure needs ({reason(error)})") from error
    for name, text in texts.items():
        with replacing(Path(folder) / name) as beside:
            beside.write_text(text, encoding="utf-8")
    return [Path(folder) / name for name in texts]


def _figures(results: Results) -> Iterator[tuple[str, Callable[[Results], str]]]:
    yield from (("clean-certified", scatter), ("by-size", by_size))
    if results.get("unsafe") != []:
        yield "unsafe", unsafe
    if any(row["method"] in PEERS for row in results["rows"]):
        yield "peers", peers


def scatter(results: Results) -> str:
    """Clean against certified accuracy: every technique on every strategy, with the paper's own case study."""
    drawing = Drawing(920, 522, "Clean and certified accuracy of each technique")
    for i, patch in enumerate(reversed(_patches(results["rows"]))):
        ours = [row for row in _shown(results) if row["patch"] == patch]
        theirs = [row for row in TABLE_1 if patch in row.accuracy and not row.quoted]
        plot = _panel(drawing, i, patch, ours, theirs)
        for row in ours:
            colour, (shape, name) = _colour(results, row["recipe"]), TECHNIQUES[row["method"]]
            drawing.marker(shape, plot.x(row["clean"]), plot.y(row["certified"]), 5, colour)
            star = row["method"] == "majorcert-exact"
            text = "MC" if star else name if shape == "triangle" else _short(row["defenders"][0])
            plot.label(row["clean"], row["certified"], text, colour, size=12 if star else 10, gap=12 if star else 9)
    _scatter_legend(drawing, results)
    return _told(drawing, results, _recipes(results)).svg()


def peers(results: Results) -> str:
    """Of every technique what certifies most, beside what the paper's table has of it."""
    drawing = Drawing(920, 474, "Every technique beside what was published of it")
    for i, patch in enumerate(reversed(_patches(results["rows"]))):
        rows = sorted(_recovery(results), key=lambda row: float(row["certified"]))
        best = {row["method"]: row for row in rows if row["patch"] == patch and row["method"] in TECHNIQUES}
        theirs = [row for row in TABLE_1 if patch in row.accuracy]
        plot = _panel(drawing, i, patch, list(best.values()), theirs)
        for method, row in best.items():
            (shape, name), colour = TECHNIQUES[method], RECIPE_COLOURS[method in PEERS]
            drawing.marker(shape, plot.x(row["clean"]), plot.y(row["certified"]), 5, colour)
            plot.label(row["clean"], row["certified"], name, colour)
        for published in (row for row in theirs if row.method in PEERS):
            plot.label(*published.accuracy[patch], published.name, PAPER_COLOUR)
    note = "Of each technique the defender that certifies most. Outlines: the paper's Table I, with what it quotes."
    drawing.text(62, 458, note, size=11, colour=SOFT)
    return drawing.svg()


def _panel(drawing: Drawing, i: int, patch: str, ours: list[dict[str, Any]], theirs: list[Published]) -> Plot:
    """The axes of one patch, with the published accuracies as outlines, and room kept for ours."""
    points = [(row["clean"], row["certified"]) for row in ours] + [row.accuracy[patch] for row in theirs]
    x_range, y_range = (_range([point[axis] for point in points]) for axis in (0, 1))
    plot = Plot(drawing, 62 + 444 * i, 62, 390, 342, x_range, y_range)
    drawing.text(plot.left, 46, f"{patch} patch", size=14, bold=True)
    plot.axes(_ticks(x_range), _ticks(y_range), "clean accuracy, %", "certified accuracy, %" if i == 0 else "")
    for x, y in points:
        plot.occupy(x, y, 7)
    for published in theirs:
        x, y = published.accuracy[patch]
        shape, _ = TECHNIQUES[PUBLISHED.get(published.method, published.method)]
        drawing.marker(shape, plot.x(x), plot.y(y), 5, PAPER_COLOUR, hollow=True)
    return plot


def by_size(results: Results) -> str:
    """Certified accuracy of each recipe against square patches of every size that it speaks of."""
    drawing = Drawing(680, 405, "Certified accuracy by patch size")
    shown = [item for item in results["by_side"] if item["recipe"] in _recipes(results)]
    sides = range(1, 1 + max(len(item["certified"]) for item in shown))
    plot = Plot(drawing, 62, 30, 590, 320, (0.5, len(sides) + 0.5), (0, 100))
    plot.axes(list(sides), range(0, 101, 20), "side of the patch, pixels", "certified accuracy, %")
    for item in shown:
        colour = _colour(results, item["recipe"])
        places = [f"{number(plot.x(s))} {number(plot.y(v))}" for s, v in zip(sides, item["certified"], strict=False)]
        drawing.path("M" + "L".join(places), stroke=colour, width=2)
        for side, value in zip(sides, item["certified"], strict=False):
            drawing.marker(_shape(results, item["recipe"]), plot.x(side), plot.y(value), 3.5, colour)
    paper = TABLE_1[0]
    for side in sides:
        if f"{side}x{side}" in paper.accuracy:
            place = plot.x(side), plot.y(paper.accuracy[f"{side}x{side}"][1])
            drawing.marker("star", *place, 5, PAPER_COLOUR, hollow=True)
    x, y = plot.left + 318, plot.top + 26
    methods = {item["recipe"]: item.get("method", "majorcert-exact") for item in shown}
    drawing.rectangle(x - 26, y - 16, 286, 20 * len(methods) + 32, fill=CARD, stroke=FAINT)
    for recipe, method in methods.items():
        drawing.line(x - 16, y, x + 16, y, colour=_colour(results, recipe), width=2)
        drawing.marker(_shape(results, recipe), x, y, 3.5, _colour(results, recipe))
        drawing.text(x + 26, y + 4, f"{TECHNIQUES[method][1] if method in TECHNIQUES else method}, recipe {recipe}")
        y += 20
    drawing.marker("star", x, y, 5, PAPER_COLOUR, hollow=True)
    drawing.text(x + 26, y + 4, "MajorCert, the paper")
    return _told(drawing, results, _recipes(results)).svg()


def unsafe(results: Results) -> str:
    """Where on the image a patch endangers labels: the share of correctly predicted images, by its centre."""
    maps = [(item, _shares(results, item)) for item in results["unsafe"]]
    patches, recipes = _patches(results["unsafe"]), dict.fromkeys(item["recipe"] for item, _ in maps)
    width, height = max(510, 20 + len(recipes) * (IMAGE + 40)), 44 + len(patches) * (IMAGE + 88)
    drawing = Drawing(width, height, "Where labels are not safe")
    drawing.text(30, 30, "Correctly predicted images that are not safe from a patch centred here", size=13)
    top = 74.0
    for patch in patches:
        some = [(item, shares) for item, shares in maps if item["patch"] == patch]
        low = floor(100 * min(float(shares.min()) for _, shares in some))
        high = max(low + 1, ceil(100 * max(float(shares.max()) for _, shares in some)))
        for column, (item, shares) in enumerate(some):
            left = 30 + column * (IMAGE + 40)
            drawing.text(left, top - 9, f"{patch} patch, recipe {item['recipe']}", bold=True)
            _shade(drawing, (100 * shares - low) / (high - low), left, top, patch)
            drawing.rectangle(left, top, IMAGE, IMAGE, stroke=SOFT)
        _scale(drawing, 30, top + IMAGE + 14, IMAGE, low, high)
        top += IMAGE + 88
    return _told(drawing, results, recipes).svg()


def _shares(results: Results, item: dict[str, Any]) -> npt.NDArray[np.float64]:
    """(placement rows, placement columns) the unsafe among the correctly predicted images."""
    key = (item["recipe"], item["patch"], "majorcert-exact")
    clean = next(r for r in _recovery(results) if (r["recipe"], r["patch"], r["method"]) == key)
    n_correct = max(1, round(clean["clean"] * clean["n"] / 100))
    return np.asarray(item["images"], dtype=np.float64) / n_correct


def _shade(drawing: Drawing, strength: npt.NDArray[np.float64], left: float, top: float, patch: str) -> None:
    """One path for each shade, made of runs of cells; a cell lies where the centre of the patch is."""
    level = np.clip((strength * N_SHADES).astype(int), 0, N_SHADES - 1)
    sides = [int(side) for side in patch.split("x")]
    cell_y, cell_x = (IMAGE / (n + side - 1) for n, side in zip(level.shape, sides, strict=True))
    margin_y, margin_x = (cell * (side - 1) / 2 for cell, side in zip((cell_y, cell_x), sides, strict=True))
    for shade in range(N_SHADES):
        runs = []
        for i, row in enumerate(level):
            edges = np.flatnonzero(np.diff(np.concatenate([[0], row == shade, [0]]).astype(int)))
            for start, stop in edges.reshape(-1, 2).tolist():
                x, y = left + margin_x + cell_x * start, top + margin_y + cell_y * i
                runs.append(f"M{number(x)} {number(y)}h{number(cell_x * (stop - start))}v{number(cell_y)}H{number(x)}z")
        if runs:
            drawing.elements.append(f'<path d="{"".join(runs)}" fill="{_blend(shade)}" shape-rendering="crispEdges"/>')


def _scale(drawing: Drawing, left: float, top: float, width: float, low: float, high: float) -> None:
    step = width / N_SHADES
    for shade in range(N_SHADES):
        drawing.rectangle(left + step * shade, top, step + 0.3, 12, fill=_blend(shade))
    drawing.rectangle(left, top, width, 12, stroke=FAINT)
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        text = f"{number(low + share * (high - low))}%"
        drawing.text(left + width * share, top + 27, text, size=11, colour=SOFT, anchor=anchor)


def _blend(shade: int) -> str:
    """A shade between two neighbours of SHADES, from light to dark."""
    place = shade / (N_SHADES - 1) * (len(SHADES) - 1)
    below = min(int(place), len(SHADES) - 2)
    ends = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in SHADES[below : below + 2]]
    mixed = (round(a + (b - a) * (place - below)) for a, b in zip(*ends, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _scatter_legend(drawing: Drawing, results: Results) -> None:
    x, y, methods = 62.0, 462.0, {row["method"] for row in _shown(results)}
    for shape, name in (TECHNIQUES[method] for method in TECHNIQUES if method in methods):
        drawing.marker(shape, x, y, 5, SOFT)
        drawing.text(x + 12, y + 4, name)
        x += 34 + 7.2 * len(name)
    drawing.marker("circle", x, y, 5, PAPER_COLOUR, hollow=True)
    drawing.text(x + 12, y + 4, "outlines: the paper (best strategy)")
    drawing.text(62, 488, "recipes:")
    x, y = 130.0, 484.0
    for recipe in _recipes(results):
        drawing.rectangle(x - 5, y - 5, 10, 10, fill=_colour(results, recipe))
        drawing.text(x + 12, y + 4, recipe)
        x += 34 + 7.2 * len(recipe)
    note = "R, C, B: rows, columns, blocks and their size. MC: MajorCert, exact reach. DRS: placement by placement."
    if "double-masking" in methods:
        note += " M: masks; they know a bound on the patch."
    drawing.text(62, 508, note, size=11, colour=SOFT)


def _told(drawing: Drawing, results: Results, recipes: Iterable[str]) -> Drawing:
    """The drawing, with a line below it for each of its recipes that was certified on a part of its split alone."""
    for recipe in recipes:
        if part := part_of_split(results, recipe):
            drawing.text(30, drawing.height + 4, f"recipe {recipe}: {part} alone", size=11, colour=SOFT)
            drawing.height += 20
    return drawing


def _recovery(results: Results) -> list[dict[str, Any]]:
    """The rows that promise that the label stays; rows of before there were promises are such."""
    return [row for row in results["rows"] if row.get("promise", "recovery") == "recovery"]


def _shown(results: Results) -> list[dict[str, Any]]:
    recipes = _recipes(results)
    return [row for row in _recovery(results) if row["method"] in TECHNIQUES and row["recipe"] in recipes]


def _patches(items: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(item["patch"] for item in items))


def _recipes(results: Results) -> list[str]:
    """Those of no other system; if there is none, all."""
    others = {row["recipe"] for row in results["rows"] if row["method"] in PEERS}
    every = list(dict.fromkeys(row["recipe"] for row in results["rows"]))
    return [recipe for recipe in every if recipe not in others] or every


def _colour(results: Results, recipe: str) -> str:
    return RECIPE_COLOURS[_recipes(results).index(recipe) % len(RECIPE_COLOURS)]


def _shape(results: Results, recipe: str) -> str:
    return ("circle", "square", "diamond")[_recipes(results).index(recipe) % 3]


def _short(spec: str) -> str:
    """ "columns:19/5" as C19/5."""
    name, size = spec.split(":")
    return name[0].upper() + size


def _range(values: list[float]) -> tuple[float, float]:
    """Whole percents with room around the values for their labels."""
    room = max(1.5, 0.12 * (max(values) - min(values)))
    return floor(min(values) - room), ceil(max(values) + room)


def _ticks(bounds: tuple[float, float]) -> list[float]:
    low, high = bounds
    step = next(step for step in (1, 2, 5, 10, 20, 50) if (high - low) / step <= 8)
    return list(range(ceil(low / step) * step, int(high) + 1, step))
