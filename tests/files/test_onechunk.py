"""Stores of one chunk: the same files as Zarr's, in place whole or not at all, and the first process wins."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import majorcert as mc
from majorcert.defences.scores import Scores
from majorcert.files import atomic, chunks, onechunk, store
from majorcert.files.onechunk import Draft, write_one_chunk
from majorcert.files.store import Store
from majorcert.files.writer import BallotsWriter

FACTS: dict[str, Any] = {"strategy": "columns:4/3", "image_size": (8, 10), "n_classes": 5}
ORIGIN = {"dataset": "Bäume ☃ \U0001f333", "threshold": 0.3, "seen": [1, None, True, 1e-7], "nested": {"leer": {}}}
N = 6
LABELS = np.random.default_rng(1).integers(-1, 5, (N, 4, 1))
SCORES = np.random.default_rng(2).random((N, 4, 5))
DISTANCE = np.random.default_rng(3).random((N, 4)).astype(np.float16)
FILES = ["distance/c/0/0", "distance/zarr.json", "labels/c/0/0/0", "labels/zarr.json", "zarr.json"]


def opened(path: Path | str, **changes: Any) -> BallotsWriter:
    return BallotsWriter.open(path, **{**FACTS, "n_images": N, "n_votes": 1, "distance": True, **changes})


def written(path: Path | str, **changes: Any) -> None:
    opened(path, **changes).write(slice(0, N), LABELS, None, DISTANCE)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def through_zarr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of the same evidence, laid out and filled by Zarr."""
    with monkeypatch.context() as patch:
        patch.setattr(Draft, "or_store", Store.create_or_open)
        written(tmp_path / "zarr" / "e.zarr")
    return contents(tmp_path / "zarr" / "e.zarr")


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("n_images", [1, 37])
def test_every_file_is_as_zarr_writes_it(dtype: type, n_images: int, tmp_path: Path) -> None:
    chance = np.random.default_rng(n_images)
    arrays = {
        "labels": chance.integers(-1, 100, (n_images, 70, 3)).astype(dtype)[:, ::-1],
        "distance": chance.random((n_images, 70)).astype(np.float16),
        "scores": np.zeros((n_images, 70, 10), dtype=np.float16),
        "images": np.arange(n_images)[::-1],
    }
    arrays["labels"].flags.writeable = False
    write_one_chunk(tmp_path / "ours", arrays, ORIGIN)
    shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    Store.create(tmp_path / "theirs", shapes, ORIGIN).write(slice(None), arrays)
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")
    group = zarr.open_group(tmp_path / "ours", mode="r")
    assert group.attrs["dataset"] == ORIGIN["dataset"]
    for name, array in arrays.items():
        assert np.array_equal(group[name][:], array)


def test_a_written_store_is_as_through_zarr_and_is_read_back(tmp_path: Path, through_zarr: dict[str, bytes]) -> None:
    written(tmp_path / "e.zarr")
    assert list(through_zarr) == FILES
    assert contents(tmp_path / "e.zarr") == through_zarr
    ballots = mc.Ballots.load(tmp_path / "e.zarr")
    assert np.array_equal(ballots.labels, LABELS)
    assert np.array_equal(ballots.distance, DISTANCE)
    opened(tmp_path / "s.zarr", scores=True, provenance=ORIGIN).write(slice(0, N), LABELS, SCORES, DISTANCE)
    assert mc.Ballots.load(tmp_path / "s.zarr").provenance["dataset"] == ORIGIN["dataset"]
    assert np.array_equal(Scores.load(tmp_path / "s.zarr").points / 2**24, SCORES.astype(np.float16))


def test_zarr_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    written(tmp_path / "e.zarr")
    assert list(contents(tmp_path / "e.zarr")) == FILES
    with pytest.raises(ImportError, match="zarr"):
        opened(tmp_path / "e.zarr")


def test_nothing_is_there_before_the_first_write(tmp_path: Path) -> None:
    writer = opened(tmp_path / "new" / "e.zarr")
    assert writer.images_per_chunk == N
    assert writer.missing() == [slice(0, N)]
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(mc.StoreError, match=r"chunks of 6 images are written whole, got slice\(0, 4"):
        writer.write(slice(0, 4), LABELS[:4], None, DISTANCE[:4])
    with pytest.raises(mc.StoreError, match="expected the distances of these ballots, got none"):
        writer.write(slice(0, N), LABELS)
    assert list((tmp_path / "new").iterdir()) == []
    writer.write(slice(0, N), LABELS, None, DISTANCE)
    assert writer.missing() == []
    assert opened(tmp_path / "new" / "e.zarr").missing() == []


def test_a_second_write_is_as_good_as_the_first(tmp_path: Path) -> None:
    writer = opened(tmp_path / "e.zarr")
    writer.write(slice(0, N), LABELS, None, DISTANCE)
    writer.write(slice(0, N), LABELS[::-1], None, DISTANCE)
    assert np.array_equal(mc.Ballots.load(tmp_path / "e.zarr").labels, LABELS[::-1])


@pytest.mark.parametrize(
    ("changes", "n_chunks"), [({}, 1), ({"chunk": N}, 1), ({"chunk": N - 1}, 2), ({"n_images": 513}, 2)]
)
def test_a_draft_is_for_one_chunk(changes: dict[str, Any], n_chunks: int, tmp_path: Path) -> None:
    writer = opened(tmp_path / "e.zarr", **changes)
    assert isinstance(writer.store, Draft) == (n_chunks == 1)
    assert (tmp_path / "e.zarr").exists() == (n_chunks > 1)
    assert len(writer.missing()) == n_chunks


def test_what_would_not_be_read_again_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit, n_images in (("MAX_IMAGES", N - 1, N), ("MAX_CHUNK_BYTES", 3, 1)):
        for module in (onechunk, store, chunks):
            monkeypatch.setattr(module, name, limit, raising=False)
        with pytest.raises(mc.StoreError, match="refused, 'labels' declares"):
            opened(tmp_path / name, n_images=n_images).missing()
        monkeypatch.undo()


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_names_nothing_is_refused(path: str) -> None:
    with pytest.raises(mc.StoreError, match=r"has no name|cannot be written"):
        opened(path)


def test_no_images_and_urls_go_through_zarr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(opened(tmp_path / "e.zarr", n_images=0).store, Store)
    assert isinstance(opened("memory://onechunk/e.zarr").store, Store)


def test_scores_may_be_left_away_as_through_zarr(tmp_path: Path) -> None:
    opened(tmp_path / "e.zarr", scores=True).write(slice(0, N), LABELS, None, DISTANCE)
    assert np.array_equal(mc.Ballots.load(tmp_path / "e.zarr").labels, LABELS)
    with pytest.raises(mc.StoreError, match="all of them written"):
        Scores.load(tmp_path / "e.zarr")


@pytest.mark.parametrize(
    "provenance",
    [
        {"size": (1, 2)},
        {"loss": float("nan")},
        {"loss": float("inf")},
        {1: "one"},
        {"version": "2.1"},
        {"weights": object()},
    ],
)
def test_provenance_that_would_not_come_back_is_refused_at_once(provenance: dict[Any, Any], tmp_path: Path) -> None:
    for chunk in (N, 2):
        with pytest.raises(mc.StoreError, match=rf"plain JSON .*; {next(iter(provenance))} would not be read back"):
            opened(tmp_path / "e.zarr", provenance=provenance, chunk=chunk)
    assert list(tmp_path.iterdir()) == []


def laid_out(path: Path) -> None:
    draft = opened(path).store
    assert isinstance(draft, Draft)
    Store.create_or_open(path, draft.arrays, draft.attributes)


def partly_written(path: Path) -> None:
    opened(path, chunk=4).write(slice(0, 4), LABELS[:4], None, DISTANCE[:4])


def raced(path: Path, moment: str, other: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a store, while another process puts its own in place before it begins, or before it is done."""
    writer, move = opened(path), atomic._move

    def written_late(*arguments: Any) -> None:
        monkeypatch.undo()
        write_one_chunk(*arguments)
        other(path)

    def moved_late(*arguments: Any) -> None:
        monkeypatch.undo()
        other(path)
        move(*arguments)

    if moment == "before the write":
        other(path)
    elif moment == "before the move":
        monkeypatch.setattr(onechunk, "write_one_chunk", written_late)
    else:
        monkeypatch.setattr(atomic, "_move", moved_late)
    writer.write(slice(0, N), LABELS, None, DISTANCE)


MOMENTS = ["before the write", "before the move", "in the move"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("other", [written, laid_out, partly_written])
def test_a_store_of_the_same_evidence_that_was_first_is_filled(
    moment: str, other: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced(tmp_path / "e.zarr", moment, other, monkeypatch)
    assert [path.name for path in tmp_path.iterdir()] == ["e.zarr"]
    assert np.array_equal(mc.Ballots.load(tmp_path / "e.zarr").labels, LABELS)
    assert Store.open(tmp_path / "e.zarr").images_per_chunk == (4 if other is partly_written else N)
    assert opened(tmp_path / "e.zarr").missing() == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_store_of_other_evidence_that_was_first_is_left_alone(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "expected.zarr", provenance={"weights_sha256": "other"})
    with pytest.raises(mc.StoreError, match=r"e\.zarr: holds other evidence .differs in weights_sha256."):
        raced(
            tmp_path / "e.zarr", moment, lambda path: written(path, provenance={"weights_sha256": "other"}), monkeypatch
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.zarr", "expected.zarr"]
    assert contents(tmp_path / "e.zarr") == contents(tmp_path / "expected.zarr")


def test_a_draft_sees_what_another_process_wrote(tmp_path: Path) -> None:
    writer = opened(tmp_path / "e.zarr")
    partly_written(tmp_path / "e.zarr")
    assert writer.missing() == [slice(0, N)]
    opened(tmp_path / "e.zarr").write(slice(4, N), LABELS[4:], None, DISTANCE[4:])
    assert writer.missing() == []


@pytest.mark.parametrize("place", ["file/e.zarr", "file/deep/e.zarr", f"{'long' * 64}.zarr", "dangling"])
def test_a_place_where_nothing_can_be_written_is_refused_at_once(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(mc.StoreError, match="cannot be written"):
        opened(tmp_path / place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


def test_a_folder_that_may_not_be_written_to_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path, *arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "touch", denied)  # the superuser may write to a folder whatever its mode says
    with pytest.raises(mc.StoreError, match=r"e\.zarr: cannot be written: Permission denied"):
        opened(tmp_path / "e.zarr")


@pytest.mark.parametrize("n_files", range(len(FILES)))
def test_a_full_disk_leaves_nothing_behind(
    n_files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through_zarr: dict[str, bytes]
) -> None:
    room, write_bytes = [n_files], Path.write_bytes

    def while_there_is_room(path: Path, content: bytes) -> int:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", while_there_is_room)
    writer = opened(tmp_path / "new" / "e.zarr")
    with pytest.raises(mc.StoreError, match=r"e\.zarr: cannot write the evidence store .*No space left on device"):
        writer.write(slice(0, N), LABELS, None, DISTANCE)
    assert list((tmp_path / "new").iterdir()) == []
    monkeypatch.undo()
    writer.write(slice(0, N), LABELS, None, DISTANCE)
    assert contents(tmp_path / "new" / "e.zarr") == through_zarr


@pytest.mark.parametrize("n_files", [0, 2, len(FILES)])
def test_a_killed_writer_leaves_no_store_and_is_started_again(
    n_files: int, tmp_path: Path, through_zarr: dict[str, bytes]
) -> None:
    script = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[1])
        import test_onechunk as t
        left, write_bytes = [int(sys.argv[3])], Path.write_bytes
        def killed():
            os.kill(os.getpid(), signal.SIGKILL)
        def write_a_few(path, content):
            left[0] -= 1
            return killed() if left[0] < 0 else write_bytes(path, content)
        Path.write_bytes = write_a_few
        Path.replace = lambda *arguments: killed()
        t.written(sys.argv[2])
    """)
    command = [
        sys.executable,
        "-c",
        script,
        str(Path(__file__).parent),
        str(tmp_path / "e.zarr"),
        str(n_files),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(mc.__file__).parents[1]), str(Path(__file__).parents[1] / "support")]),
    }
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    with pytest.raises(mc.StoreError, match="no such evidence store"):
        mc.Ballots.load(tmp_path / "e.zarr")
    written(tmp_path / "e.zarr")
    assert contents(tmp_path / "e.zarr") == through_zarr
