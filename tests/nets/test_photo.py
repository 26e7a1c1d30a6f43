"""How far a pixel of a photo spreads: counted by formula, and seen by impulses through the real decoder and resizer."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from majorcert.core.threat import Patch
from majorcert.nets.sources.folder import read_image
from majorcert.nets.sources.photo import patch_on_photo, side_on_photo, spread, supports

SIZES = [(320, 32), (33, 32), (32, 32), (100, 32), (64, 32), (50, 7), (20, 32), (7, 50), (1, 8), (31, 32), (96, 8)]


@pytest.mark.parametrize(("n_photo", "n_network"), SIZES)
def test_the_supports_are_those_of_the_filter(n_photo: int, n_network: int) -> None:
    """Row i of the picture is an impulse at pixel i; in floating point, no weight is too small to be seen."""
    impulses = Image.fromarray(np.eye(n_photo, dtype=np.float32))
    seen = np.asarray(impulses.resize((n_network, n_photo), Image.Resampling.BILINEAR)) > 1e-12
    first, last = supports(n_photo, n_network)
    for place in range(n_network):
        assert np.flatnonzero(seen[:, place]).tolist() == list(range(first[place], last[place] + 1))


@pytest.mark.parametrize(("photo", "network"), [((320, 320), (32, 32)), ((50, 41), (8, 8)), ((6, 9), (8, 8))])
def test_a_patch_on_the_photo_changes_no_more_than_is_said(
    photo: tuple[int, int], network: tuple[int, int], tmp_path: Path
) -> None:
    """Black photos with a white patch, as PNG files through the real reader; somewhere the bound is met."""
    Image.fromarray(np.zeros(photo, dtype=np.uint8)).save(tmp_path / "clean.png")
    clean, most = read_image(tmp_path / "clean.png", network), [0, 0]
    height, width = max(1, photo[0] // 6), max(1, photo[1] // 6)
    allowed = [spread(height, photo[0], network[0]), spread(width, photo[1], network[1])]
    for top, left in zip(range(photo[0] - height + 1), range(photo[1] - width + 1), strict=False):
        painted = np.zeros(photo, dtype=np.uint8)
        painted[top : top + height, left : left + width] = 255
        Image.fromarray(painted).save(tmp_path / "painted.png")
        rows, columns = np.nonzero((read_image(tmp_path / "painted.png", network) != clean).any(axis=0))
        most = [max(most[0], int(np.ptp(rows)) + 1), max(most[1], int(np.ptp(columns)) + 1)]
    assert most[0] <= allowed[0]
    assert most[1] <= allowed[1]
    assert allowed[0] - most[0] <= 1, "8 bits hide weights that are small, and no more"


@pytest.mark.parametrize(("n_photo", "n_network"), SIZES)
def test_a_side_on_the_photo_is_the_largest_that_is_covered(n_photo: int, n_network: int) -> None:
    first, last = supports(n_photo, n_network)
    for side in range(n_photo + 1):
        met = [int(((last >= at) & (first < at + side)).sum()) for at in range(n_photo - side + 1)] if side else [0]
        for certified in range(n_network + 1):
            assert (side_on_photo(certified, n_photo, n_network) >= side) == (max(met) <= certified)


def test_the_certificate_of_the_issue() -> None:
    """5x5 of 32x32 covers (5 - 2) * 10 + 1 pixels of a 320x320 photo, not 50x50: that spreads over 7x7."""
    assert patch_on_photo(Patch(5), (320, 320), (32, 32)) == (31, 31)
    assert spread(50, 320, 32) == 7
    assert patch_on_photo(Patch(5, 3), (32, 32), (32, 32)) == (5, 3)
    assert patch_on_photo(Patch(1), (320, 320), (32, 32)) == (0, 0)
