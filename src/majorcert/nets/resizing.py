"""How a defender's photos are brought to its size: as those were that it learned from."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from majorcert.errors import ModelError
from majorcert.files.photo import SQUASHED, Resizing
from majorcert.files.untrusted import reason, typed
from majorcert.nets.data import Dataset

KEY = "photos"
"""Of what is recorded of a training on photos."""


def recorded(dataset: Dataset) -> dict[str, Any]:
    """What is recorded of a data set that was made of photos; of others nothing."""
    return {} if dataset.photo_sizes is None else {KEY: {**asdict(dataset.resizing), "channels": dataset.channels}}


def reading_of(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """How the images that evidence is about were read, as options of `nets.data.load`."""
    names, photos = provenance.get("class_names"), provenance.get(KEY)
    channels = photos.get("channels") if isinstance(photos, Mapping) else None
    return {
        "resizing": resizing_of(provenance),
        "channels": channels if channels in (1, 3) else None,
        "class_names": tuple(map(str, names)) if isinstance(names, list | tuple) else None,
    }


def resizing_of(training: Mapping[str, Any]) -> Resizing:
    """How photos are resized, as recorded of a network, or of the first of those that it averages, however deep."""
    first: Any = training
    while isinstance(first, Mapping) and isinstance(members := first.get("members"), list | tuple) and members:
        first = members[0]
    if not isinstance(first, Mapping) or KEY not in first:
        return SQUASHED
    try:
        return typed(first[KEY], Resizing)
    except ValueError as error:
        raise ModelError(f"a defender's record of how photos are resized cannot be read: {reason(error)}") from None
