"""Voting: streams the images of a data set through every ablation into the evidence store."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.reach import Evidence
from majorcert.errors import DataError, EvidenceError
from majorcert.files.writer import EvidenceWriter
from majorcert.nets.data import Dataset
from majorcert.nets.resizing import recorded
from majorcert.nets.rules import VOTES, evidence_of
from majorcert.nets.shards import Clock, Progress, fetched, fill, fitting_chunk, own
from majorcert.nets.voter import Voter

__all__ = ["Progress", "vote"]


def vote(
    voter: Voter,
    dataset: Dataset,
    path: str | Path,
    *,
    origin: Mapping[str, Any] | None = None,
    scores: bool = False,
    certify_only: bool = False,
    chunk: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Write the votes on every image of the data set to an evidence store, or go on where an earlier run stopped.

    Args:
        origin: further provenance, such as the SHA-256 of the weights.
        scores: keep the scores too, as float16.
        certify_only: of masks, see `nets.pairs_vote`.
        chunk: images in one chunk; by default as many as have some ten thousand views.
        rank: which of `world_size` processes this is; each does its own chunks of the same store.
    """
    if certify_only:
        raise EvidenceError("every ballot counts for a certificate; --certify-only is for masks")
    check_fit((voter.channels, *voter.cutter.image_size, voter.n_classes), dataset)
    n_ablations = voter.cutter.n_ablations
    provenance = {**origin_of(voter.facts(), dataset), **(origin or {})}
    numbers = None if dataset.numbers is None else dataset.numbers.numpy()

    def made(cast: Sequence[npt.NDArray[Any]], images: slice = slice(0)) -> Evidence:
        labels, distance, *kept = cast
        return evidence_of(
            voter.rule,
            labels,
            distance,
            kept[0] if kept else None,
            images=None if numbers is None else numbers[images],
            strategy=voter.cutter.strategy,
            image_size=dataset.image_size,
            n_classes=voter.n_classes,
            provenance=provenance,
        )

    def beside(cast: Sequence[npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]] | None:
        return {"scores": cast[2].astype(np.float16)} if scores and voter.rule == VOTES else None

    widths = ((np.int8, (voter.n_votes,)), (np.float16, ()), (np.float32, (voter.n_classes,)))
    none = [np.empty((0, n_ablations, *width), kind) for kind, width in widths]
    writer = EvidenceWriter.open(
        path,
        made(none),
        len(dataset),
        beside=beside(none),
        numbers=numbers,
        chunk=chunk or fitting_chunk(n_ablations),
    )
    mine = own(writer, rank, world_size)
    clock = Clock(sum(images.stop - images.start for images in mine) * n_ablations, progress)

    def compute(images: slice) -> Callable[[], None]:
        votes = voter.vote(dataset.images[images], keep_scores=scores or voter.rule != VOTES, progress=clock.advance)
        kept = [] if votes.scores is None else [votes.scores.half() if voter.rule == VOTES else votes.scores]
        wait = fetched(votes.health, votes.labels, votes.distance, *kept)

        def write() -> None:
            cast = [each.numpy() for each in wait()]
            writer.write(images, made(cast, images), beside(cast))

        return write

    fill(mine, compute)


def origin_of(facts: Mapping[str, Any], dataset: Dataset) -> dict[str, Any]:
    """Where evidence comes from: what cast it, and on which images."""
    return {
        **facts,
        "class_names": list(dataset.class_names),
        "images_sha256": dataset.sha256(),
        "dataset": dataset.name,
        "split": dataset.split,
        "split_size": dataset.split_size or len(dataset),
        **recorded(dataset),
    }


def check_fit(expected: tuple[int, int, int, int], dataset: Dataset) -> None:
    """Refuse images of other channels, another height or width, or another number of classes than expected."""
    found = (dataset.channels, *dataset.image_size, dataset.n_classes)
    if found != expected:
        raise DataError(
            f"{dataset.name}: the defender takes images of {expected[0]} channels, {expected[1]}x{expected[2]}, and "
            f"{expected[3]} classes; got {found[0]} channels, {found[1]}x{found[2]}, and {found[3]} classes"
        )
