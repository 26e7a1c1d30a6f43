"""The photos of a split, in a file beside the evidence, as the true labels are: what "2%" of them means, and names.

`<dataset>-<split>.photos.json` names the images it is about by their SHA-256, so that the sizes of others are refused.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Annotated, Literal

import msgspec

from majorcert.core.reach import Evidence
from majorcert.core.threat import ImageSize
from majorcert.errors import DataError, StoreError
from majorcert.files.atomic import replacing
from majorcert.files.photo import Filter, Fit, Photos, Resizing
from majorcert.files.truth import truth_beside
from majorcert.files.untrusted import MAX_JSON_BYTES, decoded, read_bytes, reason

MOST_FILES = 400_000
"""The names of more would make the file larger than one that is read."""
Side = Annotated[int, msgspec.Meta(ge=1, le=2**20)]


class PhotoSizes(msgspec.Struct, tag_field="format", tag="majorcert-photos"):
    """A file of photo sizes."""

    version: Literal[1]
    images_sha256: str
    fit: Fit
    filter: Filter
    sizes: list[tuple[Side, Side] | None]
    """of each image by its number in the split; None where it is not known"""
    files: list[str] = []
    """where each is, or nothing"""


def photos_name(truth: str) -> str:
    """The name of the file that belongs beside the truth file of this name."""
    return f"{truth.removesuffix('.truth.json')}.photos.json"


def write_photos(
    path: str | PathLike[str],
    sizes: Sequence[ImageSize | None],
    resizing: Resizing,
    images_sha256: str,
    files: Sequence[str] = (),
) -> None:
    """Write the (height, width) of every photo of a split, how they were brought to the networks' size, and files."""
    content = PhotoSizes(1, images_sha256, resizing.fit, resizing.filter, list(sizes), list(files[:MOST_FILES]))
    with replacing(path) as beside:
        beside.write_bytes(msgspec.json.encode(content) + b"\n")


def find_photos(store: str | PathLike[str], evidence: Evidence) -> Photos | None:
    """The sizes of the photos that the evidence is about, from the file beside its store; None when there is none."""
    return found[0] if (found := _found(store, evidence)) else None


def find_files(store: str | PathLike[str], evidence: Evidence) -> dict[int, str]:
    """Where in its folder the photo of each image is that the evidence is about, if that is known."""
    return found[1] if (found := _found(store, evidence)) else {}


def _found(store: str | PathLike[str], evidence: Evidence) -> tuple[Photos, dict[int, str]] | None:
    truth = truth_beside(store, evidence)
    path = truth.with_name(photos_name(truth.name))
    if not path.is_file():
        return None
    try:
        found, voted = decoded(read_bytes(path, MAX_JSON_BYTES), PhotoSizes), evidence.images.tolist()
        if found.images_sha256 != evidence.provenance.get("images_sha256"):
            raise StoreError(f"{path}: holds the photo sizes of other images than those that were voted on")
        sizes = {image: size for image in voted if (size := found.sizes[image])}
        if len(sizes) < len(voted):
            raise StoreError(f"{path}: {len(voted) - len(sizes)} of the {len(voted)} photos have no size there")
        files = {image: found.files[image] for image in voted if image < len(found.files) and found.files[image]}
        named = {sizes[image]: file for image, file in files.items()}
        return Photos(frozenset(sizes.values()), Resizing(found.fit, found.filter), named), files
    except (OSError, ValueError, IndexError, DataError) as error:
        raise StoreError(f"{path}: cannot be read as the sizes of the photos ({reason(error)})") from None
