"""Evidence in few and small files: what people download or keep under version control."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.defences.scores import Scores
from majorcert.errors import EvidenceError
from majorcert.files.atomic import replacing
from majorcert.files.kinds import stored_points
from majorcert.files.store import Store

CHUNK_BYTES = 2**25
"""About what a chunk holds before it is compressed; votes shrink some ten times, scores more."""
MANY_ABLATIONS, FAR = 256, np.float16(2**-4)
"""Where there are more ablations than the first, distances over the second are kept as the second: in half the room."""
LEVEL = 17
"""Slow to write, as fast to read as any."""


def publish(ballots: Ballots, path: str | Path, scores: Scores | None = None) -> None:
    """Write the ballots, and the scores behind them if given, as a store of few chunks; what was there is replaced.

    A distance may be kept as less than it is, never as more.
    """
    arrays: dict[str, npt.NDArray[Any]] = {"labels": ballots.labels}
    attributes = {key: value for key, value in ballots.provenance.items() if key != "fragile"}
    if not np.array_equal(ballots.images, np.arange(len(ballots))):
        arrays["images"] = ballots.images
    if ballots.distance is not None:
        many = ballots.distance.shape[1] > MANY_ABLATIONS
        arrays["distance"] = np.minimum(ballots.distance, FAR) if many else ballots.distance
    if scores is not None:
        if str(scores.strategy) != str(ballots.strategy) or not np.array_equal(scores.images, ballots.images):
            raise EvidenceError(
                f"scores of {scores.strategy} and ballots of {ballots.strategy} are not of one defender"
            )
        arrays["scores"] = stored_points(scores)
        attributes["scores_one"] = scores.one
    with replacing(path) as beside:
        store = Store.create(beside, {}, attributes, others=list(arrays))
        for name, array in arrays.items():
            _lay_out(store, name, array)
        store.write(slice(None), arrays)


def _lay_out(store: Store, name: str, array: npt.NDArray[Any]) -> None:
    from zarr.codecs import Crc32cCodec, TransposeCodec, ZstdCodec

    n_chunks = max(1, -(-array.nbytes // CHUNK_BYTES))
    # The scores of one label in neighbouring ablations resemble each other more than those of one ablation do.
    order = (0, 2, 1) if name == "scores" else tuple(range(array.ndim))
    store.lay_out(
        name,
        shape=array.shape,
        dtype=array.dtype,
        chunks=(max(1, -(-len(array) // n_chunks)), *array.shape[1:]),
        filters=[TransposeCodec(order=order)],
        compressors=[ZstdCodec(level=LEVEL), Crc32cCodec()],
    )
