"""Verdicts: what was proved of each image, why, and where the proof fails."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, Patch
from majorcert.errors import EvidenceError


@dataclass(frozen=True)
class Witness:
    """Why an image is not certified: a patch here could make the defenders say this, and the label would change."""

    placement: tuple[int, int]
    """(top, left) of the patch"""
    rival: int
    """a label that then beats the ensemble's clean label, or ties with it and wins the tie"""
    forced: tuple[int, ...]
    """what each defender is made to say"""


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """One row for each image: the label, whether no patch can change it, and by which argument."""

    predicted: Ints
    certified: Bools
    by: npt.NDArray[np.str_]
    """"theorem1", "theorem2", "margin", "local", or "" where not certified"""
    safe: Bools | None
    """(images, placement rows, placement columns); None for a margin, which does not look at placements"""
    witnesses: tuple[Witness | None, ...]
    images: Ints
    """the place of each image in its data set"""
    patch: Patch
    method: str
    defenders: tuple[Mapping[str, Any], ...]
    """the provenance of the evidence"""

    def __len__(self) -> int:
        return len(self.predicted)

    def __repr__(self) -> str:
        return f"Verdict({int(self.certified.sum())} of {len(self)} images certified, {self.patch}, {self.method})"

    def witness(self, i: int) -> Witness | None:
        """The first placement at which the i-th image is not safe; None when it is certified, and for a margin."""
        return self.witnesses[i]

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON lines: a header with the provenance, then a row for each image; whole or not at all."""
        from majorcert.files.verdicts import save_verdict

        save_verdict(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Verdict":
        """Read what `save` wrote."""
        from majorcert.files.verdicts import load_verdict

        return load_verdict(path)


class Score(NamedTuple):
    """Accuracy against the truth, as fractions of `n` images."""

    clean: float
    """predicted correctly"""
    certified: float
    """predicted correctly and certified"""
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
    correct = verdict.predicted == _truth_of(verdict, truth)
    n = len(verdict)
    return Score(int(correct.sum()) / max(n, 1), int((correct & verdict.certified).sum()) / max(n, 1), n)


def summary(verdict: Verdict, truth: npt.ArrayLike) -> Summary:
    """The counts behind a table: by which argument images were certified, and how many of those are correct."""
    correct = verdict.predicted == _truth_of(verdict, truth)
    return Summary(
        n=len(verdict),
        n_certified=int(verdict.certified.sum()),
        n_correct=int(correct.sum()),
        n_certified_and_correct=int((correct & verdict.certified).sum()),
        by=dict(Counter(verdict.by[verdict.certified].tolist())),
        by_and_correct=dict(Counter(verdict.by[verdict.certified & correct].tolist())),
    )


def _truth_of(verdict: Verdict, truth: npt.ArrayLike) -> npt.NDArray[Any]:
    labels = np.asarray(truth)
    if labels.size and labels.dtype.kind not in "iu":
        raise EvidenceError(f"true labels are whole numbers, got {labels.dtype}")
    if labels.shape != verdict.predicted.shape:
        raise EvidenceError(f"expected the true label of each of {len(verdict)} images, got shape {labels.shape}")
    return labels
