"""Where votes are kept: a store for each defender, in its own folder or in one for all, with the true labels beside."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from majorcert.errors import StoreError
from majorcert.files.photo_sizes import photos_name, write_photos
from majorcert.files.truth import truth_name, write_truth
from majorcert.nets.data import Dataset
from majorcert.nets.ensemble_file import member_folders, resolved

Known = TypeVar("Known")
Unknown = TypeVar("Unknown")


def voting_folders(runs: Sequence[str], out: str | None) -> list[Path]:
    """The folders of all defenders of these runs and ensembles, once it is clear that each has a store of its own."""
    bundled = [run for run in runs if not Path(run).is_dir()]
    folders = [folder for run in runs for folder in member_folders(resolved(run))]
    if bundled and out is None:
        raise StoreError(f"{bundled[0]} comes with majorcert; say with --out where its votes go")
    names = [folder.resolve().name for folder in folders]
    if out is not None and len(set(names)) < len(names):
        raise StoreError(f"two of the runs are called alike ({', '.join(names)}); vote into a folder for each")
    return folders


def store_of(folder: Path, images: Dataset, out: str | None) -> str:
    """The store of the votes of the defender in this folder: named after the data, or in `out` after the defender."""
    name = folder.resolve().name if out else f"{images.name}-{images.split}"
    return f"{(out or str(folder)).rstrip('/')}/{name}.zarr"


def keep_truth(whole: Dataset, images: Dataset, store: str, folder: Path) -> None:
    """Write the true labels of the split, and its photos, beside the store of votes on some of its images.

    Each if they are known.
    """
    beside, name = folder if "://" in store else Path(store).parent, truth_name(images.name, images.split)
    if whole.photo_sizes is not None:
        sizes = _by_number([(height, width) for height, width in whole.photo_sizes.tolist()], whole.numbers, None)
        files = _by_number(whole.files or (), whole.numbers, "")
        write_photos(beside / photos_name(name), sizes, whole.resizing, images.sha256(), files)
    if whole.labels is None:
        return
    origin = {**images.origin(), "class_names": list(images.class_names)}
    write_truth(beside / name, _by_number(whole.labels.tolist(), whole.numbers, -1), origin)


def _by_number(values: Sequence[Known], numbers: Tensor | None, unknown: Unknown) -> list[Known | Unknown]:
    """Values at the places of their images in the split, as far as these are known."""
    if numbers is None:
        return list(values)
    known = dict(zip(numbers.tolist(), values, strict=False))
    return [known.get(number, unknown) for number in range(int(numbers.max()) + 1)]
