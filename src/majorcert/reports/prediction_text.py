"""The rows of `predictions` in words: a table, and what is said around it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from majorcert.core.threat import ImageSize
from majorcert.files.asked_patches import as_told, is_of_photo, read_sizes
from majorcert.reports.abstention import sentence as abstention
from majorcert.reports.bound import presumption
from majorcert.reports.predictions import Question, about


def remarks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each defender that must know a bound on the patch, or has photos on which no view votes."""
    bounds = dict.fromkeys(item for row in rows for item in row["presumed"].items())
    counted = Counter(name for row in rows for name in row["without_a_vote"])
    return [
        *(presumption(name, bound) for name, bound in bounds),
        *(abstention(name, n, len(rows)) for name, n in counted.items()),
    ]


def as_table(
    rows: Sequence[dict[str, Any]], image_size: ImageSize, question: Question
) -> tuple[list[str], list[list[str]]]:
    """The header and the cells of a table."""
    of = f"of {image_size[0]}x{image_size[1]}"
    sizes = zip(question.asked, read_sizes(question.asked, image_size), strict=True)
    told = [as_told(given, patch) + ("" if is_of_photo(given) else f" {of}") for given, patch in sizes]
    if question.promise == "detection":
        columns = [f"alert {each}" for each in told]
    else:
        columns = [*(f"certified {each}" for each in told), f"largest certified {of}"]
    return ["image", "label", *columns], [_cells(row) for row in rows]


def closing(rows: Sequence[dict[str, Any]], image_size: ImageSize, question: Question) -> list[str]:
    """What is said below the table: what it is about and, of one photo, what is proved of it."""
    return [about(image_size, question), *([_sentence(rows[0])] if len(rows) == 1 else [])]


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
