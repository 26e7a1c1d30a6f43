"""What files and folders are called after the defenders in them."""

import re
from collections.abc import Sequence
from itertools import count


def file_names(titles: Sequence[str]) -> list[str]:
    """A name for each: "columns-19-5" for "columns:19/5"; of several alike the later ones end in -no2, -no3, ..."""
    names: list[str] = []
    for title in titles:
        stem = re.sub(r"[^A-Za-z0-9]+", "-", title).strip("-")
        tried = (stem if n == 1 else f"{stem}-no{n}" for n in count(1))
        names.append(next(name for name in tried if name not in names))
    return names
