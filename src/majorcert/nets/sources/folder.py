"""Image files: a folder `root/class/*.png|jpg|jpeg`, or `root/train/class/...` beside `root/test/class/...`."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError
from majorcert.files.untrusted import check_room, plain_size, reason
from majorcert.nets.sources.part import Part

if TYPE_CHECKING:
    from PIL import ImageFile

ENDINGS = (".png", ".jpg", ".jpeg")
MAX_PIXELS = 64_000_000
"""A file that claims more pixels than this is refused before it is decoded."""


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


def read_image(path: Path, image_size: ImageSize | None = None, channels: int | None = None) -> npt.NDArray[np.uint8]:
    """(channels, height, width): one PNG or JPEG of any size and mode, upright, on white where it is transparent."""
    return read_photo(path, image_size, channels)[0]


def read_photo(
    path: Path, image_size: ImageSize | None = None, channels: int | None = None
) -> tuple[npt.NDArray[np.uint8], ImageSize]:
    """The same, and the (height, width) that the upright photo had before it was brought to `image_size`."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DataError(f"image files are read with Pillow ({error}); install majorcert[nets]") from None
    try:
        with _opened(path) as file:
            if file.width * file.height > MAX_PIXELS:
                raise DataError(f"{path} claims {file.width}x{file.height} pixels, over the limit of {MAX_PIXELS}")
            image = ImageOps.exif_transpose(file)
            if image.mode.startswith("I"):  # 16 bits of grey; a plain conversion would clip them
                image = Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8))
            grey = image.mode in ("1", "L", "LA") if channels is None else channels == 1
            if image.has_transparency_data:
                coloured = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured)
            image = image.convert("L" if grey else "RGB")
            photo_size = image.height, image.width
            if image_size is not None and image.size != image_size[::-1]:
                image = image.resize(image_size[::-1], Image.Resampling.BILINEAR)
            pixels = np.asarray(image, dtype=np.uint8)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot read the image {path}: {error.strerror or _damaged(error)}") from None
    except Exception as error:  # decoders raise errors of many kinds on damaged files
        raise DataError(f"cannot read the image {path}: {_damaged(error)}") from None
    return (pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))), photo_size


def _opened(path: Path) -> "ImageFile.ImageFile":
    """The image, its header read; not by `Image.open`, which warns beside its own limit of pixels."""
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile

    if path.is_dir():
        raise DataError(f"cannot read the image {path}: it is a folder")
    if not plain_size(path):
        raise DataError(f"cannot read the image {path}: it is empty")
    with path.open("rb") as file:
        start = file.read(8)
    if start == b"\x89PNG\r\n\x1a\n":
        return PngImageFile(path)
    if start.startswith(b"\xff\xd8\xff"):
        return JpegImageFile(path)
    raise DataError(f"cannot read the image {path}: it is neither a PNG nor a JPEG file")


def _damaged(error: Exception) -> str:
    return f"it is damaged or not such an image ({reason(error)})"


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
