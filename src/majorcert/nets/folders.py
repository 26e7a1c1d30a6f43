"""The folders that networks are kept in: which file says what a folder is, and how a new one is begun."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from majorcert.errors import MajorcertError, ModelError
from majorcert.files.untrusted import cleaned, typed

WEIGHTS = "weights.safetensors"
DEFENDER = "defender.json"
"""A folder with it holds a trained defender."""
CHECKPOINT = "checkpoint.safetensors"
"""A folder with it holds a training run, perhaps an unfinished one."""
ENSEMBLE = "ensemble.json"
"""A folder with it holds an ensemble, whose members are sub-folders."""


def check_free(folder: Path) -> None:
    """Refuse a folder that holds networks already."""
    if any((folder / name).exists() for name in (CHECKPOINT, DEFENDER, ENSEMBLE)):
        raise ModelError(
            f"{folder} already holds a run or an ensemble; use another folder (`train --resume` goes on with a run)"
        )


def check_apart(out: str | Path, data: Any) -> None:
    """Refuse to write into a folder of images, where whatever is written could be taken for a class of them."""
    if isinstance(data, str) and Path(data).is_dir() and Path(out).resolve().is_relative_to(Path(data).resolve()):
        raise ModelError(f"{out} is in the folder of the images, {data}; give one beside it to write to")


def check_begun(out: Path, data: Any, names: Sequence[str] = (), *, resume: bool) -> None:
    """Refuse a folder in which no training can begin, be it for its sub-folders of these names."""
    check_apart(out, data)
    for folder in () if resume else (out, *(out / name for name in names)):
        check_free(folder)


@dataclass(frozen=True)
class _Header:
    format: str
    version: int


def check_format(raw: Any, name: str) -> None:
    """Refuse JSON that is not an artifact of that name, in the version that is known; a ValueError."""
    found = typed(raw, _Header)
    if (found.format, found.version) != (name, 1):
        raise ValueError(f"format {cleaned(found.format)!r} version {found.version} is not {name!r} version 1")


def make_folder(folder: Path, whose: str = "a run", error: type[MajorcertError] = ModelError) -> None:
    """Make a folder, if it is not there yet; where none can be, an error of this type says so."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as why:
        said = "it is a file" if folder.is_file() else why.strerror
        raise error(f"{folder}: cannot be the folder of {whose}, {said}; give another one") from None
