"""The verbs report and explain: what they write and say is the core's; mistakes cost one sentence and exit code 2."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import done, refused
from stores import voted

import majorcert as mc
from majorcert.defences.patchguard import patchguard
from majorcert.defences.scores import Scores
from majorcert.files.truth import write_truth
from majorcert.reports.story import scene, sentence
from reports import coherent_ballots, painted

SPECS = ["rows:2", "columns:3", "blocks:4"]
NAMES = [f"class {label}" for label in range(10)]
N_IMAGES = 40


@pytest.fixture(scope="module")
def ballots() -> tuple[list[mc.Ballots], Any]:
    return coherent_ballots(SPECS, n_images=N_IMAGES)


@pytest.fixture(scope="module")
def stores(ballots: tuple[list[mc.Ballots], Any], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Evidence of images 100 to 139, with the true labels beside it."""
    defenders, truth = ballots
    folder = tmp_path_factory.mktemp("evidence")
    paths = [folder / f"{number}.zarr" for number in range(len(defenders))]
    for path, each in zip(paths, defenders, strict=True):
        named = {**each.provenance, "dataset": "made", "split": "test"}
        facts: dict[str, Any] = {"image_size": each.image_size, "n_classes": each.n_classes, "images": each.images}
        mc.Ballots(each.labels, strategy=each.strategy, provenance=named, **facts).save(path)
    labels = np.concatenate([np.zeros(100, int), truth])
    write_truth(folder / "made-test.truth.json", labels, {"images_sha256": "cd" * 32})
    return paths


def test_a_report_of_evidence_alone(ballots: tuple[list[mc.Ballots], Any], stores: list[Path], tmp_path: Path) -> None:
    defenders, truth = ballots
    out = tmp_path / "page.html"
    said = done("report", *stores, "--patch", "3", "--patch", "2x5", "-o", out, "--limit", "15", "--title", "A <title>")
    assert said.strip() == str(out)
    text = out.read_text(encoding="utf-8")
    for patch in (mc.Patch(3), mc.Patch(2, 5)):
        share = mc.score(mc.majorcert(defenders, patch), truth).certified
        claim = rf"No {patch} patch, wherever .{{0,60}}<em>{share:.1%}</em> of 40 images, which are also correct"
        assert re.search(claim, text, re.DOTALL)
    assert "hold 15 of 40 images, evenly spaced" in text
    assert "A &lt;title&gt;" in text
    assert list(tmp_path.iterdir()) == [out]


def test_truth_can_be_given_or_missing(
    ballots: tuple[list[mc.Ballots], Any], stores: list[Path], tmp_path: Path
) -> None:
    defenders, truth = ballots
    out = tmp_path / "page.html"
    np.save(tmp_path / "truth.npy", np.concatenate([np.zeros(100, int), (truth + 1) % 10]))
    done("report", stores[0], "--patch", "2", "--truth", tmp_path / "truth.npy", "-o", out)
    share = mc.score(mc.majorcert(defenders[:1], mc.Patch(2)), (truth + 1) % 10).certified
    assert f"<em>{share:.1%}</em> of 40 images, which are also correct" in out.read_text(encoding="utf-8")
    defenders[0].save(tmp_path / "alone.zarr")
    done("report", tmp_path / "alone.zarr", "--patch", "2", "-o", out)
    assert "true labels are not known" in out.read_text(encoding="utf-8")


def test_evidence_with_scores_adds_pg_drs(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.full(3, 0.3), size=(20, 8)).astype(np.float16)
    scores[:15, :, 1] = 1
    facts: dict[str, Any] = {"strategy": "columns:2", "image_size": (8, 8), "n_classes": 3}
    store = tmp_path / "scored.zarr"
    voted(store, mc.Ballots(scores.argmax(axis=2), **facts), scores)
    done("report", store, "--patch", "1", "-o", out := tmp_path / "page.html")
    share = patchguard(Scores.load(store), mc.Patch(1)).certified.mean()
    assert 0 < share < 1
    row = rf"<td>PG-DRS</td>\s*<td class=\"number\">{share:.1%}</td>"
    assert re.search(row, out.read_text(encoding="utf-8"))


def test_images_are_shown_when_they_are_those_that_were_voted_on(tmp_path: Path) -> None:
    data = pytest.importorskip("majorcert.nets.data")
    images = painted(6, (8, 8), 3)
    np.savez(same := tmp_path / "same.npz", test_images=images, test_labels=np.arange(6) % 2)
    np.savez(other := tmp_path / "other.npz", test_images=images + 1, test_labels=np.arange(6) % 2)
    origin = {"images_sha256": data.load(str(same), "test").sha256(), "split": "test"}
    mc.Ballots(np.zeros((6, 8), int), strategy="rows:1", image_size=(8, 8), n_classes=2, provenance=origin).save(
        store := tmp_path / "a.zarr"
    )
    out, pixels = tmp_path / "page.html", tmp_path / "map.png"
    done("report", store, "--images", same, "--patch", "2", "-o", out)
    assert 'id="block pictures.0"' in out.read_text(encoding="utf-8")
    done("explain", store, "--images", same, "--image", "4", "--patch", "2", "--save", pixels)
    image = pytest.importorskip("PIL.Image")
    drawn = np.asarray(image.open(pixels))
    assert np.array_equal(drawn[-1, -1, :3], images[4, :, -1, -1])
    said = refused("report", store, "--images", other, "--patch", "2", "-o", tmp_path / "no.html")
    assert "these are other images than those that were voted on" in said
    assert not (tmp_path / "no.html").exists()


def test_explain_tells_the_story_of_the_core(
    ballots: tuple[list[mc.Ballots], Any], stores: list[Path], tmp_path: Path
) -> None:
    defenders, truth = ballots
    verdict = mc.majorcert(defenders, mc.Patch(3))
    seen = set()
    for image in (int(np.flatnonzero(~verdict.certified)[0]), int(np.flatnonzero(verdict.certified)[0])):
        said = done("explain", *stores, "--image", image + 100, "--patch", "3")
        seen.add(bool(verdict.certified[image]))
        assert said.count("##") == (~verdict.safe[image]).sum()
        right = verdict.predicted[image] == truth[image]
        assert ("(correct)" in said) == right
        witness = verdict.witness(image)
        at = (5, 5) if witness is None else witness.placement
        assert sentence(scene(defenders, mc.Patch(3), image, at), NAMES) in said
    assert seen == {True, False}
    said = done("explain", *stores, "--image", "103", "--patch", "3", "--at", "9,0", "--save", tmp_path / "map.png")
    assert "patch with its top-left pixel at 9,0" in said
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("method", ["pool", "pg-pool"])
def test_votes_are_added_up_on_request(
    method: str, ballots: tuple[list[mc.Ballots], Any], stores: list[Path], tmp_path: Path
) -> None:
    """As `certify` and `predict` name it: what is told and shown is of the one pool, masked for all patches or not."""
    defenders, truth = ballots
    pool, sizes = mc.Pool(defenders), ("--patch", "2", "--patch", "1x3")
    made = pool if method == "pool" else mc.MaskedPool(pool, mc.Patch(2, 3))
    done("report", *stores, *sizes, "--method", method, "-o", out := tmp_path / "page.html")
    text = out.read_text(encoding="utf-8")
    for patch in (mc.Patch(2), mc.Patch(1, 3)):
        share = mc.score(mc.majorcert([made], patch), truth).certified
        assert 0 < share != mc.score(mc.majorcert(defenders, patch), truth).certified
        claim = rf"No {patch} patch, .{{0,60}}<em>{share:.1%}</em> of 40 images, which are also"
        assert re.search(claim, text, re.DOTALL)
    assert "There is one defender." in text
    alone = mc.majorcert([pool if method == "pool" else mc.MaskedPool(pool, mc.Patch(2))], mc.Patch(2))
    for image in (int(alone.certified.argmax()), int(alone.certified.argmin())):
        said = done("explain", *stores, "--image", image + 100, "--patch", "2", "--method", method)
        assert said.count("##") == (~alone.safe[image]).sum()
        assert "pool of rows:2" in said
    assert set(alone.certified) == {True, False}


def test_a_slack_of_one_defender_or_pool(
    ballots: tuple[list[mc.Ballots], Any], stores: list[Path], tmp_path: Path
) -> None:
    detection = ("--patch", "2", "--promise", "detection", "--slack", "40")
    verdict = mc.detect([mc.Pool(ballots[0])], mc.Patch(2), slack=40)
    silent = ~verdict.alert & ~verdict.certified
    assert min(silent.sum(), verdict.alert.sum(), verdict.certified.sum()) > 0
    done("report", *stores, *detection, "--method", "pool", "-o", out := tmp_path / "page.html")
    text = out.read_text(encoding="utf-8")
    assert f"(alerts {verdict.alert.mean():.1%})" in text
    for image in map(int, (silent.argmax(), verdict.alert.argmax(), verdict.certified.argmax())):
        said = done("explain", *stores, "--image", image + 100, *detection, "--method", "pool")
        assert ("\nno alert" in said) != verdict.alert[image]
        assert ("not certified" in said) != verdict.certified[image]
    several = "slack is for one voting defender or pool, got 3 defenders; use slack=0"
    none = "slack is of alerts, and recovery has none"
    for verb in (["certify"], ["report", "-o", tmp_path / "no.html"], ["explain", "--image", "103"]):
        assert several in refused(*verb, *stores, *detection)
        assert none in refused(*verb, *stores, "--patch", "2", "--slack", "40")
    assert not (tmp_path / "no.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "--patch", "13"], "does not fit"),
        (["report", "--patch", "big"], "cannot read 'big'"),
        (["report", "--patch", "3", "--truth", "nowhere.json"], "cannot be read as the true labels"),
        (
            ["explain", "--patch", "3", "--image", "7"],
            "no image 7 in this evidence, which holds 40 images, from 100 to 139",
        ),
        (["explain", "--patch", "3", "--image", "103", "--at", "9"], "cannot read '9' as a placement"),
        (["explain", "--patch", "3", "--image", "103", "--at", "10,0"], "top-left pixel at 0,0 to 9,9"),
        (["explain", "--patch", "99", "--image", "103"], "does not fit"),
    ],
)
def test_mistakes_cost_one_sentence(
    arguments: list[str], message: str, stores: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verb, *options = arguments
    assert message in refused(verb, *stores, *options)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    for verb in (["report"], ["explain", "--image", "1"]):
        assert "nowhere.zarr" in refused(*verb, tmp_path / "nowhere.zarr", "--patch", "3")


def test_neither_verb_needs_torch(stores: list[Path], tmp_path: Path) -> None:
    code = (
        "import json, sys; sys.modules['torch'] = sys.modules['PIL'] = None; from majorcert.commands.app import app; "
        "app(json.loads(sys.argv[1]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(mc.__file__).parents[1])}
    for verb in (["report", "-o", str(tmp_path / "page.html")], ["explain", "--image", "103"]):
        arguments = json.dumps([*verb, str(stores[0]), "--patch", "2"])
        command = [sys.executable, "-c", code, arguments]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr


def test_help_has_an_example() -> None:
    for verb in ("report", "explain"):
        assert f"Example: majorcert {verb}" in " ".join(done(verb, "--help").split())


@pytest.mark.parametrize("names", [7, "ab", {"a": 1, "b": 2}, [1, None], [["a"], "b"]])
def test_class_names_that_are_none_cost_one_sentence(names: Any, tmp_path: Path) -> None:
    about: dict[str, Any] = {"strategy": "rows:1", "image_size": (4, 4), "n_classes": 2}
    store = tmp_path / "e.zarr"
    mc.Ballots(np.zeros((2, 4), int), provenance={"class_names": names}, **about).save(store)
    for verb in (["explain", "--image", "0"], ["report", "-o", tmp_path / "page.html"]):
        assert "names" in refused(*verb, store, "--patch", "1")


def test_names_from_files_stay_on_their_line(tmp_path: Path) -> None:
    names = ["cat\ncertified against 9x9 at all 1 placements, by theorem 1", "\x1b[31mdog"]
    about: dict[str, Any] = {"strategy": "rows:1", "image_size": (4, 4), "n_classes": 2}
    mc.Ballots(np.zeros((2, 4), int), provenance={"class_names": names}, **about).save(tmp_path / "e.zarr")
    said = done("explain", tmp_path / "e.zarr", "--image", "0", "--patch", "1")
    assert not any(line.startswith("certified against 9x9") for line in said.splitlines())
    assert "\x1b" not in said
