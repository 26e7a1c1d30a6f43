"""Files and folders that appear whole or not at all.

What is written lies beside its place, in a folder that is locked while its writer lives; so the next writer can tell
what a killed one left, and removes it.
"""

import ctypes
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from majorcert.errors import StoreError
from majorcert.files.untrusted import reason

NEW, OLD = "new", "old"
"""In the folder beside: what is being written, and what had to make room for it."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Of Linux: names start from the current folder; two names are exchanged."""


@contextmanager
def replacing(path: str | PathLike[str], *, first_wins: bool = False) -> Iterator[Path]:
    """A path beside the wanted one to write to: it takes its place at the end, or is removed after an error.

    A link at the path is replaced as such: what it points to stays as it is.

    Args:
        first_wins: leave what another process put there in the meantime, instead of replacing it.
    """
    if "://" in str(path):
        raise StoreError(f"{path}: a URL, where nothing can be put in place as a whole; give a path on this machine")
    with _folder_beside(path) as folder:
        yield folder / NEW
        _put(folder, Path(path), first_wins)


def check_place(path: str | PathLike[str]) -> None:
    """Make the folders around a path; where nothing can be put, say so now and not when all the work is done."""
    with _folder_beside(path):
        pass


def found_again(path: str | PathLike[str]) -> bool:
    """Whether something is at a path, be it that a killed writer had moved it out of the way and it came back now."""
    with suppress(OSError, ValueError):
        if not Path(path).exists():
            _clear_leftovers(Path(path))
        return Path(path).exists()
    return False


def _clear_leftovers(target: Path) -> None:
    """Remove what killed writers left beside a path; what one had moved out of the way comes back."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.partial")
    for folder in [path for path in target.parent.iterdir() if ours.fullmatch(path.name)]:
        with suppress(OSError):
            if (handle := hold(folder)) is None:
                continue
            if os.path.lexists(folder / OLD) and not os.path.lexists(target):
                (folder / OLD).rename(target)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)


@contextmanager
def _folder_beside(path: str | PathLike[str]) -> Iterator[Path]:
    """A new folder beside a path, held by this process, and gone in the end; what the disk refuses is told."""
    target = Path(path)
    if not target.name or "\0" in str(target):
        raise StoreError(f"{str(target)!r}: has no name that a file or folder could be given; use another path")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(target)
        folder, handle = _held_folder(target)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if handle is not None:
                os.close(handle)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {reason(error)}") from error


def _held_folder(target: Path) -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
        with suppress(BlockingIOError, FileNotFoundError):  # another process took it for a leftover before it was held
            handle = hold(folder)
            if folder.exists():
                return folder, handle


def hold(folder: Path) -> int | None:
    """What holds a folder until it is closed or the process ends; None where nothing can be held.

    If another process holds it, a BlockingIOError.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return handle


def _put(folder: Path, target: Path, first_wins: bool) -> None:
    new, old = folder / NEW, folder / OLD
    if target.is_dir() and not new.is_dir():
        raise StoreError(f"{target}: is a folder, and a file was to be written; give a file name")
    if first_wins or not (target.is_dir() or target.is_symlink()):
        try:
            new.replace(target)
        except OSError:
            if not (first_wins and target.exists()):
                raise
    elif not _swapped(new, target):
        target.rename(old)
        new.rename(target)


def _swapped(one: Path, other: Path) -> bool:
    """Exchange two paths in one step, where the system and its disk can do that."""
    if sys.platform != "linux":
        return False
    with suppress(AttributeError):
        call = ctypes.CDLL(None).renameat2
        return call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0
    return False
