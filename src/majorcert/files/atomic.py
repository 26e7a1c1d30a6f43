"""Files and folders that appear whole or not at all."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from majorcert.errors import StoreError
from majorcert.files.untrusted import reason


@contextmanager
def replacing(path: str | PathLike[str], *, first_wins: bool = False) -> Iterator[Path]:
    """A path beside the wanted one to write to: it takes its place at the end, or is removed after an error.

    Args:
        first_wins: leave what another process put there in the meantime, instead of replacing it.
    """
    if "://" in str(path):
        raise StoreError(f"{path}: a URL, where nothing can be put in place as a whole; give a path on this machine")
    target = Path(path)
    beside = _beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        if not (first_wins and target.exists()):
            _move(beside, target, first_wins)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            with suppress(OSError):
                beside.unlink()


def check_place(path: str | PathLike[str]) -> None:
    """Make the folders around a path; where nothing can be put, say so now and not when all the work is done."""
    beside = _beside(Path(path))
    try:
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.touch(exist_ok=False)
        beside.unlink()
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be written: {reason(error)}") from error


def _beside(target: Path) -> Path:
    if not target.name:
        raise StoreError(f"{target}: has no name that a file or folder could be given; use another path")
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")


def _move(beside: Path, target: Path, first_wins: bool) -> None:
    if target.is_dir() and not beside.is_dir():
        raise StoreError(f"{target}: is a folder, and a file was to be written; give a file name")
    if first_wins or not target.is_dir():
        try:
            beside.replace(target)
        except OSError:
            if not (first_wins and target.exists()):
                raise
        return
    old = beside.with_suffix(".old")
    target.rename(old)
    beside.rename(target)
    shutil.rmtree(old)
