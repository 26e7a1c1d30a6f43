"""`majorcert attack` on small ensembles: it breaks what is not certified and nothing else, and a watchdog looks on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calls import asked, refused, told

import majorcert as mc
from majorcert.attacks import group_attack, run, watchdog
from majorcert.attacks.logbook import write_png
from majorcert.attacks.paint import paste
from majorcert.nets.data import load
from majorcert.nets.sources.decode import read_image
from majorcert.nets.undefended import load_undefended

torch.set_num_threads(1)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(mc.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
PATCH = ("--patch", "1", "--device", "cpu")
QUICK = (*PATCH, "--restarts", "3", "--steps", "8", "--placements", "2", "--probed", "5", "--cheap", "6")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "attack.jsonl").read_text().splitlines()[1:]]


def saved(path: Path) -> torch.Tensor:
    return torch.tensor(read_image(path))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three defenders of handwritten digits, and a network that sees the whole image."""
    out = tmp_path_factory.mktemp("runs")
    how = ("--split", "trainval", "--width", "8", "--epochs", "12", "--device", "cpu")
    defended = [word for spec in ("rows:2", "columns:2", "columns:3") for word in ("--strategy", spec)]
    for name, strategies in (("defended", defended), ("undefended", ["--strategy", "columns:8/8"])):
        assert asked("train", "digits", *strategies, *how, "--out", out / name).exit_code == 0
    return out


@pytest.fixture(scope="module")
def attacked(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("attacked") / "out"
    both = (runs / "defended", "digits", "--undefended", runs / "undefended", "--images", 40)
    return out, told("attack", *both, *QUICK, "--out", out)


def test_the_attack_breaks_uncertified_images_and_no_certified_one(attacked: tuple[Path, dict[str, Any]]) -> None:
    out, summary = attacked
    rows = rows_of(out)
    assert len(rows) == 40
    assert json.loads((out / "attack.json").read_text()) == summary
    defended, undefended = summary["defended"], summary["undefended"]
    assert defended["n_certified_attacked"] > 0
    assert defended["n_certified_flipped"] == 0
    assert defended["n_flipped"] > 0
    assert undefended["under_attack"] < undefended["clean"]
    assert defended["certified"] <= defended["under_attack"]
    assert undefended["certified"] == 0
    for row in rows:
        assert row["attacked"] == (row["predicted"] == row["truth"])
        assert not (row["flipped"] and (row["certified"] or not row["attacked"]))
        assert bool(row["steps"]) == (row["attacked"] and row["by"] in ("", "gradient"))
    assert defended["broken"] == undefended["broken"] == []
    assert {row["by"] for row in rows if row["flipped"]} <= {"solid", "noise", "transplant", "gradient"}


def test_info_tells_what_the_attack_came_to(attacked: tuple[Path, dict[str, Any]]) -> None:
    out, summary = attacked
    facts = told("info", out)
    assert facts["images"] == 40
    for name in ("undefended", "defended"):
        assert facts[name]["n_flipped"] == summary[name]["n_flipped"]
        assert facts[name]["under_attack"] == summary[name]["under_attack"]
    assert facts["painted"] == summary["defended"]["n_flipped"]
    assert told("info", out / "undefended")["rows"] == {"defended": 40}


def test_the_painted_images_differ_within_the_patch_alone_and_are_predicted_as_recorded(
    attacked: tuple[Path, dict[str, Any]], runs: Path
) -> None:
    test = load("digits", "test")
    for folder, name in ((attacked[0], "defended"), (attacked[0] / "undefended", "undefended")):
        ensemble = mc.Ensemble.load(runs / name) if name == "defended" else load_undefended(runs / name)
        flipped = [row for row in rows_of(folder) if row["flipped"]]
        assert flipped
        assert len(list((folder / "painted").iterdir())) == len(flipped)
        for row in flipped:
            painted, clean = saved(folder / "painted" / f"{row['image']:06d}.png"), test.images[row["image"]]
            top, left = row["placement"]
            changed = (painted != clean).any(dim=0)
            changed[top, left] = False
            assert not changed.any()
            assert int(ensemble.predict(painted[None])[0]) == row["label"] != row["predicted"]
            assert int(ensemble.predict(clean[None])[0]) == row["predicted"]


def test_an_undefended_network_says_its_top_label(runs: Path) -> None:
    images = load("digits", "test").images // 4  # so dark that the network is not sure
    trained, plain = mc.Defender.load(runs / "undefended"), load_undefended(runs / "undefended")
    top = plain.scores(images)[:, 0].argmax(axis=1)
    np.testing.assert_array_equal(plain.predict(images), top)
    assert (trained.predict(images) != top).any(), "several labels over the threshold, or none"
    assert plain.weights_sha256 == trained.weights_sha256


def test_the_certificates_are_those_of_the_core(attacked: tuple[Path, dict[str, Any]], runs: Path) -> None:
    test, rows = load("digits", "test"), rows_of(attacked[0])
    verdict = mc.Ensemble.load(runs / "defended").certify(test.images[[row["image"] for row in rows]], mc.Patch(1))
    assert [row["certified"] for row in rows] == verdict.certified.tolist()
    assert [row["predicted"] for row in rows] == verdict.predicted.tolist()


@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_rows(
    attacked: tuple[Path, dict[str, Any]], runs: Path, tmp_path: Path
) -> None:
    command = ("attack", runs / "defended", "digits", "--images", 40, *QUICK, "--out", tmp_path)
    words = [sys.executable, "-m", "majorcert", *map(str, command)]
    process = subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    record, deadline = tmp_path / "attack.jsonl", time.monotonic() + 60
    while not record.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    stderr = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, stderr
    assert 0 < len(rows_of(tmp_path)) < 40
    told(*command)
    assert rows_of(tmp_path) == rows_of(attacked[0])
    for file in (attacked[0] / "painted").iterdir():
        assert (tmp_path / "painted" / file.name).read_bytes() == file.read_bytes()
    assert "record of another attack: steps was 8, now it is 9; give another folder" in refused(*command, "--steps", 9)
    record.write_text("no JSON")
    assert "not the record of an attack, or damaged" in refused(*command)


def planted(*arguments: Any, **options: Any) -> mc.Verdict:
    """A certificate that is not sound: it says that every image is certified."""
    verdict = mc.majorcert(*arguments, **options)
    return replace(verdict, certified=np.ones_like(verdict.certified))


def test_a_certified_label_that_changes_is_a_hard_failure(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "majorcert", planted)
    result = asked("attack", runs / "defended", "digits", "--limit", 16, *QUICK, "--out", tmp_path)
    assert result.exit_code == 1
    assert "please report it with the folder" in result.stderr
    flipped = [row for row in rows_of(tmp_path) if row["flipped"]]
    assert flipped
    ensemble, test = mc.Ensemble.load(runs / "defended"), load("digits", "test")
    for row in flipped:
        assert row["broken"] == [watchdog.FLIPPED]
        folder = tmp_path / "broken" / f"{row['image']:06d}"
        facts = json.loads((folder / "facts.json").read_text())
        assert facts["image"] == row["image"]
        assert facts["certified"]
        assert torch.equal(saved(folder / "clean.png"), test.images[row["image"]])
        painted, piece = saved(folder / "painted.png"), saved(folder / "patch.png")
        where = (torch.tensor([side]) for side in facts["placement"])
        assert torch.equal(paste(test.images[row["image"]][None], piece[None], *where)[0], painted)
        for name, image in (("before", test.images[row["image"]]), ("after", painted)):
            for place, ballots in enumerate(ensemble.ballots(image[None]), start=1):
                np.testing.assert_array_equal(mc.Ballots.load(folder / f"{name}-{place}.zarr").labels, ballots.labels)
    again = asked("attack", runs / "defended", "digits", "--limit", 16, *QUICK, "--out", tmp_path)
    assert again.exit_code == 1, "a broken promise is not forgotten when the same command is run again"


def test_a_view_that_votes_otherwise_untouched_is_a_hard_failure(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beside(images: torch.Tensor, patches: torch.Tensor, top: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
        painted = paste(images, patches, top, left)
        painted[:, :, 0, 0] = 255
        painted[:, :, -1, -1] = 255
        return painted

    monkeypatch.setattr(group_attack, "paste", beside)
    result = asked("attack", runs / "defended", "digits", "--limit", 16, *QUICK, "--out", tmp_path)
    assert result.exit_code == 1
    assert any(watchdog.MOVED in row["broken"] for row in rows_of(tmp_path))
    assert list((tmp_path / "broken").iterdir())


def test_a_saved_image_that_is_not_what_was_found_is_noticed(
    attacked: tuple[Path, dict[str, Any]], runs: Path, tmp_path: Path
) -> None:
    command = ("attack", runs / "defended", "digits", "--limit", 16, *QUICK, "--out", tmp_path)
    told(*command)
    row = next(row for row in rows_of(tmp_path) if row["flipped"])
    write_png(tmp_path / "painted" / f"{row['image']:06d}.png", load("digits", "test").images[row["image"]])
    result = asked(*command)
    assert result.exit_code == 1
    assert f"image {row['image']}: the saved file is missing, or not predicted as it was" in result.stderr


def test_what_cannot_be_written_is_refused_before_any_work(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        command = ("attack", runs / "defended", "digits", "--limit", 16, *QUICK, "--out", out)
        assert "file: is a file, and a folder for the attack was to be written" in refused(*command)


def test_an_attack_on_both_is_not_continued_on_one(attacked: tuple[Path, dict[str, Any]], runs: Path) -> None:
    command = ("attack", runs / "defended", "digits", "--images", 40, *QUICK, "--out", attacked[0])
    assert "the record of an attack on an undefended classifier as well" in refused(*command)


def test_an_interrupted_attack_says_how_far_it_got(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Any, __: Any, progress: Any) -> None:
        progress(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(run.AttackRun, "run", interrupt)
    result = asked("attack", runs / "defended", "digits", "--limit", 16, *QUICK, "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "stopped after 0 of 16 images (defended); the same command goes on" in result.stderr


def test_the_least_effort_works(runs: Path, tmp_path: Path) -> None:
    least = ("--restarts", 1, "--steps", 1, "--placements", 1, "--probed", 1, "--cheap", 1)
    found = told("attack", runs / "defended", "digits", "--images", 3, *PATCH, *least, "--out", tmp_path)
    assert found["n"] == 3


def test_a_record_that_lacks_images_is_refused(runs: Path, tmp_path: Path) -> None:
    command = ("attack", runs / "defended", "digits", "--images", 20, *QUICK, "--out", tmp_path)
    told(*command)
    record = tmp_path / "attack.jsonl"
    lines = record.read_text().splitlines(keepends=True)
    for kept in (lines[:-1], lines[:2] + lines[3:], lines[:1] + lines[2:17]):
        record.write_text("".join(kept))
        assert "it does not have a row for each image" in refused(*command)


def test_a_broken_promise_that_was_kept_is_not_forgotten(runs: Path, tmp_path: Path) -> None:
    """As after a run that was killed between finding it and writing its row."""
    command = ("attack", runs / "defended", "digits", "--limit", 16, *QUICK, "--out", tmp_path)
    told(*command)
    (tmp_path / "broken" / "000015").mkdir(parents=True)
    result = asked(*command)
    assert result.exit_code == 1
    assert "broken promises, defended: 1" in result.stderr


def test_what_makes_no_sense_is_refused_in_one_sentence(runs: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    attack = ("attack", runs / "defended", "digits", *out, "--device", "cpu")
    assert "a 9x9 patch does not fit in a 8x8 image" in refused(*attack, "--patch", "9")
    assert "the precision is 'float32' or 'bfloat16' or 'float16', got 'half'" in refused(
        *attack, "--precision", "half"
    )
    assert "there is no folder 'nothing'" in refused("attack", "nothing", "digits", *out)
    whole = ("--undefended", runs / "defended" / "rows-2")
    assert "is a defender (rows:2), not an undefended classifier; train one for 8x8 images" in refused(*attack, *whole)
    test = load("digits", "test")
    unlabelled = tmp_path / "unlabelled.npz"
    np.savez(unlabelled, images=test.images[:, 0].numpy(), class_names=np.array(test.class_names))
    assert "has no labels; an attack needs them" in refused(
        "attack", runs / "defended", unlabelled, *out, "--split", "trainval"
    )
    assert not (tmp_path / "out").exists()


def test_help_has_an_example() -> None:
    result = asked("attack", "--help")
    assert result.exit_code == 0
    assert "Example: majorcert attack" in " ".join(result.stdout.split())
