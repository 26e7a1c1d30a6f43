"""The numbers that the paper and its references print, to stand beside ours. Percent, on CIFAR-10.

All from Table I of "A Majority Invariant Approach to Patch Robustness Certification for Deep Learning Models", the
paper behind this project. Three rows are its own case study, where of DRS and PG-DRS it prints the strategy for
which PG-DRS certifies most; the others are what it quotes from the literature.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """One row of the paper's Table I: clean and certified accuracy against 2x2 and 5x5 patches."""

    name: str
    method: str  # the technique, in the words of our own rows
    accuracy: dict[str, tuple[float, float]]
    mean: tuple[float, float]
    quoted: bool  # quoted by the paper from the literature, rather than run in its case study


TABLE_1 = (
    Published("MC", "majorcert", {"2x2": (88.1, 71.1), "5x5": (88.1, 57.8)}, (88.1, 64.5), quoted=False),
    Published(
        "PG-DRS, best strategy", "pg-drs", {"2x2": (87.3, 69.7), "5x5": (84.5, 57.2)}, (85.9, 63.5), quoted=False
    ),
    Published("DRS, best strategy", "drs", {"2x2": (86.6, 69.6), "5x5": (84.2, 57.1)}, (85.4, 63.4), quoted=False),
    Published("PG-DRS, quoted", "pg-drs", {"2x2": (84.7, 69.2), "5x5": (84.6, 57.7)}, (84.7, 63.5), quoted=True),
    Published("DRS, quoted", "drs", {"2x2": (83.9, 68.9), "5x5": (83.9, 56.2)}, (83.9, 62.6), quoted=True),
    Published("PG-BN", "pg-bn", {"2x2": (84.5, 63.8), "5x5": (83.9, 47.3)}, (84.2, 55.6), quoted=True),
    Published("IBP", "ibp", {"2x2": (65.8, 51.9), "5x5": (47.8, 30.3)}, (56.8, 41.1), quoted=True),
    Published("CBN", "cbn", {"2x2": (83.2, 51.0), "5x5": (83.2, 16.2)}, (83.2, 33.6), quoted=True),
)
LEADERBOARD = {
    "PatchCleanser, ViT-B with greedy cutout": (82.4, 64.9),
    "PatchCleanser, ViT-B trained with cutout": (83.9, 62.1),
    "PatchCleanser, ViT-B as it is": (83.8, 61.6),
    "PatchCleanser, ResNet-50 trained with masks": (81.6, 53.0),
    "PatchCleanser, ResNet-50 as it is": (81.1, 41.6),
    "Smoothed ViT, ViT-B (the patch size is not known)": (69.3, 38.3),
    "PatchGuard, BagNet-17": (54.6, 26.0),
    "DRS, ResNet-50 (the patch size is not known)": (44.4, 14.0),
}
"""Clean and certified recovery on ImageNet at 2% of the image, all 50,000 validation images, as the public leaderboard
github.com/inspire-group/patch-defense-leaderboard lists them; masks are 6x6."""
LEADERBOARD_PATCH = "32x32"
"""2% of 224x224."""
