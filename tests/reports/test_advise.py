"""Advice: every way to judge the same votes, counted as the public functions count, and a sentence that follows."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import majorcert as mc
from majorcert.commands.app import app
from majorcert.reports.advise import Choice, advice, briefly, choices
from majorcert.reports.contents import Contents
from majorcert.reports.page.overview import overview

SIZE, PATCH = (6, 6), mc.Patch(1)


def votes(strategy: str, seed: int, right: float, truth: np.ndarray) -> mc.Ballots:
    """Views that see the truth so often, and anything else otherwise."""
    rng = np.random.default_rng(seed)
    n = mc.strategy(strategy).n_ablations(SIZE)
    labels = np.where(rng.random((len(truth), n)) < right, truth[:, None], rng.integers(0, 3, (len(truth), n)))
    return mc.Ballots(labels, strategy=strategy, image_size=SIZE, n_classes=3)


@pytest.fixture
def truth() -> np.ndarray:
    return np.random.default_rng(9).integers(0, 3, size=60)


def test_each_way_is_counted_as_the_public_functions_count(truth: np.ndarray) -> None:
    rows, columns = votes("rows:2", 0, 0.6, truth), votes("columns:2", 1, 0.8, truth)
    found = {(each.who, each.promise): each for each in choices([rows, columns], PATCH, truth)}
    judged = {"rows:2": [rows], "columns:2": [columns], "majority of 2": [rows, columns]}
    judged["pool of 2"] = [mc.Pool([rows, columns])]  # type: ignore[list-item]
    assert len(found) == 2 * len(judged)
    for who, evidence in judged.items():
        recovery, detection = mc.certify(evidence, PATCH), mc.detect(evidence, PATCH)
        for promise, verdict in (("recovery", recovery), ("detection", detection)):
            score = mc.score(verdict, truth)
            assert (found[who, promise].clean, found[who, promise].certified) == (score.clean, score.certified)
        assert detection.alert is not None
        assert found[who, "detection"].alerts == detection.alert.mean()
        assert found[who, "recovery"].views == (12 if " of " in who else 6)
        assert (found[who, "recovery"].knows, found[who, "detection"].knows) == (False, True)


def test_where_an_equal_say_takes_too_many_points_no_pool_is_told_of() -> None:
    """Of seven numbers of ablations that have little in common; the rest is told all the same."""
    size, truth = (31, 37), np.zeros(2, int)
    cuts = ("columns:5", "rows:5", "columns:5/2", "rows:5/2", "rows:5/3", "columns:5/3", "rows:5/5")
    voters = [
        mc.Ballots(np.zeros((2, mc.strategy(cut).n_ablations(size)), int), strategy=cut, image_size=size, n_classes=2)
        for cut in cuts
    ]
    with pytest.raises(mc.EvidenceError, match="points an image"):
        mc.Pool(voters)
    whose = {each.who for each in choices(voters, PATCH, truth)}
    assert whose == {*cuts, "majority of 7"}
    (found,) = overview(Contents(voters, [PATCH], truth=truth)).findings
    assert {row.who for row in found.methods} == {*cuts, "ensemble"}


def test_a_label_that_is_always_said_is_no_defence() -> None:
    truth = np.repeat([0, 1, 2], [10, 6, 4])
    always, better = (votes("rows:2", 0, 1.0, said) for said in (np.zeros(20, int), np.repeat([0, 1, 0], [10, 6, 4])))
    ways = choices([always], PATCH, truth)
    assert (ways[0].certified, ways[0].usual) == (0.5, 0.5)
    assert "always says the most frequent label, 50.0%" in advice(ways, PATCH)
    assert "always says" not in advice(choices([always, better], PATCH, truth), PATCH)


def test_bounds_say_the_same_whatever_the_patch(truth: np.ndarray) -> None:
    possible = np.eye(3, dtype=bool)[truth][:, None].repeat(25, axis=1)
    bounds = mc.Bounds(truth, possible, sizes="bounds:2", image_size=SIZE, n_classes=3)
    (found,) = choices([bounds], mc.Patch(2), truth)
    assert (found.promise, found.certified, found.views, found.knows) == ("recovery", 1.0, 1, False)


def test_masks_must_know_the_patch_and_look_at_each_mask(truth: np.ndarray) -> None:
    masks = mc.Masks(2, stride=2)
    n = masks.n_masks(SIZE)
    pairs = mc.MaskPairs(np.repeat(truth, n * n).reshape(-1, n, n), masks=masks, image_size=SIZE, n_classes=3)
    alone, _, *_ = choices([pairs], PATCH, truth)
    assert (alone.who, alone.views, alone.knows, alone.certified) == ("masks:2/2", n, True, 1.0)


def choice(who: str, certified: float, clean: float = 0.9, **more: object) -> Choice:
    known = {"promise": "recovery", "alerts": None, "views": 10, "knows": False, "n": 1000, **more}
    return Choice(who, certified=certified, clean=clean, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "told", "not_told"),
    [
        ([choice("a", 0.6), choice("b", 0.5)], "take a (60.0%", "b ("),
        ([choice("a", 0.60, 0.85), choice("b", 0.595, 0.93)], "take b (59.5%", "a ("),  # as good, and more accurate
        ([choice("a", 0.6, views=90), choice("b", 0.6)], "take b (", "a ("),  # as good, and cheaper
        ([choice("a", 0.595), choice("b", 0.6)], "take b (60.0%", "a ("),  # no dearer, and certifies more
        (
            [choice("a", 0.8, knows=True), choice("b", 0.5)],
            "no bound on the patch is known when predicting, b",
            "alert",
        ),
        ([choice("a", 0.6), choice("d", 0.8, promise="detection", alerts=0.1)], "d (80.0%", "bound"),
        ([choice("a", 0.6), choice("d", 0.6, promise="detection", alerts=0.1)], "take a", "alert"),
        (
            [choice("a", 0.0), choice("d", 0.0, promise="detection", alerts=1.0)],
            "no image is both right and certified",
            "take",
        ),
    ],
)
def test_the_sentence_follows_from_the_numbers(found: list[Choice], told: str, not_told: str) -> None:
    said = advice(found, PATCH)
    assert told in said
    assert not_told not in said
    assert "1,000 images" in said


def test_the_verb_shows_the_table_and_refuses_without_labels(truth: np.ndarray, tmp_path: Path) -> None:
    stores = [str(tmp_path / name) for name in ("rows.zarr", "columns.zarr")]
    for store, strategy in zip(stores, ("rows:2", "columns:2"), strict=True):
        votes(strategy, 0, 0.8, truth).save(store)
    run = CliRunner().invoke
    refused = run(app, ["advise", *stores, "--patch", "1"])
    assert refused.exit_code == 2
    assert "--truth" in refused.output
    np.save(tmp_path / "truth.npy", truth)
    given = ["advise", *stores, "--patch", "1", "--truth", str(tmp_path / "truth.npy")]
    shown = run(app, given)
    assert shown.exit_code == 0, shown.output
    assert "pool of 2\tdetection" in shown.output
    assert "Against 1x1 patches" in shown.output
    told = json.loads(run(app, [*given, "--json"]).stdout)
    assert len(told[0]["choices"]) == 8
    members = run(app, ["certify", *stores, "--patch", "1"]).stdout.splitlines()
    assert [line.split("\t")[0] for line in members[1:]] == ["rows:2 + columns:2", "rows:2", "columns:2"]


def test_masks_are_advised_on_by_the_patch_that_they_are_made_for(truth: np.ndarray) -> None:
    """A wrong label may be certified: what counts is right as well."""
    masks = mc.Masks(2, stride=2)
    n = masks.n_masks(SIZE)
    for labels, told in (
        (truth, "Against 2x2 patches take masks:2/2 (100.0%"),
        ((truth + 1) % 3, "Against 2x2 patches no"),
    ):
        table = np.repeat(labels, n * n).reshape(-1, n, n)
        pairs = mc.MaskPairs(table, masks=masks, image_size=SIZE, n_classes=3)
        assert briefly([pairs], mc.Patch(3), truth).startswith(told)
