"""Filling an evidence store: which chunks this process does, what goes on at the same time, and how fast it goes.

The images are cut into chunks, each of which is computed by itself and written whole. Which process does which chunk
follows from its rank alone, so processes need not talk to each other, and one that was killed is just started again.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from majorcert.errors import StoreError
from majorcert.files.writer import EvidenceWriter
from majorcert.nets.scorer import Health

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


def fitting_chunk(views_per_image: int) -> int:
    """How many images have some ten thousand views."""
    return max(1, min(CHUNK_IMAGES, CHUNK_VIEWS // views_per_image))


def fill(chunks: Sequence[slice], compute: Callable[[slice], Callable[[], None]]) -> None:
    """Compute chunk after chunk; while the device is busy with one, those before it are written.

    Args:
        compute: starts the device on the images of a chunk, and returns what waits for it and writes the result.
    """
    pending: deque[Future[None]] = deque()
    try:
        with ThreadPoolExecutor(max_workers=1) as pool:
            for images in chunks:
                pending.append(pool.submit(compute(images)))
                if len(pending) > PENDING:
                    pending.popleft().result()
            for write in pending:
                write.result()
    except StoreError as error:
        raise StoreError(f"{error}; all finished chunks are kept: mend the cause, then run the same again") from error


def own(writer: EvidenceWriter, rank: int, world_size: int) -> list[slice]:
    """The missing chunks that this process does, whatever the others have done already."""
    step = writer.store.images_per_chunk
    return [images for images in writer.missing() if images.start // step % world_size == rank]


def fetched(health: Health, *results: Tensor) -> Callable[[], list[npt.NDArray[Any]]]:
    """Starts to bring results from the device; what is returned waits for them, and checks their health first."""
    ready = torch.cuda.Event() if health.finite.is_cuda else None  # type: ignore[no-untyped-call]
    finite, apart, *found = (each.to("cpu", non_blocking=ready is not None) for each in (*health, *results))
    if ready is not None:
        ready.record()

    def wait() -> list[npt.NDArray[Any]]:
        if ready is not None:
            ready.synchronize()
        Health(finite, apart).check()
        return [each.numpy() for each in found]

    return wait


class Clock:
    """Counts views and tells the listener how fast they go."""

    def __init__(self, total: int, listener: Callable[[Progress], None] | None) -> None:
        self.done, self.total, self.listener = 0, total, listener
        self.begun = time.perf_counter()

    def advance(self, n_views: int) -> None:
        self.done += n_views
        if self.listener is not None:
            speed = self.done / max(time.perf_counter() - self.begun, 1e-9)
            self.listener(Progress(self.done, self.total, speed))
