"""The study that trains networks side by side keeps each, for as long as it was told to learn."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
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


def test_whoever_is_done_is_kept_when_another_cannot_be_trained(tmp_path: Path) -> None:
    """Nobody is left running, and the same command trains what is missing."""
    given = "--epochs", "1", "--", "--recipe", "digits", "--width", "4"
    assert done(tmp_path, *given).returncode == 0
    shutil.rmtree(tmp_path / "columns-2")
    shutil.rmtree(tmp_path / "runs")
    before = (tmp_path / "rows-2" / "weights.safetensors").read_bytes()
    said = done(tmp_path, *given[:3], "--recipe", "none")
    assert said.returncode == 1
    assert "columns-2: " in said.stderr
    assert "there is no recipe 'none'" in " ".join(said.stderr.split())
    again = done(tmp_path, *given)
    assert again.returncode == 0, again.stderr
    assert "1 epochs of columns:2\n" in again.stderr
    assert (tmp_path / "rows-2" / "weights.safetensors").read_bytes() == before
    assert mc.Defender.load(tmp_path / "columns-2").blueprint is not None
    assert done(tmp_path, *given).returncode == 2


def test_a_stopped_study_leaves_nobody_running(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "digits", "rows:2", "-o", str(tmp_path), "--epochs", "9999"]
    with subprocess.Popen([*command, "--", "--recipe", "digits", "--width", "4"], stderr=subprocess.PIPE) as study:
        log = tmp_path / "runs" / "rows-2" / "log.jsonl"
        while not (log.is_file() and log.read_text()):
            assert study.poll() is None
            time.sleep(0.1)
        study.send_signal(signal.SIGTERM)
        assert study.wait(timeout=60) == 128 + signal.SIGTERM
    assert (tmp_path / "runs" / "rows-2" / "checkpoint.safetensors").is_file()
    assert not (tmp_path / "rows-2").exists()


@pytest.mark.slow
def test_the_epochs_fill_the_time(tmp_path: Path) -> None:
    said = done(tmp_path, "--minutes", "0.7", "--", "--recipe", "digits", "--width", "4")
    assert said.returncode == 0, said.stderr
    told = json.loads((tmp_path / "epochs.json").read_text())
    assert told["epochs"] > 3
    kept = mc.Defender.load(tmp_path / "rows-2").blueprint
    assert kept is not None
    assert kept.training["members"][0]["epochs_done"] == told["epochs"]
