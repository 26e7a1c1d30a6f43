"""The checks at the user's hands: what comes in is what it should be, or one sentence says what to do.

Every kind of evidence shares them. They refuse and give back; nothing is worked out here.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.errors import BallotsError, EvidenceError, MajorcertError, PatchError, StrategyError

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.signedinteger]
A_PATCH = (
    "a patch; write a side as in '5' or height x width as in '2x7', in pixels of the image that the networks see; or, "
    "where the image or its photo is known, a share of it as in '2%' or photo pixels as in '75x100px'"
)
MAX_SIDE = 2**14
"""Of images; evidence that declares more is refused before memory is taken."""
MOST_SLACK = 2**31 - 1
"""As many points as an image may have; sums with more could leave the range of integers."""


def whole(value: Any, what: str, error: type[MajorcertError], least: int = 1) -> int:
    """A whole number of at least so much; anything else is refused."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise error(f"{what} is a whole number of {least} or more, got {value!r}")
    return number


def array_of(given: npt.ArrayLike) -> Array:
    """What is given, as an array; lists that differ in length, and tensors that NumPy cannot read, are refused."""
    try:
        return np.asarray(given)
    except (RuntimeError, TypeError, ValueError):
        raise BallotsError(
            f"expected an array, or lists of equal lengths, got {type(given).__name__}; of a tensor give its "
            ".detach().cpu()"
        ) from None


def parsed(text: Any, pattern: str, what: str, error: type[MajorcertError]) -> tuple[str | None, ...]:
    """The groups of the pattern in a text that follows it from end to end; any other text is refused."""
    match = re.fullmatch(pattern, str(text).strip())
    if match is None:
        raise error(f"cannot read {text!r} as {what}")
    return match.groups()


def sides_of(patch: Any, image_size: tuple[int, int] | None = None) -> tuple[Any, ...]:
    """The sides that 5, (3, 7) or "3x7" means as a patch; of an image of known size also "2%"."""
    if not isinstance(patch, str):
        return tuple(patch) if isinstance(patch, tuple | list) and len(patch) == 2 else (patch,)
    share = re.fullmatch(r" *([0-9]{1,6}(?:\.[0-9]{1,6})?) ?% *", patch)
    if share and not 0 < float(share[1]) < 100:
        raise PatchError(f"a patch that is a share of the image or photo is over 0% and under 100% of it, got {patch}")
    if share and image_size:  # the smallest square whose area is at least so much
        return (math.isqrt(math.ceil(Fraction(share[1]) * image_size[0] * image_size[1] / 100) - 1) + 1,)
    if patch.strip().endswith("px"):
        raise PatchError(
            f"{patch} is in pixels of a photo, and no photos are known of here; give the patch in pixels of the "
            "networks' image, as '5', or convert it with patch_from_photo"
        )
    sides = parsed(patch, r"([0-9]{1,6})(?:x([0-9]{1,6}))?", A_PATCH, PatchError)
    return tuple(int(side) for side in sides if side is not None)


def one_of(value: Any, what: str, choices: Sequence[str]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise EvidenceError(f"{what} is {' or '.join(map(repr, choices))}, got {value!r}")


def check_fits(fits: bool, what: str, image_size: Any, instead: str, error: type[MajorcertError]) -> None:
    """Refuse what is larger than the image."""
    if not fits:
        raise error(f"{what} does not fit in a {image_size[0]}x{image_size[1]} image; {instead}")


def checked_size(image_size: Any) -> tuple[int, int]:
    """(height, width), once it is known to be two whole numbers of pixels."""
    what = f"an image size is (height, width), got {image_size!r}; a side"
    if not isinstance(image_size, tuple | list) or len(image_size) != 2:
        raise StrategyError(f"{what} is a whole number of pixels")
    height, width = (whole(side, f"{what} in pixels", StrategyError) for side in image_size)
    if max(height, width) > MAX_SIDE:
        raise StrategyError(f"{what} has at most {MAX_SIDE} pixels")
    return height, width


def checked_images(images: npt.ArrayLike | None, n_images: int) -> Ints:
    """(images,) a copy of the place of each image in its data set, each once; 0, 1, 2, ... when none is given."""
    index = np.arange(n_images) if images is None else array_of(images)
    if index.shape != (n_images,) or index.dtype.kind not in "iu" or index.min(initial=0) < 0:
        raise BallotsError(
            f"expected an index, 0 or more, of each of {n_images} images, got {index.dtype} {index.shape}"
        )
    in_order = np.sort(index)
    if (again := in_order[1:][in_order[1:] == in_order[:-1]]).size:
        raise BallotsError(f"image {again[0]} is there more than once; each image of the data set counts once")
    return index.astype(np.int64)


def checked_distance(distance: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    """A copy of how far every score may move before this changes, once it is known to make sense; None if not known."""
    if distance is None:
        return None
    array = array_of(distance)
    if array.dtype.kind != "f" or array.shape != shape:
        raise BallotsError(f"expected one distance for each ballot, {shape}, got {array.dtype} {array.shape}")
    if not (array >= 0).all() or np.isinf(array).any():
        raise BallotsError("a distance is a finite number of 0 or more; got NaN, inf or a negative one")
    return array.copy()


def checked_record(
    shape: tuple[int, ...],
    images: npt.ArrayLike | None,
    provenance: Mapping[str, Any] | None,
    distance: npt.ArrayLike | None,
    **facts: Any,
) -> dict[str, Any]:
    """The fields that every kind records of its images; `shape` is (images, ...) of the distances.

    A tolerance in the provenance is not believed: `tolerating` alone makes one.
    """
    given = {key: value for key, value in (provenance or {}).items() if key != "fragile"}
    return {
        "images": checked_images(images, shape[0]),
        "provenance": {**given, **facts},
        "distance": checked_distance(distance, shape),
        "fragile": None,
    }


def checked_tolerance(tolerance: Any, distance: Array | None, whose: Any) -> tuple[float, Array]:
    """How far scores may move, and the distances, once both are known to be there and to make sense."""
    if not (isinstance(tolerance, int | float | np.number) and 0 <= tolerance < 2**1000):
        raise BallotsError(f"a tolerance is how far scores may move, a number of 0 or more; got {tolerance!r}")
    if distance is None:
        raise BallotsError(
            f"{whose!r} was recorded without distances, which only ballots and pairs of masks can have; of these vote "
            "again, or use Ballots.from_scores"
        )
    return float(tolerance), distance


def checked_slack(slack: Any, n_defenders: int) -> int:
    """The slack of a detection, once it is known to make sense for so many defenders."""
    slack = whole(slack, "slack", EvidenceError, least=0)
    if slack > MOST_SLACK:
        raise EvidenceError(f"slack is a whole number of votes or points up to {MOST_SLACK}, got {slack}")
    if slack and n_defenders > 1:
        raise EvidenceError(f"slack is for one voting defender or pool, got {n_defenders} defenders; use slack=0")
    return slack


def check_alerting(alerts: bool, slack: int) -> None:
    """Refuse a slack where there are no alerts."""
    if slack and not alerts:
        raise EvidenceError(
            f"slack is of alerts, and recovery has none, got {slack}; promise detection, or use slack=0"
        )


def checked_labels(labels: Array, n_classes: int, none: int, called: str = ",") -> Ints:
    """The labels in the smallest type, once each is known to be one of the classes, or `none`."""
    least, most = (int(labels.min()), int(labels.max())) if labels.size else (0, 0)
    if least < none or most >= n_classes:
        raise BallotsError(f"labels are 0 to {n_classes - 1}{called} got {least if least < none else most}")
    return labels.astype(np.min_scalar_type(-n_classes))


def check_ablations(found: int, what: str, strategy: Any, image_size: Any) -> None:
    """Refuse another number of votes or scores than there are ablations."""
    if found != (n_ablations := strategy.n_ablations(image_size)):
        made = f"{strategy} makes {n_ablations} ablations of a {image_size[0]}x{image_size[1]} image"
        raise BallotsError(f"{made}, got {what} of {found}; check the strategy, its stride and the image size")


def checked_ballots(labels: npt.ArrayLike, n_classes: int, abstain: int, strategy: Any, image_size: Any) -> Ints:
    """(images, ablations, k) labels in the smallest type, once they are known to be ballots of those ablations."""
    array = array_of(labels)
    if array.ndim not in (2, 3) or array.dtype.kind not in "iu" or array.shape[2:] == (0,):
        raise BallotsError(f"expected integer labels (images, ablations, k), got {array.dtype} {array.shape}")
    array = array[:, :, None] if array.ndim == 2 else array
    check_ablations(array.shape[1], "ballots", strategy, image_size)
    found = checked_labels(array, n_classes, abstain, f", or ABSTAIN ({abstain});")
    pairs = combinations(np.moveaxis(found, 2, 0), 2)
    if any(((one == other) & (one != abstain)).any() for one, other in pairs):
        raise BallotsError("a ballot names a label twice; a label may be voted for once in each ballot")
    return found


def check_sets(listed: Ints, members: Array, below: Ints, cells: tuple[Ints, Ints], none: int) -> None:
    """Refuse sets whose arrays do not fit together, or which list a label twice."""
    n_images, n_slots, *grid = members.shape
    fits = listed.shape == (n_images, n_slots) and below.shape == (n_images, *grid)
    ascending = (listed[:, 1:] > listed[:, :-1]) | (listed[:, 1:] == none)
    placed = zip(cells, grid, strict=True)
    indexed = all(len(index) and index.min() >= 0 and index.max() < n for index, n in placed)
    if not (fits and ascending.all() and indexed and below.min(initial=0) >= 0):
        raise EvidenceError("a reach lists each label once, ascending, with arrays that fit; see majorcert.Reach")


def check_everywhere(found: tuple[int, int], placements: tuple[int, int], patch: Any) -> None:
    """Refuse sets that do not speak of every placement of the patch."""
    if found != placements:
        (n_rows, n_columns), (rows, columns) = placements, found
        raise EvidenceError(f"a {patch} patch has {n_rows}x{n_columns} placements, these sets are of {rows}x{columns}")


def check_read(given: Any, how: str) -> None:
    """Refuse a path in place of what it leads to, and what is of no images at all."""
    if isinstance(given, str | PathLike):
        raise EvidenceError(f"expected what has been read, got the path {str(given)!r}; read it with {how}")
    if not hasattr(given, "image_size"):
        raise EvidenceError(f"expected what {how} gives, got {type(given).__name__}")


def _as_list(names: Any) -> Any:
    """Names as a file gives them back."""
    return list(names) if isinstance(names, tuple) else names


def check_together(defenders: Sequence[Any]) -> None:
    """Refuse what is no ensemble: no defender at all, or defenders of different images, sizes or classes."""
    if not isinstance(defenders, list | tuple) or not defenders:
        raise EvidenceError("an ensemble is a list of one or more defenders, such as [rows, columns, blocks]")
    for each in defenders:
        check_read(each, "mc.load_evidence")
    facts: dict[str, Callable[[Any], Any]] = {
        "image sizes": lambda each: each.image_size,
        "numbers of classes": lambda each: each.n_classes,
        "numbers of images": len,
        "images": lambda each: each.images.tolist(),
        "images (by their SHA-256)": lambda each: each.provenance.get("images_sha256"),
        "class names": lambda each: _as_list(each.provenance.get("class_names")),
    }
    for fact, of in facts.items():
        known = [(place, of(each)) for place, each in enumerate(defenders, 1) if of(each) is not None]
        for place, value in known[1:]:
            if value != known[0][1]:
                both = f": {known[0][1]} and {value}" if isinstance(value, int | tuple) else ""
                instead = "use evidence of one split, at one size"
                raise EvidenceError(f"defenders {known[0][0]} and {place} have different {fact}{both}; {instead}")
