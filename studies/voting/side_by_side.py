"""One network of each strategy, side by side on one GPU, for as many epochs as there is time for.

    python studies/voting/side_by_side.py cifar10 columns:4 rows:5 --minutes 9 -o kept -- --recipe lean --compile

What is behind `--` goes to `majorcert train`. First all learn for some epochs that are thrown away: they tell how long
an epoch takes beside the others. Each network is kept in half precision, at OUT/columns-4 and so on, as soon as it has
learned, and OUT/epochs.json says for how long: `--epochs` instead of `--minutes` does it again, and with `--resume`
behind `--` goes on with the runs in OUT/runs. What is kept in OUT already is not trained again.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from majorcert.files.names import file_names
from majorcert.nets.averaging import averaged
from majorcert.nets.folders import DEFENDER, make_folder
from majorcert.nets.run_folder import LOG
from majorcert.reports.terminal import remark

TRAIN = sys.executable, "-m", "majorcert", "train"
MANY_EPOCHS = 10_000
TIMED = 3
"""So many epochs of each network, while all learn, tell how long one takes."""
SPARE = 1.04
"""A network may be slower than it was when it was timed."""
PAUSE = 0.2
"""Seconds between two looks at what the networks do."""

Learning = dict[Path, "subprocess.Popen[bytes]"]


@contextmanager
def learning(
    data: str, strategies: Sequence[str], folder: Path, epochs: int, given: Sequence[str]
) -> Iterator[Learning]:
    """A training of each strategy; those that are not done in the end write a checkpoint and stop."""
    make_folder(folder)
    found: Learning = {}
    try:
        for strategy, name in zip(strategies, file_names(strategies), strict=True):
            how = ["--strategy", strategy, "--epochs", str(epochs), "-o", str(folder / name), *given]
            with (folder / f"{name}.log").open("ab") as log:
                found[folder / name] = subprocess.Popen([*TRAIN, data, *how], stdout=log, stderr=subprocess.STDOUT)
        yield found
    finally:
        for process in found.values():
            process.send_signal(signal.SIGTERM)
        for process in found.values():
            process.wait()


def check(found: Learning) -> None:
    """Stop if a network cannot be trained."""
    for run, process in found.items():
        if process.poll():
            sys.exit(f"{run.name}: {run.with_suffix('.log').read_text()[-2000:]}")


def seconds(run: Path) -> list[float]:
    """Of each epoch that a run has learned."""
    lines = (run / LOG).read_text().splitlines() if (run / LOG).is_file() else []
    return [json.loads(line)["seconds"] for line in lines]


def epochs_for(minutes: float, data: str, strategies: Sequence[str], given: Sequence[str]) -> int:
    """About how many epochs all can learn for, side by side, until so many minutes from now have gone."""
    begun = time.monotonic()
    with TemporaryDirectory() as beside, learning(data, strategies, Path(beside), MANY_EPOCHS, given) as found:
        while not all(map(seconds, found)):
            check(found)
            time.sleep(PAUSE)
        skipped, ready = {run: len(seconds(run)) for run in found}, time.monotonic() - begun
        while any(len(seconds(run)) < n + TIMED for run, n in skipped.items()):
            check(found)
            time.sleep(PAUSE)
        each = mean(median(seconds(run)[n:]) for run, n in skipped.items())
    left = 60 * minutes - (time.monotonic() - begun) - ready
    remark(f"an epoch takes {each:.2f} s beside the others, and all were ready after {ready:.0f} s")
    return max(1, int(left / (SPARE * each)))


def learned(epochs: int, data: str, strategies: Sequence[str], out: Path, given: Sequence[str]) -> None:
    """Train all, and keep each that is done."""
    with learning(data, strategies, out / "runs", epochs, given) as found:
        left = dict(found)
        while left:
            time.sleep(PAUSE)
            for run in [run for run, process in left.items() if process.poll() == 0]:
                averaged([run], out / run.name, bits=16)
                remark(f"kept {out / run.name}")
                del left[run]
            check(left)


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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    make_folder(asked.out)
    names = dict(zip(asked.strategies, file_names(asked.strategies), strict=True))
    left = [strategy for strategy, name in names.items() if not (asked.out / name / DEFENDER).is_file()]
    if not left:
        parser.error(f"{asked.out} has all of them already")
    begun, epochs = time.monotonic(), asked.epochs
    if epochs is None:
        epochs = epochs_for(asked.minutes, asked.data, left, given)
    remark(f"{epochs} epochs of {', '.join(left)}")
    learned(epochs, asked.data, left, asked.out, given)
    told = {"epochs": epochs, "minutes": round((time.monotonic() - begun) / 60, 1)}
    (asked.out / "epochs.json").write_text(json.dumps(told) + "\n")
    remark(f"{len(left)} networks after {told['minutes']} minutes")


if __name__ == "__main__":
    main()
