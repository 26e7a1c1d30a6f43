"""Local-feature defenders in tables, stories, figures and pages: the names that their methods have on a map."""

import json
from pathlib import Path

import numpy as np
import pytest

import majorcert as mc
from majorcert.files.evidence import save_evidence
from majorcert.files.publish import publish
from majorcert.reports.contents import Contents
from majorcert.reports.explain import explain
from majorcert.reports.study import CaseStudy
from majorcert.reports.study.figures import scatter
from majorcert.reports.study.record import case_study
from majorcert.reports.study.results import compute, write
from majorcert.reports.table import study_text

SIZE, SPEC, N, N_CLASSES = (8, 8), "fields:8x1", 40, 3
TRUTH = np.random.default_rng(1).integers(0, N_CLASSES, N)


@pytest.fixture(scope="module")
def evidence() -> dict[str, mc.Evidence]:
    random = np.random.default_rng(0)
    logits = random.normal(0, 1, (N, 8, N_CLASSES))
    logits[np.arange(N), :, TRUTH] += np.linspace(0, 6, N)[:, None]
    scores = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    points = mc.Scores.rounded(scores, strategy=SPEC, image_size=SIZE)
    return {
        "bagcert": mc.Ballots.from_scores(scores, threshold=0.4, strategy=SPEC, image_size=SIZE),
        "cbn": mc.ClippedScores(points),
        "pg-bn": mc.MaskedScores(points, mc.Patch(2)),
    }


def test_a_study_has_a_row_for_each_method(evidence: dict[str, mc.Evidence], tmp_path: Path) -> None:
    for name, each in evidence.items():
        save_evidence(each, tmp_path / f"{name}.zarr")
    publish(evidence["bagcert"], tmp_path / "bagcert.zarr", evidence["cbn"].scores)  # type: ignore[attr-defined]
    recipes = {"local": {"defenders": [f"{name}.zarr" for name in evidence], "alternatives": True}}
    (tmp_path / "recipes.json").write_text(json.dumps(recipes), encoding="utf-8")
    np.save(tmp_path / "truth.npy", TRUTH)
    study = CaseStudy.read(tmp_path)
    results = compute(study, workers=1)
    for name, each in evidence.items():
        rows = [row for row in results["rows"] if row["evidence"] == [f"{name}.zarr"] and row["promise"] == "recovery"]
        (row,) = [row for row in rows if (row["method"], row["patch"]) == (name, "2x2")]
        verdict = mc.certify([each], row["patch"])
        expected = 100 * (verdict.certified & (verdict.predicted == TRUTH)).mean()
        assert row["certified"] == pytest.approx(expected, abs=0.01)
        assert 0 < row["certified"] < row["clean"]
    clipped = [row for row in results["rows"] if (row["method"], row["promise"]) == ("cbn", "recovery")]
    shares = {(row["evidence"][0], row["patch"]): (row["clean"], row["certified"]) for row in clipped}
    assert len(shares) == 4  # the votes were kept with the same scores
    assert all(shares["bagcert.zarr", patch] == shares["cbn.zarr", patch] for patch in ("2x2", "5x5"))
    assert {row["method"] for row in results["rows"]} == {"bagcert", "cbn", "pg-bn"}
    assert {row["method"] for row in results["rows"] if row["promise"] == "detection"} == {"bagcert", "cbn"}
    text = study_text(study, results)
    assert "bagcert" in text
    assert "cbn clipped fields:8x1" in text
    assert "PG-BN" in scatter(results)
    write(results, tmp_path)
    for name, told in case_study(tmp_path)["recipes"]["local"]["alternatives"].items():
        method = name.removesuffix(".zarr")
        kept = [row for row in results["rows"] if (row["method"], row["evidence"][0]) == (method, name)]
        kept = [row for row in kept if row["promise"] == "recovery"]
        expected = {"clean": kept[0]["clean"], "certified": {row["patch"]: row["certified"] for row in kept}}
        assert told == expected


def test_a_story_counts_points(evidence: dict[str, mc.Evidence]) -> None:
    told = explain(Contents([evidence["cbn"]], [mc.Patch(2)], truth=TRUTH), N - 1, mc.Patch(2))
    lines = "\n".join(told[0])
    points = evidence["cbn"].points[N - 1].max()  # type: ignore[attr-defined]
    assert f"{points}" in lines
    assert "points   kept  at most" in lines
    assert "of 8 ablations are touched" in lines


def test_a_page_shows_maps(evidence: dict[str, mc.Evidence], tmp_path: Path) -> None:
    mc.report(list(evidence.values()), 2, path=tmp_path / "page.html", truth=TRUTH)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for name in ("fields:8x1", "clipped fields:8x1", "masked fields:8x1", "BagCert-style", "clipped BagNet", "PG-BN"):
        assert name in page
