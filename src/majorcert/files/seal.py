"""Fingerprints by which evidence that was changed by accident is known; no signatures: anyone can make them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from majorcert.errors import StoreError
from majorcert.files.untrusted import cleaned

FORMAT = "majorcert-evidence"
VERSION = 1
SEAL = "seal"
"""The attribute that says which arrays there are, and the SHA-256 of that and of the other attributes."""


def plain(facts: Any) -> Any:
    """What JSON values are after they were written and read."""
    return json.loads(json.dumps(facts, allow_nan=False))


def plain_provenance(facts: Any, path: str | PathLike[str]) -> Any:
    """The same of the provenance of evidence that is to be written there; what is no JSON is told."""
    try:
        return plain(facts)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: the provenance of the evidence is not plain JSON ({cleaned(error)})") from None


def digest(facts: Any) -> str:
    """SHA-256 of JSON values, the same before they are written and after they are read."""
    return hashlib.sha256(json.dumps(plain(facts), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fingerprint(name: str, shape: tuple[int, ...], dtype: Any, chunks: tuple[int, ...], codecs: Iterable[Any]) -> str:
    """The fingerprint of how an array is laid out, which is kept beside it."""
    order = [list(codec.order) for codec in codecs if type(codec).__name__ == "TransposeCodec"]
    return digest([name, shape, str(dtype), chunks, order])


def seal_of(attributes: Mapping[str, Any], arrays: Sequence[str]) -> dict[str, Any]:
    """What tells attributes and arrays that were changed."""
    names = sorted(arrays)
    return {"arrays": names, "sha256": digest([dict(attributes), names])}


def sealed(attributes: Mapping[str, Any], arrays: Sequence[str]) -> dict[str, Any]:
    """The attributes of a store of these arrays, with its format and its seal."""
    described = {**unsealed(attributes), "format": FORMAT, "version": VERSION}
    return {**described, SEAL: seal_of(described, arrays)}


def unsealed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that were given, without those that `sealed` adds."""
    return {key: value for key, value in attributes.items() if key not in ("format", "version", SEAL)}
