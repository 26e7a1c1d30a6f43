import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from stores import opened

import majorcert as mc
from majorcert.files.packing import Packing
from majorcert.files.scoring import rounded_down
from majorcert.files.store import Store
from majorcert.files.writer import EvidenceWriter

FACTS = {"strategy": "columns:4/3", "image_size": (8, 10), "n_classes": 200}


def some_ballots(n_images: int = 1_100) -> mc.Ballots:
    rng = np.random.default_rng(n_images)
    labels = np.stack([rng.integers(-1, 100, (n_images, 4)), rng.integers(100, 200, (n_images, 4))], axis=2)
    return mc.Ballots(labels, **FACTS, provenance={"images_sha256": "abc", "extra": {"note": ["any", "JSON", 1.5]}})


ORIGIN = {"weights_sha256": "w"}


def part_of(labels: np.ndarray, distance: np.ndarray | None = None, **changes: object) -> mc.Ballots:
    return mc.Ballots(labels, distance=distance, **{**FACTS, "provenance": ORIGIN, **changes})


def writer_at(path: Path, *, n_images: int = 10, distance: bool = False, **changes: object) -> EvidenceWriter:
    like = part_of(np.zeros((0, 4, 2), int), np.zeros((0, 4), np.float16) if distance else None, **changes)
    return EvidenceWriter.open(path, like, n_images, chunk=4)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_a_store_gives_back_what_was_saved(tmp_path: Path) -> None:
    ballots = some_ballots()
    ballots.save(tmp_path / "evidence")
    loaded = mc.Ballots.load(tmp_path / "evidence")
    assert np.array_equal(loaded.labels, ballots.labels)
    assert loaded.labels.dtype == np.int16
    assert loaded.provenance == ballots.provenance
    assert (loaded.strategy, loaded.image_size, loaded.n_classes) == (mc.Columns(4, stride=3), (8, 10), 200)


def some_distances(n_images: int) -> np.ndarray:
    return rounded_down(np.random.default_rng(9).random((n_images, 4)))


def with_distances(n_images: int = 1_100) -> mc.Ballots:
    plain = some_ballots(n_images)
    return mc.Ballots(plain.labels, **FACTS, provenance=plain.provenance, distance=some_distances(n_images))


def test_a_store_gives_distances_back_whole_or_in_part(tmp_path: Path) -> None:
    ballots = with_distances()
    ballots.tolerating(0.1).save(tmp_path / "evidence")
    loaded = mc.Ballots.load(tmp_path / "evidence")
    assert np.array_equal(loaded.distance, ballots.distance)
    assert loaded.distance.dtype == np.float16
    assert loaded.fragile is None, "a tolerance belongs to a question, not to the evidence"
    assert loaded.provenance == ballots.provenance
    assert "fragile" not in Store.open(tmp_path / "evidence").attributes
    part = mc.Ballots.load(tmp_path / "evidence", images=slice(500, 520))
    assert np.array_equal(part.tolerating(0.1).fragile, ballots.tolerating(0.1).fragile[500:520])
    some_ballots().save(tmp_path / "evidence")
    assert mc.Ballots.load(tmp_path / "evidence").distance is None


def test_a_store_without_distances_is_certified_as_before(tmp_path: Path) -> None:
    some_ballots(50).save(tmp_path / "old")
    assert "distance" not in Store.open(tmp_path / "old")
    old, new = mc.Ballots.load(tmp_path / "old"), with_distances(50)
    assert np.array_equal(mc.majorcert([old], mc.Patch(1)).safe, mc.majorcert([new], mc.Patch(1)).safe)
    with pytest.raises(mc.BallotsError, match=r"columns:4/3.* recorded without distances.*vote again"):
        old.tolerating(1e-3)


def test_distances_are_kept_beside_the_labels_for_all_images_or_for_none(tmp_path: Path) -> None:
    labels, distance = some_ballots(10).labels, some_distances(10)
    writer = writer_at(tmp_path / "evidence", distance=True)
    with pytest.raises(mc.StoreError, match=r"expected distance float16 \(4, 4\), labels .*, got labels"):
        writer.write(slice(0, 4), part_of(labels[:4]))
    assert len(writer.missing()) == 3
    for part in writer.missing():
        writer.write(part, part_of(labels[part], distance[part]))
    assert np.array_equal(mc.Ballots.load(tmp_path / "evidence").distance, distance)
    with pytest.raises(mc.StoreError, match=r"expected labels int16 \(4, 4, 2\), got distance"):
        writer_at(tmp_path / "without").write(slice(0, 4), part_of(labels[:4], distance[:4]))
    with pytest.raises(mc.StoreError, match=r"holds other evidence .differs in its arrays."):
        writer_at(tmp_path / "evidence")


def other_shape(path: Path, shape: list[int]) -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": [20, shape[1]]}}
    edit(path / "distance" / "zarr.json", {"shape": shape, "chunk_grid": grid})


def unsealed(path: Path, shape: list[int]) -> None:
    other_shape(path, shape)
    edit(path / "distance" / "zarr.json", {"attributes": {}})


def replaced(path: Path, distance: np.ndarray) -> None:
    store = Store.open(path, writable=True)
    store.write(slice(None), {"distance": distance})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: shutil.rmtree(p / "distance" / "c"), "a finite number of 0 or more"),
        (lambda p: replaced(p, np.full((20, 4), -1, np.float16)), "a finite number of 0 or more"),
        (lambda p: replaced(p, np.full((20, 4), np.inf, np.float16)), "a finite number of 0 or more"),
        (lambda p: other_shape(p, [20, 3]), "'distance' is not laid out as it was when it was made"),
        (lambda p: unsealed(p, [20, 3]), "unpacks to 160 bytes and not to 120"),
        (lambda p: unsealed(p, [19, 4]), "'distance' is of 19 images, and there are 20"),
        (lambda p: other_shape(p, [2**40, 4]), "refused, 'distance' declares 1099511627776 images"),
        (lambda p: edit(p / "distance" / "zarr.json", {"data_type": "int16", "fill_value": 0}), "is not laid out as"),
    ],
)
def test_damaged_distances_are_refused(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    with_distances(20).save(tmp_path / "evidence")
    damage(tmp_path / "evidence")
    with pytest.raises(mc.StoreError, match=message):
        mc.Ballots.load(tmp_path / "evidence")


def test_a_part_can_be_read_alone_and_certified_alike(tmp_path: Path) -> None:
    ballots = some_ballots()
    ballots[np.arange(1_099, -1, -1)].save(tmp_path / "evidence")
    part = mc.Ballots.load(tmp_path / "evidence", images=slice(500, 520))
    assert part.images.tolist() == list(range(599, 579, -1))
    assert np.array_equal(part.labels, ballots.labels[599:579:-1])
    whole = mc.majorcert([mc.Ballots.load(tmp_path / "evidence")], mc.Patch(2))
    assert np.array_equal(mc.majorcert([part], mc.Patch(2)).safe, whole.safe[500:520])


def test_a_part_is_read_in_any_order(tmp_path: Path) -> None:
    ballots = some_ballots(10)
    writer = EvidenceWriter.open(tmp_path / "evidence", ballots[:0], 10, chunk=4)
    for start in (0, 4, 8):
        writer.write(slice(start, min(start + 4, 10)), ballots[start : start + 4])
    for images in (slice(None, None, -1), slice(7, 1, -3), slice(-2, None, -4), slice(3, 9, -1), slice(None, None, 3)):
        part = mc.Ballots.load(tmp_path / "evidence", images)
        assert np.array_equal(part.labels, ballots[images].labels), images
        assert np.array_equal(part.images, ballots[images].images), images
    (tmp_path / "evidence/labels/c/1/0/0").write_bytes(b"damaged")
    with pytest.raises(mc.StoreError, match="the chunk is damaged"):
        mc.Ballots.load(tmp_path / "evidence", slice(None, None, -1))


def test_saving_replaces_a_store_but_nothing_else(tmp_path: Path) -> None:
    some_ballots(5).save(tmp_path / "evidence")
    some_ballots(6).save(tmp_path / "evidence")
    assert len(mc.Ballots.load(tmp_path / "evidence")) == 6
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "keep.txt").write_text("mine")
    with pytest.raises(mc.StoreError, match="cannot read the evidence store"):
        some_ballots(5).save(tmp_path / "notes")
    assert (tmp_path / "notes" / "keep.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evidence", "notes"]


def test_nothing_is_left_after_a_failing_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some_ballots(5).save(tmp_path / "evidence")
    before = contents(tmp_path)

    def full_disk(self: Store, images: slice, arrays: dict) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "write", full_disk)
    with pytest.raises(mc.StoreError, match="evidence: cannot be written: No space left on device"):
        some_ballots(6).save(tmp_path / "evidence")
    assert contents(tmp_path) == before


def test_pieces_in_any_order_make_the_same_store(tmp_path: Path) -> None:
    labels = some_ballots(10).labels
    forwards, backwards = writer_at(tmp_path / "forwards"), writer_at(tmp_path / "backwards")
    assert forwards.missing() == [slice(0, 4), slice(4, 8), slice(8, 10)]
    for part in forwards.missing():
        forwards.write(part, part_of(labels[part]))
    for part in reversed(backwards.missing()):
        backwards.write(part, part_of(labels[part]))
    assert contents(tmp_path / "forwards") == contents(tmp_path / "backwards")
    assert np.array_equal(mc.Ballots.load(tmp_path / "forwards").labels, labels)


def test_an_unfinished_store_says_so_and_goes_on(tmp_path: Path) -> None:
    labels = some_ballots(10).labels
    writer_at(tmp_path / "evidence").write(slice(4, 8), part_of(labels[4:8]))
    again = writer_at(tmp_path / "evidence")
    assert again.missing() == [slice(0, 4), slice(8, 10)]
    with pytest.raises(mc.StoreError, match="incomplete, some of these images have no votes yet"):
        mc.Ballots.load(tmp_path / "evidence")
    assert np.array_equal(mc.Ballots.load(tmp_path / "evidence", slice(4, 8)).labels, labels[4:8])


def test_a_chunk_in_which_all_abstain_counts_as_written(tmp_path: Path) -> None:
    writer = writer_at(tmp_path / "evidence")
    writer.write(slice(0, 4), part_of(np.full((4, 4, 2), mc.ABSTAIN)))
    assert writer.missing() == [slice(4, 8), slice(8, 10)]


def test_scores_are_kept_beside_the_labels(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).random((10, 4, 200)).astype(np.float16)
    writer = opened(tmp_path / "evidence", some_ballots(10), scores, chunk=4)
    writer.write(slice(0, 4), some_ballots(10)[:4], {"scores": scores[:4]})
    kept = Store.open(tmp_path / "evidence").read("scores", slice(0, 4))
    assert np.array_equal(kept, scores[:4])
    for wrong in (scores[:3], scores[:4].astype(np.float32), scores[:4, :, 1:]):
        with pytest.raises(mc.StoreError, match=r"expected labels .*, scores float16 \(4, 4, 200\), got"):
            writer.write(slice(0, 4), some_ballots(10)[:4], {"scores": wrong})
    with pytest.raises(mc.StoreError, match=r"got labels int16 \(4, 4, 2\)$"):
        writer.write(slice(4, 8), some_ballots(10)[4:8])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"provenance": {"weights_sha256": "other"}}, "holds other evidence .differs in weights_sha256."),
        ({"n_images": 11}, "holds other evidence .differs in its arrays."),
        ({"strategy": "columns:5/3"}, "holds other evidence .differs in strategy."),
    ],
)
def test_evidence_of_something_else_is_not_continued(tmp_path: Path, changes: dict, message: str) -> None:
    writer_at(tmp_path / "evidence")
    with pytest.raises(mc.StoreError, match=message):
        writer_at(tmp_path / "evidence", **changes)


@pytest.mark.parametrize("labels", [np.zeros((3, 4), int), np.tile([1, 2, 3], (4, 4, 1))])
def test_a_chunk_of_another_shape_is_refused(tmp_path: Path, labels: np.ndarray) -> None:
    writer = writer_at(tmp_path / "evidence")
    with pytest.raises(mc.StoreError, match=r"expected labels int16 \(4, 4, 2\), got labels"):
        writer.write(slice(0, 4), part_of(labels))
    assert writer.missing() == [slice(0, 4), slice(4, 8), slice(8, 10)]


def edit(path: Path, change: dict) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


def attributes(path: Path, **change: object) -> None:
    """Change attributes as a stranger would, who leaves the seal away."""
    found = json.loads((path / "zarr.json").read_text())["attributes"]
    found.pop("seal")
    edit(path / "zarr.json", {"attributes": {**found, **change}})


def flip_a_byte(path: Path) -> None:
    chunk = next(file for file in (path / "labels" / "c").rglob("*") if file.is_file())
    raw = bytearray(chunk.read_bytes())
    raw[len(raw) // 2] ^= 1
    chunk.write_bytes(raw)


def truncate(path: Path) -> None:
    chunk = next(file for file in (path / "labels" / "c").rglob("*") if file.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-9])


DAMAGE = {
    "gone": (lambda p: shutil.rmtree(p), "no such evidence store"),
    "another folder": (lambda p: (p / "zarr.json").unlink(), "cannot read the evidence store"),
    "not JSON": (lambda p: (p / "zarr.json").write_text('{"zarr'), "cannot read the evidence store"),
    "another format": (lambda p: attributes(p, format="photos"), "not majorcert evidence"),
    "another version": (lambda p: attributes(p, version=99), "version 99, this majorcert reads version 1"),
    "no labels": (lambda p: shutil.rmtree(p / "labels"), "its array 'labels' is missing"),
    "no chunk": (lambda p: shutil.rmtree(p / "labels" / "c"), "incomplete"),
    "a flipped bit": (flip_a_byte, "cannot read the evidence store"),
    "a truncated chunk": (truncate, "cannot read the evidence store"),
    "another strategy": (lambda p: attributes(p, strategy="columns:4"), "do not fit together"),
    "another size": (lambda p: attributes(p, image_size=[8]), "do not fit together"),
    "fewer classes": (lambda p: attributes(p, n_classes=5), "do not fit together"),
    "classes in words": (lambda p: attributes(p, n_classes="many"), "do not fit together"),
    "a huge chunk": (
        lambda p: edit(
            p / "labels" / "zarr.json",
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**40, 4, 2]}}},
        ),
        "refused, 'labels' declares chunks of over",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_store_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    some_ballots(20).save(tmp_path / "evidence")
    damage, message = DAMAGE[name]
    damage(tmp_path / "evidence")
    with pytest.raises(mc.StoreError, match=message) as caught:
        mc.Ballots.load(tmp_path / "evidence")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    with pytest.raises(mc.StoreError, match=r"photo\.png: cannot read the evidence store"):
        mc.Ballots.load(tmp_path / "photo.png")


def test_a_file_never_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    ballots = some_ballots(5)
    ballots.save(tmp_path / "evidence")
    before = contents(tmp_path)
    with pytest.raises(mc.StoreError, match="is a folder, and a file was to be written"):
        mc.drs(ballots, mc.Patch(1)).save(tmp_path / "evidence")
    with pytest.raises(mc.StoreError, match="cannot be written"):
        mc.drs(ballots, mc.Patch(1)).save(tmp_path / "evidence" / "zarr.json" / "verdict.jsonl")
    assert contents(tmp_path) == before


def test_provenance_cannot_pose_as_another_format(tmp_path: Path) -> None:
    facts = {"strategy": "columns:1", "image_size": (1, 2), "n_classes": 2}
    mc.Ballots([[0, 1]], **facts, provenance={"version": "2.1", "format": "mine", "seal": 3}).save(
        tmp_path / "evidence"
    )
    assert len(mc.Ballots.load(tmp_path / "evidence")) == 1


def test_provenance_that_is_not_json_is_told(tmp_path: Path) -> None:
    ballots = mc.Ballots([[0, 1]], strategy="columns:1", image_size=(1, 2), n_classes=2, provenance={"by": {1, 2}})
    for save in (ballots.save, mc.drs(ballots, 1).save):
        with pytest.raises(mc.StoreError, match=r"mine: the provenance of the evidence is not plain JSON \(Object of"):
            save(tmp_path / "mine")
    assert not any(tmp_path.iterdir())


def test_a_lost_index_of_images_is_noticed(tmp_path: Path) -> None:
    some_ballots(20)[np.arange(19, -1, -1)].save(tmp_path / "evidence")
    shutil.rmtree(tmp_path / "evidence" / "images" / "c")
    with pytest.raises(mc.StoreError, match="expected an index, 0 or more"):
        mc.Ballots.load(tmp_path / "evidence")


def changed(path: Path, **change: object) -> None:
    """Change attributes by accident: the seal stays."""
    found = json.loads((path / "zarr.json").read_text())["attributes"]
    edit(path / "zarr.json", {"attributes": {**found, **change}})


@pytest.mark.parametrize(
    "change", [{"strategy": "columns:1"}, {"threshold": 0.5}, {"more": 1}, {"seal": {}}, {"seal": 1}]
)
def test_attributes_that_were_changed_by_accident_are_noticed(tmp_path: Path, change: dict) -> None:
    some_ballots(20).save(tmp_path / "evidence")
    changed(tmp_path / "evidence", **change)
    with pytest.raises(mc.StoreError, match="cannot read the evidence store"):
        mc.Ballots.load(tmp_path / "evidence")


@pytest.mark.parametrize(
    "change", [{"shape": [19, 4, 2]}, {"fill_value": -1}, {"data_type": "int8"}, {"attributes": {"sha256": "0"}}]
)
def test_a_layout_that_was_changed_by_accident_is_noticed(tmp_path: Path, change: dict) -> None:
    some_ballots(20).save(tmp_path / "evidence")
    edit(tmp_path / "evidence" / "labels" / "zarr.json", change)
    with pytest.raises(mc.StoreError, match="'labels' is not laid out as it was when it was made"):
        mc.Ballots.load(tmp_path / "evidence")


def test_an_array_that_the_seal_names_is_missed(tmp_path: Path) -> None:
    some_ballots(20)[np.arange(19, -1, -1)].save(tmp_path / "evidence")
    shutil.rmtree(tmp_path / "evidence" / "images")
    with pytest.raises(mc.StoreError, match="its array 'images' is missing"):
        mc.Ballots.load(tmp_path / "evidence")


def test_evidence_without_a_seal_is_read_as_before(tmp_path: Path) -> None:
    some_ballots(20).save(tmp_path / "evidence")
    attributes(tmp_path / "evidence")
    edit(tmp_path / "evidence" / "labels" / "zarr.json", {"attributes": {}})
    assert np.array_equal(mc.Ballots.load(tmp_path / "evidence").labels, some_ballots(20).labels)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    labels = some_ballots(10).labels
    writer_at(tmp_path / "evidence").write(slice(0, 4), part_of(labels[:4]))
    shutil.move(tmp_path / "evidence" / "labels" / "c", tmp_path / "elsewhere")
    (tmp_path / "evidence" / "labels" / "c").symlink_to(tmp_path / "elsewhere")
    assert np.array_equal(mc.Ballots.load(tmp_path / "evidence", slice(0, 4)).labels, labels[:4])
    with pytest.raises(mc.StoreError, match="a link in an evidence store, which is not written through"):
        writer_at(tmp_path / "evidence")


def test_a_store_that_was_replaced_while_it_was_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_distances(20).save(tmp_path / "evidence")
    read = Store.read

    def replaced_after_the_labels(store: Store, name: str, *rest: object, **options: object) -> object:
        found = read(store, name, *rest, **options)  # type: ignore[arg-type]
        if name == "labels":
            with_distances(20).save(tmp_path / "evidence")
        return found

    monkeypatch.setattr(Store, "read", replaced_after_the_labels)
    with pytest.raises(mc.StoreError, match="another store was put in its place meanwhile"):
        mc.Ballots.load(tmp_path / "evidence")


def test_a_writer_does_not_go_on_in_another_store(tmp_path: Path) -> None:
    writer = writer_at(tmp_path / "evidence")
    shutil.rmtree(tmp_path / "evidence")
    writer_at(tmp_path / "evidence")
    with pytest.raises(mc.StoreError, match="another store was put in its place meanwhile"):
        writer.write(slice(0, 4), part_of(some_ballots(10).labels[:4]))


def test_ballots_are_saved_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mc.StoreError, match="a URL, where nothing can be put in place as a whole"):
        with_distances(3).save("memory://evidence")
    assert not list(tmp_path.iterdir())


def test_a_store_never_has_more_chunks_than_are_read(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "e", {"labels": ((2**17 + 1, 1, 1), np.int8)}, {}, Packing(chunk=1))
    assert store.array("labels").chunks == (2, 1, 1)
