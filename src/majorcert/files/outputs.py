"""The single files that are written at the user's word: one of another kind is never written over."""

from pathlib import Path

from majorcert.errors import StoreError

VERDICT = b'{"format":"majorcert-verdict"'
PAGE = b"<!doctype html>"
PNG = b"\x89PNG"


def check_output(path: Path | None, beginning: bytes) -> None:
    """Refuse a path at which there is a file that does not begin as what is to be written; an empty one is none."""
    if path is None or not path.is_file():
        return
    with path.open("rb") as file:
        found = file.read(len(beginning))
    if found and found != beginning:
        raise StoreError(f"{path}: is there already and is something else; give another file name")
