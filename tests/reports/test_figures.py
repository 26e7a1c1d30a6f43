"""The figures: well-formed, deterministic, and with every point where its numbers say."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import majorcert as mc
from majorcert.commands.figures import figures
from majorcert.commands.table import table
from majorcert.reports.study.figures import by_size, draw, peers, scatter, unsafe
from majorcert.reports.study.plot import Plot
from majorcert.reports.study.results import write
from majorcert.reports.study.svg import Drawing, number

NAMES = ["clean-certified.svg", "by-size.svg", "unsafe.svg"]


def results(recipes: tuple[str, ...] = ("paper", "best")) -> dict[str, Any]:
    rows = []
    for i, recipe in enumerate(recipes):
        for method in ("drs-margin", "drs-local", "pg-drs", "majorcert-theorem1", "majorcert-exact"):
            for patch, certified in (("2x2", 70), ("5x5", 57)):
                specs = ["rows:4", "columns:19/5"] if method.startswith("major") else ["columns:19/5"]
                row = {"recipe": recipe, "method": method, "defenders": specs, "patch": patch}
                rows.append({**row, "clean": 85.0 + i, "certified": certified + 2.0 * i, "n": 1000})
    return {
        "n": 1000,
        "rows": rows,
        "by_side": [{"recipe": recipe, "certified": list(range(80, 0, -5))} for recipe in recipes],
        "unsafe": [
            {"recipe": recipe, "patch": f"{side}x{side}", "images": np.tri(33 - side, dtype=int).tolist()}
            for recipe in recipes
            for side in (2, 5)
        ],
    }


@pytest.mark.parametrize("figure", [scatter, by_size, unsafe])
@pytest.mark.parametrize("recipes", [("paper",), ("paper", "best", "bundled & <small>")])
def test_a_figure_is_well_formed_and_the_same_every_time(figure: Any, recipes: tuple[str, ...]) -> None:
    text = figure(results(recipes))
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].tag.endswith("title")
    assert text == figure(results(recipes))
    assert "nan" not in text
    words = " ".join(element.text or "" for element in root.iter())
    assert all(recipe in words for recipe in recipes)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter() if element.tag.endswith("text")]


def test_the_scatter_shows_each_technique_and_the_paper() -> None:
    words = texts(scatter(results()))
    assert words.count("MC") == 4
    assert words.count("C19/5") == 8
    for word in ("DRS", "PG-DRS", "MajorCert", "outlines: the paper (best strategy)", "5x5 patch", "2x2 patch"):
        assert word in words


def test_other_systems_have_a_figure_of_their_own(tmp_path: Path) -> None:
    """Of each technique the row that certifies most; the other figures stay as they are without these recipes."""
    base, made_up = results(), {"promise": "recovery", "clean": 60.0, "n": 1000, "defenders": ["bounds:5"]}
    more = [
        {**made_up, "recipe": "theirs", "method": method, "patch": patch, "certified": certified}
        for method, certified in (("ibp", 20.0), ("ibp", 33.0), ("ibp", 31.0), ("pg-drs", 99.0))
        for patch in ("2x2", "5x5")
    ]
    both = {**base, "rows": [*more, *base["rows"]]}
    both["by_side"] = [{"recipe": "theirs", "certified": [9.0]}, *base["by_side"]]
    assert [figure(both) for figure in (scatter, by_size, unsafe)] == [
        figure(base) for figure in (scatter, by_size, unsafe)
    ]
    assert [path.name for path in draw(both, tmp_path)] == [*NAMES, "peers.svg"]
    words = texts(peers(both))
    assert [words.count(word) for word in ("IBP", "MajorCert", "PG-DRS", "CBN")] == [4, 2, 2, 2]
    drawn = peers({**both, "rows": [row for row in both["rows"] if row["certified"] not in (20.0, 31.0)]})
    assert drawn == peers(both)
    assert drawn != peers({**both, "rows": [row for row in both["rows"] if row["certified"] != 33.0]})
    assert "IBP" in texts(scatter({**both, "rows": more}))


def test_the_curve_goes_through_its_values() -> None:
    svg = by_size(results(("best",)))
    plot = Plot(Drawing(680, 405, ""), 62, 30, 590, 320, (0.5, 16.5), (0, 100))
    start = f"M{number(plot.x(1))} {number(plot.y(80))}L{number(plot.x(2))} {number(plot.y(75))}L"
    assert start in svg
    assert plot.y(100) == 30
    assert plot.y(0) == 350


def test_every_placement_has_its_cell_on_the_map() -> None:
    svg = unsafe(results(("paper", "best")))
    for n in (31, 28):
        frame = (32 - n) / 2 * 7
        for left in (30, 30 + 264):
            runs = re.findall(rf"M{number(left + frame)} [0-9.]+h([0-9.]+)v7H", svg)
            assert len(runs) == n
    area = sum(float(width) / 7 for width in re.findall(r"h([0-9.]+)v7H", svg))
    assert area == 2 * (31**2 + 28**2)


def test_a_part_of_a_split_is_told_where_it_is_drawn() -> None:
    """Of two recipes on parts of their splits, one has no map."""
    both = results()
    both["rows"] = [{**row, "n_split": 9999} for row in both["rows"]]
    both["unsafe"] = [item for item in both["unsafe"] if item["recipe"] == "paper"]
    parts = [f"recipe {name}: 1000 of the split's 9999 images alone" for name in ("paper", "best")]
    for figure, told in ((scatter, parts), (by_size, parts), (unsafe, parts[:1])):
        assert [word for word in texts(figure(both)) if "alone" in word] == told


def test_labels_keep_out_of_each_others_way() -> None:
    drawing = Drawing(400, 400, "")
    plot = Plot(drawing, 50, 50, 300, 300, (0, 10), (0, 10))
    for _ in range(6):
        plot.label(5, 5, "C19/5", "#000000")
    boxes = plot.taken
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert min(a[2], b[2]) <= max(a[0], b[0]) or min(a[3], b[3]) <= max(a[1], b[1])


def test_figures_are_drawn_from_results_alone(tmp_path: Path) -> None:
    write(results(), tmp_path)
    app = typer.Typer()
    app.command()(figures)
    run = CliRunner().invoke(app, [str(tmp_path), "-o", str(tmp_path / "out")])
    assert run.exit_code == 0, run.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(NAMES)
    assert [path.name for path in draw(results(), tmp_path / "again")] == NAMES
    for name in NAMES:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_alternatives_alone_have_no_maps(tmp_path: Path) -> None:
    alternatives = {**results(), "unsafe": []}
    assert [path.name for path in draw(alternatives, tmp_path / "out")] == NAMES[:2]
    with pytest.raises(mc.StoreError, match="a figure needs"):
        draw({key: value for key, value in results().items() if key != "unsafe"}, tmp_path / "out")


def test_the_table_command_refuses_what_is_no_case_study(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(table)
    run = CliRunner().invoke(app, [str(tmp_path)])
    assert isinstance(run.exception, mc.StoreError)
