"""Small images and maps of placements, drawn in plain characters."""

import numpy as np
import numpy.typing as npt

from majorcert.core.threat import Bools

SHADES = " .:-=+*#%@"
"""From dark to bright."""
UNSAFE, SAFE = "##", " ."


def image_text(image: npt.NDArray[np.uint8]) -> list[str]:
    """One line for each row of a (channels, height, width) image, two characters for each pixel."""
    brightness = image.astype(float).mean(axis=0) / 256
    return ["".join(2 * SHADES[int(value * len(SHADES))] for value in line) for line in brightness]


def safe_text(safe: Bools) -> list[str]:
    """One line for each row of placements: where the top-left pixel of the patch may be, and where it is unsafe."""
    return ["".join(SAFE if here else UNSAFE for here in line) for line in safe]


def side_by_side(*blocks: list[str]) -> str:
    """Blocks of lines next to each other, the shorter ones filled up."""
    height = max(len(block) for block in blocks)
    padded = [
        [line.ljust(max(map(len, block), default=0)) for line in block + [""] * (height - len(block))]
        for block in blocks
    ]
    return "\n".join("    ".join(lines).rstrip() for lines in zip(*padded, strict=True))
