from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import majorcert as mc
from majorcert.core.plurality import plurality, plurality_of_labels

COLUMNS = {"strategy": "columns:2", "image_size": (4, 4), "n_classes": 3}


def test_two_axes_are_one_vote_each() -> None:
    ballots = mc.Ballots([[0, 1, 2, -1]], **COLUMNS)
    assert ballots.labels.shape == (1, 4, 1)
    assert ballots.labels.dtype == np.int8
    assert ballots.counts().tolist() == [[1, 1, 1]]


@pytest.mark.parametrize(("n_classes", "dtype"), [(128, np.int8), (129, np.int16), (2**15 + 1, np.int32)])
def test_the_smallest_type_that_holds_every_label(n_classes: int, dtype: type) -> None:
    labels = [[n_classes - 1, -1, 0, 0]]
    ballots = mc.Ballots(labels, strategy=mc.Columns(2), image_size=(4, 4), n_classes=n_classes)
    assert ballots.labels.dtype == dtype
    assert ballots.labels[0, :, 0].tolist() == labels[0]


def test_ties_go_to_the_smallest_label() -> None:
    assert mc.Ballots([[2, 1, 1, 2]], **COLUMNS).label.tolist() == [1]
    assert mc.Ballots([[-1, -1, -1, -1]], **COLUMNS).label.tolist() == [0]
    assert plurality(np.array([[3, 4, 4]])).tolist() == [1]
    assert plurality_of_labels(np.array([[2, 1, 0, 2, 1]]), 3).tolist() == [1]


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.0, 1.0])
def test_a_score_at_the_threshold_is_a_vote(threshold: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.choice([0.0, 0.2, 0.3, 0.5, 1.0], size=(5, 4, 3))
    ballots = mc.Ballots.from_scores(scores, threshold=threshold, strategy="columns:2", image_size=(4, 4))
    for image in range(5):
        for ablation in range(4):
            votes = [int(label) for label in ballots.labels[image, ablation] if label != mc.ABSTAIN]
            assert votes == [c for c in range(3) if scores[image, ablation, c] >= threshold]
    assert ballots.provenance["threshold"] == threshold


def test_without_a_threshold_the_top_label_votes_and_ties_go_to_the_smallest() -> None:
    scores = [[[0.4, 0.4, 0.2], [0.1, 0.2, 0.7], [0, 0, 0], [0.3, 0.5, 0.5]]]
    ballots = mc.Ballots.from_scores(scores, threshold=None, strategy="columns:2", image_size=(4, 4))
    assert ballots.labels[0, :, 0].tolist() == [0, 2, 0, 1]


def test_counts_equal_a_plain_count_for_several_labels() -> None:
    rng = np.random.default_rng(1)
    labels = np.sort(rng.permuted(np.tile(np.arange(-1, 5), (20, 16, 1)), axis=2)[:, :, :3], axis=2)
    ballots = mc.Ballots(labels, strategy="blocks:2", image_size=(4, 4), n_classes=5)
    assert ballots.counts().tolist() == [[int((image == c).sum()) for c in range(5)] for image in labels]


def test_slices_keep_the_place_of_each_image() -> None:
    ballots = mc.Ballots(np.arange(12).reshape(3, 4) % 3, **COLUMNS)
    assert ballots.label.shape == (3,)
    assert ballots[1:].images.tolist() == [1, 2]
    assert ballots[1:][np.array([1])].images.tolist() == [2]
    assert ballots[1:].label.tolist() == ballots.label[1:].tolist()
    with pytest.raises(mc.BallotsError, match=r"got 0; for one image \[i : i \+ 1\]"):
        ballots[0]
    assert repr(ballots) == "Ballots(3 images of 4x4, columns:2, 3 classes)"


@pytest.mark.parametrize(
    ("labels", "changes", "message"),
    [
        ([[0, 1, 2, 3]], {}, r"labels are 0 to 2, or ABSTAIN \(-1\); got 3"),
        ([[0, 1, 2, -2]], {}, r"labels are 0 to 2, or ABSTAIN \(-1\); got -2"),
        ([[[0, 0], [1, -1], [1, -1], [1, -1]]], {}, "names a label twice"),
        ([[0, 1, 2]], {}, r"columns:2 makes 4 ablations of a 4x4 image, got ballots of 3"),
        ([[0.0, 1.0, 2.0, 0.0]], {}, "expected integer labels"),
        ([0, 1, 2, 0], {}, r"expected integer labels \(images, ablations, k\)"),
        ([[0, 1, 2, 0]], {"n_classes": 1}, "n_classes .* 2 or more, got 1"),
        ([[0, 1, 2, 0]], {"image_size": (4, 0)}, r"\(height, width\)"),
        ([[0, 1, 2, 0]], {"strategy": "columns:5"}, r"columns:5 does not fit in a 4x4 image"),
        ([[0, 1, 2, 0]], {"images": [1, 2]}, "index, 0 or more, of each of 1 images"),
        ([[0, 1, 2, 0]], {"images": [-1]}, "index, 0 or more, of each of 1 images"),
        ([[0, 1, 2, 0]], {"images": [0.5]}, "index, 0 or more, of each of 1 images"),
        ([[0, 1, 2, 0]], {"n_classes": 2.9}, "n_classes .* 2 or more, got 2.9"),
        ([[0, 1, 2, 0]], {"image_size": (4, 4.5)}, r"\(height, width\), got \(4, 4.5\)"),
        (np.zeros((2, 4, 0), int), {}, "expected integer labels"),
        ([[0, 1, 2, 0], [0, 1, 2]], {}, "expected an array, or lists of equal lengths, got list"),
        ([[0, 1, 2, 0]], {"distance": [[0.1], []]}, "expected an array, or lists of equal lengths, got list"),
    ],
)
def test_ballots_that_make_no_sense(labels: list, changes: dict, message: str) -> None:
    with pytest.raises(mc.MajorcertError, match=message):
        mc.Ballots(labels, **{**COLUMNS, **changes})


@pytest.mark.parametrize(
    ("scores", "threshold", "message"),
    [
        (np.full((1, 4, 3), np.nan), 0.3, "finite and not negative"),
        (np.full((1, 4, 3), np.inf), 0.3, "finite and not negative"),
        (np.full((1, 4, 3), -0.1), 0.3, "finite and not negative"),
        (np.zeros((4, 3)), 0.3, r"expected \(images, ablations, classes\) scores"),
        (np.zeros((1, 4, 1)), 0.3, r"expected \(images, ablations, classes\) scores"),
        (np.zeros((1, 4, 3)), -0.1, "a threshold is a number of 0 or more"),
        (np.zeros((1, 4, 3)), "0.3", "a threshold is a number of 0 or more"),
        (np.zeros((1, 4, 3)), float("nan"), "a threshold is a number of 0 or more"),
        (np.zeros((1, 5, 3)), 0.3, "makes 4 ablations"),
        ([[[0.5, 0.5], [1.0]]], 0.3, "expected an array, or lists of equal lengths, got list"),
    ],
)
def test_scores_that_make_no_sense(scores: Any, threshold: float, message: str) -> None:
    with pytest.raises(mc.BallotsError, match=message):
        mc.Ballots.from_scores(scores, threshold=threshold, strategy="columns:2", image_size=(4, 4))


def test_votes_of_no_images_are_ballots() -> None:
    ballots = mc.Ballots(np.zeros((0, 4), dtype=int), **COLUMNS)
    verdict = mc.majorcert([ballots], mc.Patch(2))
    assert len(ballots) == len(verdict) == 0
    assert verdict.safe.shape == (0, 3, 3)
    assert mc.drs(ballots, mc.Patch(2)).certified.shape == (0,)
    assert mc.largest_patch([ballots]).shape == (0,)
    assert mc.score(verdict, []) == (0.0, 0.0, 0)


def test_ballots_are_their_own_and_cannot_be_changed() -> None:
    labels, images = np.array([[0, 1, 2, 0]]), np.array([3])
    ballots = mc.Ballots(labels, **COLUMNS, images=images)
    labels[:], images[:] = 1, 7
    assert ballots.labels[0, :, 0].tolist() == [0, 1, 2, 0]
    assert ballots.images.tolist() == [3]
    for array in (ballots.labels, ballots.images, ballots.label):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_a_part_of_a_subclass_is_one_too() -> None:
    class Wary(mc.Ballots):
        """Can be made to say anything."""

        def reach(self, patch: mc.Patch) -> mc.Reach:
            reach = super().reach(patch)
            return replace(reach, below=np.full_like(reach.below, 3), members=np.ones_like(reach.members))

    votes = [[0, 0, 0, 0, 0, 0, 0, 0]]
    facts = {"strategy": "columns:1", "image_size": (1, 8), "n_classes": 3}
    assert mc.majorcert([mc.Ballots(votes, **facts)], mc.Patch(1)).certified.all()
    assert not mc.majorcert([Wary(votes, **facts)], mc.Patch(1)).certified.any()


class Anything:
    """Can be made to say anything, and says anything when a part is left out; no evidence by itself."""

    def reach(self, patch: mc.Patch) -> mc.Reach:
        reach = super().reach(patch)  # type: ignore[misc]
        return replace(reach, below=np.full_like(reach.below, 3), members=np.ones_like(reach.members))

    def without(self, patch: mc.Patch, slack: int = 0) -> mc.Reach:
        left = super().without(patch, slack)  # type: ignore[misc]
        return replace(left, below=np.full_like(left.below, 3), members=np.ones_like(left.members))


def test_what_is_true_of_the_votes_is_not_inherited_by_other_sets() -> None:
    """A subclass that says its own sets, in its body or by a base beside it, is not certified by the lead of votes."""

    class Beside(Anything, mc.Ballots):
        pass

    class Within(mc.Ballots):
        reach, without = mc.Ballots.reach, mc.Ballots.without

    class Below(Beside):
        pass

    facts = {"strategy": "columns:1", "image_size": (1, 8), "n_classes": 3}
    for kind in (Beside, Below):
        wary = kind([[0] * 8], **facts)
        assert not mc.certify([wary], 1).certified.any()
        assert not mc.detect([wary], 1).certified.any()
        with pytest.raises(mc.EvidenceError, match="margin"):
            mc.drs(wary, 1)
        with pytest.raises(mc.EvidenceError, match="paper"):
            mc.majorcert([wary], 1, reach="paper")
    assert mc.detect([Within([[0] * 8], **facts)], 1).certified.all()


def test_sets_that_leave_out_placements_are_refused() -> None:
    """One cell at one placement would be spread over all of them."""

    class Corner(mc.Ballots):
        """Speaks of the first placement alone."""

        def reach(self, patch: mc.Patch) -> mc.Reach:
            return self._first(super().reach(patch))

        def without(self, patch: mc.Patch, slack: int = 0) -> mc.Reach:
            return self._first(super().without(patch, slack))

        def _first(self, sets: mc.Reach) -> mc.Reach:
            first = np.zeros(1, dtype=int)
            return mc.Reach(sets.listed, sets.members[:, :, :1, :1], sets.below[:, :1, :1], first, first)

    corner = Corner([[0, 0, 0, 1, 1]], strategy="columns:1", image_size=(1, 5), n_classes=3)
    for judged in (mc.certify, mc.detect):
        with pytest.raises(mc.EvidenceError, match="1x5 placements"):
            judged([corner], 1)


@pytest.mark.parametrize("number", [float, np.float32, np.float64])
def test_the_kind_of_number_of_a_threshold_does_not_matter(number: type, tmp_path: Path) -> None:
    scores = np.full((1, 4, 3), 0.7, dtype=np.float32)
    ballots = mc.Ballots.from_scores(scores, threshold=number(0.7), strategy="columns:2", image_size=(4, 4))
    assert ballots.counts().tolist() == [[4, 4, 4]]
    ballots.save(tmp_path / "ballots")
    mc.drs(ballots, 1).save(tmp_path / "verdict.jsonl")
    assert mc.Verdict.load(tmp_path / "verdict.jsonl").defenders == (mc.load_evidence(tmp_path / "ballots").provenance,)


@pytest.mark.parametrize("chosen", [np.full(10_000, 1), np.array([0, 2, 0]), np.array([-1, 2])])
def test_an_image_is_in_evidence_once(chosen: np.ndarray) -> None:
    ballots = mc.Ballots(np.zeros((3, 2), int), strategy="columns:1", image_size=(1, 2), n_classes=2)
    scores = mc.Scores.of_votes(ballots)
    for evidence in (ballots, scores, mc.MaskedScores(scores, mc.Patch(1))):
        with pytest.raises(mc.BallotsError, match=r"image [012] .*more than once"):
            evidence[chosen]
        assert evidence[np.array([2, 0])].images.tolist() == [2, 0]
    with pytest.raises(mc.BallotsError, match=r"image 7 .*more than once"):
        mc.Ballots(np.zeros((3, 2), int), strategy="columns:1", image_size=(1, 2), n_classes=2, images=[7, 1, 7])
