"""Image files: a folder `root/class/*.png|jpg|jpeg`, or `root/train/class/...` beside `root/test/class/...`."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError
from majorcert.files.untrusted import check_room
from majorcert.nets.sources.decode import ENDINGS, read_image
from majorcert.nets.sources.part import Part


def read(
    root: Path, *, test: bool, image_size: ImageSize | None = None, channels: int | None = None, skip_bad: bool = False
) -> Part | None:
    """One part of the folder; None if it has no such part. A folder without train/ and test/ is a training part.

    All images are brought to `image_size` and `channels` (1 or 3), by default those of the first image.
    """
    divided = (root / "train").is_dir() and (root / "test").is_dir()
    if test and not divided:
        return None
    class_names = _class_names(root / "train" if divided else root)
    place = root / ("test" if test else "train") if divided else root
    if test and _class_names(place) != class_names:
        raise DataError(f"{root / 'train'} and {place} must hold the same class folders")
    paths, labels = [], []
    for label, name in enumerate(class_names):
        files = sorted(path for path in (place / name).iterdir() if path.suffix.lower() in ENDINGS)
        paths += files
        labels += [label] * len(files)
    images = _read_all(paths, image_size, channels)
    bad = [image for image in images if isinstance(image, DataError)]
    if bad and not skip_bad:
        raise DataError(f"{bad[0]}; {len(bad)} of {len(paths)} files cannot be read: mend or remove them, or skip them")
    good = [(image, label) for image, label in zip(images, labels, strict=True) if not isinstance(image, DataError)]
    if not good:
        raise DataError(f"{place} holds no readable image; expected {place}/<class>/*.png, .jpg or .jpeg")
    return Part(
        images=np.stack([image for image, _ in good]),
        labels=np.array([label for _, label in good], dtype=np.int64),
        class_names=class_names,
        skipped=tuple(str(error) for error in bad),
    )


def _class_names(place: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")))


def _read_all(
    paths: list[Path], image_size: ImageSize | None, channels: int | None
) -> list[npt.NDArray[np.uint8] | DataError]:
    """Each file's image, or what is wrong with it; the first readable one sets what was left open."""

    def attempt(path: Path) -> npt.NDArray[np.uint8] | DataError:
        try:
            return read_image(path, image_size, channels)
        except DataError as error:
            return error

    if image_size is None or channels is None:
        for path in paths:
            first = attempt(path)
            if not isinstance(first, DataError):
                channels = channels or first.shape[0]
                image_size = image_size or (first.shape[1], first.shape[2])
                break
    if image_size is not None:
        try:
            height, width = image_size
            check_room(len(paths) * (channels or 3) * height * width, f"{len(paths)} images of {height}x{width}")
        except ValueError as error:
            raise DataError(f"{error}; give a smaller size") from None
    with ThreadPoolExecutor() as pool:
        return list(pool.map(attempt, paths))
