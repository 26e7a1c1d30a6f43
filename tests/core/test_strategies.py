"""Strategies: regions and touched ablations against literal sets of pixels, and spec strings."""

import math
from itertools import product

import numpy as np
import oracle
import pytest

import majorcert as mc
from majorcert.core.regions import Touched

IMAGE_SIZES = [(1, 1), (1, 5), (4, 1), (3, 5), (5, 3), (4, 4), (6, 7)]


def n_touched(touched: Touched) -> np.ndarray:
    """(placement rows, placement columns) how many ablations each placement touches."""
    return touched.n_touched()[touched.rows][:, touched.columns]


def specs_that_fit(image_size: tuple[int, int]) -> list[str]:
    """Every kind, size and stride for the image, strides past the side and past the size among them."""
    sides = {"rows": image_size[0], "columns": image_size[1], "blocks": min(image_size)}
    return [
        f"{kind}:{size}/{stride}"
        for kind, side in sides.items()
        for size in range(1, side + 1)
        for stride in range(1, side + 2)
    ]


@pytest.mark.parametrize("image_size", IMAGE_SIZES)
def test_visible_pixels_are_the_literal_regions(image_size: tuple[int, int]) -> None:
    for spec in specs_that_fit(image_size):
        strategy = mc.strategy(spec)
        rows, columns = strategy.visible(image_size)
        regions = [
            set(product(np.flatnonzero(row).tolist(), np.flatnonzero(column).tolist()))
            for row in rows
            for column in columns
        ]
        assert regions == list(oracle.regions(spec, image_size)), spec
        assert strategy.n_ablations(image_size) == len(regions), spec


@pytest.mark.parametrize("image_size", IMAGE_SIZES)
def test_touched_ablations_share_a_pixel_with_the_patch(image_size: tuple[int, int]) -> None:
    for spec in specs_that_fit(image_size):
        for height, width in product(range(1, image_size[0] + 1), range(1, image_size[1] + 1)):
            touched = mc.strategy(spec).touched(mc.Patch(height, width), image_size)
            literal = oracle.touched(spec, image_size, (height, width))
            assert n_touched(touched).shape == (image_size[0] - height + 1, image_size[1] - width + 1)
            for (top, left), ablations in literal.items():
                assert set(np.flatnonzero(touched.mask(top, left)).tolist()) == ablations, (
                    spec,
                    height,
                    width,
                    top,
                    left,
                )
                assert n_touched(touched)[top, left] == len(ablations), (spec, height, width, top, left)


@pytest.mark.parametrize(
    ("strategy", "image_size", "n_ablations"),
    [
        (mc.Columns(4), (32, 32), 32),
        (mc.Rows(4), (32, 32), 32),
        (mc.Blocks(12), (32, 32), 1024),
        (mc.Columns(4), (20, 32), 32),
        (mc.Rows(4), (20, 32), 20),
        (mc.Blocks(12), (20, 32), 640),
        (mc.Columns(19, stride=5), (224, 224), 45),
        (mc.Columns(19, 10), (224, 224), 23),
        (mc.Blocks(75, stride=10), (224, 224), 529),
    ],
)
def test_number_of_ablations(strategy: mc.Strategy, image_size: tuple[int, int], n_ablations: int) -> None:
    assert strategy.n_ablations(image_size) == n_ablations


@pytest.mark.parametrize(("spec", "patch", "most"), [("columns:4", 5, 8), ("rows:4", 2, 5), ("blocks:12", 5, 256)])
def test_known_counts_at_stride_1(spec: str, patch: int, most: int) -> None:
    """At stride 1 every placement touches (m + s - 1) bands, squared for blocks."""
    counts = n_touched(mc.strategy(spec).touched(mc.Patch(patch), (32, 32)))
    assert counts.min() == counts.max() == most


def test_a_stride_that_does_not_divide_the_image_touches_more_at_the_seam() -> None:
    """The band from 220 is only 4 pixels before the one from 0: a patch near the left edge touches one band more."""
    touched = mc.Columns(19, stride=10).touched(mc.Patch(32), (224, 224))
    assert math.ceil((32 + 19 - 1) / 10) == 5
    assert n_touched(touched).max() == 6
    bands = [{(start + i) % 224 for i in range(19)} for start in range(0, 224, 10)]
    literal = [sum(not band.isdisjoint(range(left, left + 32)) for band in bands) for left in range(224 - 32 + 1)]
    assert max(literal) == 6
    assert n_touched(touched).tolist() == [literal] * (224 - 32 + 1)


def test_the_margin_uses_the_count_at_the_seam() -> None:
    """11 votes to 0: enough for five touched bands changed twice over, and one short for six."""
    labels = np.full((1, 23), mc.ABSTAIN)
    labels[0, :11] = 0
    ballots = mc.Ballots(labels, strategy=mc.Columns(19, 10), image_size=(224, 224), n_classes=2)
    assert mc.drs(ballots, mc.Patch(32), bound="margin").certified.tolist() == [False]
    labels[0, 11] = 0
    ballots = mc.Ballots(labels, strategy=mc.Columns(19, 10), image_size=(224, 224), n_classes=2)
    assert mc.drs(ballots, mc.Patch(32), bound="margin").certified.tolist() == [True]


def test_ablations_are_in_row_major_order_of_their_starts() -> None:
    mask = mc.Blocks(1).touched(mc.Patch(1), (3, 4)).mask(1, 2)
    assert np.flatnonzero(mask).tolist() == [1 * 4 + 2]


@pytest.mark.parametrize(
    ("spec", "strategy"),
    [
        ("rows:4", mc.Rows(4)),
        ("columns:4", mc.Columns(4)),
        ("blocks:12", mc.Blocks(12)),
        ("columns:19/5", mc.Columns(19, stride=5)),
        ("rows:1/3", mc.Rows(1, 3)),
        ("blocks:75/10", mc.Blocks(75, stride=10)),
    ],
)
def test_specs_round_trip(spec: str, strategy: mc.Strategy) -> None:
    assert mc.strategy(spec) == strategy
    assert type(mc.strategy(spec)) is type(strategy)
    assert str(strategy) == spec
    assert mc.strategy(str(strategy)) == strategy


def test_a_stride_of_1_is_not_written() -> None:
    assert str(mc.strategy("columns:4/1")) == "columns:4"
    assert mc.strategy(" rows:4 ") == mc.Rows(4)


def test_strategies_differ_by_kind_size_and_stride() -> None:
    assert len({mc.Rows(4), mc.Columns(4), mc.Blocks(4), mc.Rows(5), mc.Rows(4, 2), mc.strategy("rows:4")}) == 5


def test_integers_of_numpy_are_sizes() -> None:
    assert str(mc.Columns(np.int64(19), np.int32(5))) == "columns:19/5"


@pytest.mark.parametrize(
    "spec",
    ["", "rows", "rows:", "rows:4/", "rows:/2", "diagonals:4", "Rows:4", "rows:4.5", "rows:-4", "rows:4/2/1", "rows 4"],
)
def test_a_spec_that_cannot_be_read_is_refused(spec: str) -> None:
    with pytest.raises(mc.StrategyError, match=r"cannot read '.*' as a strategy; write for example 'rows:4'"):
        mc.strategy(spec)


@pytest.mark.parametrize("kind", [mc.Rows, mc.Columns, mc.Blocks])
@pytest.mark.parametrize("value", [0, -3])
def test_sizes_and_strides_are_at_least_1(kind: type[mc.Strategy], value: int) -> None:
    with pytest.raises(mc.StrategyError, match=rf"the size of {kind.__name__} .* 1 or more, got {value}"):
        kind(value)
    with pytest.raises(mc.StrategyError, match=rf"the stride of {kind.__name__} .* 1 or more, got {value}"):
        kind(4, stride=value)


@pytest.mark.parametrize("value", [4.0, 2.5, "4", None])
def test_sizes_are_whole_numbers(value: object) -> None:
    with pytest.raises(mc.StrategyError, match=r"the size of Rows in pixels is a whole number"):
        mc.Rows(value)  # type: ignore[arg-type]


def test_a_spec_with_a_size_of_0_says_so() -> None:
    with pytest.raises(mc.StrategyError, match=r"the size of Blocks .* got 0"):
        mc.strategy("blocks:0")
    with pytest.raises(mc.StrategyError, match=r"the stride of Columns .* got 0"):
        mc.strategy("columns:4/0")


@pytest.mark.parametrize(
    ("spec", "image_size", "most"),
    [("rows:9", (8, 20), 8), ("columns:9", (20, 8), 8), ("blocks:9", (8, 20), 8), ("blocks:9/2", (20, 8), 8)],
)
def test_an_ablation_larger_than_the_image_is_refused(spec: str, image_size: tuple[int, int], most: int) -> None:
    height, width = image_size
    expected = rf"{spec} does not fit in a {height}x{width} image; use a size of at most {most}"
    with pytest.raises(mc.StrategyError, match=expected):
        mc.strategy(spec).n_ablations(image_size)
    with pytest.raises(mc.StrategyError, match=expected):
        mc.strategy(spec).touched(mc.Patch(1), image_size)


def test_bands_as_long_as_the_side_fit() -> None:
    assert mc.Rows(8).n_ablations((8, 5)) == 8
    assert mc.Columns(5).n_ablations((8, 5)) == 5


def test_strategies_that_differ_in_anything_touch_their_own_ablations() -> None:
    class From(mc.Strategy):
        """One band of rows, from a given one on."""

        def __init__(self, size: int, first: int) -> None:
            super().__init__(size)
            object.__setattr__(self, "first", first)

        def visible(self, image_size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            rows = np.arange(image_size[0])
            return ((rows >= self.first) & (rows < self.first + self.size))[None], np.ones((1, image_size[1]), bool)

    top, bottom = From(1, 0), From(1, 3)
    assert top != bottom
    assert top == From(1, 0)
    assert [top.touched(mc.Patch(1), (4, 4)).mask(row, 0).item() for row in range(4)] == [True, False, False, False]
    assert [bottom.touched(mc.Patch(1), (4, 4)).mask(row, 0).item() for row in range(4)] == [False, False, False, True]
