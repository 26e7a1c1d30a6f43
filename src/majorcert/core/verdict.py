"""Verdicts: what was proved of each image, why, and where the proof fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, Patch


@dataclass(frozen=True)
class Witness:
    """Why an image is not certified: a patch here could make the defenders say this, and the label would change."""

    placement: tuple[int, int]  # (top, left) of the patch
    rival: int  # a label that then beats the ensemble's clean label, or ties with it and wins the tie
    forced: tuple[int, ...]  # what each defender is made to say


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """One row for each image: the label, whether no patch can change it, and by which argument."""

    predicted: Ints
    certified: Bools
    by: npt.NDArray[np.str_]  # "theorem1", "theorem2", "margin", "local", or another promise, or "" where not certified
    safe: Bools | None  # (images, placement rows, placement columns); None for a margin, which looks at no placement
    witnesses: tuple[Witness | None, ...]
    images: Ints  # the place of each image in its data set
    patch: Patch
    method: str
    defenders: tuple[Mapping[str, Any], ...]  # the provenance of the evidence
    promise: Literal["recovery", "detection", "unwavering", "top-k"] = "recovery"
    """the label cannot be changed; not without an alert; nor an alert be raised; it stays among the first k"""
    alert: Bools | None = None  # (images,) is there an alert on the clean image itself? Only of detection
    slack: int = 0  # votes or points by which another label must lead for an alert; of detection
    holds: npt.NDArray[np.str_] | None = None  # (images,) the strongest promise of each; of unwavering, as of `Joint`

    def __len__(self) -> int:
        return len(self.predicted)

    def __repr__(self) -> str:
        return f"Verdict({int(self.certified.sum())} of {len(self)} images certified, {self.patch}, {self.method})"

    def witness(self, i: int) -> Witness | None:
        """The first placement at which the i-th image is not safe; None when it is certified, and for a margin."""
        return self.witnesses[i]

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON lines: a header with the provenance, then a row for each image; whole or not at all."""
        from majorcert.files import verdicts

        verdicts.save_verdict(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Verdict":
        """Read what `save` wrote."""
        from majorcert.files import verdicts

        return verdicts.load_verdict(path)
