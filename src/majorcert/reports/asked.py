"""Evidence stores that belong together and the patches that are asked about; what there is to know of them is told."""

from collections.abc import Mapping, Sequence

from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.errors.checks import check_together
from majorcert.files.asked_patches import blamed, is_of_photo, read_patches
from majorcert.files.evidence import load_evidence
from majorcert.files.photo_sizes import find_photos
from majorcert.reports.abstention import abstentions, sentence, too_many
from majorcert.reports.bound import beyond
from majorcert.reports.contents import defender_names
from majorcert.reports.terminal import complain, remark


def defenders_of(stores: Sequence[str]) -> list[Evidence]:
    """The evidence of one ensemble; where a defender does not vote at all, that is told."""
    defenders = [load_evidence(store) for store in stores]
    check_together(defenders)
    tell_abstentions(abstentions(defender_names(defenders), defenders), len(defenders[0]))
    return defenders


def patches_of(asked: Sequence[str], store: str, defenders: Sequence[Evidence]) -> list[Patch]:
    """The patches on the networks' image that are asked for.

    What one of the photos comes to is told, and of which patches a defender can say nothing.
    """
    photos, size = find_photos(store, defenders[0]), defenders[0].image_size
    found = read_patches(asked, size, photos)
    for given, patch in zip(asked, found, strict=True):
        if photos and is_of_photo(given):
            seen = f"the {size[0]}x{size[1]} pixels that the networks see"
            remark(f"{given} of each photo: at most {patch} of {seen}{blamed(given, size, photos)}")
        elif photos and min(covered := photos.covered(patch, size)):
            remark(f"{patch} covers {covered[0]}x{covered[1]} pixels, or more, of every decoded photo")
        elif is_of_photo(given):
            remark(f"{given} of the {size[0]}x{size[1]} pixels that the networks see: {patch}")
    for told in beyond(defenders, found):
        remark(told)
    return found


def tell_abstentions(n_abstained: Mapping[str, int], n_images: int) -> None:
    """A line for each defender that has images without a vote; in red where these are more than a tenth."""
    for name, n in n_abstained.items():
        if n:
            say = complain if too_many(n, n_images) else remark
            say(sentence(name, n, n_images))
