"""Kills, a full disk and damaged files, and what comes out: `make faults`, or python benchmarks/faults.py.

Real `majorcert` processes on the embedded digits are killed at random moments and started again. At every such
moment the half-written evidence is certified: that must be refused, or give the verdict of the undisturbed run. In
the end all must be, byte for byte, as if nothing had happened, and nothing that was finished may be done twice.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from majorcert.commands.app import app

EPOCHS, STRATEGY, IMAGES_PER_CHUNK, PATCH = "30", "blocks:4", "4", "1"
TRAIN = ["train", "digits", "--strategy", STRATEGY, "--epochs", EPOCHS, "--checkpoint-every", "1", "--device", "cpu"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}

Snapshot = dict[str, tuple[int, bytes]]
"""Of every finished file: when it was written, and its content."""


@dataclass
class Tally:
    """What came of one kind of fault."""

    fault: str
    n: int = 0
    said: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def count(self, what: str) -> None:
        self.said[what] = self.said.get(what, 0) + 1

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)

    def __str__(self) -> str:
        said = ", ".join(f"{what} {n}" for what, n in sorted(self.said.items()))
        return f"{self.fault:<52} {self.n:>3}  {len(self.wrong):>5}  {said}"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "majorcert", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), env=ENVIRONMENT, capture_output=True, text=True, check=False)


def vote_into(run_dir: Path, out: Path) -> list[str]:
    return ["vote", str(run_dir), "digits", "--chunk", IMAGES_PER_CHUNK, "--device", "cpu", "--out", str(out)]


def files(folder: Path) -> Snapshot:
    """What is there and finished; what a killed writer leaves half done is named .partial or .part."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(name.endswith((".partial", ".part")) for name in path.parts)
    }


def contents(snapshot: Snapshot, *names: str) -> dict[str, bytes]:
    return {name: content for name, (_, content) in snapshot.items() if not names or name in names}


def killed_within(begun: Path, work_s: float, moment: float, how: signal.Signals, *arguments: str) -> int | None:
    """Start a command and kill it at a moment (0 to 1) of its work, which begins when a path appears."""
    process = subprocess.Popen(
        command(*arguments), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not begun.exists() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(moment * work_s)
    process.send_signal(how)
    return process.wait()


def seconds_of_work(begun: Path, *arguments: str) -> float:
    """Run a command to its end; how long it worked after the path had appeared."""
    process = subprocess.Popen(
        command(*arguments), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not begun.exists() and process.poll() is None:
        time.sleep(0.005)
    start = time.perf_counter()
    if process.wait() != 0:
        raise SystemExit(f"the undisturbed run failed: {arguments}")
    return time.perf_counter() - start


@dataclass(frozen=True)
class Undisturbed:
    """The run that nothing happened to, which all others are compared with."""

    folder: Path
    trained: Snapshot
    voted: Snapshot
    verdict: bytes
    train_s: float
    vote_s: float

    @classmethod
    def make(cls, folder: Path) -> "Undisturbed":
        run_dir, evidence = folder / "run", folder / "evidence"
        train_s = seconds_of_work(run_dir / "log.jsonl", *TRAIN, "--out", str(run_dir))
        vote_s = seconds_of_work(evidence / "run.zarr", *vote_into(run_dir, evidence))
        verdict = folder / "verdict.jsonl"
        if run("certify", str(evidence / "run.zarr"), "--patch", PATCH, "-o", str(verdict)).returncode:
            raise SystemExit("the undisturbed evidence cannot be certified")
        return cls(folder, files(run_dir), files(evidence), verdict.read_bytes(), train_s, vote_s)


def certified_or_refused(store: Path, expected: bytes, tally: Tally) -> None:
    """Certify what is there: a clear refusal or the right verdict, and nothing else."""
    out = store.parent.parent / "attempt.jsonl"
    out.unlink(missing_ok=True)
    done = run("certify", str(store), "--patch", PATCH, "-o", str(out))
    if done.returncode == 0:
        tally.count("certified rightly")
        tally.expect(out.read_bytes() == expected, f"another verdict of {store}")
    else:
        tally.count("refused by certify")
        clear = done.returncode == 2 and not out.exists() and "Traceback" not in done.stderr
        tally.expect(clear, f"certify failed otherwise: {done.stderr[-300:]}")


def kill_vote(reference: Undisturbed, folder: Path, moment: float, how: signal.Signals, tally: Tally) -> None:
    evidence, arguments = folder / "evidence", vote_into(reference.folder / "run", folder / "evidence")
    tally.n += 1
    code = killed_within(evidence / "run.zarr", reference.vote_s, moment, how, *arguments)
    tally.count("ended before the signal" if code == 0 else "killed")
    before = files(evidence)
    certified_or_refused(evidence / "run.zarr", reference.verdict, tally)
    resumed = run(*arguments)
    tally.expect(resumed.returncode == 0, f"voting did not go on: {resumed.stderr[-300:]}")
    after = files(evidence)
    tally.expect(contents(after) == contents(reference.voted), "the evidence differs from the undisturbed one")
    # A chunk of images is finished when its labels are there; they are written last.
    finished = {name.split("/c/")[1].split("/")[0] for name in before if "/labels/c/" in name}
    kept = {name for name in before if "/c/" in name and name.split("/c/")[1].split("/")[0] in finished}
    tally.expect(all(after.get(name) == before[name] for name in kept), "a finished chunk was written again")
    certified_or_refused(evidence / "run.zarr", reference.verdict, tally)
    tally.count("resumed to the same bytes")


def kill_train(reference: Undisturbed, folder: Path, moment: float, how: signal.Signals, tally: Tally) -> None:
    run_dir = folder / "run"
    arguments = [*TRAIN, "--resume", "--out", str(run_dir)]
    tally.n += 1
    code = killed_within(run_dir / "log.jsonl", reference.train_s, moment, how, *arguments)
    tally.count("ended before the signal" if code == 0 else "killed" if code != 130 else "stopped politely")
    attempt = run(*vote_into(run_dir, folder / "evidence"))
    if attempt.returncode == 0:
        tally.expect(contents(files(folder / "evidence")) == contents(reference.voted), "other votes came out")
    else:
        tally.count("refused by vote")
        tally.expect(attempt.returncode == 2 and "Traceback" not in attempt.stderr, attempt.stderr[-300:])
    done = (run_dir / "log.jsonl").read_bytes().splitlines() if (run_dir / "log.jsonl").is_file() else []
    n_kept = max(0, len(done) - 1)  # the last one may have been on its way to its checkpoint
    resumed = run(*arguments)
    tally.expect(resumed.returncode == 0, f"training did not go on: {resumed.stderr[-300:]}")
    same = ("weights.safetensors", "defender.json")
    after = files(run_dir)
    tally.expect(contents(after, *same) == contents(reference.trained, *same), "the weights differ")
    again = (run_dir / "log.jsonl").read_bytes().splitlines()
    tally.expect(again[:n_kept] == done[:n_kept], "a finished epoch was trained again")
    tally.expect(len(again) == int(EPOCHS), "the log does not have every epoch once")
    tally.count("resumed to the same weights")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Callable[[], None]]:
    """A disk of that size in the folder; calling what comes makes it large. Needs the right to mount."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield lambda: (subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True), None)[1]
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def full_disk(reference: Undisturbed, folder: Path, sizes: tuple[str, str]) -> list[Tally]:
    voting, training = Tally("disk full while voting"), Tally("disk full while training")
    voting.n = training.n = 1
    with small_disk(folder / "votes", sizes[0]) as enlarge:
        arguments = vote_into(reference.folder / "run", folder / "votes" / "evidence")
        failed = run(*arguments)
        full = failed.returncode == 2 and "No space left" in failed.stderr and "Traceback" not in failed.stderr
        voting.expect(full, f"no clear complaint: {failed.stderr[-300:]}")
        voting.count("said clearly")
        certified_or_refused(folder / "votes" / "evidence" / "run.zarr", reference.verdict, voting)
        enlarge()
        voting.expect(run(*arguments).returncode == 0, "voting did not go on")
        same = contents(files(folder / "votes" / "evidence")) == contents(reference.voted)
        voting.expect(same, "the evidence differs from the undisturbed one")
        voting.count("resumed to the same bytes")
    with small_disk(folder / "train", sizes[1]) as enlarge:
        run_dir = folder / "train" / "run"
        failed = run(*TRAIN, "--resume", "--out", str(run_dir))
        full = failed.returncode == 2 and "No space left" in failed.stderr and "Traceback" not in failed.stderr
        training.expect(full, f"no clear complaint: {failed.stderr[-300:]}")
        training.count("said clearly")
        enlarge()
        training.expect(run(*TRAIN, "--resume", "--out", str(run_dir)).returncode == 0, "training did not go on")
        same = contents(files(run_dir), "weights.safetensors") == contents(reference.trained, "weights.safetensors")
        training.expect(same, "the weights differ")
        training.count("resumed to the same weights")
    return [voting, training]


def damaged(path: Path, chance: random.Random) -> str:
    """Change one byte of a file at a random place; says where."""
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content))
    content[place] ^= chance.randrange(1, 256)
    path.write_bytes(content)
    return f"{path.name} at byte {place}"


def damage_evidence(reference: Undisturbed, folder: Path, n: int, chance: random.Random) -> list[Tally]:
    """Half of the places in chunks, half in zarr.json files: certified rightly or refused, and voting goes on alike."""
    chunks, metadata = Tally("a byte changed in a chunk"), Tally("a byte changed in a zarr.json")
    for number in range(n):
        copy = folder / str(number)
        shutil.copytree(reference.folder / "evidence", copy / "evidence")
        store = copy / "evidence" / "run.zarr"
        tally = chunks if number % 2 else metadata
        name = "**/c/**/*" if number % 2 else "**/zarr.json"
        where = damaged(chance.choice(sorted(path for path in store.glob(name) if path.is_file())), chance)
        tally.n += 1
        out = copy / "verdict.jsonl"
        done = CliRunner().invoke(app, ["certify", str(store), "--patch", PATCH, "-o", str(out)])
        tally.count("certified rightly" if done.exit_code == 0 else "refused by certify")
        tally.expect(done.exit_code in (0, 2), f"{where}: certify ended with {done.exception!r}")
        tally.expect(not out.exists() or out.read_bytes() == reference.verdict, f"{where}: another verdict")
        voted = CliRunner().invoke(app, vote_into(reference.folder / "run", copy / "evidence"))
        tally.count("accepted by vote" if voted.exit_code == 0 else "refused by vote")
        tally.expect(voted.exit_code in (0, 2), f"{where}: vote ended with {voted.exception!r}")
        if voted.exit_code == 0:
            again = CliRunner().invoke(app, ["certify", str(store), "--patch", PATCH, "-o", str(out)])
            right = again.exit_code == 2 or out.read_bytes() == reference.verdict
            tally.expect(right, f"{where}: another verdict after voting")
    return [chunks, metadata]


def damage_weights(reference: Undisturbed, folder: Path, n: int, chance: random.Random) -> list[Tally]:
    weights, checkpoints = Tally("a byte changed in the weights"), Tally("a byte changed in a checkpoint")
    for number in range(n):
        copy = folder / str(number)
        shutil.copytree(reference.folder / "run", copy / "run")
        where = damaged(copy / "run" / "weights.safetensors", chance)
        weights.n += 1
        done = CliRunner().invoke(app, vote_into(copy / "run", copy / "evidence"))
        weights.count("refused by vote" if done.exit_code == 2 else "accepted")
        weights.expect(done.exit_code == 2, f"{where}: vote ended with {done.exit_code} {done.exception!r}")
        where = damaged(copy / "run" / "checkpoint.safetensors", chance)
        checkpoints.n += 1
        done = CliRunner().invoke(app, [*TRAIN, "--resume", "--out", str(copy / "run")])
        checkpoints.count("refused by train" if done.exit_code == 2 else "accepted")
        same = ("weights.safetensors",)
        right = done.exit_code == 2 or contents(files(copy / "run"), *same) == contents(reference.trained, *same)
        checkpoints.expect(done.exit_code in (0, 2) and right, f"{where}: train ended with {done.exception!r}")
    return [weights, checkpoints]


def kills(reference: Undisturbed, folder: Path, n: int, chance: random.Random) -> list[Tally]:
    """So many of each that were really killed, every fourth one with SIGTERM, spread over the whole work."""
    voting, training = Tally("vote killed"), Tally("train killed")
    for kill, tally in ((kill_vote, voting), (kill_train, training)):
        while (number := tally.n - tally.said.get("ended before the signal", 0)) < n and tally.n < 3 * n:
            how = signal.SIGTERM if number % 4 == 3 else signal.SIGKILL
            moment = (number + chance.random()) / n * 0.9 ** (tally.n - number)  # it was slower when it was timed
            kill(reference, folder / f"{kill.__name__}-{tally.n}", moment, how, tally)
    return [voting, training]


def main(seed: int = 0) -> int:
    chance = random.Random(seed)
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "undisturbed").mkdir()
        reference = Undisturbed.make(folder / "undisturbed")
        print(
            f"{STRATEGY} on digits: {reference.train_s:.1f} s to train, {reference.vote_s:.1f} s to vote; seed {seed}"
        )
        print(f"{'fault':<52} {'n':>3}  wrong  what came out", flush=True)
        for find in (
            lambda: damage_evidence(reference, folder / "evidence", 50, chance),
            lambda: damage_weights(reference, folder / "weights", 20, chance),
            lambda: full_disk(reference, folder, ("250k", "800k")),
            lambda: kills(reference, folder, 20, chance),
        ):
            found = find()
            print("\n".join(map(str, found)), flush=True)
            tallies += found
    for wrong in (wrong for tally in tallies for wrong in tally.wrong):
        print(f"WRONG: {wrong}")
    return int(any(tally.wrong for tally in tallies))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
