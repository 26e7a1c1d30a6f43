"""The case study: short cuts count what plain verdicts count; committed results follow from committed evidence."""

import json
from pathlib import Path

import numpy as np
import oracle
import pytest
import zarr

import majorcert as mc
from majorcert.audit.judgement import judged_anew
from majorcert.defences.patchguard import patchguard
from majorcert.defences.scores import Scores
from majorcert.files.evidence import save_evidence
from majorcert.files.publish import publish
from majorcert.reports.rooms import room_of
from majorcert.reports.rows import by_papers_reach, by_theorem1
from majorcert.reports.study import CaseStudy, Recipe
from majorcert.reports.study.figures import draw
from majorcert.reports.study.pack import pack
from majorcert.reports.study.published import TABLE_1
from majorcert.reports.study.record import case_study
from majorcert.reports.study.results import as_json, committed, compute, write
from majorcert.reports.table import study_text
from reports import every_kind

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


def test_the_papers_reach_is_asked_only_where_it_may_certify(defenders: list[mc.Ballots]) -> None:
    for side in (1, 2, 4):
        exact = mc.majorcert(defenders, mc.Patch(side))
        plain = mc.majorcert(defenders, mc.Patch(side), reach="paper")
        paper, as_released = by_papers_reach(defenders, exact)
        assert (paper.certified == plain.certified).all()
        assert (as_released == plain.safe[:, :-1, :-1].all(axis=(1, 2))).all()
        assert (by_theorem1(exact).certified == (exact.by == "theorem1")).all()
        assert 10 < by_theorem1(exact).certified.sum() < exact.certified.sum() < N


def test_the_two_reaches_are_told_apart_and_half_is_no_majority() -> None:
    """Loud rivals between which the paper's reach does not tell, and an even number of defenders."""
    random = np.random.default_rng(3)
    wanted = random.integers(0, 6, 400)
    ensemble = []
    for spec in ("rows:2", "columns:2", "rows:3", "columns:3"):
        labels = np.where(random.random((400, 10)) < 0.75, wanted[:, None], random.integers(0, 6, (400, 10)))
        astray = random.random(400) < 0.3
        labels[astray] = np.where(random.random((400, 10)) < 0.6, 1, labels)[astray]
        ensemble.append(mc.Ballots(labels, strategy=spec, image_size=(10, 10), n_classes=6))
    exact, plain = mc.majorcert(ensemble, mc.Patch(1)), mc.majorcert(ensemble, mc.Patch(1), reach="paper")
    paper, _ = by_papers_reach(ensemble, exact)
    assert (paper.certified == plain.certified).all()
    assert by_theorem1(exact).certified.sum() < paper.certified.sum() < exact.certified.sum()


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
        ("pool", *SPECS): mc.majorcert([mc.Pool(defenders)], patch),
        ("pg-pool", *SPECS): patchguard(mc.Pool(defenders), patch),
    }
    detection = {
        ("majorcert-exact", *SPECS): mc.detect(defenders, patch),
        ("pool", *SPECS): mc.detect([mc.Pool(defenders)], patch),
    }
    for (method, *specs), verdict in (*verdicts.items(), *detection.items()):
        clean, certified, n = mc.score(verdict, truth())
        alerts = {} if verdict.alert is None else {"alerts": round(100 * float(verdict.alert.mean()), 2)}
        expected = {
            "recipe": "best",
            "method": method,
            "defenders": specs,
            "evidence": [f"best/{spec.replace(':', '-')}.zarr" for spec in specs],
            "patch": "5x5",
            "promise": verdict.promise,
            "clean": round(100 * clean, 2),
            "certified": round(100 * certified, 2),
            **alerts,
            "n": n,
            "n_split": N,
        }
        assert expected in rows
        assert 0 < certified < clean or verdict.promise == "detection"
        assert 0 < alerts.get("alerts", 1) < 100
    assert len(rows) == 2 * (3 * 3 + 3 + 4) + 2 * (3 + 4), "who is in two recipes is told alone in the first"


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
    text = study_text(study, compute(study))
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


def test_a_folder_without_recipes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(mc.StoreError, match=r"not a case study, it has no recipes\.json"):
        CaseStudy.read(tmp_path)
    with pytest.raises(mc.StoreError, match=r"results\.json: cannot be read .*; `majorcert table .* --write` makes it"):
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


def test_recovery_and_detection_stand_apart(folder: Path) -> None:
    study = CaseStudy.read(folder)
    results = compute(study)
    lines = study_text(study, results).splitlines()
    best = [
        line for line in lines[: lines.index("recipe twice, on 300 images")] if line.split()[:1] == ["majorcert-exact"]
    ]
    assert len(best) == 2
    for line, promise, kinds in zip(
        best, ("recovery", "detection"), ("clean certified", "clean certified alerts"), strict=True
    ):
        key = ("best", "majorcert-exact", promise)
        rows = [row for row in results["rows"] if (row["recipe"], row["method"], row["promise"]) == key]
        cells = [f"{row[kind]:.2f}" for row in rows for kind in kinds.split()]
        assert line.split()[4:][: len(cells)] == cells
    before = [path.read_bytes() for path in draw(results, folder / "figures")]
    results["rows"] = [row for row in results["rows"] if row["promise"] == "recovery"]
    assert [path.read_bytes() for path in draw(results, folder / "figures")] == before


def masks_of(bound: int, seed: int) -> mc.MaskPairs:
    """Tables of labels that are mostly the truth; of some images one pair says otherwise."""
    random, masks = np.random.default_rng(seed), mc.Masks(bound, stride=4)
    n = masks.n_masks(SIZE)
    labels = np.repeat(truth().astype(np.int64)[:, None], n * (n + 1) // 2, axis=1)
    astray = np.flatnonzero(random.random(N) < 0.5)
    labels[astray, random.integers(0, labels.shape[1], len(astray))] += 1
    return mc.MaskPairs(labels % CLASSES, masks=masks, image_size=SIZE, n_classes=CLASSES)


def test_alternatives_are_no_ensemble_and_speak_of_patches_up_to_their_bound(folder: Path, tmp_path: Path) -> None:
    every = {f"masking/masks-{bound}-4.zarr": masks_of(bound, bound) for bound in (5, 2)}
    for store, pairs in every.items():
        pairs.save(folder / store)
    described = json.loads((folder / "recipes.json").read_text(encoding="utf-8"))
    described["masking"] = {"defenders": list(every), "alternatives": True}
    (folder / "recipes.json").write_text(json.dumps(described), encoding="utf-8")
    study = CaseStudy.read(folder)
    results = compute(study)
    mine = [row for row in results["rows"] if row["recipe"] == "masking"]
    assert {(row["method"], *row["evidence"], row["patch"]) for row in mine} == {
        ("double-masking", store, patch)
        for store, patch in zip([*every, next(iter(every))], ("2x2", "2x2", "5x5"), strict=True)
    }
    assert len(mine) == 6
    for row in mine:
        judge = mc.detect if row["promise"] == "detection" else mc.majorcert
        verdict = judge([every[row["evidence"][0]]], row["patch"])
        clean, certified, _ = mc.score(verdict, truth())
        assert (row["clean"], row["certified"]) == (round(100 * clean, 2), round(100 * certified, 2))
        assert ("alerts" in row) == (row["promise"] == "detection")
        assert 0 < row["certified"] < 100
    for item in (item for item in results["by_side"] if item["recipe"] == "masking"):
        pairs = every[item["evidence"][0]]
        scores = [mc.score(mc.majorcert([pairs], side), truth()) for side in range(1, 1 + pairs.masks.patch.height)]
        assert item["certified"] == [round(100 * score.certified, 2) for score in scores]
    text = study_text(study, results)
    before, after = text.split("MASKING: ")
    assert "masks:5/4" not in before
    assert "bound on the patch size is known at prediction time" in after
    assert next(line for line in after.splitlines() if "double-masking masks:2/4" in line).count(".") == 2
    write(results, folder)
    told = case_study(folder)["recipes"]["masking"]
    assert told["strategies"] == ["masks:5/4", "masks:2/4"]
    assert [list(each["certified"]) for each in told["alternatives"].values()] == [["2x2", "5x5"], ["2x2"]]
    assert "double masking" in draw(results, folder / "figures")[0].read_text(encoding="utf-8")


def test_beside_masks_the_voters_of_an_ensemble_are_one_pool(folder: Path, defenders: list[mc.Ballots]) -> None:
    masks, random = mc.Masks(5, stride=4), np.random.default_rng(4)
    labels = np.repeat(truth()[:, None], masks.n_masks(SIZE) * (masks.n_masks(SIZE) + 1) // 2, axis=1)
    labels[random.random(N) < 0.3, -3] += 1
    pairs = mc.MaskPairs(labels % CLASSES, masks=masks, image_size=SIZE, n_classes=CLASSES)
    publish(pairs, folder / "masks" / "masks-5-4.zarr")
    described = json.loads((folder / "recipes.json").read_text(encoding="utf-8"))
    votes = described["best"]["defenders"]
    described = {"masking": {"defenders": ["masks/masks-5-4.zarr"], "alternatives": True}}
    described["mixed"] = {"defenders": [votes[0], "masks/masks-5-4.zarr", *votes[1:]]}
    (folder / "recipes.json").write_text(json.dumps(described), encoding="utf-8")
    results = compute(study := CaseStudy.read(folder))
    assert "recipe mixed" in study_text(study, results).partition("MASKING: here a bound")[2]
    rows = [row for row in results["rows"] if len(row["defenders"]) > 1]
    assert {(row["method"], row["promise"]) for row in rows} == {
        ("majorcert-theorem1", "recovery"),
        ("majorcert-exact", "recovery"),
        ("majorcert-exact", "detection"),
    }
    assert rows[0]["defenders"] == ["masks:5/4", "pool of rows:3, columns:3, blocks:5"]
    together = [pairs, mc.Pool(defenders)]
    for row in rows:
        if row["method"] == "majorcert-exact":
            judge = mc.certify if row["promise"] == "recovery" else mc.detect
            expected = mc.score(judge(together, row["patch"]), truth())
            assert (row["clean"], row["certified"]) == (
                round(100 * expected.clean, 2),
                round(100 * expected.certified, 2),
            )
            assert 0 < row["certified"] < row["clean"] or row["promise"] == "detection"


def test_sides_between_the_known_ones_are_those_of_the_largest_patch(folder: Path, defenders: list[mc.Ballots]) -> None:
    results = compute(CaseStudy.read(folder))
    correct = mc.majorcert(defenders, 2).predicted == truth()
    largest = np.where(correct, mc.largest_patch(defenders), 0)
    assert results["largest"][0]["images"] == np.bincount(largest, minlength=17).tolist()
    assert len(np.unique(largest)) > 5


def part_of(defenders: list[mc.Ballots], images: np.ndarray, folder: Path) -> Path:
    """A case study of some of the images, with the true labels of all."""
    stores = [f"best/{str(ballots.strategy).replace(':', '-')}.zarr" for ballots in defenders]
    for ballots, store in zip(defenders, stores, strict=True):
        publish(ballots[images], folder / store)
    (folder / "recipes.json").write_text(json.dumps({"best": {"defenders": stores}}), encoding="utf-8")
    np.save(folder / "truth.npy", truth())
    return folder


def test_a_part_of_the_split_is_told_everywhere(defenders: list[mc.Ballots], tmp_path: Path) -> None:
    certified = np.flatnonzero(mc.majorcert(defenders, mc.Patch(2)).certified)[:40]
    study = CaseStudy.read(part_of(defenders, certified, tmp_path))
    results = compute(study)
    assert (results["n"], results["n_split"]) == (40, N)
    assert {(row["n"], row["n_split"]) for row in results["rows"]} == {(40, N)}
    assert sum(results["largest"][0]["images"]) == 40
    text = study_text(study, results)
    assert "40 of the split's 300 images" in text
    assert f"on {N} images" not in text
    assert (case_study(tmp_path)["images"], case_study(tmp_path)["part"]) == (40, "40 of the split's 300 images")
    write(results, tmp_path)
    for path in draw(results, tmp_path / "figures"):
        assert "40 of the split's 300 images" in path.read_text(encoding="utf-8")


def test_the_size_of_the_split_is_taken_from_the_evidence_too(defenders: list[mc.Ballots], tmp_path: Path) -> None:
    some = [
        mc.Ballots(
            ballots.labels, strategy=ballots.strategy, image_size=SIZE, n_classes=4, provenance={"split_size": 5000}
        )
        for ballots in defenders
    ]
    study = CaseStudy.read(part_of(some, np.arange(N), tmp_path))
    assert compute(study)["n_split"] == 5000


def test_repeated_images_are_refused(defenders: list[mc.Ballots], tmp_path: Path) -> None:
    """One certified image many times over would be a perfect table."""
    folder = part_of(defenders, np.arange(7, 47), tmp_path)
    for store in (folder / "best").glob("*.zarr"):
        zarr.open_group(str(store))["images"][:] = 7
    with pytest.raises(mc.StoreError, match="once"):
        compute(CaseStudy.read(folder))


@pytest.mark.parametrize("kinds", [[0], [1], [2, 0, 1], [3], [3, 0, 1]])
def test_every_kind_of_evidence_is_packed_and_has_rows(tmp_path: Path, kinds: list[int]) -> None:
    """Votes, masked scores, other votes, pairs of masks: alone and together."""
    _, masked, pool, pairs = every_kind(30)
    every = [pool.members[0], masked, pool.members[1], pairs]
    stores = []
    for place in kinds:
        stores.append(tmp_path / "raw" / f"{place}.zarr")
        save_evidence(every[place], stores[-1])
    labels = every[0].label
    np.save(tmp_path / "labels.npy", labels)
    pack(stores, tmp_path / "study", Recipe("mixed", ()), tmp_path / "labels.npy")
    study = CaseStudy.read(tmp_path / "study")
    results = compute(study)
    methods = {("drs-margin", "drs-local", "pg-drs"): (0, 2), ("pg-drs",): (1,), ("double-masking",): (3,)}
    for place, store in zip(kinds, study.recipes[0].defenders, strict=True):
        mine = {row["method"] for row in results["rows"] if row["evidence"] == [store]}
        (expected,) = [names for names, places in methods.items() if place in places]
        assert mine - {"majorcert-theorem1", "majorcert-paper", "majorcert-exact"} == set(expected)
    patch = mc.Patch(2)
    score = mc.score(mc.majorcert([every[place] for place in kinds], patch), labels)
    key = ("majorcert-exact", "2x2", "recovery")
    (row,) = [row for row in results["rows"] if (row["method"], row["patch"], row["promise"]) == key]
    assert (row["clean"], row["certified"]) == (round(100 * score.clean, 2), round(100 * score.certified, 2))
    assert "majorcert-exact" in study_text(study, results)
    assert len(draw(results, tmp_path / "figures")) == 3


@pytest.mark.parametrize("side", [8, 4, 1])
def test_small_images_have_a_table_and_figures(tmp_path: Path, side: int) -> None:
    random = np.random.default_rng(side)
    labels = np.where(random.random((50, side)) < 0.8, 1, random.integers(0, 3, (50, side)))
    (tmp_path / "best").mkdir()
    mc.Ballots(labels, strategy="rows:1", image_size=(side, side), n_classes=3).save(tmp_path / "best" / "rows-1.zarr")
    (tmp_path / "recipes.json").write_text(json.dumps({"best": {"defenders": ["best/rows-1.zarr"]}}), encoding="utf-8")
    np.save(tmp_path / "truth.npy", np.ones(50, dtype=np.uint8))
    study = CaseStudy.read(tmp_path)
    results = compute(study)
    assert len(results["by_side"][0]["certified"]) == side
    assert {row["patch"] for row in results["rows"]} == {8: {"2x2", "5x5"}, 4: {"2x2"}, 1: {"1x1"}}[side]
    assert "rows:1" in study_text(study, results)
    assert len(draw(results, tmp_path / "figures")) == 3


def test_texts_from_files_are_shown_on_one_line_each(folder: Path) -> None:
    described = json.loads((folder / "recipes.json").read_text(encoding="utf-8"))
    described["best"] |= {"note": "fine\n\x1b[32mcertified\tagainst 9x9\r", "command": "train " + "--long " * 60}
    (folder / "recipes.json").write_text(json.dumps(described), encoding="utf-8")
    study = CaseStudy.read(folder)
    text = study_text(study, compute(study))
    assert not [char for char in text if char != "\n" and not char.isprintable()]
    assert "  fine\\n\\x1b[32mcertified\\tagainst 9x9\\r\n" in text
    assert ("--long " * 60).strip() in text


# ---- what is committed ----


@needs_results
def test_the_committed_results_follow_from_the_committed_evidence() -> None:
    results = compute(CaseStudy.read(COMMITTED), workers=2)
    assert as_json(results) == (COMMITTED / "results.json").read_text(encoding="utf-8")


@needs_results
@pytest.mark.parametrize(("side", "n"), [(5, 20), *(pytest.param(s, 100, marks=pytest.mark.slow) for s in (2, 5))])
def test_the_literal_oracle_agrees_on_committed_images(side: int, n: int) -> None:
    study = CaseStudy.read(COMMITTED)
    for recipe in (recipe for recipe in study.recipes if not recipe.alternatives and recipe.name != "mixed"):
        images = np.sort(np.random.default_rng(side).choice(len(study.truth), n, replace=False))
        defenders = [study.evidence(store)[images] for store in recipe.defenders]
        verdict = mc.majorcert(defenders, mc.Patch(side))
        assert verdict.safe is not None
        for i in range(n):
            judged = oracle.majorcert([literal(ballots, i) for ballots in defenders], (side, side))
            assert (verdict.predicted[i], verdict.certified[i]) == (judged.predicted, judged.certified)
            assert {place: bool(verdict.safe[i][place]) for place in judged.safe} == judged.safe


@needs_results
def test_the_audit_agrees_on_committed_alternatives_and_mixes() -> None:
    study = CaseStudy.read(COMMITTED)
    ensembles = [[study.evidence(store)] for each in study.recipes if each.alternatives for store in each.defenders]
    (mixed,) = (each for each in study.recipes if each.name == "mixed")
    *masks, first, second, third = (study.evidence(store) for store in mixed.defenders)
    for ensemble in (*ensembles, [*masks, mc.Pool([first, second, third])]):
        doubtful = np.flatnonzero(~mc.majorcert(ensemble, 2).certified)
        images = np.sort(np.random.default_rng(2).choice(doubtful, 8, replace=False))
        images = np.append(images, np.setdiff1d(np.arange(20), images))
        some = [evidence[images] for evidence in ensemble]
        detects = all(room_of(evidence).detects for evidence in some)
        for verdict in (mc.majorcert(some, 2), *([mc.detect(some, 2)] if detects else [])):
            assert 0 < verdict.certified.sum() < len(images)
            checks = judged_anew(verdict, some, range(len(images)))
            assert [each.what for check in checks for each in check.differences] == []


def literal(ballots: mc.Ballots, image: int) -> oracle.Defender:
    """The ballots of one image as the oracle takes them."""
    votes = tuple(frozenset(label for label in ballot if label >= 0) for ballot in ballots.labels[image].tolist())
    return oracle.Defender(str(ballots.strategy), ballots.image_size, ballots.n_classes, votes)
