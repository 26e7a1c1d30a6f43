"""Voting: streams the images of a data set through every ablation into the evidence store.

The images are cut into chunks, each of which is computed by itself and written whole. Which process does which chunk
follows from its rank alone, so processes need not talk to each other, and one that was killed is just started again.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from majorcert.core.ballots import Ballots
from majorcert.errors import DataError, StoreError
from majorcert.files.writer import EvidenceWriter
from majorcert.nets.data import Dataset
from majorcert.nets.voter import Voter, Votes, check_finite

CHUNK_VIEWS = 2**16
CHUNK_IMAGES = 512
PENDING = 2
"""Chunks that may wait to be written while the next one is computed."""


@dataclass(frozen=True)
class Progress:
    """How far this process is, in views; what an earlier run had written is not counted."""

    done: int
    total: int
    views_per_second: float
    seconds_left: float


def vote(
    voter: Voter,
    dataset: Dataset,
    path: str | Path,
    *,
    origin: Mapping[str, Any] | None = None,
    scores: bool = False,
    chunk: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Write the votes on every image of the data set to an evidence store, or go on where an earlier run stopped.

    Args:
        origin: further provenance, such as the SHA-256 of the weights.
        scores: keep the scores too, as float16.
        chunk: images in one chunk; by default as many as have some ten thousand views.
        rank: which of `world_size` processes this is; each does its own chunks of the same store.
    """
    _check_fit(voter, dataset)
    n_ablations = voter.cutter.n_ablations
    provenance = {
        **voter.facts(),
        "class_names": list(dataset.class_names),
        "images_sha256": dataset.sha256(),
        "dataset": dataset.name,
        "split": dataset.split,
        **(origin or {}),
    }

    def made(labels: npt.NDArray[Any], distance: npt.NDArray[Any]) -> Ballots:
        return Ballots(
            labels,
            strategy=voter.cutter.strategy,
            image_size=dataset.image_size,
            n_classes=voter.n_classes,
            provenance=provenance,
            distance=distance,
        )

    widths = {"labels": (voter.n_votes,), "distance": (), "scores": (voter.n_classes,)}
    none = {name: np.empty((0, n_ablations, *width), np.float16) for name, width in widths.items()}
    writer = EvidenceWriter.open(
        path,
        made(none["labels"].astype(np.int8), none["distance"]),
        len(dataset),
        beside={"scores": none["scores"]} if scores else None,
        chunk=chunk or max(1, min(CHUNK_IMAGES, CHUNK_VIEWS // n_ablations)),
    )
    step = writer.images_per_chunk
    mine = [images for images in writer.missing() if images.start // step % world_size == rank]
    clock = _Clock(sum(images.stop - images.start for images in mine) * n_ablations, progress)
    pending: deque[Callable[[], None]] = deque()
    try:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="majorcert-writer") as pool:
            for images in mine:
                votes = voter.vote(dataset.images[images], keep_scores=scores, progress=clock.advance)
                write = _fetched(votes, partial(writer.write, images), made)
                # While the last one is written, nothing is left to be computed.
                pending.append(write if images == mine[-1] else pool.submit(write).result)
                while len(pending) > PENDING:
                    pending.popleft()()
            while pending:
                pending.popleft()()
    except StoreError as error:
        raise StoreError(f"{error}; all finished chunks are kept: mend the cause, then run the same again") from error


def _check_fit(voter: Voter, dataset: Dataset) -> None:
    expected = (voter.channels, *voter.cutter.image_size, voter.n_classes)
    found = (dataset.channels, *dataset.image_size, dataset.n_classes)
    if found != expected:
        raise DataError(
            f"{dataset.name}: the defender takes images of {expected[0]} channels, {expected[1]}x{expected[2]}, and "
            f"{expected[3]} classes; got {found[0]} channels, {found[1]}x{found[2]}, and {found[3]} classes"
        )


def _fetched(votes: Votes, written: Callable[..., None], made: Callable[..., Ballots]) -> Callable[[], None]:
    """What brings the votes of a chunk from the device and writes them, while the device goes on with the next one."""
    ready = None
    labels, distance, scores = votes.labels, votes.distance, None if votes.scores is None else votes.scores.half()
    if labels.is_cuda:
        labels, distance = labels.to("cpu", non_blocking=True), distance.to("cpu", non_blocking=True)
        scores = None if scores is None else scores.to("cpu", non_blocking=True)
        votes = votes._replace(finite=votes.finite.to("cpu", non_blocking=True))
        ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        ready.record()

    def write() -> None:
        if ready is not None:
            ready.synchronize()
        check_finite(votes)
        beside = None if scores is None else {"scores": scores.numpy()}
        written(made(labels.numpy(), distance.numpy()), beside)

    return write


class _Clock:
    """Counts views and tells the listener how fast they go."""

    def __init__(self, total: int, listener: Callable[[Progress], None] | None) -> None:
        self.done, self.total, self.listener = 0, total, listener
        self.begun = time.perf_counter()

    def advance(self, n_views: int) -> None:
        self.done += n_views
        if self.listener is not None:
            speed = self.done / max(time.perf_counter() - self.begun, 1e-9)
            self.listener(Progress(self.done, self.total, speed, (self.total - self.done) / speed))
