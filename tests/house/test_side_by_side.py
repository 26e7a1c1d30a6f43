"""The study that trains networks side by side keeps each, for as long as it was told to learn."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import majorcert as mc

SCRIPT = Path(__file__).parents[2] / "studies" / "voting" / "side_by_side.py"


def done(out: Path, *asked: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(SCRIPT), "digits", "rows:2", "columns:2", "-o", str(out), *asked]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def test_each_network_is_kept_in_half_precision(tmp_path: Path) -> None:
    said = done(tmp_path, "--epochs", "2", "--", "--recipe", "digits", "--seed", "3", "--width", "4")
    assert said.returncode == 0, said.stderr
    for name in ("rows-2", "columns-2"):
        kept = mc.Defender.load(tmp_path / name).blueprint
        assert kept is not None
        (learned,) = kept.training["members"]
        assert (learned["epochs_done"], learned["config"]["seed"], kept.model.width) == (2, 3, 4)
    assert json.loads((tmp_path / "epochs.json").read_text())["epochs"] == 2


def test_a_network_that_cannot_be_trained_is_told(tmp_path: Path) -> None:
    said = done(tmp_path, "--epochs", "2", "--", "--recipe", "none")
    assert said.returncode == 1
    assert "there is no recipe 'none'" in " ".join(said.stderr.split())


@pytest.mark.slow
def test_the_epochs_fill_the_time(tmp_path: Path) -> None:
    said = done(tmp_path, "--minutes", "0.7", "--", "--recipe", "digits", "--width", "4")
    assert said.returncode == 0, said.stderr
    told = json.loads((tmp_path / "epochs.json").read_text())
    assert told["epochs"] > 3
    kept = mc.Defender.load(tmp_path / "rows-2").blueprint
    assert kept is not None
    assert kept.training["members"][0]["epochs_done"] == told["epochs"]
