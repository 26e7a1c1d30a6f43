"""Voting under masks: the labels of the images of a data set under every pair of masks, into an evidence store."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from majorcert.defences.masking import MaskPairs
from majorcert.errors import EvidenceError
from majorcert.nets.masker import Masker
from majorcert.nets.recording import Arrays, Looked, Recording


def of_pairs(masker: Masker, *, scores: bool = False, certify_only: bool = False) -> Recording:
    """How the labels of every image under every pair of masks are recorded.

    Args:
        certify_only: leave off an image when no row of it can be unanimous any more. Labels and certificates are the
            same as those of whole tables; the pairs that nobody looked at stay empty, and the provenance says so.
    """
    if scores:
        raise EvidenceError("of double masking labels are kept, and no scores; leave out the scores")
    masks, size, n_classes, n = masker.cutter.masks, masker.cutter.image_size, masker.scorer.n_classes, masker.n_masks
    facts = {"strategy": str(masks), **masker.facts(), **({"certify_only": True} if certify_only else {})}
    table_of = masker.table_to_certify if certify_only else masker.table

    def look(images: Tensor, progress: Callable[[int], None] | None) -> Looked:
        table = table_of(images, progress)
        return table.health, table.labels, table.distance

    def made(labels: Any, distance: Any, **about: Any) -> MaskPairs:
        return MaskPairs(labels, masks=masks, image_size=size, n_classes=n_classes, distance=distance, **about)

    nothing: Arrays = [np.empty((0, n, n), np.int8), np.empty((0, n), np.float16)]
    return Recording((masker.channels, *size, n_classes), facts, masker.n_pairs, nothing, look, made)
