"""Scores: whole points, whatever they come from, and nothing that is not one."""

from pathlib import Path

import numpy as np
import pytest
from stores import opened, voted

import majorcert as mc
from majorcert.defences.scores import Scores
from majorcert.files.kinds import HALF_ONE
from majorcert.files.publish import publish

KIND = {"strategy": "columns:1", "image_size": (1, 3)}


def test_scores_are_rounded_to_the_nearest_point() -> None:
    scores = Scores.rounded(np.array([[[0.0, 1.0], [0.5, 0.25], [0.001, 0.999]]]), one=10, **KIND)
    assert scores.points.tolist() == [[[0, 10], [5, 2], [0, 10]]]
    assert scores.provenance["scores_one"] == 10
    assert repr(scores) == "Scores(1 images of 1x3, columns:1, 2 classes, /10)"


def test_halves_become_points_without_rounding(tmp_path: Path) -> None:
    stored = np.random.default_rng(0).random((5, 3, 2)).astype(np.float16)
    stored[0, 0] = [np.finfo(np.float16).smallest_subnormal, 1]
    voted(tmp_path / "e.zarr", mc.Ballots(stored.argmax(axis=2), n_classes=2, **KIND), stored, chunk=2)
    scores = Scores.load(tmp_path / "e.zarr")
    assert (scores.points / HALF_ONE == stored.astype(np.float64)).all()
    assert (Scores.load(tmp_path / "e.zarr", slice(2, 4)).images == [2, 3]).all()


def test_scores_that_were_never_written_are_refused(tmp_path: Path) -> None:
    none = np.zeros((5, 3, 2), np.float16)
    opened(tmp_path / "e.zarr", mc.Ballots(none.argmax(axis=2), n_classes=2, **KIND), none, chunk=2)
    with pytest.raises(mc.StoreError, match="all of them written"):
        Scores.load(tmp_path / "e.zarr")


def test_a_part_keeps_its_images() -> None:
    scores = Scores(np.arange(24).reshape(4, 3, 2), one=30, images=[5, 7, 8, 9], **KIND)
    part = scores[np.array([3, 1])]
    assert part.images.tolist() == [9, 7]
    assert part.points[0].tolist() == scores.points[3].tolist()
    assert len(part) == 2


def test_a_store_without_scores_is_refused(tmp_path: Path) -> None:
    publish(mc.Ballots([[0, 1, 0]], n_classes=2, **KIND), tmp_path / "e.zarr")
    with pytest.raises(mc.StoreError, match="holds no scores"):
        Scores.load(tmp_path / "e.zarr")


@pytest.mark.parametrize("wrong", [[[[0.5, np.nan]] * 3], [[[1.5, 0.1]] * 3], [[[-0.1, 0.1]] * 3], [[[1, 0]] * 3]])
def test_only_numbers_from_0_to_1_are_rounded(wrong: list[list[list[float]]]) -> None:
    with pytest.raises(mc.BallotsError, match="from 0 to 1"):
        Scores.rounded(np.array(wrong), **KIND)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((1, 3, 2)), "expected whole"),
        (np.zeros((1, 3, 1), dtype=int), "expected whole"),
        (np.zeros((1, 4, 2), dtype=int), "columns:1 makes 3 ablations of a 1x3 image, got scores of 4"),
        (np.full((1, 3, 2), -1), "points are 0 to 2147483647, got -1"),
        (np.full((1, 3, 2), 2**40), "points are 0 to 2147483647"),
    ],
)
def test_points_that_make_no_sense_are_refused(points: np.ndarray, message: str) -> None:
    with pytest.raises(mc.BallotsError, match=message):
        Scores(points, one=1, **KIND)


def test_one_and_images_must_fit() -> None:
    for one in (0, 1.5, float("nan"), float("inf"), "1", None):
        with pytest.raises(mc.BallotsError, match=f"at least 1; got {one!r}"):
            Scores(np.zeros((1, 3, 2), dtype=int), one=one, **KIND)
        with pytest.raises(mc.BallotsError, match=f"at least 1; got {one!r}"):
            Scores.rounded(np.zeros((1, 3, 2)), one=one, **KIND)
    with pytest.raises(mc.BallotsError, match="index, 0 or more, of each of 1 images"):
        Scores(np.zeros((1, 3, 2), dtype=int), one=1, images=[1, 2], **KIND)
