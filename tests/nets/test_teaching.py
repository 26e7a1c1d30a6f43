"""A network that learns what another one says: it ends with the teacher's labels, whatever the images are labelled."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import majorcert as mc
from majorcert.commands.app import app
from majorcert.errors import ModelError
from majorcert.nets import learner as learner_module
from majorcert.nets.averaging import averaged
from majorcert.nets.data import Dataset
from majorcert.nets.learner import Learner
from majorcert.nets.models import build
from majorcert.nets.processes import Processes
from majorcert.nets.recipes import recipe

torch.set_num_threads(1)
NAMES = ("left", "right")
QUICK: dict[str, Any] = {"recipe": "digits", "device": "cpu", "width": 4, "batch_size": 16, "flip": False}


def sides(n: int = 64, *, wrong: bool = False) -> Dataset:
    """Images that are bright on one side."""
    labels = torch.arange(n) % 2
    noise = torch.randint(0, 100, (n, 1, 8, 8), generator=torch.Generator().manual_seed(n), dtype=torch.uint8)
    noise[labels == 0, :, :, :4] += 120
    noise[labels == 1, :, :, 4:] += 120
    return Dataset(noise, 1 - labels if wrong else labels, NAMES, "sides", "train")


@pytest.mark.parametrize("spec", ["masks:2/2", "columns:3"])
def test_what_is_learned_is_what_the_teacher_says(tmp_path: Path, spec: str) -> None:
    mc.train(sides(), tmp_path / "teacher", strategies=[spec], epochs=16, **QUICK)
    student = {"teacher": tmp_path / "teacher", "strategies": [spec], **QUICK}
    mc.train(sides(wrong=True), tmp_path / "student", epochs=16, seed=1, **student)
    fresh = sides(40)
    said = [mc.Ensemble.load(tmp_path / name).predict(fresh.images) for name in ("teacher", "student")]
    assert fresh.labels is not None
    assert (said[0] == fresh.labels.numpy()).mean() > 0.9
    assert (said[1] == said[0]).mean() > 0.9
    about = json.loads((tmp_path / "student" / "defender.json").read_text())["training"]
    assert len(about["taught_by"]) == 64
    averaged([tmp_path / "teacher", tmp_path / "student"], tmp_path / "both")
    with pytest.raises(ModelError, match="taught_by was"):
        mc.train(
            sides(wrong=True),
            tmp_path / "student",
            epochs=17,
            seed=1,
            resume=True,
            **{**student, "teacher": tmp_path / "both"},
        )


def test_who_says_what_the_teacher_says_has_nothing_to_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(recipe("digits", "masks:2/2", 1, 2), batch_size=64)
    torch.manual_seed(3)
    teacher, slopes = build(config.model), []
    monkeypatch.setattr(
        learner_module, "descend", lambda _config, _lr, _weights, gradients, *_: slopes.append(gradients)
    )
    for taught in ({}, {"teacher": teacher}):
        learner = Learner(config, sides(), Processes("cpu"), start=teacher, **taught)
        learner.model.eval()  # so that both normalise alike
        learner.prepare(torch.arange(64), 0, 1)
        learner.step()
    assert max(float(each.abs().max()) for each in slopes[0]) > 1e-3
    assert max(float(each.abs().max()) for each in slopes[1]) < 1e-6


@pytest.mark.parametrize(
    ("spec", "message"),
    [("columns:4", "its strategy is columns:3, and here it is columns:4"), ("masks:2/2", "its view is crop, and here")],
)
def test_a_teacher_of_other_views_is_refused(tmp_path: Path, spec: str, message: str) -> None:
    mc.train(sides(), tmp_path / "teacher", strategies=["columns:3"], epochs=1, **QUICK)
    with pytest.raises(ModelError, match=message):
        mc.train(sides(), tmp_path / "run", teacher=tmp_path / "teacher", strategies=[spec], epochs=1, **QUICK)
    several = ["columns:3", "rows:3"]
    with pytest.raises(ModelError, match="has 1, and to train there are 2"):
        mc.train(sides(), tmp_path / "run", teacher=tmp_path / "teacher", strategies=several, epochs=1, **QUICK)
    assert not (tmp_path / "run").exists()


def test_masks_of_a_teacher_may_be_others_and_bounds_have_none(tmp_path: Path) -> None:
    folder, out = tmp_path / "teacher", tmp_path / "run"
    mc.train(sides(), folder, strategies=["masks:2/2"], epochs=1, **QUICK)
    run = ["train", "digits", "--strategy", "masks:3/2", "--teacher", str(folder), "--out", str(out), "--epochs", "1"]
    found = CliRunner().invoke(app, run)
    assert found.exit_code == 2
    assert "its class_names is ('left', 'right'), and here" in found.stderr
    mc.train(sides(), out, teacher=folder, strategies=["masks:3/2"], epochs=1, **QUICK)
    with pytest.raises(ModelError, match="bounds are not learned from a teacher, got bounds:2"):
        mc.train(sides(), tmp_path / "ibp", teacher=folder, recipe="ibp", strategies=["bounds:2"], device="cpu")
