"""Verdicts against the truth: the only place that sees both."""

from collections import Counter
from typing import NamedTuple

import numpy.typing as npt

from majorcert.core.threat import Bools
from majorcert.core.verdict import Verdict
from majorcert.errors import EvidenceError
from majorcert.errors.checks import array_of


class Score(NamedTuple):
    """Accuracy against the truth, as fractions of `n` images."""

    clean: float
    """predicted correctly; of detection, without an alert"""
    certified: float
    """the same, and certified"""
    n: int


class Summary(NamedTuple):
    """How many images were certified, by which argument, and how many of them correctly."""

    n: int
    n_certified: int
    n_correct: int
    n_certified_and_correct: int
    by: dict[str, int]
    """images certified by each argument"""
    by_and_correct: dict[str, int]


def score(verdict: Verdict, truth: npt.ArrayLike) -> Score:
    """Clean and certified accuracy; both are 0 of no images."""
    counts = summary(verdict, truth)
    n = max(counts.n, 1)
    return Score(counts.n_correct / n, counts.n_certified_and_correct / n, counts.n)


def summary(verdict: Verdict, truth: npt.ArrayLike) -> Summary:
    """The counts behind a table: by which argument images were certified, and how many of those are correct."""
    correct = _correct(verdict, truth)
    return Summary(
        n=len(verdict),
        n_certified=int(verdict.certified.sum()),
        n_correct=int(correct.sum()),
        n_certified_and_correct=int((correct & verdict.certified).sum()),
        by=dict(Counter(verdict.by[verdict.certified].tolist())),
        by_and_correct=dict(Counter(verdict.by[verdict.certified & correct].tolist())),
    )


def _correct(verdict: Verdict, truth: npt.ArrayLike) -> Bools:
    if not hasattr(verdict, "certified"):
        instead = "of what mc.joint gives take .recovery, .detection or .unwavering"
        raise EvidenceError(f"a score is one of a verdict, got {type(verdict).__name__}; {instead}")
    labels = array_of(truth)
    if labels.size and labels.dtype.kind not in "iu":
        raise EvidenceError(f"true labels are whole numbers, got {labels.dtype}")
    if labels.shape != verdict.predicted.shape:
        raise EvidenceError(f"expected the true label of each of {len(verdict)} images, got shape {labels.shape}")
    correct = verdict.predicted == labels
    return correct if verdict.alert is None else correct & ~verdict.alert
