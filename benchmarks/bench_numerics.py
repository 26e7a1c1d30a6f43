"""How ballots differ between set-ups: python benchmarks/bench_numerics.py cifar10 cifar10 --images 100 [--cuda].

The same networks vote on the same images in several ways: float32 and bfloat16, in tiles of several sizes, on one
thread and on two, compiled with --compiled, and with --cuda on a GPU instead. Each set-up is compared with float32 on a
CPU, and with --cuda also with what a GPU does unless told otherwise (bfloat16). A ballot that was solid at 1e-3 must
not differ where no score of it moved by more than 1e-3; the last column counts those that do, and has to be 0.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.table import Table

import majorcert as mc
from majorcert.core.plurality import plurality_of_labels
from majorcert.nets.data import load
from majorcert.nets.scorer import Precision
from majorcert.nets.voter import Voter

TOLERANCES = (1e-3, 1e-2)
IMAGES_AT_ONCE = 64
console = Console(stderr=True)


@dataclass(frozen=True)
class SetUp:
    """One way to run the same networks."""

    device: str = "cpu"
    precision: Precision = "float32"
    tile: int | None = None
    """views in one pass; by default what the voter chooses"""
    compiled: bool = False
    threads: int = 1

    def __str__(self) -> str:
        more = [f"tiles of {self.tile}"] * (self.tile is not None) + ["compiled"] * self.compiled
        return ", ".join([f"{self.device} {self.precision}", *more, *[f"{self.threads} threads"] * (self.threads > 1)])


CPU = (
    SetUp(),
    SetUp(threads=2),
    SetUp(tile=1),
    SetUp(tile=16),
    SetUp(tile=256),
    SetUp(compiled=True),
    SetUp(precision="bfloat16"),
    SetUp(precision="bfloat16", tile=256),
)
CUDA = tuple(
    replace(way, device="cuda", precision=precision)
    for precision in ("bfloat16", "float32")
    for way in (SetUp(), SetUp(tile=64), SetUp(tile=1000), SetUp(compiled=True))
)


@dataclass(frozen=True)
class Compared:
    """What a set-up does differently from the one it is compared with."""

    reference: str
    set_up: str
    n_ballots: int
    n_images: int
    largest_move: float
    """of any score"""
    n_moved: dict[str, int]
    """ballots with a score that moved by more than the tolerance"""
    n_differ: int
    n_solid_differ: dict[str, int]
    """ballots that differ although they were solid at the tolerance"""
    n_labels_differ: int
    """images whose ensemble label differs"""
    n_contradictions: int
    """ballots that were solid at a tolerance, moved by no more, and differ all the same: never"""


@dataclass(frozen=True, eq=False)
class Voted:
    """The votes of one defender in one set-up."""

    scores: npt.NDArray[np.float32]
    ballots: mc.Ballots
    votes: npt.NDArray[np.bool_]
    """(images, ablations, classes)"""


def voted(ensemble: str, images: torch.Tensor, way: SetUp) -> list[Voted]:
    options: dict[str, Any] = {"device": way.device, "precision": way.precision, "compiled": way.compiled}
    found = []
    before = torch.get_num_threads()
    torch.set_num_threads(way.threads)
    try:
        for defender in mc.Ensemble.load(ensemble, **options).defenders:
            voter = defender.voter if way.tile is None else with_tile(defender.voter, way.tile)
            scores = np.concatenate(list(_scores(voter, images)))
            about: dict[str, Any] = {"strategy": defender.strategy, "image_size": defender.image_size}
            ballots = mc.Ballots.from_scores(scores, threshold=defender.threshold, **about)
            found.append(Voted(scores, ballots, mc.Scores.of_votes(ballots).points.astype(bool)))
    finally:
        torch.set_num_threads(before)
    return found


def with_tile(voter: Voter, tile: int) -> Voter:
    return replace(voter, scorer=replace(voter.scorer, tile=tile))


def _scores(voter: Voter, images: torch.Tensor) -> Iterator[npt.NDArray[np.float32]]:
    for some in images.split(IMAGES_AT_ONCE):  # type: ignore[no-untyped-call]
        yield voter.scores(some).cpu().numpy()


def compared(reference: SetUp, ours: Sequence[Voted], way: SetUp, theirs: Sequence[Voted]) -> Compared:
    moves = [np.abs(b.scores - a.scores).max(axis=2) for a, b in zip(ours, theirs, strict=True)]
    differ = [(a.votes != b.votes).any(axis=2) for a, b in zip(ours, theirs, strict=True)]
    move, differs = (np.concatenate([part.ravel() for part in parts]) for parts in (moves, differ))
    fragile = {
        tolerance: np.concatenate([np.ravel(each.ballots.tolerating(tolerance).fragile) for each in ours])
        for tolerance in TOLERANCES
    }
    labels = [_labels(each) for each in (ours, theirs)]
    broken = [(differs & ~fragile[tolerance] & (move <= tolerance)).sum() for tolerance in TOLERANCES]
    return Compared(
        reference=str(reference),
        set_up=str(way),
        n_ballots=len(move),
        n_images=len(labels[0]),
        largest_move=float(move.max(initial=0)),
        n_moved={str(tolerance): int((move > tolerance).sum()) for tolerance in TOLERANCES},
        n_differ=int(differs.sum()),
        n_solid_differ={str(tolerance): int((differs & ~fragile[tolerance]).sum()) for tolerance in TOLERANCES},
        n_labels_differ=int((labels[0] != labels[1]).sum()),
        n_contradictions=int(sum(broken)),
    )


def _labels(voted: Sequence[Voted]) -> npt.NDArray[Any]:
    return plurality_of_labels(np.stack([each.ballots.label for each in voted], axis=1), voted[0].ballots.n_classes)


def measure(ensemble: str, images: torch.Tensor, ways: Sequence[SetUp]) -> tuple[list[Compared], dict[str, str]]:
    """Every set-up against the first one, and against the first one on a GPU; and why some could not be measured."""
    found: dict[SetUp, list[Voted]] = {}
    failed = {}
    for way in ways:
        with console.status(f"voting: {way}"):
            try:
                found[way] = voted(ensemble, images, way)
            except RuntimeError as error:
                if not way.compiled:
                    raise
                # Compiling for a CPU needs a C++ compiler, and fails when it is first used.
                failed[str(way)] = " ".join(str(error).split())[:200]
                console.print(f"not measured: {way} ({failed[str(way)]})")
    references = [ways[0], *[way for way in found if way.device == "cuda"][:1]]
    pairs = [(reference, way) for reference in references for way in found if way != reference]
    return [compared(one, found[one], other, found[other]) for one, other in pairs], failed


def table(results: Sequence[Compared]) -> Table:
    drawn = Table(title=f"{results[0].n_ballots:,} ballots on {results[0].n_images:,} images")
    for name in ("set-up", "against"):
        drawn.add_column(name)
    columns = ["largest move", *(f"moved > {t:g}" for t in TOLERANCES), "ballots differ"]
    columns += [*(f"solid at {t:g}" for t in TOLERANCES), "labels differ", "contradictions"]
    for name in columns:
        drawn.add_column(name, justify="right")
    for each in results:
        numbers = [*each.n_moved.values(), each.n_differ, *each.n_solid_differ.values()]
        numbers += [each.n_labels_differ, each.n_contradictions]
        drawn.add_row(each.set_up, each.reference, f"{each.largest_move:.2g}", *(f"{n:,}" for n in numbers))
    return drawn


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ensemble", help="a folder, or the name of a bundled one")
    parser.add_argument("data", help="as for `majorcert vote`")
    parser.add_argument("--images", type=int, default=100, help="the first so many")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--cuda", action="store_true", help="compare a GPU with the CPU")
    parser.add_argument(
        "--compiled", action="store_true", help="compiled networks as well, which takes a minute or two"
    )
    parser.add_argument("--out", type=Path, help="write the numbers to this JSON file")
    asked = parser.parse_args(arguments)
    if asked.cuda and not torch.cuda.is_available():
        parser.error("this torch sees no CUDA device; leave out --cuda")
    first = mc.Ensemble.load(asked.ensemble).defenders[0]
    data = load(asked.data, "test", asked.data_dir, image_size=first.image_size, channels=first.channels)
    ways = [CPU[0], *CUDA] if asked.cuda else [*CPU]
    ways = [way for way in ways if asked.compiled or not way.compiled]
    results, failed = measure(asked.ensemble, data.images[: asked.images], ways)
    Console(width=None if sys.stdout.isatty() else 200).print(table(results))
    if asked.out:
        about = {
            "ensemble": asked.ensemble,
            "data": asked.data,
            "torch": torch.__version__,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "majorcert": mc.__version__,
        }
        if asked.cuda:
            about["gpu"] = torch.cuda.get_device_name()
        rows = [asdict(each) for each in results]
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps({**about, "rows": rows, "not measured": failed}, indent=1) + "\n")
    return 1 if any(each.n_contradictions for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
