"""The story in the terminal: the core's numbers, a map that shows every unsafe placement, a picture of it."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import majorcert as mc
from majorcert.commands.explain import explain as explain_command
from majorcert.commands.inputs import pictures_of
from majorcert.commands.report import report as report_command
from majorcert.reports.contents import Contents
from majorcert.reports.explain import WIDEST_MAP, explain, map_png, thinned
from majorcert.reports.story import scene, sentence
from reports import ReachOnly, coherent_ballots, painted

SPECS = ["rows:2", "columns:3", "blocks:4"]
PATCH = mc.Patch(3)


@pytest.fixture(scope="module")
def contents() -> Contents:
    defenders, truth = coherent_ballots(SPECS, n_images=40)
    return Contents(defenders, [PATCH], truth=truth)


def test_an_image_that_is_not_certified(contents: Contents) -> None:
    verdict = mc.majorcert(contents.defenders, PATCH)
    image = int(np.flatnonzero(~verdict.certified)[0])
    lines, safe, told = explain(contents, image + 100, PATCH)
    assert np.array_equal(safe, verdict.safe[image])
    assert told.placement == verdict.witness(image).placement
    text = "\n".join(lines)
    assert f"not certified against 3x3: {(~safe).sum()} of 100 placements" in text
    assert text.count("##") == (~safe).sum()
    assert sentence(told, contents.class_names) in lines
    for one in told.testimonies:
        assert f"{one.name} says" in text
        assert f"{one.told.n_touched} of {one.told.n_ablations} ablations are touched" in text


def test_an_image_that_is_certified(contents: Contents) -> None:
    verdict = mc.majorcert(contents.defenders, PATCH)
    image = int(np.flatnonzero(verdict.certified)[0])
    lines, safe, told = explain(contents, image + 100, PATCH)
    assert safe.all()
    assert told.placement == (5, 5)
    assert f"certified against 3x3 at all 100 placements, by theorem {verdict.by[image][-1]}" in lines
    largest = int(mc.largest_patch(contents.defenders)[image])
    assert f"largest certified square: {largest}x{largest}" in lines


def test_what_is_left_without_a_placement(contents: Contents) -> None:
    watched = Contents(contents.defenders, [PATCH], truth=contents.truth, promise="detection")
    verdict = mc.detect(contents.defenders, PATCH)
    assert verdict.certified.any() != verdict.certified.all()
    for image in (int(np.flatnonzero(verdict.certified)[0]), int(np.flatnonzero(~verdict.certified)[0])):
        lines, safe, told = explain(watched, image + 100, PATCH)
        text = "\n".join(lines)
        assert np.array_equal(safe, verdict.safe[image])
        if verdict.certified[image]:
            assert "no alert, and certified: no 3x3 patch changes the label without one" in text
        else:
            assert f"alert against 3x3: another label is left without {(~safe).sum()} of 100 placements" in text
            assert told.placement == verdict.witness(image).placement
        assert "largest" not in text
        assert sentence(told, contents.class_names) in lines
        for one in told.testimonies:
            assert f"without what the patch could touch, {contents.class_names[one.can_say[0]]}" in text
            assert f"{one.told.n_touched} of {one.told.n_ablations} ablations are left out" in text
    with pytest.raises(mc.EvidenceError, match="'recovery' or 'detection', got 'hope'"):
        Contents(contents.defenders, [PATCH], promise="hope")


def test_with_a_slack_an_image_can_be_silent_and_not_certified(contents: Contents) -> None:
    columns, slack = contents.defenders[1], 2
    watched = Contents([columns], [PATCH], promise="detection", slack=slack)
    verdict = mc.detect([columns], PATCH, slack=slack)
    silent = ~verdict.alert & ~verdict.certified
    for chosen, said in (
        (verdict.certified, "no alert, and certified: no 3x3 patch changes the label without one"),
        (verdict.alert, "alert, and not certified against 3x3: without {} of 100 placements the label has no lead"),
        (silent, "no alert, and not certified against 3x3: without {} of 100 placements the label has no lead"),
    ):
        image = int(np.flatnonzero(chosen)[0])
        lines, safe, told = explain(watched, image + 100, PATCH)
        assert np.array_equal(safe, verdict.safe[image])
        assert lines[1].startswith(said.format((~safe).sum()))
        assert sentence(told, contents.class_names) in lines


def test_fragile_ballots_count_as_touched(contents: Contents) -> None:
    """A label can win iff all that is touched or fragile, given to it, beats what the others keep."""
    random, seen = np.random.default_rng(2), set()
    ballots = contents.defenders[2]
    assert isinstance(ballots, mc.Ballots)
    kind: dict[str, Any] = {"strategy": ballots.strategy, "image_size": ballots.image_size, "n_classes": 10}
    near = mc.Ballots(ballots.labels, **kind, distance=random.random(ballots.labels.shape[:2])).tolerating(0.1)
    for image in range(40):
        _, _, told = explain(Contents([near], [PATCH]), image, PATCH, (4, 4))
        tallies = told.testimonies[0].told.tallies
        for one in tallies:
            wins = all((one.most, -one.label) > (each.kept, -each.label) for each in tallies if each != one)
            assert wins == (one.label in told.testimonies[0].can_say)
            seen.add(wins)
    assert seen == {True, False}
    lines = explain(Contents([near], [PATCH]), 0, PATCH, (4, 4))[0]
    touched = near.strategy.touched(PATCH, near.image_size).mask(4, 4)
    assert near.fragile is not None
    n_more = int((near.fragile[0] & ~touched).sum())
    assert any(
        line.endswith(f"{touched.sum()} of 144 ablations are touched, and {n_more} more are fragile") for line in lines
    )
    with pytest.raises(mc.EvidenceError, match="alerts are told of votes as they were recorded"):
        explain(Contents([near], [PATCH], promise="detection"), 0, PATCH)


def test_of_a_pool_the_points_of_all_members_are_told(contents: Contents) -> None:
    """Those that are left decide, whatever the members say by themselves; those of fragile ballots may be anyone's."""
    members = [each for each in contents.defenders if isinstance(each, mc.Ballots)]
    pool = mc.Pool(members, weights=[3, 1, 2])
    watched = Contents([pool], [PATCH], promise="detection")
    lines, _, told = explain(watched, 103, PATCH, (9, 0))
    hit = [each.strategy.touched(PATCH, each.image_size).mask(9, 0) for each in members]
    left = sum(w * (each.labels[3][~t] == told.clean).sum() for w, each, t in zip((3, 1, 2), members, hit, strict=True))
    points = sum(w * each.counts()[3, told.clean] for w, each in zip((3, 1, 2), members, strict=True))
    assert points > left
    assert any("points   left" in line for line in lines)
    assert any(line.split()[-2:] == [str(points), str(left)] for line in lines)
    assert any(line.endswith(f"{sum(map(sum, hit))} of 168 ablations are left out") for line in lines)

    random, seen = np.random.default_rng(2), set()
    shaken = []
    for each in members:
        kind: dict[str, Any] = {"strategy": each.strategy, "image_size": each.image_size, "n_classes": 10}
        shaken.append(mc.Ballots(each.labels, **kind, distance=random.random(each.labels.shape[:2])).tolerating(0.05))
    near = Contents([mc.Pool(shaken, weights=[3, 1, 2])], [PATCH])
    for image in range(40):
        (one,) = explain(near, image, PATCH, (4, 4))[2].testimonies
        for tally in one.told.tallies:
            others = [each for each in one.told.tallies if each != tally]
            wins = all((tally.most, -tally.label) > (each.kept, -each.label) for each in others)
            assert wins == (tally.label in one.can_say)
            seen.add(wins)
    assert seen == {True, False}


def test_a_placement_can_be_chosen(contents: Contents) -> None:
    _, _, told = explain(contents, 103, PATCH, (9, 0))
    assert told == scene(contents.defenders, PATCH, 3, (9, 0))
    with pytest.raises(mc.DataError, match="top-left pixel at 0,0 to 9,9"):
        explain(contents, 103, PATCH, (10, 0))
    with pytest.raises(mc.DataError, match="no image 99 in this evidence, which holds 40 images, from 100 to 139"):
        explain(contents, 99, PATCH)


def test_wrong_labels_are_named(contents: Contents) -> None:
    flipped = Contents(contents.defenders, [PATCH], truth=(contents.truth + 1) % 10)
    told = explain(contents, 100, PATCH)[2]
    assert f"(wrong, it is class {(contents.truth[0] + 1) % 10})" in explain(flipped, 100, PATCH)[0][0]
    assert explain(Contents(contents.defenders, [PATCH]), 100, PATCH)[0][0] == f"image 100: class {told.clean}"


def test_a_defender_that_does_not_vote(contents: Contents) -> None:
    hidden = Contents([ReachOnly(contents.defenders[0]), contents.defenders[1]], [PATCH])
    text = "\n".join(explain(hidden, 100, PATCH)[0])
    assert "curtain says" in text
    assert "it can be made to say" in text


def test_large_maps_are_thinned_and_lose_no_unsafe_placement() -> None:
    safe = np.ones((200, 150), dtype=bool)
    safe[199, 149] = False
    small = thinned(safe)
    assert max(small.shape) <= WIDEST_MAP
    assert (~small).sum() == 1
    assert not small[-1, -1]


@pytest.mark.parametrize("size", [(3, 3), (2, 5), (1, 1)])
@pytest.mark.parametrize("channels", [None, 1, 3])
def test_the_saved_map_marks_unsafe_centres(size: tuple[int, int], channels: int | None) -> None:
    image = pytest.importorskip("PIL.Image")
    safe = np.ones((10, 9), dtype=bool)
    safe[9, 8] = False
    picture = None
    shape = (9 + size[0], 8 + size[1])
    if channels:
        picture = painted(1, shape, channels)[0].transpose(1, 2, 0)
    pixels = np.asarray(image.open(io.BytesIO(map_png(safe, (0, 0), picture, mc.Patch(*size)))))
    scale = pixels.shape[0] // shape[0]
    assert pixels.shape == (shape[0] * scale, shape[1] * scale, 4)
    y, x = (round((9 + size[0] / 2) * scale), round((8 + size[1] / 2) * scale))
    assert pixels[y, x, 0] > pixels[y, x, 2]
    assert pixels[0, 0, 2] > pixels[0, 0, 0]


def test_the_commands_tell_and_write(contents: Contents, tmp_path: Path, monkeypatch: Any) -> None:
    app = typer.Typer()
    app.command()(explain_command)
    app.command()(report_command)
    monkeypatch.chdir(tmp_path)
    stores = []
    for name, ballots in zip("abc", contents.defenders, strict=True):
        ballots.save(f"{name}.zarr")
        stores.append(f"{name}.zarr")
    np.save("truth.npy", np.concatenate([np.zeros(100, int), contents.truth]))
    asked = ["explain", *stores, "--image", "103", "--patch", "3"]
    told = CliRunner().invoke(app, [*asked, "--at", "9,0", "--save", "map.png"], catch_exceptions=False)
    assert told.exit_code == 0
    assert "patch with its top-left pixel at 9,0" in told.stdout
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")
    asked = ["report", *stores, "--patch", "3", "--patch", "2x5", "--truth", "truth.npy", "-o", "r.html"]
    written = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert written.exit_code == 0
    assert written.stdout.strip() == "r.html"
    assert "which are also correct" in Path("r.html").read_text(encoding="utf-8")
    with pytest.raises(mc.PatchError, match="cannot read '9' as a placement"):
        CliRunner().invoke(
            app, ["explain", *stores, "--image", "103", "--patch", "3", "--at", "9"], catch_exceptions=False
        )


def test_pictures_must_be_those_that_were_voted_on(tmp_path: Path) -> None:
    data = pytest.importorskip("majorcert.nets.data")
    images = painted(6, (12, 12), 1)
    np.savez(tmp_path / "same.npz", test_images=images, test_labels=np.arange(6) % 2)
    np.savez(tmp_path / "other.npz", test_images=images + 1, test_labels=np.arange(6) % 2)
    sha256 = data.load(str(tmp_path / "same.npz"), "test").sha256()
    ballots = mc.Ballots(
        np.zeros((6, 12), int),
        strategy="rows:1",
        image_size=(12, 12),
        n_classes=2,
        provenance={"images_sha256": sha256, "split": "test"},
    )
    assert np.array_equal(pictures_of(str(tmp_path / "same.npz"), ballots[2:4], tmp_path, 0), images[2:4])
    with pytest.raises(mc.DataError, match="these are other images"):
        pictures_of(str(tmp_path / "other.npz"), ballots, tmp_path, 0)


def test_names_from_files_cannot_pose_as_lines_of_ours() -> None:
    names = ["cat\n\x1b[2Jcertified against 9x9 at all 16 placements", "dog\t\u202e\r"]
    ballots = mc.Ballots(
        np.array([[0, 0, 0, 1]]), strategy="rows:1", image_size=(4, 4), n_classes=2, provenance={"class_names": names}
    )
    curtain = ReachOnly(ballots, name="cur\x1b[31mtain\n")
    lines, _, _ = explain(Contents([ballots, curtain], [mc.Patch(1)]), 0, mc.Patch(1))
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if line.startswith("certified against 9x9")]
    assert any("cat\\n\\x1b[2Jcertified" in line for line in lines)


@pytest.mark.parametrize("names", [3, "ab", {"a": 1, "b": 2}, ["a", 4], [["a"], ["b"]], True])
def test_class_names_of_another_kind_cost_one_sentence(names: object) -> None:
    ballots = mc.Ballots(
        np.array([[0, 0, 0, 1]]), strategy="rows:1", image_size=(4, 4), n_classes=2, provenance={"class_names": names}
    )
    with pytest.raises(mc.DataError, match="names of 2 classes"):
        Contents([ballots], [mc.Patch(1)])
