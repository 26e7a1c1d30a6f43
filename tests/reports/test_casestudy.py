"""The case study: short cuts count what plain verdicts count; committed results follow from committed evidence."""

import json
from pathlib import Path

import numpy as np
import oracle
import pytest

import majorcert as mc
from majorcert.defences.patchguard import patchguard
from majorcert.defences.scores import Scores
from majorcert.reports.casestudy import CaseStudy, as_json, committed, compute, write
from majorcert.reports.census import Census, count_masked
from majorcert.reports.publish import publish
from majorcert.reports.published import TABLE_1
from majorcert.reports.tabulate import as_text

COMMITTED = Path(__file__).parents[2] / "results" / "cifar10"
needs_results = pytest.mark.skipif(
    not (COMMITTED / "results.json").is_file(), reason="results/cifar10 has no committed results yet"
)
SPECS = ("rows:3", "columns:3", "blocks:5")
SIZE = (16, 16)
N, CLASSES = 300, 4


def made_up_scores(spec: str, seed: int) -> np.ndarray:
    """Scores that mostly favour the truth, more so on easy images, with a run of ablations that errs."""
    random = np.random.default_rng(seed)
    n_ablations = mc.strategy(spec).n_ablations(SIZE)
    ease = np.random.default_rng(0).normal(1.6, 1.2, (N, 1))
    logits = random.normal(0, 1.5, (N, n_ablations, CLASSES)) + random.normal(0, 0.8, (N, 1, CLASSES))
    logits[np.arange(N), :, truth()] += ease
    run = random.integers(0, n_ablations, N)
    for i in range(N):
        logits[i, run[i] : run[i] + n_ablations // 6, (truth()[i] + 1) % CLASSES] += 2.5
    weights = np.exp(logits)
    return weights / weights.sum(axis=2, keepdims=True)


def truth() -> np.ndarray:
    return np.random.default_rng(9).integers(0, CLASSES, N).astype(np.uint8)


@pytest.fixture(scope="module")
def defenders() -> list[mc.Ballots]:
    return [
        mc.Ballots.from_scores(made_up_scores(spec, seed), threshold=0.3, strategy=spec, image_size=SIZE)
        for seed, spec in enumerate(SPECS)
    ]


@pytest.fixture
def folder(tmp_path: Path, defenders: list[mc.Ballots]) -> Path:
    stores = []
    for seed, ballots in enumerate(defenders):
        scores = None
        if "blocks" not in str(ballots.strategy):
            points = made_up_scores(SPECS[seed], seed)
            scores = Scores.rounded(points, strategy=ballots.strategy, image_size=SIZE)
        stores.append(f"best/{str(ballots.strategy).replace(':', '-')}.zarr")
        publish(ballots, tmp_path / stores[-1], scores)
    recipes = {
        "best": {"defenders": stores, "epochs": 3, "gpu_minutes": 0.5, "command": "train --recipe best", "note": ""},
        "twice": {"defenders": [stores[1], stores[1]]},
    }
    (tmp_path / "recipes.json").write_text(json.dumps(recipes), encoding="utf-8")
    np.save(tmp_path / "truth.npy", truth())
    return tmp_path


def test_the_census_counts_what_plain_verdicts_count(defenders: list[mc.Ballots]) -> None:
    census = Census.of(defenders, truth())
    for side, proved in census.prove([1, 2, 4]).items():
        exact = mc.majorcert(defenders, mc.Patch(side))
        paper = mc.majorcert(defenders, mc.Patch(side), reach="paper")
        assert exact.safe is not None
        assert paper.safe is not None
        correct = exact.predicted == truth()
        assert (census.correct == correct).all()
        assert (proved.theorem1 == (correct & (exact.by == "theorem1"))).all()
        assert (proved.exact == (correct & exact.certified)).all()
        assert (proved.paper == (correct & paper.certified)).all()
        assert (proved.reference == (correct & paper.safe[:, :-1, :-1].all(axis=(1, 2)))).all()
        assert (proved.n_unsafe == (~exact.safe[correct]).sum(axis=0)).all()
        assert 10 < proved.theorem1.sum() < proved.exact.sum() < correct.sum()


def test_the_census_tells_the_two_reaches_apart_and_half_is_no_majority() -> None:
    """Loud rivals between which the paper's reach does not tell, and an even number of defenders."""
    random = np.random.default_rng(3)
    wanted = random.integers(0, 6, 400)
    ensemble = []
    for spec in ("rows:2", "columns:2", "rows:3", "columns:3"):
        labels = np.where(random.random((400, 10)) < 0.75, wanted[:, None], random.integers(0, 6, (400, 10)))
        astray = random.random(400) < 0.3
        labels[astray] = np.where(random.random((400, 10)) < 0.6, 1, labels)[astray]
        ensemble.append(mc.Ballots(labels, strategy=spec, image_size=(10, 10), n_classes=6))
    for defenders in (ensemble, ensemble[:3], ensemble[:2]):
        census = Census.of(defenders, wanted)
        proved = census.prove([1])[1]
        exact, paper = mc.majorcert(defenders, mc.Patch(1)), mc.majorcert(defenders, mc.Patch(1), reach="paper")
        assert (proved.theorem1 == (census.correct & (exact.by == "theorem1"))).all()
        assert (proved.exact == (census.correct & exact.certified)).all()
        assert (proved.paper == (census.correct & paper.certified)).all()
        assert proved.theorem1.sum() < proved.paper.sum() < census.correct.sum()
        if defenders is ensemble:
            assert proved.paper.sum() < proved.exact.sum()


def test_the_largest_patch_of_a_census_is_the_largest_patch(defenders: list[mc.Ballots]) -> None:
    census = Census.of(defenders, truth())
    largest = np.where(census.correct, mc.largest_patch(defenders), 0)
    assert (census.largest(census.prove([2, 4]), 16) == largest).all()
    assert (census.largest({}, 3) == np.minimum(largest, 3)).all()
    assert len(np.unique(largest)) > 3


@pytest.mark.parametrize("side", [1, 3])
def test_masked_counts_are_those_of_patchguard(defenders: list[mc.Ballots], side: int) -> None:
    for evidence in (
        defenders[2],
        defenders[0],
        Scores.rounded(made_up_scores("columns:3", 1), strategy="columns:3", image_size=SIZE),
    ):
        verdict = patchguard(evidence, mc.Patch(side))
        right = verdict.predicted == truth()
        correct, certified = count_masked(evidence, mc.Patch(side), truth())
        assert (correct == right).all()
        assert (certified == (right & verdict.certified)).all()
        assert 0 < certified.sum() < correct.sum()


def test_masked_counts_need_no_open_question() -> None:
    sure = np.zeros((3, 16, CLASSES), dtype=int)
    sure[:, :, 1] = 255
    scores = Scores(sure, one=255, strategy="columns:3", image_size=SIZE)
    correct, certified = count_masked(scores, mc.Patch(2), [1, 1, 2])
    assert correct.tolist() == certified.tolist() == [True, True, False]


def test_rows_are_those_of_the_public_functions(folder: Path, defenders: list[mc.Ballots]) -> None:
    rows = compute(CaseStudy.read(folder))["rows"]
    patch = mc.Patch(5)
    scores = Scores.rounded(made_up_scores("rows:3", 0), strategy="rows:3", image_size=SIZE)
    verdicts = {
        ("drs-margin", "columns:3"): mc.drs(defenders[1], patch),
        ("drs-local", "blocks:5"): mc.drs(defenders[2], patch, bound="local"),
        ("pg-drs", "rows:3"): patchguard(scores, patch),
        ("pg-drs", "blocks:5"): patchguard(defenders[2], patch),
        ("majorcert-exact", *SPECS): mc.majorcert(defenders, patch),
        ("majorcert-paper", *SPECS): mc.majorcert(defenders, patch, reach="paper"),
    }
    for (method, *specs), verdict in verdicts.items():
        clean, certified, n = mc.score(verdict, truth())
        expected = {
            "recipe": "best",
            "method": method,
            "defenders": specs,
            "evidence": [f"best/{spec.replace(':', '-')}.zarr" for spec in specs],
            "patch": "5x5",
            "clean": round(100 * clean, 2),
            "certified": round(100 * certified, 2),
            "n": n,
        }
        assert expected in rows
    assert len(rows) == 2 * (3 * 3 + 3) + 2 * (2 * 3 + 3)


def test_results_are_written_read_and_the_same_with_two_workers(folder: Path) -> None:
    study = CaseStudy.read(folder)
    results = compute(study)
    write(results, folder)
    assert committed(folder) == results == compute(study, workers=2)
    assert (folder / "results.json").read_text(encoding="utf-8") == as_json(results)
    curve = results["by_side"][0]["certified"]
    assert curve == sorted(curve, reverse=True)
    assert sum(results["largest"][0]["images"]) == N


def test_the_text_shows_every_method_and_the_papers_rows(folder: Path) -> None:
    study = CaseStudy.read(folder)
    text = as_text(study, compute(study))
    for word in (
        "drs-margin rows:3",
        "pg-drs blocks:5",
        "majorcert-exact rows:3 columns:3 blocks:5",
        "PG-BN",
        "0.5 GPU",
    ):
        assert word in text
    assert "pg-drs on votes, for want of scores: best/blocks-5.zarr" in text
    assert "as the released code reports it" in text
    assert max(len(line) for line in text.splitlines()) < 200


def test_the_papers_means_are_the_means_of_its_columns() -> None:
    """They guard against slips of the pen; the paper rounds halves either way."""
    for row in TABLE_1:
        for kind in (0, 1):
            mean = sum(pair[kind] for pair in row.accuracy.values()) / 2
            assert abs(mean - row.mean[kind]) <= 0.051, row.name


def test_a_published_store_has_few_files_and_holds_the_same(folder: Path, defenders: list[mc.Ballots]) -> None:
    store = folder / "best" / "rows-3.zarr"
    assert sum(path.is_file() for path in store.rglob("*")) == 7
    assert (mc.Ballots.load(store).labels == defenders[0].labels).all()
    expected = Scores.rounded(made_up_scores("rows:3", 0), strategy="rows:3", image_size=SIZE)
    assert (Scores.load(store).points == expected.points).all()
    assert Scores.load(store).one == 255


def test_scores_of_another_defender_are_refused(tmp_path: Path, defenders: list[mc.Ballots]) -> None:
    scores = Scores.rounded(made_up_scores("rows:3", 0), strategy="rows:3", image_size=SIZE)
    with pytest.raises(mc.EvidenceError, match="scores of rows:3 and ballots of columns:3 are not of one defender"):
        publish(defenders[1], tmp_path / "x.zarr", scores)


def test_a_folder_without_recipes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(mc.StoreError, match=r"not a case study, it has no recipes\.json"):
        CaseStudy.read(tmp_path)
    with pytest.raises(mc.StoreError, match=r"no readable results\.json"):
        committed(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", '{"best": {}}', '{"best": {"defenders": [], "colour": 3}}'])
def test_recipes_that_make_no_sense_are_refused(folder: Path, text: str) -> None:
    (folder / "recipes.json").write_text(text, encoding="utf-8")
    with pytest.raises(mc.StoreError, match="recipe"):
        CaseStudy.read(folder)


def test_evidence_of_images_without_a_label_is_refused(folder: Path) -> None:
    np.save(folder / "truth.npy", truth()[:10])
    with pytest.raises(mc.StoreError, match="evidence of image 299, but 10 labels"):
        compute(CaseStudy.read(folder))


# ---- what is committed ----


@needs_results
def test_the_committed_results_follow_from_the_committed_evidence() -> None:
    results = compute(CaseStudy.read(COMMITTED), workers=2)
    assert as_json(results) == (COMMITTED / "results.json").read_text(encoding="utf-8")


@needs_results
@pytest.mark.parametrize("side", [pytest.param(2, marks=pytest.mark.slow), 5])
def test_the_literal_oracle_agrees_on_a_hundred_committed_images(side: int) -> None:
    study = CaseStudy.read(COMMITTED)
    for recipe in study.recipes:
        images = np.sort(np.random.default_rng(side).choice(len(study.truth), 100, replace=False))
        defenders = [study.ballots(store)[images] for store in recipe.defenders]
        verdict = mc.majorcert(defenders, mc.Patch(side))
        assert verdict.safe is not None
        for i in range(100):
            judged = oracle.majorcert([literal(ballots, i) for ballots in defenders], (side, side))
            assert (verdict.predicted[i], verdict.certified[i]) == (judged.predicted, judged.certified)
            assert {place: bool(verdict.safe[i][place]) for place in judged.safe} == judged.safe


def literal(ballots: mc.Ballots, image: int) -> oracle.Defender:
    """The ballots of one image as the oracle takes them."""
    votes = tuple(frozenset(label for label in ballot if label >= 0) for ballot in ballots.labels[image].tolist())
    return oracle.Defender(str(ballots.strategy), ballots.image_size, ballots.n_classes, votes)
