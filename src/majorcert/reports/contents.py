"""What a report is made from: the evidence, the patches, and what else is known of the images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.errors import DataError, EvidenceError, PatchError
from majorcert.errors.checks import check_together
from majorcert.errors.frozen import filled
from majorcert.files.photo import Photos
from majorcert.files.truth import split_size
from majorcert.files.untrusted import cleaned
from majorcert.reports.promises import Promise, promised
from majorcert.reports.rooms import room_of

Pictures = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False, init=False)
class Contents:
    """Evidence of one ensemble, checked to fit together with everything that is said about its images."""

    defenders: tuple[Evidence, ...]
    names: tuple[str, ...]  # what each defender is called on the page
    patches: tuple[Patch, ...]  # the first one is shown first
    truth: Ints | None
    pictures: Pictures | None  # (images, height, width, 1 or 3)
    class_names: tuple[str, ...]
    verdicts: tuple[Verdict, ...]  # of other methods on the same images: more rows for the table
    promise: Promise  # what the page or the story is about
    photos: Photos | None  # the sizes of the photos that the images were made of, if they are known

    def __init__(
        self,
        defenders: Sequence[Evidence],
        patches: Sequence[Patch],
        *,
        truth: npt.ArrayLike | None = None,
        pictures: npt.ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        verdicts: Sequence[Verdict] = (),
        promise: str = "recovery",
        slack: int = 0,
        photos: Photos | None = None,
    ) -> None:
        """Check and keep.

        Args:
            truth: the true label of each image.
            promise: "recovery", or "detection" for what is left without each placement, and alerts.
            slack: of detection, as `detect` takes it.
            class_names: by default those that the evidence records, if any.
            pictures: uint8 images, (images, channels, height, width) with 1 or 3 channels, or (images, height, width).
        """
        check_together(defenders := list(defenders))
        first = defenders[0]
        if not len(first):
            raise EvidenceError("a report shows images, and this evidence holds none; give evidence of at least one")
        shown = promised(promise, slack, len(defenders))
        if not patches:
            raise PatchError("a report needs at least one patch size; give for example [Patch(5)]")
        for patch in patches:
            patch.n_placements(first.image_size)
        for verdict in verdicts:
            if not np.array_equal(verdict.images, first.images):
                raise EvidenceError(f"the verdict {verdict.method!r} is of other images than the evidence")
        filled(
            self,
            defenders=tuple(defenders),
            names=defender_names(defenders),
            patches=tuple(dict.fromkeys(patches)),
            truth=None if truth is None else _checked_truth(np.asarray(truth), first),
            pictures=None if pictures is None else _checked_pictures(np.asarray(pictures), first),
            class_names=_checked_names(class_names or first.provenance.get("class_names"), first.n_classes),
            verdicts=tuple(verdicts),
            promise=shown,
            photos=photos,
        )

    def __len__(self) -> int:
        return len(self.defenders[0])

    @property
    def n_classes(self) -> int:
        return self.defenders[0].n_classes

    @property
    def image_size(self) -> tuple[int, int]:
        return self.defenders[0].image_size

    @property
    def images(self) -> Ints:
        """(images,) the place of each image in its data set"""
        return self.defenders[0].images

    @property
    def tolerant(self) -> bool:
        """is any of the evidence taken with a tolerance, so that some of it is fragile?"""
        return any(defender.as_recorded() is not defender for defender in self.defenders)

    @property
    def n_split(self) -> int:
        """how many images the whole split has, as far as the evidence tells; those of the report may be a part"""
        last = int(self.images.max()) + 1
        voters = [each for defender in self.defenders for each in getattr(defender, "members", [defender])]
        return max(split_size(each.provenance, last) for each in voters)


def titles(defenders: Sequence[Evidence]) -> list[str]:
    """What the room of its kind calls each defender."""
    return [cleaned(room_of(defender).title(defender)) for defender in defenders]


def defender_names(defenders: Sequence[Evidence]) -> tuple[str, ...]:
    """The same, numbered where they are repeated."""
    plain = titles(defenders)
    numbered = [f"{name} #{plain[:place].count(name)}" for place, name in enumerate(plain, start=1)]
    return tuple(name if plain.count(name) == 1 else other for name, other in zip(plain, numbered, strict=True))


def _checked_truth(truth: npt.NDArray[Any], first: Evidence) -> Ints:
    if truth.shape != (len(first),) or truth.dtype.kind not in "iu":
        raise DataError(f"expected one true label for each of {len(first)} images, got {truth.dtype} {truth.shape}")
    if truth.min() < 0 or truth.max() >= first.n_classes:
        wrong = truth.min() if truth.min() < 0 else truth.max()
        raise DataError(f"true labels are 0 to {first.n_classes - 1}, got {wrong}; is it the same data set?")
    return truth.astype(np.int64)


def _checked_pictures(pictures: npt.NDArray[Any], first: Evidence) -> Pictures:
    expected = (len(first), *first.image_size)
    if pictures.dtype != np.uint8:
        raise DataError(f"pictures are uint8, 0 to 255, got {pictures.dtype}")
    if pictures.ndim == 3:
        pictures = pictures[:, None]
    if pictures.ndim != 4 or pictures.shape[1] not in (1, 3) or (len(pictures), *pictures.shape[2:]) != expected:
        raise DataError(
            f"expected {expected[0]} pictures of {expected[1]}x{expected[2]} as (images, 1 or 3 channels, height, "
            f"width), got {pictures.shape}; give those that the votes were cast on"
        )
    return pictures.transpose(0, 2, 3, 1)


def _checked_names(class_names: Any, n_classes: int) -> tuple[str, ...]:
    if class_names is None:
        return tuple(f"class {label}" for label in range(n_classes))
    listed = isinstance(class_names, list | tuple) and all(isinstance(name, str) for name in class_names)
    if not listed or len(class_names) != n_classes:
        got = len(class_names) if listed else f"{cleaned(class_names)[:40]!r}"
        raise DataError(f"expected a list of the names of {n_classes} classes, got {got}")
    return tuple(class_names)
