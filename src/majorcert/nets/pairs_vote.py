"""Voting under masks: streams the images of a data set through every pair of masks into the evidence store."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.defences.masking import MaskPairs
from majorcert.errors import EvidenceError
from majorcert.files.writer import EvidenceWriter
from majorcert.nets.data import Dataset
from majorcert.nets.masker import Masker
from majorcert.nets.shards import Clock, Progress, fetched, fill, fitting_chunk, own
from majorcert.nets.vote import check_fit, origin_of


def vote_pairs(
    masker: Masker,
    dataset: Dataset,
    path: str | Path,
    *,
    origin: Mapping[str, Any] | None = None,
    certify_only: bool = False,
    scores: bool = False,
    chunk: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Write the labels of every image under every pair of masks to a store, or go on where an earlier run stopped.

    Args:
        certify_only: leave off an image when no row of it can be unanimous any more. Labels and certificates are the
            same as those of whole tables; the pairs that nobody looked at stay empty, and the provenance says so.
        origin, chunk, rank, world_size: as for `nets.vote.vote`.
    """
    if scores:
        raise EvidenceError("of double masking labels are kept, and no scores; leave out the scores")
    check_fit((masker.channels, *masker.cutter.image_size, masker.scorer.n_classes), dataset)
    n, facts = masker.n_masks, {"strategy": str(masker.cutter.masks), **masker.facts()}
    provenance = {**origin_of(facts, dataset), **({"certify_only": True} if certify_only else {}), **(origin or {})}
    numbers = None if dataset.numbers is None else dataset.numbers.numpy()

    def made(labels: npt.NDArray[Any], distance: npt.NDArray[Any], images: slice = slice(0)) -> MaskPairs:
        return MaskPairs(
            labels,
            masks=masker.cutter.masks,
            image_size=dataset.image_size,
            n_classes=masker.scorer.n_classes,
            images=None if numbers is None else numbers[images],
            provenance=provenance,
            distance=distance,
        )

    nothing = made(np.empty((0, n, n), np.int8), np.empty((0, n), np.float16))
    chunk = chunk or fitting_chunk(masker.n_pairs)
    writer = EvidenceWriter.open(path, nothing, len(dataset), numbers=numbers, chunk=chunk)
    mine = own(writer, rank, world_size)
    clock = Clock(sum(images.stop - images.start for images in mine) * masker.n_pairs, progress)
    look = masker.table_to_certify if certify_only else masker.table

    def compute(images: slice) -> Callable[[], None]:
        before = clock.done
        table = look(dataset.images[images], clock.advance)
        wait = fetched(table.health, table.labels, table.distance)
        if unasked := (images.stop - images.start) * masker.n_pairs - (clock.done - before):
            clock.advance(unasked)

        def write() -> None:
            labels, distance = (each.numpy() for each in wait())
            writer.write(images, made(labels, distance, images))

        return write

    fill(mine, compute)
