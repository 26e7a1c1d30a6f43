"""PNG files from arrays, with the standard library alone."""

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

UNSAFE, SAFE = (213, 94, 0), (233, 234, 230)
"""The colours of placements."""


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """The file of (height, width, 4) pixels: red, green, blue, opacity."""
    height, width, _ = pixels.shape
    # Every line starts with the number of its filter: 0, none.
    lines = np.zeros((height, 1 + 4 * width), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


def address(pixels: npt.NDArray[np.uint8]) -> str:
    """The same picture as an address to show it by, in a page that needs no other file."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
