"""Labels without a vote: where every view of a defender abstains it says the first class, and that must be told."""

from collections.abc import Sequence

from majorcert.core.reach import Evidence, offered

TOLERABLE = 0.1
"""Over this share of images without a vote a defender is not fit for the data, or its threshold is not."""
LOWER = "`majorcert average RUN --threshold 0.2 -o OUT`, then vote again"


def abstentions(names: Sequence[str], defenders: Sequence[Evidence]) -> dict[str, int]:
    """By the name of each defender: on how many images none of its views votes."""
    return {name: int(offered(defender, "abstained")().sum()) for name, defender in zip(names, defenders, strict=True)}


def sentence(name: str, n_abstained: int, n_images: int) -> str:
    """That a defender has images without a vote, in words."""
    return (
        f"{name}: none of its views votes on {n_abstained:,} of {n_images:,} images ({n_abstained / n_images:.1%}); "
        "there it says the first class, for want of another"
        + (f"; a lower threshold would suit this data: {LOWER}" if too_many(n_abstained, n_images) else "")
    )


def too_many(n_abstained: int, n_images: int) -> bool:
    """Are there so many images without a vote that the user must be warned?"""
    return n_abstained > TOLERABLE * n_images
