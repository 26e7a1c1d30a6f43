"""One image file, of a stranger's, as pixels: decoded in full, upright, and brought to the networks' size."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError
from majorcert.files.photo import SQUASHED, Resizing
from majorcert.files.untrusted import plain_size, reason

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
KINDS = "PNG, JPEG, WebP, BMP, TIFF, PPM and PGM"
MAX_PIXELS = 64_000_000
"""A file that claims more pixels than this is refused before it is decoded."""
GREY = 128
"""Of what is put beside a photo that is padded."""
GREY_MODES = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L")


def is_photo(path: Path) -> bool:
    """Whether a file is called as one of an image, and is not hidden as those are that systems put beside it."""
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".")


def read_image(
    path: Path, image_size: ImageSize | None = None, channels: int | None = None, resizing: Resizing = SQUASHED
) -> npt.NDArray[np.uint8]:
    """(channels, height, width): one file of any size and mode, upright, on white where it is transparent."""
    return read_photo(path, image_size, channels, resizing)[0]


def read_photo(
    path: Path, image_size: ImageSize | None = None, channels: int | None = None, resizing: Resizing = SQUASHED
) -> tuple[npt.NDArray[np.uint8], ImageSize]:
    """The same, and the (height, width) that the upright photo had before it was brought to `image_size`."""
    try:
        with opened(path) as file:
            if file.width * file.height > MAX_PIXELS:
                raise DataError(f"{path} claims {file.width}x{file.height} pixels, over the limit of {MAX_PIXELS}")
            image = plain_picture(file, channels)
            photo_size = image.height, image.width
            pixels = np.asarray(image if image_size is None else resized(image, image_size, resizing), dtype=np.uint8)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot read the image {path}: {error.strerror or _damaged(error)}") from None
    except Exception as error:  # decoders raise errors of many kinds on damaged files
        raise DataError(f"cannot read the image {path}: {_damaged(error)}") from None
    return (pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))), photo_size


def glance(path: Path) -> tuple[ImageSize, bool]:
    """The (height, width) of the upright photo, and whether it is coloured, from the file's header alone."""
    try:
        with opened(path) as file:
            turned = file.format != "TIFF" and file.getexif().get(0x0112) in (5, 6, 7, 8)  # Pillow turns TIFF itself
            size = (file.width, file.height) if turned else (file.height, file.width)
            return size, file.mode not in GREY_MODES
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"cannot read the image {path}: {_damaged(error)}") from None


def resized(image: "Image", image_size: ImageSize, resizing: Resizing) -> "Image":
    """An image of mode L or RGB in the networks' size: by the filter alone, as `files.photo` counts."""
    from PIL import Image

    photo_size = image.height, image.width
    used, made = resizing.used(photo_size, image_size), resizing.made(photo_size, image_size)
    if used != photo_size:
        top, left = (photo_size[0] - used[0]) // 2, (photo_size[1] - used[1]) // 2
        image = image.crop((left, top, left + used[1], top + used[0]))
    if (image.height, image.width) != made:
        image = image.resize(made[::-1], Image.Resampling[resizing.filter.upper()])
    if made == image_size:
        return image
    padded = Image.new(image.mode, image_size[::-1], GREY if image.mode == "L" else (GREY,) * 3)
    padded.paste(image, ((image_size[1] - made[1]) // 2, (image_size[0] - made[0]) // 2))
    return padded


def opened(path: Path) -> "ImageFile":
    """The image, its header read; not by `Image.open`, which warns beside its own limit of pixels."""
    try:
        from PIL import (
            BmpImagePlugin,
            JpegImagePlugin,
            PngImagePlugin,
            PpmImagePlugin,
            TiffImagePlugin,
            WebPImagePlugin,
        )
    except ImportError as error:
        raise DataError(
            f"image files are read with Pillow ({error}); pip install 'majorcert[nets]' brings it"
        ) from None
    if path.is_dir():
        raise DataError(f"cannot read the image {path}: it is a folder")
    if not plain_size(path):
        raise DataError(f"cannot read the image {path}: it is empty")
    with path.open("rb") as file:
        start = file.read(12)
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImagePlugin.PngImageFile(path)
    if start.startswith(b"\xff\xd8\xff"):
        return JpegImagePlugin.JpegImageFile(path)
    if start[:4] == b"RIFF" and start[8:] == b"WEBP":
        return WebPImagePlugin.WebPImageFile(path)
    if start.startswith(b"BM"):
        return BmpImagePlugin.BmpImageFile(path)
    if start[:4] in (b"II*\0", b"MM\0*"):
        image = TiffImagePlugin.TiffImageFile(path)
        image.filename = ""  # or Pillow maps plain pixels from the file, those of a turned photo in the wrong shape
        return image
    if start[:1] == b"P" and start[1:2] in b"123456" and start[2:3].isspace():
        return PpmImagePlugin.PpmImageFile(path)
    raise DataError(f"cannot read the image {path}: it is no image of a kind that is read, {KINDS}")


def plain_picture(file: "Image", channels: int | None) -> "Image":
    """The decoded image, upright, of mode L or RGB, on white where it is transparent."""
    from PIL import Image, ImageOps

    image: Image.Image = ImageOps.exif_transpose(file)
    if image.mode == "F":
        raise ValueError("its pixels are not whole numbers; save it in 8 bits")
    if image.mode.startswith("I"):  # 16 bits of grey; a plain conversion would clip them
        image = Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8))
    grey = image.mode in GREY_MODES if channels is None else channels == 1
    if image.has_transparency_data:
        coloured = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured)
    return image.convert("L" if grey else "RGB")


def _damaged(error: Exception) -> str:
    return f"it is damaged or not such an image ({reason(error)})"
