"""Packing: evidence as it was voted becomes a case study that says the same, in few files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stores import voted as write_store
from typer.testing import CliRunner

import majorcert as mc
from majorcert.audit.judgement import judged_anew
from majorcert.commands.app import app
from majorcert.files.publish import SMALL
from majorcert.files.truth import write_truth
from majorcert.reports.study import CaseStudy, Recipe
from majorcert.reports.study.pack import pack
from majorcert.reports.study.results import compute

SIZE = (20, 20)
N, CLASSES = 60, 3
BEST = Recipe("best", (), epochs=2, command="train it")


def made_up(spec: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    logits = random.normal(0, 1, (N, mc.strategy(spec).n_ablations(SIZE), CLASSES))
    logits[np.arange(N), :, np.arange(N) % CLASSES] += random.normal(1.5, 1, (N, 1))
    weights = np.exp(logits)
    return (weights / weights.sum(axis=2, keepdims=True)).astype(np.float16)


def voted(path: Path, spec: str, seed: int, *, scores: bool = True, distance: bool = False, images: str = "ab") -> Path:
    """A store in many chunks, as voting leaves it, with the true labels beside it."""
    values = made_up(spec, seed)
    origin = {"threshold": 0.3, "images_sha256": images, "dataset": "made-up", "split": "test"}
    cast = mc.Ballots.from_scores(values, threshold=0.3, strategy=spec, image_size=SIZE)
    facts = {"strategy": spec, "image_size": SIZE, "n_classes": CLASSES, "provenance": origin}
    ballots = mc.Ballots(cast.labels, **facts, distance=cast.distance if distance else None)
    write_store(path, ballots, values if scores else None, chunk=7)
    labels = {"dataset": "made-up", "split": "test", "images_sha256": images, "class_names": list("abc")}
    write_truth(path.parent / "made-up-test.truth.json", np.arange(N) % CLASSES, labels)
    return path


@pytest.fixture
def raw(tmp_path: Path) -> list[Path]:
    """Two defenders of one strategy, one of another without scores, and blocks, of which there are many."""
    return [
        voted(tmp_path / "raw" / "first.zarr", "columns:3", 1),
        voted(tmp_path / "raw" / "second.zarr", "columns:3", 2),
        voted(tmp_path / "raw" / "third.zarr", "rows:3", 3, scores=False),
        voted(tmp_path / "raw" / "fourth.zarr", "blocks:8", 4),
    ]


def test_a_packed_store_holds_the_same_votes_and_its_scores_rounded(raw: list[Path], tmp_path: Path) -> None:
    packed = pack(raw, tmp_path / "study", BEST)
    names = ["best/columns-3.zarr", "best/columns-3-no2.zarr", "best/rows-3.zarr", "best/blocks-8.zarr"]
    assert [item.store for item in packed] == names
    assert [item.scores for item in packed] == ["255 steps", "255 steps", "none", "15 steps"]
    for source, item in zip(raw, packed, strict=True):
        store = tmp_path / "study" / item.store
        assert (mc.Ballots.load(store).labels == mc.Ballots.load(source).labels).all()
        assert mc.Ballots.load(store).provenance["images_sha256"] == "ab"
        assert sum(path.is_file() for path in store.rglob("*")) <= 5
        assert item.n_bytes == sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    second = mc.Scores.load(tmp_path / "study" / names[1])
    assert (second.points == np.rint(made_up("columns:3", 2).astype(float) * 255)).all()
    assert (
        mc.Scores.load(tmp_path / "study" / names[3]).points == np.rint(made_up("blocks:8", 4).astype(float) * 15)
    ).all()


def test_distances_are_packed_too_and_far_ones_of_many_ablations_as_less(tmp_path: Path) -> None:
    few = voted(tmp_path / "raw" / "few.zarr", "columns:3", 1, distance=True)
    many = voted(tmp_path / "raw" / "many.zarr", "blocks:8", 4, scores=False, distance=True)
    folder = tmp_path / "study"
    packed = [mc.Ballots.load(folder / item.store) for item in pack([few, many], folder, BEST)]
    raw = [mc.Ballots.load(few), mc.Ballots.load(many)]
    assert np.array_equal(packed[0].distance, raw[0].distance)
    assert np.array_equal(packed[1].distance, np.minimum(raw[1].distance, np.float16(1 / 16)))
    for tolerance in (1e-3, 0.06):
        verdicts = [mc.majorcert([each.tolerating(tolerance) for each in pair], mc.Patch(2)) for pair in (raw, packed)]
        assert np.array_equal(verdicts[0].safe, verdicts[1].safe)
        checks = judged_anew(verdicts[0], packed, range(0, N, 20))
        assert [each.what for check in checks for each in check.differences] == []
    assert packed[1].tolerating(1 / 16).fragile.all()


def test_rows_of_two_defenders_of_one_strategy_can_be_told_apart(raw: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "study"
    arguments = ["pack", *map(str, raw), "-o", str(folder), "--recipe", "best", "--gpu-minutes", "3.5"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "scores 15 steps" in done.output
    assert json.loads((folder / "recipes.json").read_text(encoding="utf-8"))["best"]["gpu_minutes"] == 3.5

    table = CliRunner().invoke(app, ["table", str(folder), "--write"])
    assert table.exit_code == 0, table.output
    for line, times in (
        ("drs-local columns-3 ", 1),
        ("drs-local columns-3-no2 ", 1),
        ("majorcert-exact 2 x columns:3 rows:3 blocks:8 ", 2),
    ):
        assert table.output.count(line) == times
    rows = compute(CaseStudy.read(folder))["rows"]
    for seed, store in ((1, "best/columns-3.zarr"), (2, "best/columns-3-no2.zarr")):
        ballots = mc.Ballots.from_scores(
            made_up("columns:3", seed), threshold=0.3, strategy="columns:3", image_size=SIZE
        )
        score = mc.score(mc.drs(ballots, mc.Patch(2), bound="local"), np.arange(N) % CLASSES)
        mine = [row for row in rows if row["evidence"] == [store] and row["patch"] == "2x2"]
        found = next(row for row in mine if row["method"] == "drs-local")
        assert (found["clean"], found["certified"]) == (round(100 * score.clean, 2), round(100 * score.certified, 2))
    said = json.loads(CliRunner().invoke(app, ["table", str(folder), "--json"]).stdout)
    assert said == rows
    assert CliRunner().invoke(app, ["table", str(folder), "--check"]).exit_code == 0
    (folder / "results.json").write_text(
        (folder / "results.json").read_text(encoding="utf-8").replace('"clean": ', '"clean": 1', 1), encoding="utf-8"
    )
    assert CliRunner().invoke(app, ["table", str(folder), "--check"]).exit_code == 1


def test_packing_again_replaces_a_recipe_and_leaves_the_others(raw: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "study"
    pack(raw, folder, BEST)
    pack(raw[:1], folder, Recipe("small", ()))
    pack(raw[1:3], folder, BEST)
    study = CaseStudy.read(folder)
    assert [recipe.name for recipe in study.recipes] == ["best", "small"]
    assert study.recipes[0].defenders == ("best/columns-3.zarr", "best/rows-3.zarr")
    assert study.recipes[0].command == "train it"
    assert sorted(path.name for path in (folder / "best").iterdir()) == ["columns-3.zarr", "rows-3.zarr"]
    assert (folder / "small" / "columns-3.zarr").is_dir()


def test_alternatives_are_told_as_such(raw: list[Path], tmp_path: Path) -> None:
    arguments = [*map(str, raw[:2]), "-o", str(tmp_path / "study"), "--recipe"]
    for recipe, more in (("one", ["--alternatives"]), ("all", [])):
        done = CliRunner().invoke(app, ["pack", *arguments, recipe, *more])
        assert done.exit_code == 0, done.output
    assert [recipe.alternatives for recipe in CaseStudy.read(tmp_path / "study").recipes] == [True, False]
    assert "alternatives" not in json.loads((tmp_path / "study" / "recipes.json").read_text(encoding="utf-8"))["all"]
    methods = {row["method"] for row in compute(CaseStudy.read(tmp_path / "study"))["rows"] if row["recipe"] == "one"}
    assert methods == {"drs-margin", "drs-local", "pg-drs"}


def test_scores_that_take_too_much_room_are_left_out(
    raw: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("majorcert.reports.study.pack.LARGEST_SCORES", 1000)
    packed = pack(raw[3:], tmp_path / "study", BEST)
    assert packed[0].scores.startswith("left out, they take 0.0 MB")
    assert CaseStudy.read(tmp_path / "study").scores(packed[0].store) is None


def test_large_evidence_is_cut_into_chunks(raw: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("majorcert.files.publish.SMALL", replace(SMALL, chunk_bytes=2**14))
    store = tmp_path / "study" / pack(raw[3:], tmp_path / "study", BEST)[0].store
    assert len(list((store / "scores" / "c").iterdir())) == 5
    assert (mc.Scores.load(store).points == np.rint(made_up("blocks:8", 4).astype(float) * 15)).all()


def test_evidence_of_other_images_is_refused(raw: list[Path], tmp_path: Path) -> None:
    other = voted(tmp_path / "other" / "rows.zarr", "rows:3", 1, images="cd")
    with pytest.raises(mc.EvidenceError, match=r"rows\.zarr: voted on other images than the rest"):
        pack([raw[0], other], tmp_path / "study", BEST)
    pack(raw[:1], tmp_path / "study", BEST)
    with pytest.raises(mc.EvidenceError, match=r"rows\.zarr: voted on other images than the rest"):
        pack([other], tmp_path / "study", Recipe("small", ()))


def test_true_labels_are_kept_once_and_must_agree(raw: list[Path], tmp_path: Path) -> None:
    pack(raw[:1], tmp_path / "study", BEST)
    assert np.load(tmp_path / "study" / "truth.npy").tolist() == (np.arange(N) % CLASSES).tolist()
    np.save(tmp_path / "wrong.npy", np.zeros(N, dtype=np.uint8))
    with pytest.raises(mc.EvidenceError, match=r"wrong\.npy: these true labels are not those of"):
        pack(raw[:1], tmp_path / "study", BEST, tmp_path / "wrong.npy")
    np.save(tmp_path / "longer.npy", np.arange(N + 1, dtype=np.uint8) % CLASSES)
    with pytest.raises(mc.EvidenceError, match=rf"has {N + 1} labels, .* is of {N} images up to number {N - 1}"):
        pack(raw[:1], tmp_path / "study", BEST, tmp_path / "longer.npy")
    (raw[0].parent / "made-up-test.truth.json").unlink()
    pack(raw[:1], tmp_path / "study", BEST)
    with pytest.raises(mc.StoreError, match="cannot be read as the true labels"):
        pack(raw[:1], tmp_path / "nothing-yet", BEST)


def test_a_recipe_is_not_packed_from_its_own_stores(raw: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "study"
    pack(raw[:3], folder, BEST)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for stores in (
        sorted((folder / "best").glob("*.zarr")),
        [tmp_path / "raw" / ".." / "study" / "best" / "rows-3.zarr"],
    ):
        with pytest.raises(mc.StoreError, match=r"best.*\.zarr: .*recipe"):
            pack(stores, folder, BEST)
    (tmp_path / "link.zarr").symlink_to(folder / "best" / "rows-3.zarr")
    with pytest.raises(mc.StoreError, match="recipe"):
        pack([tmp_path / "link.zarr"], folder, BEST)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../raw", "/{tmp}/raw", "a\\b", "a\nb", "x" * 300])
def test_a_recipe_has_a_plain_name(raw: list[Path], tmp_path: Path, name: str) -> None:
    name = name.format(tmp=tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(mc.StoreError, match="name of a recipe"):
        pack(raw[:1], tmp_path / "study", Recipe(name, ()))
    assert sorted(tmp_path.rglob("*")) == before
    run = CliRunner().invoke(app, ["pack", str(raw[0]), "-o", str(tmp_path / "study"), f"--recipe={name}"])
    assert run.exit_code != 0
    assert sorted(tmp_path.rglob("*")) == before


def test_only_stores_that_a_recipe_named_are_removed(raw: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "study"
    pack(raw[:3], folder, BEST)
    kept = voted(folder / "best" / "mine.zarr", "rows:3", 3)
    pack(raw[:1], folder, BEST)
    assert sorted(path.name for path in (folder / "best").glob("*.zarr")) == ["columns-3.zarr", "mine.zarr"]
    assert len(mc.Ballots.load(kept)) == N


def test_a_refused_store_leaves_the_earlier_recipe_as_it_was(raw: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "study"
    pack(raw[:1], folder, BEST)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    other = voted(tmp_path / "other" / "rows.zarr", "rows:3", 1, images="cd")
    with pytest.raises(mc.EvidenceError, match="other images"):
        pack([raw[1], other], folder, BEST)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_true_labels_of_many_classes_are_kept_whole(tmp_path: Path) -> None:
    truth = np.arange(600) % 300
    labels = np.repeat(truth[:, None], 20, axis=1)
    mc.Ballots(labels, strategy="columns:3", image_size=SIZE, n_classes=300).save(tmp_path / "many.zarr")
    np.save(tmp_path / "truth-of-many.npy", truth)
    pack([tmp_path / "many.zarr"], tmp_path / "study", BEST, tmp_path / "truth-of-many.npy")
    assert np.array_equal(np.load(tmp_path / "study" / "truth.npy"), truth)
    rows = compute(CaseStudy.read(tmp_path / "study"))["rows"]
    assert {row["clean"] for row in rows} == {100.0}


@pytest.mark.parametrize(
    "facts", [{"strategy": 3}, {"strategy": ["rows:3"]}, {"images_sha256": ["ab"]}, {"images_sha256": {}}]
)
def test_provenance_of_another_kind_costs_one_sentence(raw: list[Path], tmp_path: Path, facts: dict) -> None:
    for name in ("first.zarr", "second.zarr"):
        metadata = raw[0].parent / name / "zarr.json"
        content = json.loads(metadata.read_text(encoding="utf-8"))
        content["attributes"].update(facts)
        content["attributes"].pop("seal", None)
        metadata.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(mc.MajorcertError) as refused:
        pack([raw[0], raw[2]], tmp_path / "study", BEST)
    assert "\n" not in str(refused.value)
