"""Evidence of every kind: to a store and back, whole or piece by piece, and read without knowing what it is."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import majorcert as mc
from majorcert.defences.bounds import Sizes
from majorcert.files.evidence import load_evidence, save_evidence
from majorcert.files.kinds import KINDS, kind_of
from majorcert.files.publish import publish
from majorcert.files.store import Store
from majorcert.files.writer import EvidenceWriter

N = 10
FACTS: dict[str, Any] = {"strategy": "columns:2", "image_size": (4, 6)}
RANDOM = np.random.default_rng(0)


def some_ballots() -> mc.Ballots:
    scores = RANDOM.random((N, 6, 3))
    return mc.Ballots.from_scores(scores, threshold=0.4, **FACTS, provenance={"images_sha256": "ab"})


def some_scores() -> mc.MaskedScores:
    scores = mc.Scores.rounded(RANDOM.random((N, 6, 3)), **FACTS, provenance={"images_sha256": "ab"})
    return mc.MaskedScores(scores, mc.Patch(2, 1), threshold=0.25)


def some_pairs() -> mc.MaskPairs:
    masks = mc.Masks(2, stride=2)
    n = masks.n_masks((4, 6))
    labels = RANDOM.integers(0, 3, (N, n * (n + 1) // 2))
    labels[: N // 2] = 1
    distance = RANDOM.random((N, n)).astype(np.float16)
    facts: dict[str, Any] = {"image_size": (4, 6), "n_classes": 3, "provenance": {"images_sha256": "ab"}}
    return mc.MaskPairs(labels, masks=masks, distance=distance, **facts)


def some_clipped() -> mc.ClippedScores:
    scores = RANDOM.random((N, 6, 3))
    scores[: N // 2, :, 1] = 1
    return mc.ClippedScores(mc.Scores.rounded(scores, one=100, **FACTS, provenance={"images_sha256": "ab"}))


def some_bounds() -> mc.Bounds:
    sizes, label = Sizes(2, "3x1"), RANDOM.integers(0, 20, N)
    possible = RANDOM.random((N, sizes.n_placements((4, 6)), 20)) < 0.2
    possible[: N // 2] = False
    possible[np.arange(N), :, label] = True
    facts: dict[str, Any] = {"image_size": (4, 6), "n_classes": 20, "provenance": {"images_sha256": "ab"}}
    return mc.Bounds(label, possible, sizes=sizes, **facts)


MAKERS: dict[str, Callable[[], Any]] = {
    "ballots": some_ballots,
    "bounds": some_bounds,
    "clipped": some_clipped,
    "mask-pairs": some_pairs,
    "scores": some_scores,
}


def test_every_kind_has_its_test() -> None:
    assert set(MAKERS) == {kind.name for kind in KINDS}
    for name, maker in MAKERS.items():
        assert kind_of(maker()).name == name


def same(one: mc.Evidence, other: mc.Evidence) -> None:
    assert type(one) is type(other)
    assert one.provenance == other.provenance
    assert one.images.tolist() == other.images.tolist()
    for patch in (mc.Patch(1), mc.Patch(2, 1)):
        ours, theirs = mc.majorcert([one], patch), mc.majorcert([other], patch)
        assert ours.predicted.tolist() == theirs.predicted.tolist()
        assert np.array_equal(ours.safe, theirs.safe)


@pytest.mark.parametrize("name", MAKERS)
def test_a_store_gives_back_evidence_of_its_kind(name: str, tmp_path: Path) -> None:
    evidence = MAKERS[name]()
    evidence.save(tmp_path / "e")
    same(load_evidence(tmp_path / "e"), evidence)
    same(type(evidence).load(tmp_path / "e", slice(3, 7)), evidence[3:7])
    same(load_evidence(tmp_path / "e", slice(0)), evidence[:0])
    shuffled = evidence[np.array([4, 2, 9])]
    save_evidence(shuffled, tmp_path / "e")
    same(load_evidence(tmp_path / "e"), shuffled)


@pytest.mark.parametrize("name", MAKERS)
def test_evidence_of_any_kind_is_published(name: str, tmp_path: Path) -> None:
    evidence = MAKERS[name]()
    publish(evidence, tmp_path / "e")
    same(load_evidence(tmp_path / "e"), evidence)


@pytest.mark.parametrize("name", MAKERS)
def test_evidence_of_any_kind_is_written_piece_by_piece_and_continued(name: str, tmp_path: Path) -> None:
    evidence = MAKERS[name]()
    EvidenceWriter.open(tmp_path / "e", evidence[:0], N, chunk=4).write(slice(4, 8), evidence[4:8])
    with pytest.raises(mc.StoreError, match="incomplete"):
        load_evidence(tmp_path / "e")
    writer = EvidenceWriter.open(tmp_path / "e", evidence[:0], N, chunk=4)
    assert writer.missing() == [slice(0, 4), slice(8, 10)]
    for images in writer.missing():
        writer.write(images, evidence[images])
    assert writer.missing() == []
    same(load_evidence(tmp_path / "e"), evidence)


@pytest.mark.parametrize("name", MAKERS)
def test_chosen_images_keep_their_numbers(name: str, tmp_path: Path) -> None:
    evidence = MAKERS[name]()[np.array([9, 1, 5, 7])]
    writer = EvidenceWriter.open(tmp_path / "e", evidence[:0], 4, numbers=evidence.images, chunk=3)
    for images in writer.missing():
        writer.write(images, evidence[images])
    same(load_evidence(tmp_path / "e"), evidence)


def test_a_store_is_not_read_as_another_kind(tmp_path: Path) -> None:
    save_evidence(some_scores(), tmp_path / "e")
    with pytest.raises(mc.StoreError, match=r"holds scores; mc\.load_evidence"):
        mc.Ballots.load(tmp_path / "e")
    assert mc.Scores.load(tmp_path / "e").points.tolist() == load_evidence(tmp_path / "e").scores.points.tolist()


@pytest.mark.parametrize("kind", ["photos\n\x1b[1m", 7, None, ["ballots"]])
def test_evidence_of_an_unknown_kind_is_refused(kind: object, tmp_path: Path) -> None:
    save_evidence(some_ballots(), tmp_path / "e")
    forged(tmp_path / "e", kind=kind)
    with pytest.raises(mc.StoreError, match="this majorcert reads ballots, scores") as caught:
        load_evidence(tmp_path / "e")
    assert str(caught.value).isprintable()


def forged(path: Path, **change: object) -> None:
    """Attributes as a stranger would change them, who leaves the seal away."""
    raw = json.loads((path / "zarr.json").read_text())
    raw["attributes"].pop("seal")
    raw["attributes"] |= change
    (path / "zarr.json").write_text(json.dumps(raw))


@pytest.mark.parametrize(
    "change",
    [
        {"mask": "0x0"},
        {"mask": 5},
        {"mask": None},
        {"mask_threshold": "1/0"},
        {"mask_threshold": "1e999999999"},
        {"mask_threshold": "0.5"},
        {"mask_threshold": "nonsense"},
        {"mask_threshold": "3/2"},
        {"scores_one": "many"},
        {"scores_one": 0},
        {"strategy": ["columns:2"]},
        {"image_size": [4, 6, 1]},
        {"n_classes": True},
    ],
)
def test_scores_with_forged_facts_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    save_evidence(some_scores(), tmp_path / "e")
    forged(tmp_path / "e", **change)
    with pytest.raises(mc.StoreError, match="do not fit together") as caught:
        load_evidence(tmp_path / "e")
    assert "`str`" not in str(caught.value)


@pytest.mark.parametrize("change", [{"scores_one": 99}, {"scores_one": 2**40}, {"strategy": "fields:2"}])
def test_clipped_scores_with_forged_facts_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    save_evidence(some_clipped(), tmp_path / "e")
    forged(tmp_path / "e", **change)
    with pytest.raises(mc.StoreError, match="do not fit together"):
        load_evidence(tmp_path / "e")


@pytest.mark.parametrize(
    "change",
    [{"strategy": "bounds:2"}, {"strategy": "bounds:2,3x2"}, {"strategy": 5}, {"n_classes": 15}, {"n_classes": 40}],
)
def test_bounds_with_forged_facts_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    save_evidence(some_bounds(), tmp_path / "e")
    forged(tmp_path / "e", **change)
    with pytest.raises(mc.StoreError, match="do not fit together"):
        load_evidence(tmp_path / "e")


def test_votes_that_pose_as_masked_scores_are_refused(tmp_path: Path) -> None:
    """What is made of votes is known by its mask: with one on record, `verify` would judge another defender."""
    votes = some_ballots()
    posing = mc.Ballots(votes.labels, **FACTS, n_classes=3, provenance={"mask": "1x1", "mask_threshold": "0"})
    posing.save(tmp_path / "votes.zarr")
    with pytest.raises(mc.StoreError, match="a mask on record"):
        load_evidence(tmp_path / "votes.zarr")


def test_pairs_with_forged_facts_are_refused(tmp_path: Path) -> None:
    save_evidence(some_pairs(), tmp_path / "e")
    for change in ({"masks": "masks:2/1"}, {"masks": 3}, {"masks": "masks:9/2"}, {"n_classes": 2}, {"masks": "\x1b"}):
        save_evidence(some_pairs(), tmp_path / "e")
        forged(tmp_path / "e", **change)
        with pytest.raises(mc.StoreError, match="do not fit together") as caught:
            load_evidence(tmp_path / "e")
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("n_images", [9, 0, -1, "many", 10**30])
def test_images_beyond_the_data_set_are_refused(n_images: object, tmp_path: Path) -> None:
    save_evidence(some_ballots(), tmp_path / "e")
    forged(tmp_path / "e", split_size=10)
    assert load_evidence(tmp_path / "e").provenance["split_size"] == 10
    save_evidence(some_ballots()[np.array([3, 9])], tmp_path / "e")
    forged(tmp_path / "e", split_size=n_images)
    if n_images == 10**30:
        assert len(load_evidence(tmp_path / "e")) == 2
        return
    with pytest.raises(mc.StoreError, match=r"image 9 .* 9 images|split_size") as caught:
        load_evidence(tmp_path / "e")
    assert "do not fit together" in str(caught.value)


def test_repeated_images_in_a_store_are_refused(tmp_path: Path) -> None:
    save_evidence(some_ballots()[np.array([3, 9])], tmp_path / "e")
    Store.open(tmp_path / "e", writable=True).write(slice(None), {"images": np.array([3, 3])})
    with pytest.raises(mc.StoreError, match="image 3 is there more than once"):
        load_evidence(tmp_path / "e")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_provenance_without_a_number_leads_to_no_verdict(number: str, tmp_path: Path) -> None:
    save_evidence(some_ballots(), tmp_path / "e")
    forged(tmp_path / "e", epochs="HERE")
    described = tmp_path / "e" / "zarr.json"
    described.write_text(described.read_text().replace('"HERE"', number))
    with pytest.raises(mc.StoreError, match="cannot read the evidence store"):
        load_evidence(tmp_path / "e")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": object()}, {1, 2}])
def test_a_verdict_that_could_not_be_read_is_not_written(value: object, tmp_path: Path) -> None:
    ballots = mc.Ballots(np.zeros((1, 6), int), **FACTS, n_classes=3, provenance={"epochs": value})
    with pytest.raises(mc.StoreError, match=r"v\.jsonl: .*plain JSON"):
        mc.drs(ballots, mc.Patch(1)).save(tmp_path / "v.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["zarr.json", "labels/zarr.json", "distance/zarr.json", "images/zarr.json", "labels/c/0/0/0"]
)
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    save_evidence(some_ballots()[np.array([3, 9])], tmp_path / "e")
    forged(tmp_path / "e")
    (tmp_path / "e" / name).unlink()
    os.mkfifo(tmp_path / "e" / name)
    code = "import sys, majorcert as mc; mc.Ballots.load(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "e")]
    environment = {**os.environ, "PYTHONPATH": str(Path(mc.__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert "it is not a plain file" in done.stderr


def test_provenance_may_have_the_word_kind(tmp_path: Path) -> None:
    mc.Ballots(np.zeros((1, 6), int), **FACTS, n_classes=3, provenance={"kind": "scores"}).save(tmp_path / "e")
    assert kind_of(load_evidence(tmp_path / "e")).name == "ballots"


def test_what_cannot_be_written_is_told() -> None:
    with pytest.raises(mc.EvidenceError, match="Scores is no kind of evidence"):
        kind_of(some_scores().scores)  # type: ignore[arg-type]


def test_the_stores_that_are_kept_are_read() -> None:
    stores = sorted((Path(__file__).parents[2] / "results").rglob("*.zarr"))
    assert stores
    for store in stores:
        evidence = load_evidence(store, slice(0, 3))
        assert len(evidence) == 3
        others = {"masks": "mask-pairs", "bounds": "bounds", "clipped": "clipped"}
        assert kind_of(evidence).name == others.get(store.name.partition("-")[0], "ballots")
        if "scores" in Store.open(store):
            assert len(mc.Scores.load(store, slice(0, 3))) == 3
