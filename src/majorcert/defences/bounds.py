"""Bounds (interval bound propagation): the labels that no bound excludes, whatever a placed patch shows.

A network is evaluated once for each placement with every pixel under the patch anywhere from black to white. What comes
out bounds its lead over each other label from below, whatever the patch shows; where that is above 0 (and above what
rounding can do), the other label is excluded there. Recorded are the labels that are not (docs/soundness.md).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence, Reach, list_labels
from majorcert.core.threat import Bools, ImageSize, Patch, as_patch
from majorcert.errors import BallotsError, StrategyError
from majorcert.errors.checks import array_of, checked_record, checked_size, parsed, whole
from majorcert.errors.frozen import filled, taken

WORD = 15
"""Labels in one whole number: a bit for each, in 16 bits with a sign."""
EVERY = 2**WORD - 1
"""All of them."""


@dataclass(frozen=True, init=False)
class Sizes:
    """The patches that bounds are computed for, wherever they are placed; the spec is "bounds:5" or "bounds:2,3x7"."""

    patches: tuple[Patch, ...]

    def __init__(self, *patches: Any) -> None:
        given = tuple(as_patch(patch) for patch in patches)
        if not given or len(set(given)) < len(given):
            raise StrategyError(f"bounds are of one patch size or several different ones, got {patches}")
        filled(self, patches=given)

    @classmethod
    def parse(cls, spec: str) -> "Sizes":
        """Read "bounds:5" or "bounds:2,3x7", as `str` gives them."""
        what = "bounds; write for example 'bounds:5' or 'bounds:2,3x7'"
        (sizes,) = parsed(spec, r"bounds:([0-9x,]{1,1000})", what, StrategyError)
        return cls(*(as_patch(size) for size in str(sizes).split(",")))

    def __str__(self) -> str:
        sides = (str(each.height) if each.height == each.width else str(each) for each in self.patches)
        return f"bounds:{','.join(sides)}"

    def n_placements(self, image_size: ImageSize) -> int:
        """Of all the patches together."""
        return sum(rows * columns for rows, columns in (each.n_placements(image_size) for each in self.patches))

    def parts(self, image_size: ImageSize) -> Iterator[tuple[Patch, slice]]:
        """Each patch, and where its placements stand among all of them: row by row."""
        start = 0
        for patch in self.patches:
            rows, columns = patch.n_placements(image_size)
            yield patch, slice(start, start + rows * columns)
            start += rows * columns


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Bounds(Evidence):
    """The label of each image, and at every placement of some patches the labels that bounds cannot exclude."""

    label: Ints
    """(images,) what the network says of the clean image"""
    words: npt.NDArray[np.int16]
    """(images, placements, words): bit k of word w says that the label WORD * w + k is not excluded"""
    sizes: Sizes

    def __init__(
        self,
        label: npt.ArrayLike,
        possible: npt.ArrayLike,
        *,
        sizes: Sizes | str,
        image_size: ImageSize,
        n_classes: int,
        images: npt.ArrayLike | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        """Args: possible: (images, placements, classes) booleans, or the (images, placements, words) made of them."""
        sizes, size = Sizes.parse(sizes) if isinstance(sizes, str) else sizes, checked_size(image_size)
        n_classes = whole(n_classes, "n_classes", BallotsError, least=2)
        said, array = array_of(label), array_of(possible)
        words = pack(array) if array.dtype == bool and array.shape[2:] == (n_classes,) else array
        shape = (said.size, sizes.n_placements(size), -(-n_classes // WORD))
        if words.dtype != np.int16 or words.shape != shape or said.dtype.kind not in "iu" or said.ndim != 1:
            raise BallotsError(
                f"{sizes} on {size[0]}x{size[1]} and {n_classes} classes: expected int16 words of shape {shape} and a "
                f"label for each image, got {words.dtype} {words.shape} and {said.dtype} {said.shape}"
            )
        if words.min(initial=0) < 0 or (words[..., -1] >> (n_classes - 1) % WORD + 1).any():
            raise BallotsError(f"labels are 0 to {n_classes - 1}, and bounds name others")
        if said.size and not (said.min() >= 0 and said.max() < n_classes and _in_all(words, said)):
            raise BallotsError("the label of a clean image is 0 or more, and no bound of a placement excludes it")
        described: dict[str, Any] = {"kind": "bounds", "strategy": str(sizes), "image_size": list(size)}
        record = checked_record(said.shape, images, provenance, None, **described, n_classes=n_classes)
        filled(self, label=said.astype(np.int64), words=words.copy(), sizes=sizes, image_size=size, n_classes=n_classes)
        filled(self, **record)

    def __repr__(self) -> str:
        height, width = self.image_size
        return f"Bounds({len(self)} images of {height}x{width}, {self.sizes}, {self.n_classes} classes)"

    def __getitem__(self, images: slice | Ints) -> "Bounds":
        return taken(self, images, "label", "words", "images")

    def reach(self, patch: Patch) -> Reach:
        """The labels that no recorded placement around the patch excludes; every label where there is none around it.

        A patch that lies inside a larger one can show no more than that one, so what is excluded for any recorded
        placement that contains it is excluded for it.
        """
        words = self._possible(patch)
        any_where = np.bitwise_or.reduce(words, axis=(1, 2))
        listed = list_labels(unpack(any_where, self.n_classes))
        members = _has(words, listed)
        rows, columns = (np.arange(n) for n in words.shape[1:3])
        return Reach(listed, members, np.zeros(words.shape[:3], np.int64), rows, columns)

    def certified_alone(self, patch: Patch) -> Bools:
        """(images,) is every other label excluded, at every placement?"""
        only = _bits(self.label, self.words.shape[2])
        return np.asarray((self._possible(patch) == only[:, None, None]).all(axis=(1, 2, 3)))

    def _possible(self, patch: Patch) -> npt.NDArray[np.int16]:
        """(images, placement rows, placement columns, words) what no recorded placement around the patch excludes."""
        height, width = patch.n_placements(self.image_size)
        words = np.full((len(self), height, width, self.words.shape[2]), EVERY, np.int16)
        for larger, part in self.sizes.parts(self.image_size):
            grid = self.words[:, part].reshape(len(self), *larger.n_placements(self.image_size), words.shape[3])
            tall = np.full((len(self), height, *grid.shape[2:]), EVERY, np.int16)
            for rows in _around(patch.height, larger.height, self.image_size[0]):
                tall &= grid.take(rows, axis=1)
            for columns in _around(patch.width, larger.width, self.image_size[1]):
                words &= tall.take(columns, axis=2)
        return words


def pack(possible: Bools) -> npt.NDArray[np.int16]:
    """(..., words) of (..., classes): a bit for each label."""
    n_classes = possible.shape[-1]
    rest = [(0, 0)] * (possible.ndim - 1) + [(0, -n_classes % WORD)]
    bits = np.pad(possible, rest).reshape(*possible.shape[:-1], -(-n_classes // WORD), WORD)
    return (bits * (1 << np.arange(WORD)).astype(np.int16)).sum(axis=-1, dtype=np.int16)


def unpack(words: npt.NDArray[np.int16], n_classes: int) -> Bools:
    """(..., classes) of (..., words)."""
    bits = words[..., None] >> np.arange(WORD) & 1
    return bits.reshape(*words.shape[:-1], words.shape[-1] * WORD)[..., :n_classes].astype(bool)


def _has(words: npt.NDArray[np.int16], labels: Ints) -> Bools:
    """(images, slots, ...): is each label of an image, (images, slots), in its (images, ..., words)? None never is."""
    at = np.arange(len(words))[:, None]
    word = np.moveaxis(words, -1, 1)[at, labels // WORD]
    bits = np.where(labels >= 0, 1 << labels % WORD, 0).astype(np.int16)
    return np.asarray(word & bits.reshape(*labels.shape, *[1] * (words.ndim - 2)) != 0)


def _in_all(words: npt.NDArray[np.int16], label: Ints) -> bool:
    """Is the label of each image in every set of its (images, placements, words)?"""
    bits = _bits(label, words.shape[2])[:, None]
    return bool((words & bits == bits).all())


def _bits(label: Ints, n_words: int) -> npt.NDArray[np.int16]:
    """(images, words) the set of each image's label alone."""
    return pack(label[:, None] == np.arange(n_words * WORD))


def _around(inner: int, outer: int, n_pixels: int) -> Iterator[Ints]:
    """Starts of runs of `outer` pixels that contain the runs of `inner` pixels at 0, 1, ..., in all ways in turn.

    Where the image ends before the outer run does, the one at the border contains it.
    """
    for offset in range(outer - inner + 1):
        yield np.clip(np.arange(n_pixels - inner + 1) - offset, 0, n_pixels - outer)
