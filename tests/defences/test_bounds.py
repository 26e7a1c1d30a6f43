"""Bounds: what is recorded, and the labels in reach of patches of the recorded sizes and of smaller ones."""

import numpy as np
import pytest

import majorcert as mc
from majorcert.audit import kinds
from majorcert.core.reach import Reach
from majorcert.defences.bounds import Bounds, Sizes, pack, unpack
from majorcert.errors import BallotsError, EvidenceError, StrategyError

SIZE, CLASSES = (5, 6), 20


def some_bounds(*sizes: object, n_images: int = 4, seed: int = 0, share: float = 0.3) -> Bounds:
    """Random sets that contain the label."""
    rng, cut = np.random.default_rng(seed), Sizes(*sizes)
    possible = rng.random((n_images, cut.n_placements(SIZE), CLASSES)) < share
    label = rng.integers(0, CLASSES, n_images)
    possible[np.arange(n_images), :, label] = True
    return Bounds(label, possible, sizes=cut, image_size=SIZE, n_classes=CLASSES)


def labels_at(reach: Reach, image: int, top: int, left: int) -> set[int]:
    cell = reach.rows[top], reach.columns[left]
    return {c for c in range(CLASSES) if reach.has(np.full(len(reach.listed), c))[image][cell]}


@pytest.mark.parametrize("patch", [(1, 1), (2, 2), (3, 4), (1, 3), (2, 4), (4, 4), (3, 5)])
def test_reach_is_what_no_placement_around_the_patch_excludes(patch: tuple[int, int]) -> None:
    bounds = some_bounds(2, "3x4", share=0.8)
    reach = bounds.reach(mc.Patch(*patch))
    for image in range(len(bounds)):
        told = kinds.testimony(bounds, bounds.provenance, image, patch)
        assert told.label == bounds.label[image]
        for (top, left), labels in told.reach().items():
            assert labels_at(reach, image, top, left) == labels


@pytest.mark.parametrize(
    ("patch", "share"), [((1, 1), 0.1), ((2, 2), 0.1), ((3, 4), 0.01), ((1, 4), 0.01), ((4, 4), 0)]
)
def test_certified_alone_is_what_the_reach_says(patch: tuple[int, int], share: float) -> None:
    bounds = some_bounds(2, "3x4", n_images=200, share=share)
    certified = bounds.certified_alone(mc.Patch(*patch))
    assert certified.tolist() == bounds.reach(mc.Patch(*patch)).only(bounds.label).all(axis=(1, 2)).tolist()
    assert 0 < certified.sum() < 200 or (patch == (4, 4) and not certified.any())


def test_a_patch_larger_than_all_recorded_ones_may_do_anything() -> None:
    bounds = some_bounds(2, share=0.0)
    assert mc.certify([bounds], 2).certified.all()
    assert not mc.certify([bounds], 3).certified.any()
    assert mc.largest_patch([bounds]).tolist() == [2] * len(bounds)


def test_every_label_must_be_excluded_at_every_placement() -> None:
    """One rival at the last placement, and only there, is enough to lose the certificate there."""
    possible = np.zeros((1, 4 * 5, CLASSES), dtype=bool)
    possible[:, :, 3] = True
    possible[0, -1, 19] = True
    bounds = Bounds([3], possible, sizes="bounds:2", image_size=SIZE, n_classes=CLASSES)
    verdict = mc.certify([bounds], 2)
    assert not verdict.certified[0]
    assert verdict.safe is not None
    assert np.argwhere(~verdict.safe[0]).tolist() == [[3, 4]]
    witness = verdict.witness(0)
    assert witness is not None
    assert witness.rival == 19


def test_smaller_patches_are_never_worse() -> None:
    bounds = some_bounds("3x4", 3, share=0.02, n_images=40)
    certified = [mc.certify([bounds], side).certified for side in (3, 2, 1)]
    assert certified[0].any()
    assert not certified[2].all()
    assert (certified[0] <= certified[1]).all()
    assert (certified[1] <= certified[2]).all()


def test_bits_there_and_back() -> None:
    possible = np.random.default_rng(1).random((3, 7, 31)) < 0.5
    assert (unpack(pack(possible), 31) == possible).all()


def test_specs() -> None:
    assert str(Sizes.parse("bounds:2,3x7")) == "bounds:2,3x7"
    assert Sizes(5) == Sizes.parse("bounds:5")
    for wrong in ("bounds:", "bounds:2,2", "bound:2", "bounds:0", "bounds:2/3"):
        with pytest.raises((StrategyError, mc.PatchError)):
            Sizes.parse(wrong)


def test_what_makes_no_sense_is_refused() -> None:
    fits = {"sizes": "bounds:2", "image_size": SIZE, "n_classes": 3}
    possible = np.ones((2, 20, 3), dtype=bool)
    Bounds([0, 1], possible, **fits)
    with pytest.raises(BallotsError, match="20, 1"):
        Bounds([0, 1], possible[:, :19], **fits)
    with pytest.raises(BallotsError, match="a label for each image"):
        Bounds(0, possible[:1], **fits)
    with pytest.raises(BallotsError, match="0 to 2"):
        Bounds([0, 1], np.full((2, 20, 1), 8, np.int16), **fits)
    with pytest.raises(BallotsError, match="excludes"):
        Bounds([0, 1], np.full((2, 20, 1), 1, np.int16), **fits)
    with pytest.raises(EvidenceError, match="without"):
        Bounds([0, 1], possible, **fits).without(mc.Patch(2))
