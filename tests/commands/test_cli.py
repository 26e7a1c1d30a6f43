"""The command line, end to end: killed and resumed it ends where an uninterrupted run ends; mistakes cost one line."""

import errno
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calls import asked, done, refused
from PIL import Image

import majorcert as mc
from majorcert.errors import StoreError
from majorcert.files.store import Store
from majorcert.nets import recipes

torch.set_num_threads(1)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(mc.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
STRATEGIES = ("rows:2", "columns:2", "blocks:3")
KIND = ("--recipe", "digits", "--width", "8", "--batch-size", "16", "--device", "cpu")
TRAIN = (*KIND, "--epochs", "15", "--checkpoint-every", "1")


def killed(*arguments: Any, when: Callable[[], bool]) -> None:
    """Run in a process of its own and kill it, as soon as it is time, in a way that it cannot prevent."""
    command = [sys.executable, "-m", "majorcert", *map(str, arguments)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not when() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    stderr = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, stderr


INTERRUPTING = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, {handler})
sys.meta_path.insert(0, Interrupting())
sys.argv = ["majorcert", "info", "nothing"]
runpy.run_module("majorcert", run_name="__main__")
"""
"""Ctrl-C at the moment when a module is imported."""


@pytest.mark.parametrize("module", ["majorcert.commands.app", "typer", "rich.console", "majorcert.audit.verify"])
def test_an_interruption_while_importing_is_quiet(module: str) -> None:
    code = INTERRUPTING.format(module=module, handler="signal.default_int_handler")
    left = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (left.returncode, left.stdout, left.stderr) == (130, "", "")


def test_an_interruption_that_is_to_be_ignored_is_ignored() -> None:
    """As under nohup, or in the background of a shell script."""
    code = INTERRUPTING.format(module="numpy", handler="signal.SIG_IGN")
    left = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (left.returncode, left.stderr.split(";")[0]) == (2, "nothing: no such file or folder")


def files(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: content for name, content in found.items() if ".partial" not in name}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three kinds of pictures: bright at the top, bright on the left, or dark."""
    generator = np.random.default_rng(0)
    labels = np.arange(300) % 3
    images = generator.integers(0, 90, size=(300, 8, 8))
    images[labels == 0, :4] += 150
    images[labels == 1, :, :4] += 150
    path = tmp_path_factory.mktemp("data") / "pictures.npz"
    halves = {"images": images[:200], "labels": labels[:200], "test_images": images[200:], "test_labels": labels[200:]}
    arrays = {name: each.astype(np.uint8 if "images" in name else np.int64) for name, each in halves.items()}
    np.savez(path, class_names=np.array(["top", "left", "dark"]), **arrays)  # type: ignore[arg-type]
    return path


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ensemble, trained and voted without a break."""
    out = tmp_path_factory.mktemp("whole") / "runs"
    strategies = [word for spec in STRATEGIES for word in ("--strategy", spec)]
    done("train", data, *strategies, "--out", out, *TRAIN)
    done("vote", out, data, "--chunk", "3", "--device", "cpu")
    return out


@pytest.fixture(scope="module")
def evidence(runs: Path) -> list[Path]:
    return [runs / name / "pictures.npz-test.zarr" for name in ("rows-2", "columns-2", "blocks-3")]


@pytest.fixture(scope="module")
def picture(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "one.png"
    Image.fromarray(np.load(data)["test_images"][0]).save(path)
    return path


def test_folders_that_hold_networks_are_left_alone(data: Path, runs: Path, tmp_path: Path) -> None:
    before = files(runs)
    some = ("--strategy", "rows:3", "--strategy", "columns:2", *TRAIN)
    assert "runs already holds a run or an ensemble" in refused(
        "train", data, "--strategy", "rows:3", "-o", runs, *TRAIN
    )
    assert "rows-2 already holds a run" in refused("train", data, *some, "-o", runs / "rows-2")
    shutil.copytree(runs / "columns-2", tmp_path / "half" / "columns-2")
    assert "columns-2 already holds a run" in refused("train", data, *some, "-o", tmp_path / "half")
    assert not (tmp_path / "half" / "rows-3").exists()
    assert files(runs) == before


def test_runs_that_are_called_alike_do_not_share_a_store(data: Path, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "again")
    said = refused("vote", runs, tmp_path / "again", data, "-o", tmp_path / "out", "--device", "cpu")
    assert "two of the runs are called alike (rows-2, " in said
    assert not (tmp_path / "out").exists()


def test_files_of_another_kind_are_not_written_over(evidence: list[Path], tmp_path: Path) -> None:
    kinds = {
        "v.jsonl": ("certify", evidence[0], "--patch", "1", "-o"),
        "p.html": ("report", evidence[0], "--patch", "1", "-o"),
        "m.png": ("explain", evidence[0], "--patch", "1", "--image", "0", "--save"),
    }
    (tmp_path / "mine").write_text("of value")
    for name, command in kinds.items():
        assert "mine: is there already and is something else" in refused(*command, tmp_path / "mine")
        (tmp_path / name).touch()
        for _ in range(2):
            done(*command, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 0
    assert (tmp_path / "mine").read_text() == "of value"


def test_a_folder_of_stores_is_not_taken_for_one(evidence: list[Path], tmp_path: Path) -> None:
    shutil.copytree(evidence[0], tmp_path / "some" / "a.zarr")
    assert "without zarr.json; give the stores in it, " in refused("certify", tmp_path / "some", "--patch", "1")
    (tmp_path / "none").mkdir()
    assert "without zarr.json; `majorcert vote` writes one" in refused("certify", tmp_path / "none", "--patch", "1")


def test_a_network_that_cannot_be_built_leaves_no_folder(data: Path, tmp_path: Path) -> None:
    how = ("--strategy", "rows:3", "--model", "mirror:crop", "--device", "cpu", "-o", tmp_path / "run")
    assert "`majorcert average` makes them" in refused("train", data, *how)
    assert not (tmp_path / "run").exists()


def test_training_on_the_test_images_is_remarked(data: Path, tmp_path: Path) -> None:
    quick = ("--strategy", "rows:3", "--epochs", "1", "--device", "cpu", "-o", tmp_path / "run")
    assert "these are the test images" in asked("train", data, "--split", "test", *quick).stderr


def test_killed_and_resumed_it_ends_where_an_uninterrupted_run_ends(
    data: Path, runs: Path, evidence: list[Path], picture: Path, tmp_path: Path
) -> None:
    run, log = tmp_path / "run", tmp_path / "run" / "log.jsonl"
    training = ("train", data, "--strategy", "blocks:3", "--out", run, *TRAIN)
    killed(*training, when=lambda: log.exists() and len(log.read_text().splitlines()) >= 3)
    assert not (run / "defender.json").exists()
    assert "already holds a run or an ensemble" in refused(*training)
    done(*training, "--resume")
    assert (run / "weights.safetensors").read_bytes() == (runs / "blocks-3" / "weights.safetensors").read_bytes()

    store = run / "pictures.npz-test.zarr"
    voting = ("vote", run, data, "--chunk", "3", "--device", "cpu")
    killed(*voting, when=lambda: len(list(store.glob("labels/c/*/*/*"))) >= 4)
    assert Store.open(store).missing()
    assert "incomplete" in refused("certify", store, "--patch", "1")
    done(*voting)
    assert files(store) == files(evidence[2])

    whole, again = (
        done("certify", *stores, "--patch", "1", "--patch", "1x2", "--json")
        for stores in (evidence, [*evidence[:2], store])
    )
    assert json.loads(whole) == json.loads(again)
    members = [word for name in ("rows-2", "columns-2") for word in ("--ensemble", runs / name)]
    predicted = done("predict", picture, "--ensemble", runs, "--patch", "1", "--json")
    assert predicted == done("predict", picture, *members, "--ensemble", run, "--patch", "1", "--json")


def test_certify_says_what_the_core_says(evidence: list[Path], data: Path, tmp_path: Path) -> None:
    out = tmp_path / "verdict.jsonl"
    lines = json.loads(done("certify", *evidence, "--patch", "2x3", "-o", out, "--json"))
    defenders, truth = [mc.Ballots.load(path) for path in evidence], np.load(data)["test_labels"]
    verdict = mc.majorcert(defenders, mc.Patch(2, 3))
    score = mc.score(verdict, truth)
    assert [(line["clean"], line["certified"], line["n"]) for line in lines] == [score]
    assert score.clean > 0.9
    assert 0 < score.certified < score.clean
    saved = mc.Verdict.load(out)
    np.testing.assert_array_equal(saved.certified, verdict.certified)
    assert saved.defenders[0]["weights_sha256"] == defenders[0].provenance["weights_sha256"]

    table = done(
        "certify", *evidence, "--patch", "1", "--patch", "2", "--method", "drs-margin", "--method", "drs-local"
    )
    assert [line.split("\t")[:3] for line in table.splitlines()][:3] == [
        ["defenders", "method", "patch"],
        ["rows:2", "drs-margin", "1x1"],
        ["columns:2", "drs-margin", "1x1"],
    ]
    assert len(table.splitlines()) == 1 + 2 * 2 * 3
    done("certify", *evidence, "--patch", "1", "--patch", "2", "-o", tmp_path / "several")
    assert [path.name for path in sorted((tmp_path / "several").iterdir())] == [
        "01-majorcert-exact-1x1.jsonl",
        "02-majorcert-exact-2x2.jsonl",
    ]
    assert "must be a folder" in refused("certify", *evidence, "--patch", "1", "--patch", "2", "-o", out)


def test_truth_is_found_given_or_done_without(evidence: list[Path], data: Path, tmp_path: Path) -> None:
    shutil.copytree(evidence[0], tmp_path / "e.zarr")
    (line,) = json.loads(done("certify", tmp_path / "e.zarr", "--patch", "1", "--json"))
    assert "clean" not in line
    unknown = asked("certify", tmp_path / "e.zarr", "--patch", "1")
    assert "true labels are not known" in unknown.stderr
    np.save(tmp_path / "labels.npy", np.load(data)["test_labels"])
    (given,) = json.loads(
        done("certify", tmp_path / "e.zarr", "--patch", "1", "--truth", tmp_path / "labels.npy", "--json")
    )
    (found,) = json.loads(done("certify", evidence[0], "--patch", "1", "--json"))
    assert given == found
    beside = evidence[0].parent / "pictures.npz-test.truth.json"
    other = {**json.loads(beside.read_text()), "images_sha256": "0" * 64}
    (tmp_path / "other.json").write_text(json.dumps(other))
    certify = ("certify", tmp_path / "e.zarr", "--patch", "1", "--truth")
    assert "of other images" in refused(*certify, tmp_path / "other.json")
    np.save(tmp_path / "few.npy", np.zeros(5, dtype=int))
    assert "has 5 labels, the evidence is of images up to number 99" in refused(*certify, tmp_path / "few.npy")
    np.save(tmp_path / "many.npy", np.append(np.load(data)["test_labels"], [0] * 20))
    longer = asked(*certify, tmp_path / "many.npy", "--json")
    assert json.loads(longer.stdout) == [found]
    assert longer.stderr.count("many.npy has 120 labels, and the evidence is of 100 images up to number 99") == 1
    assert "labels, and the evidence" not in asked(*certify, tmp_path / "labels.npy").stderr
    assert "labels, and the evidence" not in asked(*certify, beside).stderr
    np.save(tmp_path / "far.npy", np.full(100, 77))
    assert "got 77 to 77" in refused(*certify, tmp_path / "far.npy")


def test_certify_with_fragile_ballots(evidence: list[Path], tmp_path: Path) -> None:
    certify = ("certify", *evidence, "--patch", "1", "--method", "majorcert-exact", "--method", "drs-margin")
    ballots = [mc.Ballots.load(store) for store in evidence]
    for tolerance in ("0", "1e-3", "0.25"):
        lines = json.loads(done(*certify, "--fragile", tolerance, "--json"))
        tolerant = [each.tolerating(float(tolerance)) for each in ballots]
        assert [line["fragile"] for line in lines] == [float(tolerance)] * 4
        assert lines[0]["n_certified"] == mc.majorcert(tolerant, mc.Patch(1)).certified.sum()
        assert lines[1]["n_certified"] == mc.drs(tolerant[0], mc.Patch(1)).certified.sum()
    plain = json.loads(done(*certify, "--json"))
    assert "fragile" not in plain[0]
    assert plain[0]["n_certified"] > lines[0]["n_certified"], "a large tolerance should cost something"
    out = tmp_path / "verdict.jsonl"
    said = asked("certify", *evidence, "--patch", "1", "--fragile", "0.05", "-o", out)
    assert said.exit_code == 0
    n_fragile = ballots[0].tolerating(0.05).fragile.sum()
    assert f"rows:2: {n_fragile:,} of {ballots[0].distance.size:,} ballots are fragile (" in said.stderr
    assert [each["fragile"] for each in mc.Verdict.load(out).defenders] == [0.05] * 3
    done("verify", out, "--sample", "5", "--evidence", *evidence)
    said = done("info", evidence[0])
    n_fragile = int((ballots[0].distance <= np.float64(1e-3)).sum())
    assert f"fragile: {n_fragile} of {ballots[0].distance.size} ballots could change" in said


def test_a_tolerance_that_cannot_be_had_is_refused(evidence: list[Path], tmp_path: Path) -> None:
    for wrong in ("-1", "nan"):
        assert "a number of 0 or more" in refused("certify", *evidence, "--patch", "1", "--fragile", wrong)
    old = mc.Ballots.load(evidence[0])
    about = {"strategy": old.strategy, "image_size": old.image_size, "n_classes": old.n_classes}
    mc.Ballots(old.labels, **about).save(tmp_path / "old.zarr")
    said = refused("certify", tmp_path / "old.zarr", "--patch", "1", "--fragile", "1e-3")
    assert "recorded without distances" in said
    assert "fragile" not in done("info", tmp_path / "old.zarr")


def test_certify_and_info_need_no_torch(evidence: list[Path]) -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['PIL'] = None; from majorcert.commands.app import app; "
        f"app(['certify', {str(evidence[0])!r}, '--patch', '1', '--json'])"
    )
    found = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)[0]["n"] == 100
    code = "import sys; sys.modules['torch'] = None; from majorcert.commands.app import app; app(['demo'])"
    found = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "this needs torch, which is not installed; pip install 'majorcert[nets]' brings it" in found.stderr


def test_predict_says_what_the_certificate_is_about(runs: Path, data: Path, tmp_path: Path) -> None:
    images = np.load(data)["test_images"][:6]
    paths = [tmp_path / f"{k}.png" for k in range(6)]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    found = json.loads(done("predict", *paths, "--ensemble", runs, "--patch", "1", "--patch", "2x1", "--json"))
    ensemble = mc.Ensemble.load(runs)
    verdict = ensemble.certify(images, mc.Patch(1))
    assert [row["label"] for row in found] == [ensemble.class_names[label] for label in ensemble.predict(images)]
    assert [row["certified"]["1x1"] for row in found] == verdict.certified.tolist()
    assert [row["largest"] for row in found] == ensemble.largest_patch(images).tolist()
    table = asked("predict", paths[0], "--ensemble", runs, "--patch", "1")
    header = table.stdout.splitlines()[0].split("\t")
    assert header == ["image", "label", "certified 1x1 of 8x8", "largest certified of 8x8"]


def test_predict_tells_a_certificate_in_photo_pixels(runs: Path, data: Path, tmp_path: Path) -> None:
    """An enlarged picture: each network pixel is 10x10 photo pixels, and the filter spreads what is painted on them."""
    images = np.load(data)["test_images"]
    large = mc.Ensemble.load(runs).largest_patch(images)
    chosen = images[np.argsort(-large)[0]]
    Image.fromarray(chosen.repeat(10, axis=0).repeat(10, axis=1)[:, :72]).save(tmp_path / "photo.png")
    Image.fromarray(chosen).save(tmp_path / "small.png")
    files = (tmp_path / "photo.png", tmp_path / "small.png")
    photo, small = json.loads(done("predict", *files, "--ensemble", runs, "--patch", "3", "--json"))
    assert photo["photo_size"] == [80, 72]
    assert photo["photo_pixels"]["3x3"] == "11x11"
    assert small["photo_pixels"]["3x3"] == "3x3"
    assert small["largest"] > 0
    assert small["photo_pixels"]["{0}x{0}".format(small["largest"])] == "{0}x{0}".format(small["largest"])
    for row in (photo, small):
        assert "decoded photo after it was resized to 8x8" in row["about"]
    told = asked("predict", *files, "--ensemble", runs, "--patch", "1")
    assert "decoded photo after it was resized to 8x8" in told.stderr
    assert "yes, 1x1 on the photo" in told.stdout
    assert "1x1 on the photo" not in told.stdout.splitlines()[1]


def test_names_from_files_cannot_forge_what_is_printed(runs: Path, picture: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "forged")
    names = ["top\tyes, 8x8 on the photo\t8x8\nforged.png\ttop\tyes", "\x1b[2Jleft", "da\u202erk"]
    for card in (tmp_path / "forged").glob("*/defender.json"):
        card.write_text(json.dumps({**json.loads(card.read_text()), "class_names": names}))
    forged = tmp_path / "forged"
    predicted = asked("predict", picture, "--ensemble", forged, "--patch", "1")
    assert len(predicted.stdout.splitlines()) == 2
    assert {line.count("\t") for line in predicted.stdout.splitlines()} == {3}
    for said in (predicted.stdout, done("info", forged / "rows-2")):
        assert not set("\x1b\u202e") & set(said)
        assert "\nforged.png" not in said


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_predict_takes_images_of_any_size_and_mode(runs: Path, tmp_path: Path, mode: str) -> None:
    pixels = np.zeros((40, 50), dtype=np.uint16 if mode == "I;16" else np.uint8)
    pixels[:20] = 60000 if mode == "I;16" else 240
    image = Image.fromarray(pixels) if mode == "I;16" else Image.fromarray(pixels).convert(mode)
    path = tmp_path / ("image.jpg" if mode == "CMYK" else "image.png")
    image.save(path)
    (found,) = json.loads(done("predict", path, "--ensemble", runs, "--patch", "1", "--json"))
    assert found["label"] == "top"


def bomb(path: Path, side: int = 50_000) -> Path:
    """A PNG of a hundred bytes that claims so many pixels on each side."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b""))
    return path


def test_predict_refuses_what_is_no_image_and_names_it(runs: Path, picture: Path, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not an image")
    how = ("--ensemble", runs, "--patch", "1")
    assert "text.png" in refused("predict", picture, tmp_path / "text.png", *how)
    assert "missing.jpg" in refused("predict", tmp_path / "missing.jpg", *how)
    for side in (8_001, 10_000, 13_000, 50_000):
        said = refused("predict", bomb(tmp_path / "bomb.png", side), *how)
        assert f"bomb.png claims {side}x{side} pixels, over the limit of 64000000" in said
    left = asked("predict", tmp_path / "text.png", picture, "--skip-bad", "--json", *how)
    assert len(json.loads(left.stdout)) == 1
    assert "skipped" in left.stderr
    assert "no image left" in asked("predict", tmp_path / "text.png", "--skip-bad", *how).stderr


def test_mistakes_cost_one_sentence(
    runs: Path, evidence: list[Path], data: Path, picture: Path, tmp_path: Path
) -> None:
    out = ("--out", tmp_path / "new")
    assert "cannot read 'five' as a patch" in refused("certify", *evidence, "--patch", "five")
    assert "does not fit in a 8x8 image" in refused("certify", *evidence, "--patch", "9")
    assert "no such evidence store" in refused("certify", tmp_path / "none.zarr", "--patch", "1")
    assert "there is no folder" in refused("vote", tmp_path / "none", data)
    assert "there is no folder 'cifar99'" in refused("predict", picture, "--ensemble", "cifar99", "--patch", "1")
    assert "9x9 patch does not fit" in refused("predict", picture, "--ensemble", runs, "--patch", "9")
    # What can be seen from the words alone is said before an image is read.
    assert "cannot read 'stars:4' as a strategy" in refused("train", "nowhere", "--strategy", "stars:4", *out)
    assert "there is no recipe 'cake'" in refused("train", "nowhere", "--strategy", "rows:2", "--recipe", "cake", *out)
    assert "there is no model 'resnett'" in refused("train", "nowhere", "--model", "resnett", *out)
    assert "No module named 'no_nets'" in refused("train", "nowhere", "--model", "factory:no_nets:make", *out)
    assert "there is no device 'gpu'" in refused("train", "nowhere", "--device", "gpu", *out)
    assert "cannot find 'nowhere'" in refused("train", "nowhere", "--strategy", "rows:2", *out)
    assert "'canvas' or 'crop'" in refused("train", data, "--strategy", "rows:2", "--view", "map", *out)
    assert "there is no split 'tests'" in refused("vote", runs, data, "--split", "tests")
    assert "digits has the classes 0, 1, 2 and 7 more" in refused("vote", runs, "digits")
    assert "'48x64'" in refused("train", data, "--strategy", "rows:2", "--size", "big", *out)
    for option in ("--epochs", "--batch-size", "--width", "--checkpoint-every"):
        assert f"'{option}': Input should be greater than or equal to 1, got '0'" in refused(
            "train", data, option, "0", *out
        )
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_where_there_is_none_is_refused(runs: Path, data: Path, picture: Path, tmp_path: Path) -> None:
    wanted = ("--device", "cuda")
    for arguments in (
        ("train", data, "--strategy", "rows:2", "--out", tmp_path / "new"),
        ("vote", runs, data),
        ("predict", picture, "--ensemble", runs, "--patch", "1"),
    ):
        assert "torch sees 0 CUDA devices" in refused(*arguments, *wanted)


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    for name in ("one/a", "none/a", "none/b", "bad/a", "bad/b"):
        (tmp_path / name).mkdir(parents=True)
    for k in range(4):
        for name in ("one/a", "bad/a", "bad/b"):
            Image.fromarray(np.full((8, 8), 60 * k, dtype=np.uint8)).save(tmp_path / name / f"{k}.png")
    (tmp_path / "bad" / "b" / "2.png").write_bytes(b"\x89PNG damaged")
    bomb(tmp_path / "bad" / "b" / "3.png")
    training = ("--strategy", "rows:2", "--out", tmp_path / "run", "--split", "trainval", *KIND, "--epochs", "1")
    assert "at least two classes" in refused("train", tmp_path / "one", *training)
    assert "holds no readable image" in refused("train", tmp_path / "none", *training)
    assert "bad/b/2.png" in refused("train", tmp_path / "bad", *training)
    result = asked("train", tmp_path / "bad", *training, "--skip-bad")
    assert result.exit_code == 0, result.output
    assert re.search(r"skipped: .*bad/b/2.png[\s\S]*skipped: .*bad/b/3.png claims 50000x50000 pixels", result.stderr)


def test_weights_of_another_strategy_or_class_count_are_refused(
    runs: Path, data: Path, picture: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "rows-2", run)
    predicting = ("predict", picture, "--ensemble", run, "--patch", "1")
    done(*predicting)
    shutil.copy(runs / "columns-2" / "weights.safetensors", run)
    assert "SHA-256 differs" in refused(*predicting)
    assert "SHA-256 differs" in refused("vote", run, data)
    card = json.loads((run / "defender.json").read_text())
    (run / "defender.json").write_text(json.dumps({**card, "class_names": ["top", "left"]}))
    assert "2 classes" in refused(*predicting)
    assert "strategy was 'rows:2', now 'columns:2'" in refused(
        "train", data, "--strategy", "columns:2", "--out", runs / "rows-2", *TRAIN, "--resume"
    )


def test_a_full_disk_while_voting_loses_nothing(
    runs: Path, evidence: list[Path], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voting = ("vote", runs / "rows-2", data, "--chunk", "3", "--device", "cpu", "--out", tmp_path)
    write, room = Store.write, iter(range(5))

    def write_while_there_is_room(store: Store, *arguments: Any) -> None:
        if next(room, None) is None:
            raise StoreError(f"{store.path}: cannot write: {os.strerror(errno.ENOSPC)}")
        write(store, *arguments)

    monkeypatch.setattr(Store, "write", write_while_there_is_room)
    assert "No space left on device; all finished chunks are kept" in refused(*voting)
    monkeypatch.undo()
    assert len(Store.open(tmp_path / "rows-2.zarr").missing()) == 34 - 5
    done(*voting)
    assert files(tmp_path / "rows-2.zarr") == files(evidence[0])


def test_an_unreadable_checkpoint_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"rubbish")
    training = ("train", data, "--strategy", "rows:2", "--out", tmp_path, *TRAIN)
    assert "cannot read" in refused(*training, "--resume")


def test_processes_of_torchrun_share_the_voting(
    runs: Path, evidence: list[Path], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        done("vote", runs / "rows-2", data, "--chunk", "3", "--device", "cpu", "--out", tmp_path)
    assert files(tmp_path / "rows-2.zarr") == files(evidence[0])
    assert (tmp_path / "pictures.npz-test.truth.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("n_processes", [1, 2, 3])
def test_torchrun_writes_the_same_store(
    runs: Path, evidence: list[Path], data: Path, tmp_path: Path, n_processes: int
) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={n_processes}", "-m", "majorcert"]
    voting = ["vote", str(runs / "rows-2"), str(data), "--chunk", "3", "--device", "cpu", "--out", str(tmp_path)]
    subprocess.run([*command, *voting], env=ENVIRONMENT, capture_output=True, check=True)
    assert files(tmp_path / "rows-2.zarr") == files(evidence[0])


def test_options_reach_the_evidence(runs: Path, data: Path, tmp_path: Path) -> None:
    options = ("--scores", "--limit", "7", "--batch-size", "5", "--split", "val", "--json", "--device", "cpu")
    (store,) = json.loads(done("vote", runs / "rows-2", data, "--out", tmp_path, *options))["evidence"]
    facts = json.loads(done("info", store, "--json"))
    found = facts["images"], facts["scores"], facts["claims"]["split"], facts["state"]
    assert found == (7, True, "val", "complete")


def test_a_limit_draws_by_lot_over_all_classes_and_says_so(runs: Path, data: Path, tmp_path: Path) -> None:
    voting = ("vote", runs / "rows-2", data, "--limit", "9", "--device", "cpu", "--out")
    said = asked(*voting, tmp_path / "a")
    assert said.exit_code == 0, said.output
    assert "9 of 100 images, by lot (--seed 0)" in said.stderr
    drawn, truth = mc.Ballots.load(tmp_path / "a" / "rows-2.zarr"), np.load(data)["test_labels"]
    assert drawn.images.tolist() != list(range(9))
    assert np.bincount(truth[drawn.images]).tolist() == [3, 3, 3]
    assert drawn.provenance["split_size"] == 100
    other = "images_sha256: it is of other images, perhaps of another --limit); delete it or choose another path"
    assert other in refused("vote", runs / "rows-2", data, "--device", "cpu", "--out", tmp_path / "a")
    whole = mc.Ballots.load(runs / "rows-2" / "pictures.npz-test.zarr")
    np.testing.assert_array_equal(drawn.labels, whole[drawn.images].labels)
    (line,) = json.loads(done("certify", tmp_path / "a" / "rows-2.zarr", "--patch", "1", "--json"))
    assert line["n_correct"] == (drawn.label == truth[drawn.images]).sum()
    done("report", tmp_path / "a" / "rows-2.zarr", "--images", data, "--patch", "1", "-o", tmp_path / "page.html")
    out = tmp_path / "v.jsonl"
    done("certify", tmp_path / "a" / "rows-2.zarr", "--patch", "1", "-o", out)
    checking = ("verify", out, "--evidence", tmp_path / "a" / "rows-2.zarr", "--images", data, "--device", "cpu")
    assert "about 9 of the 100 images of the split" in asked(*checking, "--weights", runs / "rows-2").stderr
    done(*checking, "--weights", runs / "rows-2")
    done(*voting, tmp_path / "b", "--seed", "1")
    assert mc.Ballots.load(tmp_path / "b" / "rows-2.zarr").images.tolist() != drawn.images.tolist()


def test_a_defender_that_hardly_votes_is_told(runs: Path, data: Path, tmp_path: Path) -> None:
    done("average", runs / "rows-2", "--mirror", "--threshold", "0.9999999", "-o", tmp_path / "strict")
    said = asked("vote", tmp_path / "strict", data, "--device", "cpu")
    assert said.exit_code == 0, said.output
    ballots = mc.Ballots.load(tmp_path / "strict" / "pictures.npz-test.zarr")
    n = int(ballots.abstained().sum())
    assert n > 10
    assert f"rows:2: none of its views votes on {n} of 100 images ({n}.0%)" in said.stderr
    assert "a lower threshold would suit this data: `majorcert average RUN --threshold 0.2 -o OUT`" in said.stderr
    done("average", tmp_path / "strict", "--threshold", "0.2", "-o", tmp_path / "lower")
    assert "none of its views" not in asked("vote", tmp_path / "lower", data, "--device", "cpu").stderr
    assert "none of its views" not in asked("vote", runs / "rows-2", data, "--device", "cpu").stderr


def test_info_tells_what_things_are(runs: Path, evidence: list[Path], tmp_path: Path) -> None:
    done("certify", evidence[0], "--patch", "1", "-o", tmp_path / "v.jsonl")
    truth = evidence[0].parent / "pictures.npz-test.truth.json"
    kinds = {
        runs: "an ensemble",
        runs / "rows-2": "a trained defender",
        evidence[0]: "evidence",
        tmp_path / "v.jsonl": "a verdict",
        truth: "true labels",
    }
    for path, kind in kinds.items():
        assert json.loads(done("info", path, "--json"))["is"] == kind
        assert done("info", path).startswith(f"is: {kind}\n")
    assert "no such file or folder" in refused("info", tmp_path / "nothing")
    (tmp_path / "x.json").write_text("[]")
    assert "not an artifact of majorcert" in refused("info", tmp_path / "x.json")


def test_info_finds_damaged_weights(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "rows-2", tmp_path / "run")
    with (tmp_path / "run" / "weights.safetensors").open("ab") as file:
        file.write(b"x")
    result = asked("info", tmp_path / "run")
    assert result.exit_code == 1
    assert "weights: DAMAGED" in result.stdout
    assert "are not the ones" in result.stderr


def test_the_demo_ends_with_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = (lambda *kind: replace(recipes.digits(*kind), epochs=2), recipes.DIGITS_STRATEGIES)
    monkeypatch.setitem(recipes.RECIPES, "digits", short)
    for _ in range(2):  # the second time everything is there
        shown = done("demo", "--out", tmp_path / "demo")
    for line in ("DRS margin", "DRS local", "theorem 1 alone", "MajorCert, exact reach", "NOT certified", "seconds"):
        assert line in shown
    for side in (1, 2, 3):
        assert f"Against {side}x{side} patches MajorCert certifies " in shown
    page = tmp_path / "demo" / "report.html"
    assert f"Open {page} in a browser" in shown
    assert "<title>Handwritten digits</title>" in page.read_text()
    assert len(list((tmp_path / "demo" / "evidence").glob("*.zarr"))) == 3


@pytest.mark.slow
def test_the_demo_learns_the_digits(tmp_path: Path) -> None:
    shown = done("demo", "--out", tmp_path / "demo").splitlines()
    (line,) = [line for line in shown if "MajorCert, exact reach" in line]
    clean, at_1 = (float(word) for word in line.split("reach")[1].split()[:2])
    assert clean > 90
    assert at_1 > 40


def test_version_help_and_completion() -> None:
    assert done("--version") == f"majorcert {mc.__version__}\n"
    for verb in ("train", "vote", "certify", "predict"):
        assert f"Example: majorcert {verb}" in " ".join(done(verb, "--help").split())
    assert "the extra `imagenet`" in " ".join(done("predict", "--help").split())  # square brackets would be markup
    asking = {**ENVIRONMENT, "_MAJORCERT_COMPLETE": "source_bash"}
    command = [sys.executable, "-m", "majorcert"]
    script = subprocess.run(command, env=asking, capture_output=True, text=True, check=False).stdout
    assert "complete -o default -F _majorcert_completion majorcert" in script
    asking = {**ENVIRONMENT, "_MAJORCERT_COMPLETE": "complete_bash", "COMP_WORDS": "majorcert cert", "COMP_CWORD": "1"}
    assert subprocess.run(command, env=asking, capture_output=True, text=True, check=False).stdout.strip() == "certify"
