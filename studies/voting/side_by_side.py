"""One network of each strategy, side by side on one GPU, for as many epochs as there is time for.

    python studies/voting/side_by_side.py cifar10 columns:4 rows:5 --minutes 9 -o kept -- --recipe lean --compile

What is behind `--` goes to `majorcert train`. First all learn for some epochs that are thrown away: they tell how long
an epoch takes beside the others. Each network is kept in half precision, at OUT/columns-4 and so on, as soon as it has
learned, and OUT/epochs.json says for how long: `--epochs` instead of `--minutes` does it again.
"""

import argparse
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from majorcert.files.names import file_names
from majorcert.nets.averaging import averaged
from majorcert.nets.run_folder import LOG
from majorcert.reports.terminal import remark

TIMED = 3
"""So many epochs of each network, while all learn, tell how long one takes."""
SPARE = 1.04
"""A network may be slower than it was when it was timed."""
PAUSE = 0.2
"""Seconds between two looks at what the networks do."""


def started(data: str, strategy: str, run: Path, epochs: int, given: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "majorcert", "train", data, "--strategy", strategy, "--epochs", str(epochs)]
    with run.with_suffix(".log").open("wb") as log:
        return subprocess.Popen([*command, "-o", str(run), *given], stdout=log, stderr=subprocess.STDOUT)


def seconds(run: Path) -> list[float]:
    """Of each epoch that a run has learned."""
    lines = (run / LOG).read_text().splitlines() if (run / LOG).is_file() else []
    return [json.loads(line)["seconds"] for line in lines]


def epochs_for(minutes: float, data: str, strategies: Sequence[str], folder: Path, given: Sequence[str]) -> int:
    """How many epochs all can learn for, side by side, until so many minutes from now have gone."""
    begun, runs = time.monotonic(), [folder / name for name in file_names(strategies)]
    with ExitStack() as stack:
        learning = [started(data, cut, run, 10_000, given) for cut, run in zip(strategies, runs, strict=True)]
        for process in learning:
            stack.callback(process.wait)
            stack.callback(process.send_signal, signal.SIGTERM)  # each writes a checkpoint, and ends
        skipped: list[int] = []
        while not skipped or any(len(seconds(run)) < n + TIMED for run, n in zip(runs, skipped, strict=True)):
            check(learning, runs)
            if not skipped and all(map(seconds, runs)):
                skipped, ready = [len(seconds(run)) for run in runs], time.monotonic() - begun
            time.sleep(PAUSE)
        each = mean(median(seconds(run)[n:]) for run, n in zip(runs, skipped, strict=True))
    left = 60 * minutes - (time.monotonic() - begun) - ready
    remark(f"an epoch takes {each:.2f} s beside the others, and all were ready after {ready:.0f} s")
    return max(1, math.floor(left / (SPARE * each)))


def check(learning: Sequence[subprocess.Popen[bytes]], runs: Sequence[Path]) -> None:
    """Stop if a network cannot be trained."""
    for process, run in zip(learning, runs, strict=True):
        if process.poll():
            sys.exit(f"{run.name}: {run.with_suffix('.log').read_text()[-2000:]}")


def learned(epochs: int, data: str, strategies: Sequence[str], folder: Path, out: Path, given: Sequence[str]) -> None:
    """Train all, and keep each that is done."""
    runs = [folder / name for name in file_names(strategies)]
    learning = [started(data, cut, run, epochs, given) for cut, run in zip(strategies, runs, strict=True)]
    kept = set[Path]()
    while len(kept) < len(runs):
        time.sleep(PAUSE)
        check(learning, runs)
        for process, run in zip(learning, runs, strict=True):
            if process.poll() == 0 and run not in kept:
                averaged([run], out / run.name, bits=16)
                kept.add(run)
                remark(f"kept {out / run.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("strategies", nargs="+")
    parser.add_argument("-o", "--out", type=Path, required=True)
    time_or_length = parser.add_mutually_exclusive_group(required=True)
    time_or_length.add_argument("--minutes", type=float)
    time_or_length.add_argument("--epochs", type=int)
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    asked, given = parser.parse_args(sys.argv[1:cut]), sys.argv[cut + 1 :]
    begun = time.monotonic()
    with TemporaryDirectory() as beside:
        epochs = asked.epochs
        if epochs is None:
            (Path(beside) / "timed").mkdir()
            epochs = epochs_for(asked.minutes, asked.data, asked.strategies, Path(beside) / "timed", given)
        remark(f"{epochs} epochs")
        learned(epochs, asked.data, asked.strategies, Path(beside), asked.out, given)
    told = {"epochs": epochs, "minutes": round((time.monotonic() - begun) / 60, 1)}
    (asked.out / "epochs.json").write_text(json.dumps(told) + "\n")
    remark(f"{len(asked.strategies)} networks after {told['minutes']} minutes")


if __name__ == "__main__":
    main()
