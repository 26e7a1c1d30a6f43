"""Scores: how sure every ablation is of every label, as exact integers, for the methods that need more than votes."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.core.plurality import Ints
from majorcert.core.regions import Strategy
from majorcert.core.regions import strategy as read_strategy
from majorcert.core.threat import ImageSize
from majorcert.errors import BallotsError
from majorcert.errors.checks import array_of, check_ablations, checked_record, checked_size
from majorcert.errors.frozen import filled, taken

LARGEST_POINTS = 2**31 - 1
CHUNK_VOTES = 2**19
"""About how many votes are looked at together; results do not depend on it."""

Points = npt.NDArray[np.integer]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Scores:
    """What every ablation of every image scores for every label, in whole points; `one` points are a score of 1.

    Rounding to points happens here, once, before anything is predicted or proved: the label and its certificate are
    both about the points, so no floating-point sum can come between them.
    """

    points: Points
    """(images, ablations, classes) of 0 or more"""
    one: int
    strategy: Strategy
    image_size: ImageSize
    images: Ints
    provenance: Mapping[str, Any]

    def __init__(
        self,
        points: npt.ArrayLike,
        *,
        one: int,
        strategy: Strategy | str,
        image_size: ImageSize,
        images: npt.ArrayLike | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        strategy = read_strategy(strategy) if isinstance(strategy, str) else strategy
        size = checked_size(image_size)
        array = _checked(array_of(points).copy(), strategy, size)
        one = _whole(one)
        described = {"strategy": str(strategy), "image_size": list(size), "n_classes": array.shape[2]}
        record = checked_record(array.shape[:1], images, provenance, None, **described, scores_one=one)
        filled(self, points=array, one=one, strategy=strategy, image_size=size)
        filled(self, images=record["images"], provenance=record["provenance"])

    @classmethod
    def rounded(cls, scores: npt.ArrayLike, *, one: int = 255, **about: Any) -> "Scores":
        """Scores from 0 to 1, such as softmax probabilities, each to the nearest of `one` steps (255: one byte).

        Args:
            about: `strategy`, `image_size` and what else `Scores` takes.
        """
        array, one = array_of(scores), _whole(one)
        if array.dtype.kind != "f" or not (np.isfinite(array).all() and (array >= 0).all() and (array <= 1).all()):
            raise BallotsError("scores are floating-point numbers from 0 to 1, such as softmax; got others, NaN or inf")
        points = np.rint(array.astype(np.float64) * one).astype(np.uint8 if one <= 255 else np.int32)
        return cls(points, one=one, **about)

    @classmethod
    def of_votes(cls, ballots: Ballots) -> "Scores":
        """One point for every label that an ablation votes for: the evidence that PatchGuard's released code masks."""
        check_solid(ballots)
        (n_images, n_ablations, n_votes), n_classes = ballots.labels.shape, ballots.n_classes
        # Label by label in memory, as windows are summed. ABSTAIN, -1, is no label.
        voted, every = np.zeros((n_images, n_classes, n_ablations), dtype=bool), np.arange(n_classes)[:, None]
        step = max(1, CHUNK_VOTES // max(1, n_classes * n_ablations))
        for start, slot in product(range(0, n_images, step), range(n_votes)):
            some = ballots.labels[start : start + step, None, :, slot]
            voted[start : start + step] |= some == every.astype(some.dtype)
        return cls(
            voted.view(np.uint8).transpose(0, 2, 1),
            one=1,
            strategy=ballots.strategy,
            image_size=ballots.image_size,
            images=ballots.images,
            provenance=ballots.provenance,
        )

    @property
    def n_classes(self) -> int:
        return int(self.points.shape[2])

    def totals(self) -> Ints:
        """(images, classes) the points of each label."""
        return self.points.sum(axis=1, dtype=np.int64)

    def most(self) -> Ints:
        """(ablations,) the most points that any of them gives to a label, or more."""
        return np.full(self.points.shape[1], self.points.max(initial=0))

    def of(self, image: Ints, label: Ints) -> Points:
        """(pairs, ablations) the points of one label of one image."""
        return self.points[image, :, label]

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"Scores({len(self)} images of {height}x{width}, {self.strategy}, {self.n_classes} classes, /{self.one})"

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, images: slice | Ints) -> "Scores":
        return taken(self, images, "points", "images")

    @classmethod
    def load(cls, path: str | PathLike[str], images: slice = slice(None)) -> "Scores":
        """Read the scores of an evidence store: half floats, or integers with their `scores_one` in the attributes."""
        from majorcert.files.evidence import load_scores

        return load_scores(path, images)


def check_solid(ballots: Ballots) -> None:
    """Refuse ballots of which some are fragile."""
    if ballots.fragile is not None:
        raise BallotsError("masking knows no fragile ballots; give the ballots as recorded, without a tolerance")


def _whole(one: Any) -> int:
    """The points of a score of 1."""
    if not (isinstance(one, int | float | np.number) and 1 <= one < np.inf and int(one) == one):
        raise BallotsError(f"`one` is the number of points of a score of 1, so at least 1; got {one!r}")
    return int(one)


def _checked(points: npt.NDArray[Any], strategy: Strategy, image_size: ImageSize) -> Points:
    if points.ndim != 3 or points.dtype.kind not in "iu" or points.shape[2] < 2:
        raise BallotsError(f"expected whole (images, ablations, classes) points, got {points.dtype} {points.shape}")
    check_ablations(points.shape[1], "scores", strategy, image_size)
    if points.size and (points.min() < 0 or points.max() > LARGEST_POINTS):
        wrong = points.min() if points.min() < 0 else points.max()
        raise BallotsError(f"points are 0 to {LARGEST_POINTS}, got {wrong}")
    return points
