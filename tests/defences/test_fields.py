"""Fields: what the cells of a map see and what a patch touches of them, against literal sets of pixels."""

from collections import Counter
from itertools import product

import numpy as np
import oracle
import pytest

import majorcert as mc
from majorcert.audit.geometry import regions as audited
from majorcert.audit.geometry import touched_sets

SIZE = (5, 6)
SPECS = [
    f"fields:{height}x{width}/{stride}"
    for height, width, stride in product((1, 2, 3, 5, 7), (1, 3, 4, 6), (1, 2, 4))
    if height != width
] + ["fields:1/3", "fields:2", "fields:3/2", "fields:4", "fields:9"]


def literal(spec: str) -> list[set[tuple[int, int]]]:
    """Pixel by pixel: how far it is from the pixel that the field lies around."""
    sizes, _, stride = spec.removeprefix("fields:").partition("/")
    lengths = [int(each) for each in sizes.split("x")] * (1 if "x" in sizes else 2)
    middles = [
        [None] if length >= side else list(range(0, side, int(stride or 1)))
        for length, side in zip(lengths, SIZE, strict=True)
    ]

    def sees(middle: int | None, pixel: int, length: int) -> bool:
        return middle is None or -((length - 1) // 2) <= pixel - middle <= length // 2

    return [
        {
            (row, column)
            for row, column in product(range(SIZE[0]), range(SIZE[1]))
            if sees(down, row, lengths[0]) and sees(across, column, lengths[1])
        }
        for down, across in product(*middles)
    ]


@pytest.mark.parametrize("spec", SPECS)
def test_cells_see_their_fields_and_nothing_wraps_around(spec: str) -> None:
    fields, expected = mc.strategy(spec), literal(spec)
    found = [set(map(tuple, np.argwhere(region).tolist())) for region in fields.regions(SIZE)]
    assert found == expected
    assert [set(region) for region in audited(spec, SIZE)] == expected
    assert fields.n_ablations(SIZE) == len(expected)
    for patch in ((1, 1), (2, 3), (5, 1), (5, 6)):
        touched, audit = fields.touched(mc.Patch(*patch), SIZE), touched_sets(spec, SIZE, patch)
        places = oracle.placements(patch, SIZE)
        assert list(audit) == places
        for place in places:
            painted = oracle.patch_pixels(patch, place)
            hit = {number for number, region in enumerate(expected) if region & painted}
            assert set(np.flatnonzero(touched.mask(*place)).tolist()) == hit == audit[place]


def test_a_border_cell_sees_less_and_a_corner_touches_less() -> None:
    fields = mc.Fields(3)
    assert fields.regions((8, 8)).sum(axis=(1, 2)).reshape(8, 8)[0].tolist() == [4, 6, 6, 6, 6, 6, 6, 4]
    n_touched = fields.touched(mc.Patch(2), (8, 8)).n_touched()
    assert (n_touched.min(), n_touched.max()) == (9, 16)
    assert mc.Fields(11, stride=2).n_ablations((32, 32)) == 256


def test_a_field_as_high_as_the_image_has_one_row_of_cells() -> None:
    assert mc.Fields(32, width=5).n_ablations((32, 32)) == 32
    assert mc.Fields(32, width=5).touched(mc.Patch(5), (32, 32)).n_touched().max() == 9
    assert mc.Fields(40).n_ablations((32, 32)) == 1


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ("fields:11/2", mc.Fields(11, 2)),
        ("fields:32x5", mc.Fields(32, width=5)),
        ("fields:3x7/4", mc.Fields(3, stride=4, width=7)),
    ],
)
def test_specs_of_fields_round_trip(spec: str, fields: mc.Fields) -> None:
    assert mc.strategy(spec) == fields
    assert str(fields) == spec
    assert hash(fields) == hash(mc.strategy(spec))
    assert mc.Fields(5, width=5) == mc.Fields(5) != mc.Fields(5, width=3)


@pytest.mark.parametrize("spec", ["fields:", "fields:3x", "fields:x3", "fields:3x3x3", "fields:3/", "shape:3"])
def test_no_other_spec_is_read(spec: str) -> None:
    with pytest.raises(mc.StrategyError, match="cannot read"):
        mc.strategy(spec)


@pytest.mark.parametrize(("spec", "what"), [("fields:3x0", "width"), ("fields:0x3", "size"), ("fields:3/0", "stride")])
def test_a_field_has_a_pixel(spec: str, what: str) -> None:
    with pytest.raises(mc.StrategyError, match=f"the {what} of Fields .* got 0"):
        mc.strategy(spec)


def test_votes_of_a_map_are_certified_by_every_method_of_votes() -> None:
    """Recovery, detection, margin and pools by the literal definitions, through the spec alone."""
    random, seen, spec, size = np.random.default_rng(3), Counter[str](), "fields:3x2/2", (5, 6)
    n = mc.strategy(spec).n_ablations(size)
    share = np.linspace(0, 0.9, 24)[:, None]
    labels = np.where(random.random((24, n)) < share, random.integers(-1, 3, (24, n)), 1)
    ballots = mc.Ballots(labels, strategy=spec, image_size=size, n_classes=3)
    for patch in ((1, 1), (2, 2), (1, 3)):
        recovered, detected = mc.certify([ballots], patch), mc.detect([ballots], patch)
        pooled = mc.certify([mc.Pool([ballots])], patch)
        assert pooled.safe.tolist() == recovered.safe.tolist()
        sets = touched_sets(spec, size, patch)
        for image, said in enumerate(labels.tolist()):
            for place, hit in sets.items():
                kept = oracle.count(
                    (frozenset({label} - {-1}) for number, label in enumerate(said) if number not in hit), 3
                )
                label = int(ballots.label[image])
                assert recovered.safe[image][place] == (oracle.reach_by_rewriting(kept, len(hit)) == {label})
                assert detected.safe[image][place] == (oracle.plurality(kept) == label)
            seen[f"recovered {recovered.certified[image]}"] += 1
            seen[f"detected {detected.certified[image]}"] += 1
    assert len(seen) == 4, seen
    assert min(seen.values()) >= 5, seen
