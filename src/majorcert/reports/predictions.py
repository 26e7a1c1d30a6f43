"""What is said of photos: their labels, what is proved of each, and how large that is on the photo itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from majorcert.core.majority import clean_label
from majorcert.core.reach import Evidence, offered
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.defences.largest import largest_patch
from majorcert.defences.patchguard import MaskedPool
from majorcert.defences.pool import Pool
from majorcert.files.asked_patches import as_told, read_patches
from majorcert.files.photo import Photos, Resizing, containing
from majorcert.reports.bound import presumed
from majorcert.reports.contents import defender_names
from majorcert.reports.promises import Promise, promised

Named = Sequence[tuple[Path, ImageSize]]
"""Photos: the file of each, and the (height, width) of the upright photo."""


@dataclass(frozen=True)
class Question:
    """What is to be said of photos."""

    asked: Sequence[str]  # patches, as `read_patches` reads them
    resizing: Resizing
    class_names: Sequence[str]
    promise: str  # under "detection" it is said whether there is an alert, and no largest patch is known
    slack: int  # of detection, as `detect` takes it


def predictions(evidence: Sequence[Evidence], photos: Named, question: Question) -> list[dict[str, Any]]:
    """A row for each photo, as plain JSON."""
    asked, promise, slack, class_names = question.asked, question.promise, question.slack, question.class_names
    image_size = evidence[0].image_size
    each = [Photos(frozenset({size}), question.resizing) for _, size in photos]
    patches = [read_patches(asked, image_size, photo) for photo in each]
    proved = [_judged(evidence, [row[k] for row in patches], promised(promise, slack)) for k in range(len(asked))]
    predicted, names = clean_label(evidence), defender_names(evidence)
    silent = [offered(one, "abstained")() for one in evidence]
    largest = None if promise == "detection" else largest_patch(evidence)
    rows = []
    for k, (path, size) in enumerate(photos):
        meant = {as_told(given, patch): patch for given, patch in zip(asked, patches[k], strict=True)}
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
                "presumed": {name: str(bound) for name, bound in presumed(evidence).items()},
                "about": about(image_size, question),
                "defenders": {
                    f"{at}:{name}": class_names[one.label[k]]
                    for at, (name, one) in enumerate(zip(names, evidence, strict=True), start=1)
                },
            }
        )
    return rows


def masked_apart(pooled: Sequence[Evidence], photos: Named, question: Question) -> list[dict[str, Any]]:
    """The same by one pool, masked for each photo against the smallest patch that contains all it is asked about."""
    pool, rows = cast(Pool, pooled[0]), dict[int, dict[str, Any]]()
    each = [Photos(frozenset({size}), question.resizing) for _, size in photos]
    bounds = [containing(read_patches(question.asked, pool.image_size, photo)) for photo in each]
    for bound in set(bounds):
        alike = [k for k, other in enumerate(bounds) if other == bound]
        masked, some = MaskedPool(pool[np.array(alike)], bound), [photos[k] for k in alike]
        rows |= zip(alike, predictions([masked], some, question), strict=True)
    return [rows[k] for k in range(len(photos))]


def about(image_size: ImageSize, question: Question) -> str:
    """What a certificate is about, in a sentence; under detection also what an alert is."""
    slack = question.slack
    even, proved = (
        (f", even if it were given {slack} votes or points more", " and the label is certified") if slack else ("", "")
    )
    watched = (
        f"an alert says that the label would be another one without what some patch of this size could touch{even}; "
        f"where there is none{proved}, no patch up to this size, which must be known beforehand, changes the label "
        "without one; "
    )
    return (watched if question.promise == "detection" else "") + (
        f"patches are on the decoded photo after it was resized to {image_size[0]}x{image_size[1]}, or on the decoded "
        "photo itself where that is said; paint that was there before a JPEG was compressed spreads, and is not covered"
    )


def _judged(evidence: Sequence[Evidence], patches: Sequence[Patch], promise: Promise) -> tuple[Bools, Bools]:
    """(images,) is each image certified against the patch of its own, and (images,) is there an alert?"""
    certified, alert = np.zeros((2, len(patches)), dtype=bool)
    for patch in set(patches):
        images = np.flatnonzero([each == patch for each in patches])
        verdict = promise.judge([each[images] for each in evidence], patch)
        certified[images], alert[images] = verdict.certified, verdict.alert is not None and verdict.alert
    return certified, alert
