"""Questions that an audit asks, and the answers that were wrong."""

from dataclasses import dataclass
from typing import Any

from majorcert.audit.geometry import Placement


@dataclass(frozen=True)
class Difference:
    """Something that is not as it should be."""

    what: str
    expected: Any
    found: Any
    image: int | None = None
    placement: Placement | None = None

    def __str__(self) -> str:
        where = ([] if self.image is None else [f"image {self.image}"]) + (
            [] if self.placement is None else [f"placement {self.placement}"]
        )
        return f"{', '.join([*where, self.what])}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class Check:
    """One kind of question: how often it was asked, and which answers were wrong."""

    what: str
    n: int
    differences: tuple[Difference, ...]
