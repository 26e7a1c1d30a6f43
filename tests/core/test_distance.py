"""Distances: no smaller move of the scores changes a ballot, a slightly larger one can, and rounding goes down."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import majorcert as mc
from majorcert.defences.patchguard import patchguard
from majorcert.files.scoring import LEAST, MOST, distance_of, rounded_down, votes_from_scores
from majorcert.nets import tensor_votes as on_device
from majorcert.reports.contents import Contents
from majorcert.reports.page.overview import overview

COLUMNS = {"strategy": "columns:2", "image_size": (4, 4)}
THRESHOLDS = [None, 0.0, 0.1, 0.25, 0.3, 0.5, 1.0, 1.5]


def some_scores(n: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    """Probabilities of all kinds: sure, torn, exactly tied, at the threshold and right beside it."""
    random = np.random.default_rng(seed)
    scores = random.dirichlet(np.full(5, 0.4), size=(n, 4)).astype(dtype)
    scores[0] = [[0.3, 0.3, 0.2, 0.1, 0.1], [0.5, 0.5, 0, 0, 0], [1, 0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25, 0]]
    near = dtype(0.3)
    scores[1, 0, 0], scores[1, 1, 0] = np.nextafter(near, dtype(1)), np.nextafter(near, dtype(0))
    scores[1, 2, :2] = [0.4, dtype(0.4) - dtype(1e-4)]
    return scores


def true_distance(scores: np.ndarray, threshold: float | None) -> np.ndarray:
    """In extended precision, in which differences of these numbers are exact, or as good as that."""
    if threshold is None:
        ordered = np.sort(scores, axis=2).astype(np.longdouble)
        return (ordered[:, :, -1] - ordered[:, :, -2]) / 2
    return np.abs(scores.astype(np.longdouble) - np.longdouble(scores.dtype.type(threshold))).min(axis=2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_a_smaller_move_changes_nothing_and_a_larger_one_can(threshold: float | None, dtype: type) -> None:
    scores = some_scores(60, dtype=dtype).astype(np.float64)
    # The scores as float64, so that they can be moved finely; the threshold as the number they were compared with.
    edge = None if threshold is None else float(dtype(threshold))
    votes, distance = votes_from_scores(scores, edge), true_distance(scores, edge).astype(np.float64)[:, :, None]
    random = np.random.default_rng(1)
    for move in (random.uniform(-1, 1, scores.shape), random.choice([-1.0, 1.0], scores.shape)):
        moved = (scores + move * distance * (1 - 1e-9)).clip(0)
        np.testing.assert_array_equal(_same_width(votes_from_scores(moved, edge), 5), _same_width(votes, 5))
    # The worst direction: the label nearest to the threshold crosses it; the top two change places.
    worst = scores.copy()
    if edge is None:
        order = np.argsort(scores, axis=2)[:, :, -2:]
        push = np.concatenate([distance + 1e-9, -distance - 1e-9], axis=2)
    else:
        order = np.abs(scores - edge).argmin(axis=2)[:, :, None]
        at = np.take_along_axis(scores, order, axis=2)
        push = np.where(at >= edge, -distance - 1e-9, distance + 1e-9)
    np.put_along_axis(worst, order, np.take_along_axis(scores, order, axis=2) + push, axis=2)
    possible = (worst >= 0).all(axis=2)
    worst = worst.clip(0)
    changed = (_same_width(votes_from_scores(worst, edge), 5) != _same_width(votes, 5)).any(axis=2)
    assert changed[possible].all()
    assert possible.mean() > (0.5 if threshold != 0.0 else -1)


def _same_width(votes: np.ndarray, width: int) -> np.ndarray:
    return np.pad(votes, ((0, 0), (0, 0), (0, width - votes.shape[2])), constant_values=mc.ABSTAIN)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_what_is_kept_is_never_more_than_the_truth_and_not_much_less(threshold: float | None, dtype: type) -> None:
    scores = some_scores(500, seed=2, dtype=dtype)
    kept, true = distance_of(scores, threshold), true_distance(scores, threshold)
    assert kept.dtype == np.float16
    assert (kept <= true).all()
    assert (kept.astype(np.longdouble) >= true * 7 / 8 - LEAST * 1.001).all()
    assert (kept.view(np.uint16) & 0x7F == 0).all(), "three bits after the leading one"
    assert ((kept == 0) | (kept >= LEAST)).all()


@given(st.floats(0, 2.0**100, width=32) | st.floats(0, 1, width=32))
def test_rounding_goes_down(number: float) -> None:
    kept = float(rounded_down(np.array([number]))[0])
    assert kept < number or kept == number == 0.0
    assert kept >= min(number, MOST) * 7 / 8 - LEAST * 1.001


def test_a_difference_that_was_rounded_up_is_still_kept_as_less() -> None:
    """0.5 - 1e-30 is 0.5 in float32 and in float64, and more than the truth."""
    scores = np.array([[[1e-30, 1e-30, 1.0]]])
    assert distance_of(scores, 0.5)[0, 0] < 0.5
    assert distance_of(scores.astype(np.float32), 0.5)[0, 0] < 0.5


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_device_and_the_core_agree(threshold: float | None) -> None:
    scores = some_scores(500, seed=3)
    flat = torch.from_numpy(scores.reshape(-1, 5))
    found = rounded_down(on_device.distance_of(flat, threshold).numpy()).reshape(500, 4)
    np.testing.assert_array_equal(found, distance_of(scores, threshold))


def test_whole_scores_have_distances_too() -> None:
    scores = np.array([[[3, 7, 9], [5, 5, 5], [0, 0, 100_000], [0, 0, 2]]])
    assert distance_of(scores, 5.5)[0].tolist() == rounded_down(np.array([1.5, 0.5, 5.5, 3.5])).tolist()
    top = distance_of(scores, None)[0].tolist()
    assert top == rounded_down(np.array([1.0, 0.0, 5e4, 1.0])).tolist()


@given(st.integers(0, 10_000), st.sampled_from([None, 0.2, 0.3, 0.5]), st.sampled_from([0.01, 0.05, 0.2]))
def test_certified_labels_survive_other_numerics_and_a_patch(seed: int, threshold: float | None, shift: float) -> None:
    """At the level of scores: all of them move by up to the tolerance, and those of touched views to anything."""
    random = np.random.default_rng(seed)
    n, size, n_classes = 6, (1, 9), 3
    logits = random.normal(0, 1, (n, 9, n_classes)) + 3 * np.eye(n_classes)[random.integers(n_classes, size=(n, 1))]
    scores = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    about = {"threshold": threshold, "strategy": "columns:1", "image_size": size}
    ballots = mc.Ballots.from_scores(scores, **about).tolerating(shift)
    verdicts = [mc.drs(ballots, mc.Patch(1, 2), bound=bound) for bound in ("margin", "local")]
    verdicts += [mc.majorcert([ballots], mc.Patch(1, 2), reach=reach) for reach in ("exact", "paper")]
    certified = np.any([verdict.certified for verdict in verdicts], axis=0)
    safe = verdicts[1].safe[:, 0] | certified[:, None]
    for left in range(8):
        moved = (scores + random.choice([-shift, shift], scores.shape)).clip(0)
        moved[:, left : left + 2] = np.eye(n_classes)[random.integers(n_classes, size=n)][:, None]
        label = mc.Ballots.from_scores(moved, **about).label
        assert (label == ballots.label)[safe[:, left]].all()


def test_fragile_ballots_are_those_up_to_the_tolerance() -> None:
    labels, distance = [[0, 1, 1, 0]], np.array([[0.0, 0.25, 0.5, 2.0]], dtype=np.float16)
    ballots = mc.Ballots(labels, **COLUMNS, n_classes=2, distance=distance, provenance={"fragile": 9, "mine": 1})
    assert ballots.fragile is None
    assert ballots.provenance["mine"] == 1
    assert "fragile" not in ballots.provenance
    for tolerance, expected in ((0, 1), (0.2, 1), (0.25, 2), (0.4999, 2), (0.5, 3), (1e9, 4)):
        found = ballots.tolerating(tolerance)
        assert found.fragile.sum() == expected
        assert found.provenance["fragile"] == tolerance
        assert found.label.tolist() == ballots.label.tolist()
        assert found.counts().tolist() == ballots.counts().tolist()
    assert ballots.tolerating(0.5).tolerating(0).fragile.sum() == 1
    with pytest.raises(ValueError, match="read-only"):
        ballots.distance[:] = 1


def test_a_part_has_its_own_fragile_ballots() -> None:
    ballots = mc.Ballots.from_scores(some_scores(20), threshold=0.3, **COLUMNS).tolerating(0.05)
    part, picked = ballots[5:9], ballots[np.array([7, 2])]
    assert part.fragile.tolist() == ballots.fragile[5:9].tolist()
    assert picked.fragile.tolist() == ballots.fragile[[7, 2]].tolist()
    assert part.distance.tolist() == ballots.distance[5:9].tolist()
    for one, images in ((part, slice(5, 9)), (picked, [7, 2])):
        whole = mc.majorcert([ballots], mc.Patch(1))
        assert np.array_equal(mc.majorcert([one], mc.Patch(1)).safe, whole.safe[images])
        assert one.margin_certified(mc.Patch(1)).tolist() == ballots.margin_certified(mc.Patch(1))[images].tolist()


def test_a_tolerance_is_not_rounded_to_half_precision() -> None:
    """As float16, 0.1 is less and 0.3 more than it is; a distance in between would change sides."""
    for tolerance in (0.1, 0.3):
        distance = np.full((1, 4), tolerance, dtype=np.float16)
        ballots = mc.Ballots([[0, 0, 0, 0]], **COLUMNS, n_classes=2, distance=distance)
        assert ballots.tolerating(tolerance).fragile.all() == (float(distance[0, 0]) <= tolerance)


@pytest.mark.parametrize("tolerance", [-1e-3, float("nan"), float("inf"), 10**400, None, "much"])
def test_a_tolerance_that_makes_no_sense(tolerance: float) -> None:
    ballots = mc.Ballots.from_scores(some_scores(3), threshold=0.3, **COLUMNS)
    with pytest.raises(mc.BallotsError, match="a tolerance is how far scores may move, a number of 0 or more; got"):
        ballots.tolerating(tolerance)


def test_without_distances_there_is_no_tolerance() -> None:
    with pytest.raises(mc.BallotsError, match=r"columns:2.* recorded without distances"):
        mc.Ballots([[0, 1, 1, 0]], **COLUMNS, n_classes=2).tolerating(1e-3)


@pytest.mark.parametrize(
    ("distance", "message"),
    [
        ([[0.1, 0.1, 0.1]], r"one distance for each ballot, \(1, 4\), got float64 \(1, 3\)"),
        ([[1, 1, 1, 1]], "one distance for each ballot"),
        ([[0.1, 0.1, 0.1, np.nan]], "a finite number of 0 or more"),
        ([[0.1, 0.1, 0.1, np.inf]], "a finite number of 0 or more"),
        ([[0.1, 0.1, 0.1, -0.1]], "a finite number of 0 or more"),
    ],
)
def test_distances_that_make_no_sense(distance: list, message: str) -> None:
    with pytest.raises(mc.BallotsError, match=message):
        mc.Ballots([[0, 1, 1, 0]], **COLUMNS, n_classes=2, distance=distance)


def test_what_knows_no_fragile_ballots_refuses_them() -> None:
    ballots = mc.Ballots.from_scores(some_scores(3), threshold=0.3, **COLUMNS).tolerating(1e-3)
    with pytest.raises(mc.BallotsError, match="masking knows no fragile ballots"):
        patchguard(ballots, mc.Patch(1))
    with pytest.raises(mc.EvidenceError, match="a report shows votes as they were recorded"):
        overview(Contents([ballots], [mc.Patch(1)]))


def test_a_distance_of_minus_zero_is_zero() -> None:
    minus = np.full((1, 3), -0.0, np.float32)
    assert (rounded_down(minus) == 0).all()
    ballots = mc.Ballots(np.zeros((1, 4), int), n_classes=2, distance=np.full((1, 4), -0.0, np.float32), **COLUMNS)
    solid = ballots.tolerating(0)
    assert solid.fragile is not None
    assert solid.fragile.all()
    assert not mc.majorcert([solid], mc.Patch(1)).certified.any()


def test_whole_scores_that_a_float_cannot_hold_are_refused() -> None:
    scores = np.full((1, 4, 2), 2**53, np.int64)
    assert mc.Ballots.from_scores(scores, threshold=None, **COLUMNS).distance is not None
    with pytest.raises(mc.BallotsError, match=r"whole numbers go up to 2\*\*53"):
        mc.Ballots.from_scores(scores + 1, threshold=None, **COLUMNS)


def test_points_know_no_tolerance() -> None:
    origin = mc.Ballots.from_scores(some_scores(3), threshold=0.3, **COLUMNS).tolerating(0.1).provenance
    assert origin["fragile"] == 0.1
    assert "fragile" not in mc.Scores.rounded(some_scores(3), provenance=origin, **COLUMNS).provenance


def test_a_part_cannot_be_changed_either() -> None:
    ballots = mc.Ballots.from_scores(some_scores(3), threshold=0.3, **COLUMNS).tolerating(0.1)
    part = ballots[np.array([2, 0])]
    for array in (part.labels, part.distance, part.fragile):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
