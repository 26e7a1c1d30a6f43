"""Evidence in few files: a store that people download or keep under version control is one chunk."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.atomic import replacing
from majorcert.ballots import Ballots
from majorcert.errors import EvidenceError
from majorcert.scores import Scores
from majorcert.store import Store


def publish(ballots: Ballots, path: str | Path, scores: Scores | None = None) -> None:
    """Write the ballots, and the scores behind them if given, as a store of one chunk; what was there is replaced.

    Scores of up to 255 points for a score of 1 take a byte each once they are compressed.
    """
    arrays: dict[str, npt.NDArray[Any]] = {"labels": ballots.labels}
    attributes = dict(ballots.provenance)
    if not np.array_equal(ballots.images, np.arange(len(ballots))):
        arrays["images"] = ballots.images
    if scores is not None:
        if str(scores.strategy) != str(ballots.strategy) or not np.array_equal(scores.images, ballots.images):
            raise EvidenceError(
                f"scores of {scores.strategy} and ballots of {ballots.strategy} are not of one defender"
            )
        arrays["scores"] = scores.points.astype(np.int16 if scores.points.max(initial=0) < 2**15 else np.int32)
        attributes["scores_one"] = scores.one
    with replacing(path) as beside:
        shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        Store.create(beside, shapes, attributes, chunk=max(1, len(ballots))).write(slice(None), arrays)
