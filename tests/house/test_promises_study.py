"""The study of promises: which recipes it covers, and that its shares are those of the public functions."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import ROOT, script

import majorcert as mc
from majorcert.reports.study import CaseStudy

SIZE, N = (8, 8), 30
KIND: dict[str, Any] = {"image_size": SIZE, "n_classes": 3}


@pytest.fixture(scope="module")
def study() -> Any:
    return script("studies/promises.py")


def votes(strategy: str, seed: int) -> mc.Ballots:
    random = np.random.default_rng(seed)
    shape = N, mc.strategy(strategy).n_ablations(SIZE)
    odd = random.random(shape) < np.linspace(0, 0.7, N)[:, None]
    return mc.Ballots(np.where(odd, random.integers(3, size=shape), 1), strategy=strategy, **KIND)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Voters, masks for two bounds, one map, and bounds, of which nothing is asked."""
    for name, strategy in (("rows", "rows:1"), ("columns", "columns:2"), ("map", "fields:8x3")):
        votes(strategy, 1).save(tmp_path / f"{name}.zarr")
    for name, masks in (("masks-2", mc.Masks(2, stride=3)), ("masks-5", mc.Masks(5, stride=2))):
        n = masks.n_masks(SIZE)
        labels = np.where(np.random.default_rng(2).random((N, n * (n + 1) // 2)) < 0.02, 2, 1)
        mc.MaskPairs(labels[: N - 3], masks=masks, **KIND).save(tmp_path / f"{name}.zarr")
    possible = np.ones((N, 49, 3), dtype=bool)
    mc.Bounds(np.ones(N, dtype=int), possible, sizes="bounds:2", **KIND).save(tmp_path / "bounds.zarr")
    recipes = {
        "voters": {"defenders": ["rows.zarr", "columns.zarr"]},
        "masks": {"defenders": ["masks-2.zarr", "masks-5.zarr"], "alternatives": True},
        "map": {"defenders": ["map.zarr"], "alternatives": True},
        "bounds": {"defenders": ["bounds.zarr"], "alternatives": True},
        "both": {"defenders": ["rows.zarr", "bounds.zarr"]},
    }
    (tmp_path / "recipes.json").write_text(json.dumps(recipes), encoding="utf-8")
    np.save(tmp_path / "truth.npy", np.arange(N) % 2)
    return tmp_path


def test_all_that_vote_and_all_that_mask_are_covered(study: Any, folder: Path) -> None:
    rows = list(study.study_rows(CaseStudy.read(folder)))
    found = {(row["recipe"], *row["evidence"], row["patch"], row["who"]) for row in rows}
    assert found == {
        *(
            ("voters", "rows.zarr", "columns.zarr", size, who)
            for size in ("2x2", "5x5")
            for who in ("majority", "pool")
        ),
        ("masks", "masks-2.zarr", "2x2", "masks"),
        *(("masks", "masks-5.zarr", size, "masks") for size in ("2x2", "5x5")),
        *(("map", "map.zarr", size, "alone") for size in ("2x2", "5x5")),
    }
    slacks = {(row["recipe"], row["slack"], row["points"]) for row in rows if "slack" in row}
    assert slacks == {
        *(("voters", slack, 16) for slack in (0, 1, 3, 4, 5)),
        *(("map", slack, 8) for slack in (0, 1, 2, 3)),
    }


def test_shares_are_those_of_the_public_functions(study: Any, folder: Path) -> None:
    truth, pool = np.arange(N) % 2, mc.Pool([votes("rows:1", 1), votes("columns:2", 1)])
    rows = [
        row for row in study.study_rows(CaseStudy.read(folder)) if (row["recipe"], row["patch"]) == ("voters", "2x2")
    ]
    for row in (row for row in rows if row["who"] == "pool"):
        assert row["n"] == N
        if row["promise"] != "joint":
            ranked = mc.top_k(pool, 2, int(row["promise"][-1]))
            assert row["certified_and_correct"] == pytest.approx(100 * mc.score(ranked, truth).certified, abs=0.005)
            continue
        joint = mc.joint([pool], 2, slack=row["slack"])
        assert row["at_will"] == pytest.approx(100 * joint.alertable.mean(), abs=0.005)
        for name in ("unwavering", "recovery", "detection"):
            assert row[name] == pytest.approx(100 * (joint.holds == name).mean(), abs=0.005)
            correct = getattr(joint, name).certified & (joint.predicted == truth)
            assert row[f"{name}_and_correct"] == pytest.approx(100 * correct.mean(), abs=0.005)
    masks = [row for row in study.study_rows(CaseStudy.read(folder)) if row["who"] == "masks"]
    assert {(row["n"], row["at_will"]) for row in masks} == {(N - 3, 100.0)}
    assert all(0 < row["recovery"] < 100 for row in masks)


def cells_of(text: str, first: str) -> list[list[str]]:
    """The lines of the tables of soundness that begin so."""
    lines = (line for line in text.splitlines() if line.startswith("| "))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [each for each in cells if re.fullmatch(first, each[0])]


def test_the_tables_of_soundness_are_those_of_the_record() -> None:
    text = (ROOT / "docs" / "soundness.md").read_text(encoding="utf-8")
    records = json.loads((ROOT / "results" / "cifar10" / "promises.json").read_text(encoding="utf-8"))
    joint = {(row["recipe"], row["patch"]): row for row in records if row["who"] == "majority"}
    masked = {(row["recipe"], Path(row["evidence"][0]).stem, row["patch"]): row for row in records}
    ranked = {(row["recipe"], row["patch"], row["promise"]): row for row in records if row["who"] == "pool"}
    slacks = {(row["recipe"], row["patch"], row["slack"]): row for row in records if "points" in row}
    names, seen = ("unwavering", "recovery", "detection", "none", "alerts", "at_will"), set()
    for name, size, *cells in cells_of(text, "`[a-z][a-z-]*`(, masks:./.)?"):
        recipe, masks = name.split("`")[1], name.partition(", ")[2].replace(":", "-").replace("/", "-")
        seen.add((recipe, len(cells)))
        if len(cells) == 6:
            row = masked[recipe, masks, size] if masks else joint[recipe, size]
            assert cells == [f"{row[key]:.2f}" for key in names]
        else:
            rows = [ranked[recipe, size, f"top-{k}"] for k in (1, 2, 3)]
            shares = [f"{row['certified']:.2f}, {row['certified_and_correct']:.2f}" for row in rows]
            assert cells == [f"{rows[0]['clean']:.2f}", *shares]
    assert seen >= {("paper", 6), ("best", 6), ("masking", 6), ("paper", 4), ("best", 4)}
    by_slack = cells_of(text, "[0-9]+")
    assert len(by_slack) == 5
    for slack, *cells in by_slack:
        row = slacks["best", "5x5", int(slack)]
        kept = [row[f"{name}_in_all"] for name in ("unwavering", "recovery", "detection")]
        assert cells == [f"{share:.2f}" for share in (*kept, row["alerts"], row["at_will"])]
