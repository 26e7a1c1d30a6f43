"""Image files: `root/class/*.jpg`; or `root/train/class/*.jpg` with `val/` or `test/` beside it; or all in one."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError
from majorcert.files.photo import SQUASHED, Resizing
from majorcert.nets.sources.decode import ENDINGS, KINDS, glance, is_photo, read_photo
from majorcert.nets.sources.part import Part, Progress
from majorcert.nets.sources.room import room_for
from majorcert.nets.sources.workers import attempted

VALIDATION = ("val", "valid", "validation")
LARGEST_SIDE = 224
"""Of images whose size nobody says: larger photos are brought down to it."""


def read(
    root: Path,
    split: str,
    *,
    image_size: ImageSize | None = None,
    channels: int | None = None,
    skip_bad: bool = False,
    resizing: Resizing = SQUASHED,
    class_names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Part | None:
    """One split of the folder, or the whole that "train" and "val" are still to be drawn from; None if it has none.

    All images are brought to `image_size`, by default the median of the folder and no side over 224 pixels, and to
    `channels` (1 or 3), by default 3 if any file is coloured.

    Args:
        class_names: of a folder without class folders, whose images have no labels.
    """
    places, notes = _places(root, split)
    if not places:
        return None
    files = [path for place in places for path in _files(place)]
    flat = bool(files) and not any(_class_names(place) for place in places)
    if flat and class_names is None:
        raise DataError(f"{places[0]} has images and no class folders; expected {places[0]}/<class>/*.jpg")
    names = tuple(class_names or ()) if flat else _class_names(_training(root))
    for place in places:
        if not flat and (unknown := sorted(set(_class_names(place)) ^ set(names))):
            raise DataError(
                f"{place} and {_training(root)} must hold the same class folders; only one has {unknown[:5]}"
            )
    classes = () if flat else tuple(enumerate(names))
    labelled = [(path, label) for place in places for label, name in classes for path in _files(place / name)]
    paths = files if flat else [path for path, _ in labelled]
    left_out = _left_out(places, [place / name for place in places for _, name in classes], flat)
    how = ""
    if image_size is None or channels is None:
        image_size, channels, how = _decided(paths, image_size, channels)
    images, sizes, bad = _read_all(paths, (channels, *image_size), resizing, progress)
    if bad and not skip_bad:
        raise DataError(
            f"{next(iter(bad.values()))}; {len(bad)} of {len(paths)} files cannot be read: mend or remove them, or "
            "leave them out with --skip-bad (in Python skip_bad=True)"
        )
    if len(bad) == len(paths):
        raise DataError(f"{places[0]} holds no readable image; expected {places[0]}/<class>/*, of {KINDS}")
    good = np.array([k for k in range(len(paths)) if k not in bad])
    for to, k in enumerate(good if bad else ()):
        images[to] = images[k]
    return Part(
        images=images[: len(good)],
        labels=None if flat else np.array([label for _, label in labelled], dtype=np.int64)[good],
        class_names=names,
        skipped=tuple(str(error) for error in bad.values()),
        notes=(*notes, *([f"{len(good)} images are brought to {how}"] if how else []), *left_out),
        photo_sizes=np.array(sizes, dtype=np.int64).reshape(-1, 2),
        files=tuple(paths[k].relative_to(root).as_posix() for k in good),
        whole=not flat and not own_validation(root),
    )


def _training(root: Path) -> Path:
    return root / "train" if _divided(root) else root


def _divided(root: Path) -> bool:
    beside = [name for name in ("test", *VALIDATION) if (root / name).is_dir()]
    return (root / "train").is_dir() and (bool(beside) or _class_names(root) == ("train",))


def _validation(root: Path) -> Path | None:
    return next((root / name for name in VALIDATION if (root / name).is_dir()), None)


def own_validation(root: Path) -> Path | None:
    """A folder of validation images, if there are others to test on."""
    return _validation(root) if (root / "test").is_dir() and _divided(root) else None


def _places(root: Path, split: str) -> tuple[list[Path], list[str]]:
    """The folders that a split is read from, and what a user should know of that."""
    if not _class_names(root):  # all files in one: no labels, no parts
        return [root], []
    if not _divided(root):
        return ([] if split == "test" else [root]), []
    own, held_out = own_validation(root), root / "test"
    if split == "test":
        if held_out.is_dir():
            return [held_out], []
        beside = _validation(root)
        note = f"{beside} is taken as the split 'test'; the split 'val' is a fifth of {root / 'train'}"
        return ([], []) if beside is None else ([beside], [note])
    chosen = {"train": [root / "train"], "val": [own], "trainval": [root / "train", own]}[split] if own else None
    return [place for place in chosen or [root / "train"] if place is not None], []


def _class_names(place: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")))


def _files(place: Path) -> list[Path]:
    return sorted(filter(is_photo, place.iterdir()))


def _left_out(places: list[Path], class_folders: list[Path], flat: bool) -> list[str]:
    """A sentence on what else lies there, if anything does: other files, and folders within class folders."""
    others: Counter[str] = Counter()
    for place in (*places, *class_folders):
        for path in place.iterdir():
            above = place in places and not flat
            if path.is_dir():
                others.update([] if above else ["folders"])
            elif not path.name.startswith(".") and (above or path.suffix.lower() not in ENDINGS):
                others[path.suffix or "without ending"] += 1
    told = ", ".join(f"{n} {name}" for name, n in others.most_common(5))
    return [f"left out as no image files: {sum(others.values())} ({told})"] if others else []


def _decided(paths: list[Path], image_size: ImageSize | None, channels: int | None) -> tuple[ImageSize, int, str]:
    """The size and the channels that suit the files, from their headers, in words too."""
    seen = [found for found in attempted(glance, paths) if not isinstance(found, DataError)]
    sizes = np.array([size for size, _ in seen] or [(1, 1)])
    n_coloured = sum(coloured for _, coloured in seen)
    height, width = (int(side) for side in np.median(sizes, axis=0))
    found, largest = image_size, max(height, width)
    if found is None:
        scale = min(1.0, LARGEST_SIDE / largest)
        found = max(1, round(height * scale)), max(1, round(width * scale))
    channels = channels or (3 if n_coloured else 1)
    same = f"{'all are' if (sizes == sizes[0]).all() else 'the median is'} {height}x{width}"
    colour = f"in colour, as {n_coloured} files are" if channels == 3 else "in grey"
    other = "" if image_size else "; --size and --fit decide otherwise"
    return found, channels, f"{found[0]}x{found[1]} ({same}), {colour}{other}"


def _read_all(
    paths: list[Path], shape: tuple[int, int, int], resizing: Resizing, progress: Progress | None
) -> tuple[npt.NDArray[np.uint8], list[ImageSize], dict[int, DataError]]:
    """(files, channels, height, width) the images, the sizes of the readable ones, what is wrong with the others."""
    images, sizes, bad = room_for((len(paths), *shape)), list[ImageSize](), dict[int, DataError]()

    def decode(k: int) -> ImageSize:
        images[k], size = read_photo(paths[k], shape[1:], shape[0], resizing)
        return size

    for k, found in enumerate(attempted(decode, range(len(paths)))):
        if isinstance(found, DataError):
            bad[k] = found
        else:
            sizes.append(found)
        if progress is not None:
            progress(k + 1, len(paths))
    return images, sizes, bad
