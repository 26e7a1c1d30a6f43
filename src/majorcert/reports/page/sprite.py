"""Pictures for the page: many small images on one sheet, as small as the budget asks for."""

import io
from dataclasses import dataclass

import numpy as np

from majorcert.core.plurality import Ints
from majorcert.errors import DataError
from majorcert.reports.contents import Pictures
from majorcert.reports.payload import Block

BUDGET = 6 * 2**20
"""Bytes that all pictures of a page may take, before base64."""
PIXELS_PER_SHEET = 2**18
QUALITIES = (92, 80, 65, 50, 35)
TRIED = 512
"""Images on which a quality is tried out before all of them are encoded."""


@dataclass(frozen=True)
class Sprites:
    """Sheets of pictures, row after row, and which of the shown images are on them."""

    blocks: tuple[Block, ...]
    places: tuple[int, ...]  # positions among the shown images, ascending
    per_sheet: int
    columns: int
    quality: int | None  # of WebP; None: without loss


def sprites(pictures: Pictures, budget: int = BUDGET) -> Sprites:
    """All pictures without loss if they fit in the budget, else with loss, else evenly spaced ones of them."""
    height, width = pictures.shape[1:3]
    per_sheet = max(1, min(256, PIXELS_PER_SHEET // (height * width)))
    columns = int(np.ceil(np.sqrt(per_sheet)))
    tried = pictures[spaced(len(pictures), TRIED)]
    for quality in (None, *QUALITIES):
        each = sum(map(len, _sheets(tried, per_sheet, columns, quality))) / len(tried)
        if each * len(pictures) <= budget * 0.95:
            break
    places = spaced(len(pictures), max(1, int(budget * 0.95 / each)))
    sheets = _sheets(pictures[places], per_sheet, columns, quality)
    blocks = tuple(Block.of_file(f"pictures.{n}", "image/webp", sheet) for n, sheet in enumerate(sheets))
    return Sprites(blocks, tuple(places.tolist()), per_sheet, columns, quality)


def spaced(n: int, most: int) -> Ints:
    """At most `most` of the numbers 0 to n - 1, evenly spaced, the first one among them."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def _sheets(pictures: Pictures, per_sheet: int, columns: int, quality: int | None) -> list[bytes]:
    try:
        from PIL import Image
    except ImportError:
        raise DataError("pictures on the page need Pillow; run `pip install pillow`, or leave out the images") from None

    n, height, width, channels = pictures.shape
    sheets = []
    for start in range(0, n, per_sheet):
        some = pictures[start : start + per_sheet]
        rows = -(-len(some) // columns)
        sheet = np.zeros((rows * columns, height, width, channels), dtype=np.uint8)
        sheet[: len(some)] = some
        sheet = sheet.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
        flat = np.ascontiguousarray(sheet.reshape(rows * height, columns * width, channels))
        file = io.BytesIO()
        image = Image.fromarray(flat.squeeze(2) if channels == 1 else flat)
        image.save(file, "WEBP", lossless=quality is None, quality=75 if quality is None else quality, method=3)
        sheets.append(file.getvalue())
    return sheets
