"""Ballots on disk: an evidence store with `labels` and, where known, `distance` and image numbers."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.errors import MajorcertError, StoreError
from majorcert.files.atomic import replacing
from majorcert.files.store import UNWRITTEN, Store
from majorcert.files.untrusted import check_room, reason


def save_ballots(ballots: Ballots, path: str | PathLike[str]) -> None:
    """Write a store, without a tolerance; an earlier store at that path is replaced, whole or not at all."""
    if Path(path).exists():
        Store.open(path)
    arrays: dict[str, npt.NDArray[Any]] = {"labels": ballots.labels}
    if ballots.distance is not None:
        arrays["distance"] = ballots.distance
    if not np.array_equal(ballots.images, np.arange(len(ballots))):
        arrays["images"] = ballots.images
    with replacing(path) as beside:
        shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        origin = {key: value for key, value in ballots.provenance.items() if key != "fragile"}
        Store.create(beside, shapes, origin).write(slice(None), arrays)


def load_ballots(path: str | PathLike[str], images: slice = slice(None)) -> Ballots:
    """Read a store, or the given slice of its images, and check it as if it were new.

    Who certifies asks for a map of all placements of each image: if these would not fit, less is to be read.
    """
    store = Store.open(path)
    origin = store.attributes
    labels = store.read("labels", images, kind="i", n_axes=3)
    if (labels == UNWRITTEN).any():
        raise StoreError(f"{path}: incomplete, some of these images have no votes yet; finish it with `majorcert vote`")
    index = np.arange(store.n_images)[images]
    if "images" in store:
        index = store.read("images", images, kind="i", n_axes=1)
    distance = None
    if "distance" in store:
        if store.array("distance", "f", 2).shape != (store.n_images, labels.shape[1]):
            raise StoreError(f"{path}: damaged, it has not one distance for each ballot")
        distance = store.read("distance", images, kind="f", n_axes=2)
    store.check_unchanged()
    try:
        height, width = (int(side) for side in origin["image_size"])
        n_classes = int(origin["n_classes"])
        check_room(len(labels) * n_classes * np.dtype(np.int64).itemsize, f"the counts of {n_classes} classes")
        ballots = Ballots(
            labels,
            strategy=str(origin["strategy"]),
            image_size=(height, width),
            n_classes=n_classes,
            images=index,
            provenance=origin,
            distance=distance,
        )
        check_room(len(labels) * height * width, "the maps of all placements (read fewer images at a time)")
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, MajorcertError) as error:
        raise StoreError(
            f"{path}: damaged, its labels and its provenance do not fit together ({reason(error)})"
        ) from error
    return ballots
