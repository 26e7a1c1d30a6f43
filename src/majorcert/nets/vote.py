"""Voting: what every view of the images of a data set votes for, into an evidence store."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from majorcert.core.reach import Evidence
from majorcert.errors import EvidenceError
from majorcert.nets.recording import Arrays, Looked, Recording
from majorcert.nets.rules import VOTES, evidence_of
from majorcert.nets.voter import Voter


def of_votes(voter: Voter, *, scores: bool = False, certify_only: bool = False) -> Recording:
    """How votes are recorded, or what another rule makes of the scores of every view."""
    if certify_only:
        raise EvidenceError("every ballot counts for a certificate; --certify-only is for masks")
    size, n_ablations, by_votes = voter.cutter.image_size, voter.cutter.n_ablations, voter.rule == VOTES
    keep_scores = scores or not by_votes

    def look(images: Tensor, progress: Callable[[int], None] | None) -> Looked:
        cast = voter.vote(images, keep_scores=keep_scores, progress=progress)
        if cast.scores is None:
            return cast.health, cast.labels, cast.distance
        return cast.health, cast.labels, cast.distance, cast.scores.half() if by_votes else cast.scores

    def made(labels: Any, distance: Any, kept: Any = None, **about: Any) -> Evidence:
        about |= {"strategy": voter.cutter.strategy, "image_size": size, "n_classes": voter.n_classes}
        return evidence_of(voter.rule, labels, distance, kept, **about)

    def beside(cast: Arrays) -> dict[str, npt.NDArray[Any]] | None:
        return {"scores": cast[2].astype(np.float16)} if scores and by_votes else None

    widths: list[tuple[Any, tuple[int, ...]]] = [(np.int8, (voter.n_votes,)), (np.float16, ())]
    widths += [(np.float32, (voter.n_classes,))] if keep_scores else []
    nothing = [np.empty((0, n_ablations, *width), kind) for kind, width in widths]
    takes = (voter.channels, *size, voter.n_classes)
    return Recording(takes, voter.facts(), n_ablations, nothing, look, made, beside=beside)
