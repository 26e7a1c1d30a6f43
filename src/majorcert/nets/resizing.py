"""How a defender's photos are brought to its size: as those were that it learned from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from majorcert.errors import ModelError
from majorcert.files.photo import SQUASHED, Resizing
from majorcert.files.untrusted import reason, typed
from majorcert.nets.blueprint import Blueprint
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
        "resizing": _of(provenance),
        "channels": channels if channels in (1, 3) else None,
        "class_names": tuple(map(str, names)) if isinstance(names, list | tuple) else None,
    }


class Rebuilt(Protocol):
    """A defender, as far as it is asked here."""

    @property
    def blueprint(self) -> Blueprint | None: ...


def resizing_of(defenders: Sequence[Rebuilt]) -> Resizing:
    """The one way in which all of them see photos."""
    found = {_of(each.blueprint.training) for each in defenders if each.blueprint is not None} or {SQUASHED}
    if len(found) > 1:
        raise ModelError(f"the defenders were trained on photos that were resized in different ways: {found}")
    return found.pop()


def _of(training: Mapping[str, Any]) -> Resizing:
    """As recorded of a network, or of the first of those that it averages."""
    members = training.get("members")
    first = members[0] if isinstance(members, list | tuple) and members else training
    if not isinstance(first, Mapping) or KEY not in first:
        return SQUASHED
    try:
        return typed(first[KEY], Resizing)
    except ValueError as error:
        raise ModelError(f"a defender's record of how photos are resized cannot be read: {reason(error)}") from None
