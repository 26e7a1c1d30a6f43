"""Patches as people ask for them: "5" or "3x7" of the image that the networks see, "2%" or "75x100px" of the photo."""

from collections.abc import Sequence

from majorcert.core.threat import ImageSize, Patch, as_patch
from majorcert.files.photo import Photos, containing, in_pixels, patch_from_photo


def is_of_photo(given: str) -> bool:
    """Whether a patch is asked for by what it is on the photo: "2%" or "75x100px"."""
    return in_pixels(given) is not None or given.strip().endswith("%")


def read_patches(given: Sequence[str], image_size: ImageSize, photos: Photos | None) -> list[Patch]:
    """The patches on the networks' image that "5", "3x7", "2%" and "75x100px" mean, with the photos if there are any.

    Sides alone are in pixels of that image. A share is one of each photo, or of that image if no photo is known of.
    """
    found = []
    for each in given:
        found.append(photos.patch(each, image_size) if photos and is_of_photo(each) else as_patch(each, image_size))
        found[-1].n_placements(image_size)
    return found


def read_sizes(asked: Sequence[str], image_size: ImageSize) -> list[Patch]:
    """The patches of those that need no photo; any of the others."""
    return [Patch(1) if is_of_photo(each) else read_patches([each], image_size, None)[0] for each in asked]


def as_told(given: str, patch: Patch) -> str:
    """A patch as it is told: on the photo as it was asked for, on the networks' image by its sides."""
    return given.strip() if is_of_photo(given) else str(patch)


def distinct(asked: Sequence[str], image_size: ImageSize) -> list[str]:
    """Each patch that is asked for once, however it is written; what does not fit in the image is refused."""
    sizes = read_sizes(asked, image_size)
    return list({as_told(given, patch): given for given, patch in zip(asked, sizes, strict=True)}.values())


def known_bound(asked: Sequence[str]) -> Patch | None:
    """The smallest patch that contains all that are asked for, if no photo must be seen to know them."""
    if not asked or any(is_of_photo(each) for each in asked):
        return None
    return containing([as_patch(each) for each in asked])


def blamed(given: str, image_size: ImageSize, photos: Photos | None) -> str:
    """Which photo makes a patch of the photos far larger than most of them need, to end a sentence with; else nothing.

    It is as large all the same: what is said of all photos must hold for this one. But one such photo costs the
    certificates of many.
    """
    if photos is None or not is_of_photo(given):
        return ""
    found = {size: patch_from_photo(given, size, image_size, photos.resizing) for size in sorted(photos.sizes)}
    usual = sorted(found.values(), key=lambda each: each.height * each.width)[(len(found) - 1) // 2]
    far = {size for size, each in found.items() if _far(each.height, usual.height) or _far(each.width, usual.width)}
    if not far:
        return ""
    size = max(far, key=lambda size: max(found[size].height / usual.height, found[size].width / usual.width))
    who = f"{photos.files.get(size, 'a photo')} of {size[0]}x{size[1]} pixels"
    return f", because of {who}; without photos so small or narrow about {usual}, as for half of the photo sizes"


def _far(side: int, usual: int) -> bool:
    """Whether a side is longer than usual by over a quarter, and over a pixel."""
    return side > usual + usual // 4 + 1
