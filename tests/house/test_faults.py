"""The fault-injection run at a small size: `make faults` does all of it."""

import random
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from calls import script


@pytest.fixture(scope="module")
def faults() -> ModuleType:
    return script("benchmarks/faults.py")


@pytest.fixture(scope="module")
def reference(faults: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return faults.Undisturbed.make(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.slow
def test_no_damaged_file_gives_a_wrong_verdict(faults: ModuleType, reference: Any, tmp_path: Path) -> None:
    chance = random.Random(1)
    for tally in faults.damage_evidence(reference, tmp_path / "evidence", 24, chance):
        assert tally.wrong == []
        assert tally.said["refused by certify"] >= 10
    for tally in faults.damage_weights(reference, tmp_path / "weights", 6, chance):
        assert tally.wrong == []


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bytes(faults: ModuleType, reference: Any, tmp_path: Path) -> None:
    tally = faults.Tally("vote")
    faults.kill_vote(reference, tmp_path, 0.5, signal.SIGKILL, tally)
    assert tally.wrong == []


@pytest.mark.slow
def test_runs_killed_at_many_moments(faults: ModuleType, reference: Any, tmp_path: Path) -> None:
    for tally in faults.kills(reference, tmp_path, 3, random.Random(2)):
        assert tally.n - tally.said.get("ended before the signal", 0) == 3
        assert tally.wrong == []
