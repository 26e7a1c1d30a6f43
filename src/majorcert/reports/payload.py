"""Integers and pictures inside an HTML page: deflated (or WebP), then base64, one block of text for each array."""

import base64
import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Block:
    """One array as text. The page finds it by its name and reads it by its type; shapes follow from the manifest."""

    name: str
    type: str  # "int8", "int16", "int32" or "uint8", little-endian and deflated; or a picture's media type
    text: str

    @classmethod
    def of(cls, name: str, array: npt.NDArray[Any]) -> "Block":
        little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return cls(name, array.dtype.name, _text(zlib.compress(little_endian.tobytes(), 6)))

    @classmethod
    def of_file(cls, name: str, media_type: str, content: bytes) -> "Block":
        return cls(name, media_type, _text(content))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no character of it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
