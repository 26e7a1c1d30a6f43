"""Evidence stores in many chunks, as voting leaves them."""

from pathlib import Path

import numpy as np

import majorcert as mc
from majorcert.files.writer import EvidenceWriter


def opened(path: Path | str, ballots: mc.Ballots, scores: np.ndarray | None = None, chunk: int = 512) -> EvidenceWriter:
    """A store for these ballots, with nothing in it yet."""
    beside = None if scores is None else {"scores": scores}
    return EvidenceWriter.open(path, ballots[:0], len(ballots), beside=beside, chunk=chunk)


def voted(path: Path | str, ballots: mc.Ballots, scores: np.ndarray | None = None, chunk: int = 512) -> None:
    """The whole store."""
    writer = opened(path, ballots, scores, chunk)
    for part in writer.missing():
        writer.write(part, ballots[part], None if scores is None else {"scores": scores[part]})
