"""Evidence in few and small files: what people download or keep under version control."""

from os import PathLike

import numpy as np

from majorcert.core.reach import Evidence
from majorcert.defences.scores import Scores
from majorcert.files.evidence import attributes_of, save_arrays
from majorcert.files.kinds import kind_of, stored_points
from majorcert.files.packing import Packing
from majorcert.files.store import MAX_IMAGES

SMALL = Packing(chunk=MAX_IMAGES, chunk_bytes=2**25, level=17, orders={"scores": (0, 2, 1)})
"""Few chunks, slow to write, as fast to read as any. The scores of one label in neighbouring ablations resemble each
other more than those of one ablation do."""
MANY_ABLATIONS, FAR = 256, np.float16(2**-4)
"""Where there are more ablations than the first, distances over the second are kept as the second: in half the room."""


def publish(evidence: Evidence, path: str | PathLike[str], scores: Scores | None = None) -> None:
    """Write evidence of any kind, and the scores behind votes if given, as a small store; what was there is replaced.

    A distance may be kept as less than it is, never as more.
    """
    arrays, facts = kind_of(evidence).arrays(evidence), {}
    if "distance" in arrays and arrays["distance"].shape[1] > MANY_ABLATIONS:
        arrays["distance"] = np.minimum(arrays["distance"], FAR)
    if scores is not None:
        arrays["scores"], facts["scores_one"] = stored_points(scores), scores.one
    save_arrays(arrays, {**attributes_of(evidence), **facts}, evidence.images, path, SMALL)
