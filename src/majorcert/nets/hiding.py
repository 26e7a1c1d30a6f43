"""How a defender hides pixels: by a strategy, of which views show regions, or by masks, which hide them."""

from majorcert.core.regions import Strategy, strategy
from majorcert.core.threat import ImageSize
from majorcert.defences.bounds import Sizes
from majorcert.defences.fields import Fields
from majorcert.defences.masking import Masks
from majorcert.errors import ModelError
from majorcert.errors.checks import checked_size
from majorcert.files.untrusted import check_room
from majorcert.nets.views import VIEWS, View

Hiding = Strategy | Masks | Sizes


def read_hiding(spec: str) -> Hiding:
    """Read "columns:4", "masks:5/3", "bounds:5" and so on, as `str` gives them."""
    kind = str(spec).strip().partition(":")[0]
    return Masks.parse(spec) if kind == "masks" else Sizes.parse(spec) if kind == "bounds" else strategy(spec)


def check_view(hiding: Hiding, view: View) -> None:
    """Refuse a view that does not go with how pixels are hidden."""
    if isinstance(hiding, Masks | Sizes):
        if view != (own := "masked" if isinstance(hiding, Masks) else "bounds"):
            raise ModelError(f"of {hiding} a view is {own!r}, got {view!r}")
    elif view not in (*VIEWS, *(["whole"] if isinstance(hiding, Fields) else [])):
        raise ModelError(f"a view is 'canvas' or 'crop', or of fields 'whole', got {view!r} for {hiding}")


def check_regions(hiding: Hiding, image_size: ImageSize) -> None:
    """Refuse what a file claims, if the regions of all views would not fit in memory; counted without making any."""
    height, width = checked_size(image_size)
    if isinstance(hiding, Sizes):
        n_regions = len(hiding.patches)
    elif isinstance(hiding, Masks):
        n_regions = (height // hiding.stride + 2) * (width // hiding.stride + 2)
    else:
        n_regions = hiding.n_ablations((height, width))
    check_room(n_regions * height * width, f"the regions of {hiding} on {height}x{width} images")


def n_views(hiding: Hiding, image_size: ImageSize) -> int:
    """How many placements, masks or ablations there are; what does not fit in the image is refused."""
    if isinstance(hiding, Sizes):
        return hiding.n_placements(image_size)
    return hiding.n_masks(image_size) if isinstance(hiding, Masks) else hiding.n_ablations(image_size)
