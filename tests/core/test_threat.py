"""Patches: their sizes, their placements, and the last row and column of these."""

import numpy as np
import oracle
import pytest

import majorcert as mc
from majorcert.core.threat import as_patch


@pytest.mark.parametrize(
    ("patch", "sides", "text"),
    [
        (mc.Patch(5), (5, 5), "5x5"),
        (mc.Patch(3, 7), (3, 7), "3x7"),
        (mc.Patch(7, 3), (7, 3), "7x3"),
        (mc.Patch(np.int64(4)), (4, 4), "4x4"),
        (mc.Patch(height=2, width=1), (2, 1), "2x1"),
    ],
)
def test_a_patch_is_height_by_width(patch: mc.Patch, sides: tuple[int, int], text: str) -> None:
    assert (patch.height, patch.width) == sides
    assert str(patch) == text
    assert mc.Patch.parse(text) == patch


def test_one_number_is_a_square() -> None:
    assert mc.Patch.parse("5") == mc.Patch(5) == mc.Patch(5, 5)
    assert mc.Patch(5) != mc.Patch(5, 6)


@pytest.mark.parametrize("image_size", [(1, 1), (1, 6), (4, 3), (5, 5)])
def test_every_placement_counts(image_size: tuple[int, int]) -> None:
    for height in range(1, image_size[0] + 1):
        for width in range(1, image_size[1] + 1):
            n_tops, n_lefts = mc.Patch(height, width).n_placements(image_size)
            literal = oracle.placements((height, width), image_size)
            assert [(top, left) for top in range(n_tops) for left in range(n_lefts)] == literal


def test_there_are_784_placements_of_a_5x5_patch_on_a_32x32_image() -> None:
    assert mc.Patch(5).n_placements((32, 32)) == (28, 28)
    assert mc.Patch(32).n_placements((32, 32)) == (1, 1)
    assert mc.Patch(2, 3).n_placements((4, 9)) == (3, 7)


@pytest.mark.parametrize("given", [mc.Patch(3, 7), (3, 7), [3, 7], "3x7", (np.int64(3), np.int8(7))])
def test_wherever_a_patch_is_expected_its_sides_will_do(given: object) -> None:
    assert as_patch(given) == mc.Patch(3, 7)
    assert as_patch(5) == as_patch("5") == as_patch(np.int64(5)) == mc.Patch(5)


@pytest.mark.parametrize("given", [None, 2.5, (3,), (3, 7, 9), "3,7", {}, True.__class__])
def test_what_is_no_patch_is_refused(given: object) -> None:
    with pytest.raises(mc.PatchError, match="patch"):
        as_patch(given)


@pytest.mark.parametrize("sides", [(0,), (-1,), (5, 0), (0, 5), (3, -2)])
def test_a_patch_without_pixels_is_refused(sides: tuple[int, ...]) -> None:
    with pytest.raises(mc.PatchError, match=r"of a patch .* whole number of 1 or more, got"):
        mc.Patch(*sides)


@pytest.mark.parametrize("sides", [(5.0,), (2.5,), (5, 5.0), ("5",), (None,)])
def test_a_patch_that_is_not_whole_pixels_is_refused(sides: tuple[object, ...]) -> None:
    with pytest.raises(mc.PatchError, match=r"of a patch .* whole number of 1 or more, got"):
        mc.Patch(*sides)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "x", "5x", "x5", "5x5x5", "-5", "5.0", "5 x", "five"])
def test_text_that_is_no_patch_is_refused(text: str) -> None:
    with pytest.raises(mc.PatchError, match=r"cannot read .* as a patch; .*'5'.*'2x7'.*'2%'.*'75x100px'"):
        mc.Patch.parse(text)


@pytest.mark.parametrize(
    ("patch", "text"), [(mc.Patch(40, 5), "40x5"), (mc.Patch(5, 33), "5x33"), (mc.Patch(33), "33x33")]
)
def test_a_patch_larger_than_the_image_is_refused(patch: mc.Patch, text: str) -> None:
    expected = (
        rf"a {text} patch does not fit in a 32x32 image; give the size in pixels of the image the votes were cast on"
    )
    with pytest.raises(mc.PatchError, match=expected):
        patch.n_placements((32, 32))
    with pytest.raises(mc.PatchError, match=expected):
        mc.Columns(4).touched(patch, (32, 32))


def test_a_patch_error_is_a_majorcert_error() -> None:
    with pytest.raises(mc.MajorcertError, match="1 or more"):
        mc.Patch(0)


def bands_that_only_the_end_can_flip(kind: str) -> mc.Ballots:
    """Bands of 4 pixels on 32x32; 15 of the 32 vote 0, the rest abstain, so a 5x5 patch must leave 8 of them.

    Each placement touches 8 bands. Those at the end of the image touch bands 24 to 31, all of which vote 0, and leave
    the 7 others, 8 to 14. One step before the end, band 31 is left as well, and nowhere else are more than 7 touched.
    """
    labels = np.full((1, 32), mc.ABSTAIN)
    labels[0, 24:32] = 0
    labels[0, 8:15] = 0
    return mc.Ballots(labels, strategy=mc.strategy(f"{kind}:4"), image_size=(32, 32), n_classes=2)


@pytest.mark.parametrize("kind", ["rows", "columns"])
@pytest.mark.parametrize("n_defenders", [1, 3])
@pytest.mark.parametrize("reach", ["exact", "paper"])
def test_votes_that_only_the_last_placement_flips_are_not_certified(kind: str, n_defenders: int, reach: str) -> None:
    defenders = [bands_that_only_the_end_can_flip(kind)] * n_defenders
    verdict = mc.majorcert(defenders, mc.Patch(5), reach=reach)
    expected = np.ones((28, 28), dtype=bool)
    expected[(-1, slice(None)) if kind == "rows" else (slice(None), -1)] = False
    assert expected[:-1, :-1].all()  # a scan that stops one short would certify
    np.testing.assert_array_equal(verdict.safe[0], expected)
    assert verdict.certified.tolist() == [False]


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_the_local_bound_checks_the_last_placement(kind: str) -> None:
    verdict = mc.drs(bands_that_only_the_end_can_flip(kind), mc.Patch(5), bound="local")
    assert verdict.safe[0, :-1, :-1].all()
    assert verdict.certified.tolist() == [False]


def test_the_last_corner_alone_can_be_unsafe() -> None:
    """One block votes, the last one: wherever else a one-pixel patch lies, the vote stands and wins the tie."""
    labels = np.full((1, 12), mc.ABSTAIN)
    labels[0, -1] = 0
    ballots = mc.Ballots(labels, strategy=mc.Blocks(1), image_size=(3, 4), n_classes=2)
    verdict = mc.majorcert([ballots], mc.Patch(1))
    assert np.argwhere(~verdict.safe[0]).tolist() == [[2, 3]]
    assert verdict.certified.tolist() == [False]
