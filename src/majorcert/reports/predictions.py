"""What is said of photos: their labels, what is proved of each, and how large that is on the photo itself."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from majorcert.core.majority import clean_label
from majorcert.core.reach import Evidence, offered
from majorcert.core.threat import Bools, ImageSize, Patch, as_patch
from majorcert.defences.largest import largest_patch
from majorcert.defences.patchguard import MaskedPool
from majorcert.defences.pool import Pool
from majorcert.files.photo import Photos, Resizing, containing, is_of_photo, read_patches
from majorcert.reports.abstention import sentence as abstention
from majorcert.reports.contents import defender_names
from majorcert.reports.promises import Promise, promised
from majorcert.reports.rooms import room_of


def predictions(
    evidence: Sequence[Evidence],
    photos: Sequence[tuple[Path, ImageSize]],
    asked: Sequence[str],
    resizing: Resizing,
    class_names: Sequence[str],
    promise: str,
    slack: int,
) -> list[dict[str, Any]]:
    """A row for each photo, as plain JSON.

    Args:
        photos: the file of each, and the (height, width) of the upright photo.
        asked: patches, as `read_patches` reads them.
        promise: under "detection" a row says for each patch whether there is an alert, and knows no largest one.
        slack: of detection, as `detect` takes it.
    """
    image_size = evidence[0].image_size
    each = [Photos(frozenset({size}), resizing) for _, size in photos]
    patches = [read_patches(asked, image_size, photo) for photo in each]
    proved = [_judged(evidence, [row[k] for row in patches], promised(promise, slack)) for k in range(len(asked))]
    predicted, names = clean_label(evidence), defender_names(evidence)
    silent = [offered(one, "abstained")() for one in evidence]
    bounds = [room.bound(one) if (room := room_of(one)).presumes else None for one in evidence]
    largest = None if promise == "detection" else largest_patch(evidence)
    rows = []
    for k, (path, size) in enumerate(photos):
        meant = {key(given, patch): patch for given, patch in zip(asked, patches[k], strict=True)}
        told = {*meant.values(), *([] if largest is None else [Patch(max(1, int(largest[k])))])}
        alerts = {name: bool(alert[k]) for name, (_, alert) in zip(meant, proved, strict=True)}
        covered = {str(patch): each[k].covered(patch, image_size) for patch in sorted(told, key=str)}
        rows.append(
            {
                "image": str(path),
                "label": class_names[predicted[k]],
                "promise": promise,
                **({"slack": slack} if slack else {}),
                "certified": {name: bool(found[k]) for name, (found, _) in zip(meant, proved, strict=True)},
                **({"alert": alerts} if largest is None else {"largest": int(largest[k])}),
                "photo_size": list(size),
                "photo_pixels": {name: f"{h}x{w}" if h and w else "none" for name, (h, w) in covered.items()},
                "network_pixels": {name: str(patch) for name, patch in meant.items()},
                "without_a_vote": [name for name, none in zip(names, silent, strict=True) if none[k]],
                "presumed": {name: str(bound) for name, bound in zip(names, bounds, strict=True) if bound},
                "about": about(image_size, promise, slack),
                "defenders": {
                    f"{at}:{name}": class_names[one.label[k]]
                    for at, (name, one) in enumerate(zip(names, evidence, strict=True), start=1)
                },
            }
        )
    return rows


def masked_apart(
    pooled: Sequence[Evidence],
    photos: Sequence[tuple[Path, ImageSize]],
    asked: Sequence[str],
    resizing: Resizing,
    class_names: Sequence[str],
    promise: str,
    slack: int,
) -> list[dict[str, Any]]:
    """The same by one pool, masked for each photo against the smallest patch that contains all it is asked about."""
    pool, rows = cast(Pool, pooled[0]), dict[int, dict[str, Any]]()
    each = [Photos(frozenset({size}), resizing) for _, size in photos]
    bounds = [containing(read_patches(asked, pool.image_size, photo)) for photo in each]
    for bound in set(bounds):
        alike = [k for k, other in enumerate(bounds) if other == bound]
        masked, some = MaskedPool(pool[np.array(alike)], bound), [photos[k] for k in alike]
        rows |= zip(alike, predictions([masked], some, asked, resizing, class_names, promise, slack), strict=True)
    return [rows[k] for k in range(len(photos))]


def about(image_size: ImageSize, promise: str, slack: int) -> str:
    """What a certificate is about, in a sentence; under detection also what an alert is."""
    even, proved = (
        (f", even if it were given {slack} votes or points more", " and the label is certified") if slack else ("", "")
    )
    watched = (
        f"an alert says that the label would be another one without what some patch of this size could touch{even}; "
        f"where there is none{proved}, no patch up to this size, which must be known beforehand, changes the label "
        "without one; "
    )
    return (watched if promise == "detection" else "") + (
        f"patches are on the decoded photo after it was resized to {image_size[0]}x{image_size[1]}, or on the decoded "
        "photo itself where that is said; paint that was there before a JPEG was compressed spreads, and is not covered"
    )


def remarks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each defender that must know a bound on the patch, or has photos on which no view votes."""
    bounds = dict.fromkeys(item for row in rows for item in row["presumed"].items())
    counted = Counter(name for row in rows for name in row["without_a_vote"])
    return [
        *(
            f"{name} takes for granted that no patch is larger than {bound}, and promises nothing of larger ones"
            for name, bound in bounds
        ),
        *(abstention(name, n, len(rows)) for name, n in counted.items()),
    ]


def key(given: str, patch: Patch) -> str:
    """A patch as it is told: on the photo as it was asked for, on the networks' image by its sides."""
    return given.strip() if is_of_photo(given) else str(patch)


def as_table(
    rows: Sequence[dict[str, Any]], asked: Sequence[str], image_size: ImageSize, promise: str
) -> tuple[list[str], list[list[str]]]:
    """The header and the cells of a table."""
    of = f"of {image_size[0]}x{image_size[1]}"
    sizes = [key(given, patch) for given, patch in zip(asked, read_sizes(asked, image_size), strict=True)]
    told = [size if is_of_photo(size) else f"{size} {of}" for size in sizes]
    if promise == "detection":
        columns = [f"alert {each}" for each in told]
    else:
        columns = [*(f"certified {each}" for each in told), f"largest certified {of}"]
    return ["image", "label", *columns], [_cells(row) for row in rows]


def closing(rows: Sequence[dict[str, Any]], image_size: ImageSize, promise: str, slack: int) -> list[str]:
    """What is said below the table: what it is about and, of one photo, what is proved of it."""
    return [about(image_size, promise, slack), *([_sentence(rows[0])] if len(rows) == 1 else [])]


def read_sizes(asked: Sequence[str], image_size: ImageSize) -> list[Patch]:
    """The patches of those that need no photo; any of the others."""
    return [Patch(1) if is_of_photo(each) else read_patches([each], image_size, None)[0] for each in asked]


def distinct(asked: Sequence[str], image_size: ImageSize) -> list[str]:
    """Each patch that is asked for once, however it is written; what does not fit in the image is refused."""
    sizes = read_sizes(asked, image_size)
    return list({key(given, patch): given for given, patch in zip(asked, sizes, strict=True)}.values())


def known_bound(asked: Sequence[str]) -> Patch | None:
    """The smallest patch that contains all that are asked for, if no photo must be seen to know them."""
    if not asked or any(is_of_photo(each) for each in asked):
        return None
    return containing([as_patch(each) for each in asked])


def _cells(row: dict[str, Any]) -> list[str]:
    """A line of the table: sizes on the resized image, and beside them on the photo."""
    if "alert" in row:
        proved = {name: "none" if holds else "none, not certified" for name, holds in row["certified"].items()}
        return [
            row["image"],
            row["label"],
            *("alert" if alert else proved[name] for name, alert in row["alert"].items()),
        ]
    covers, side = row["photo_pixels"], f"{row['largest']}x{row['largest']}"
    shown = []
    for name, holds in row["certified"].items():
        size = row["network_pixels"][name]
        told = f"{covers[size]} on the photo" if name == size else f"{size} for the networks"
        shown.append(f"yes, {told}" if holds else "no" if name == size else f"no, {told}")
    return [row["image"], row["label"], *shown, f"{side}, {covers[side]} on the photo" if row["largest"] else "none"]


def _sentence(row: dict[str, Any]) -> str:
    """What is proved of one photo, in its own pixels."""
    if "alert" in row:
        return "; ".join(_watched(name, alert, row) for name, alert in row["alert"].items())
    height, width = row["photo_size"]
    covered = row["photo_pixels"].get(f"{row['largest']}x{row['largest']}", "none")
    if covered == "none":
        return f"nothing is proved of stickers on this photo of {height}x{width} pixels"
    return f"no sticker up to {covered} pixels of this photo of {height}x{width}, wherever it is, changes the label"


def _watched(size: str, alert: bool, row: dict[str, Any]) -> str:
    """What an alert, or that there is none, says of one photo."""
    label = row["label"]
    if not alert and not row["certified"][size]:
        part = f"without some part of the photo, of the size {size}"
        return f"no alert, and nothing is proved: {part}, {label} has no lead beyond the slack of {row['slack']}"
    if alert:
        return f"alert: without some part of the photo, of the size {size}, the label would not be {label}; look at it"
    return f"no alert: the label is {label} without any part of the size {size}; no such patch changes it silently"


def _judged(evidence: Sequence[Evidence], patches: Sequence[Patch], promise: Promise) -> tuple[Bools, Bools]:
    """(images,) is each image certified against the patch of its own, and (images,) is there an alert?"""
    certified, alert = np.zeros((2, len(patches)), dtype=bool)
    for patch in set(patches):
        images = np.flatnonzero([each == patch for each in patches])
        verdict = promise.judge([each[images] for each in evidence], patch)
        certified[images], alert[images] = verdict.certified, verdict.alert is not None and verdict.alert
    return certified, alert


def on_photos(photos: Photos | None, patches: Sequence[Patch], image_size: ImageSize) -> list[str]:
    """What certificates for these patches say of the photos that the images were made of, in sentences."""
    if photos is None:
        return []
    found = [(patch, photos.covered(patch, image_size)) for patch in patches]
    told = [
        f"{patch} covers patches of up to {height}x{width} pixels" if height and width else f"{patch} covers none"
        for patch, (height, width) in found
    ]
    return [
        f"certificates are about the decoded photos after they were resized to {image_size[0]}x{image_size[1]}; of the "
        f"pixels of every photo, {', '.join(told)}; what was painted before a JPEG was compressed is not covered"
    ]
