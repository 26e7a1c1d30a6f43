"""What is written appears whole or not at all, whenever the writer is killed, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import majorcert as mc
from majorcert.errors import StoreError
from majorcert.files import atomic
from majorcert.files.atomic import check_place, replacing
from majorcert.files.writer import EvidenceWriter

FACTS = {"strategy": "columns:1", "image_size": (1, 2), "n_classes": 2}
OLD, NEW = mc.Ballots([[0, 1]] * 3, **FACTS), mc.Ballots([[1, 1]] * 5, **FACTS)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def killed(path: Path, call: str, number: int, *, swaps: bool) -> bool:
    """Save NEW there and be killed at the numbered call of a function of `os`; whether it came to that."""
    script = textwrap.dedent(f"""
        import os, signal, sys
        import test_atomic
        if not {swaps}:
            test_atomic.atomic._swapped = lambda *paths: False
        left, real = [{number}], os.{call}
        def deadly(*arguments, **options):
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*arguments, **options)
        os.{call} = deadly
        test_atomic.NEW.save(sys.argv[1])
    """)
    here = Path(__file__).parent
    paths = [str(Path(mc.__file__).parents[1]), str(here), str(here.parent / "support")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    code = subprocess.run([sys.executable, "-c", script, path], env=environment, check=False).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("call", ["rename", pytest.param("rmdir", marks=pytest.mark.slow)])
def test_a_killed_save_leaves_the_old_store_or_the_new_one(call: str, swaps: bool, tmp_path: Path) -> None:
    store, number = tmp_path / "e.zarr", 0
    OLD.save(store)
    while killed(store, call, number, swaps=swaps):
        assert store.exists() or not swaps, "with an exchange there is no moment without a store"
        assert len(mc.Ballots.load(store)) in (3, 5)
        OLD.save(store)
        assert entries(tmp_path) == ["e.zarr"], "the next write removes what the killed one left"
        number += 1
    assert number > 0 or (call == "rename" and swaps)
    assert len(mc.Ballots.load(store)) == 5


def test_a_store_is_there_at_every_moment_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OLD.save(tmp_path / "e.zarr")
    seen: list[bool] = []
    for name in ("rename", "replace", "rmdir", "unlink"):
        real = getattr(os, name)

        def looking(*arguments: object, real: Callable[..., None] = real, **options: object) -> None:
            real(*arguments, **options)
            seen.append((tmp_path / "e.zarr" / "zarr.json").is_file())

        monkeypatch.setattr(os, name, looking)
    NEW.save(tmp_path / "e.zarr")
    assert seen
    assert all(seen)


def leftover(folder: Path, name: str, age_s: float = 0.0) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "new").write_text("half")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    dead = leftover(tmp_path, ".v.jsonl.abcdefgh.partial")
    others = leftover(tmp_path, ".v.jsonl.more.abcdefgh.partial")
    with replacing(tmp_path / "v.jsonl") as living:
        living.write_text("first")
        with replacing(tmp_path / "v.jsonl") as later:
            later.write_text("second")
        assert not dead.exists()
        assert others.exists(), "of another file"
        assert living.read_text() == "first"
    assert (tmp_path / "v.jsonl").read_text() == "first"
    assert entries(tmp_path) == [others.name, "v.jsonl"]


def test_the_partial_of_another_process_is_removed_only_when_that_is_dead(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, time
        from majorcert.files.atomic import replacing
        with replacing(sys.argv[1]) as beside:
            beside.write_text("slow")
            print("writing", flush=True)
            sys.stdin.read()
    """)
    environment = {**os.environ, "PYTHONPATH": str(Path(mc.__file__).parents[1])}
    command = [sys.executable, "-c", script, tmp_path / "v"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"writing\n"
        with replacing(tmp_path / "v") as beside:
            beside.write_text("quick")
        assert len(entries(tmp_path)) == 2, "the other process is still writing"
        other.kill()
        other.wait()
    assert len(entries(tmp_path)) == 2
    with replacing(tmp_path / "v") as beside:
        beside.write_text("again")
    assert entries(tmp_path) == ["v"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("old")

    def failing() -> None:
        with replacing(tmp_path / "v") as beside:
            beside.mkdir()
            (beside / "half").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert (tmp_path / "v").read_text() == "old"
    assert entries(tmp_path) == ["v"]


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("points_to", ["store", "nowhere", "loop"])
def test_a_link_is_replaced_and_what_it_points_to_stays(
    points_to: str, swaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swaps:
        monkeypatch.setattr(atomic, "_swapped", lambda *paths: False)
    OLD.save(tmp_path / "store")
    (tmp_path / "link").symlink_to(tmp_path / {"loop": "link"}.get(points_to, points_to))
    NEW.save(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert len(mc.Ballots.load(tmp_path / "link")) == 5
    assert len(mc.Ballots.load(tmp_path / "store")) == 3
    assert entries(tmp_path) == ["link", "store"]


def test_a_link_to_a_file_is_replaced_and_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with replacing(tmp_path / "link") as beside:
        beside.write_text("new")
    assert (tmp_path / "file").read_text() == "mine"
    assert (tmp_path / "link").read_text() == "new"
    with pytest.raises(StoreError, match="cannot read the evidence store"):
        NEW.save(tmp_path / "file")


@pytest.mark.parametrize("name", ["", "a\0b", "file/e", f"{'long' * 64}.zarr"])
def test_a_place_where_nothing_can_be_written_is_told(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    path = tmp_path / name if name else ""
    with pytest.raises(StoreError, match=r"cannot be written|has no name"):
        check_place(path)
    with pytest.raises(StoreError, match=r"cannot be written|has no name"), replacing(path) as beside:
        beside.write_text("never")
    assert entries(tmp_path) == ["file"]


def test_a_good_place_stays_empty(tmp_path: Path) -> None:
    check_place(tmp_path / "new" / "e.zarr")
    assert entries(tmp_path / "new") == []


def test_parts_of_chunks_that_a_killed_writer_left_are_removed_once_they_are_old(tmp_path: Path) -> None:
    EvidenceWriter.open(tmp_path / "e", NEW, 5).write(slice(0, 5), NEW)
    parts = [tmp_path / "e" / "labels" / "c" / "0" / "0" / f"0.{age}.partial" for age in ("old", "young")]
    for part in parts:
        part.write_bytes(b"half")
    os.utime(parts[0], (time.time() - 10**5,) * 2)
    EvidenceWriter.open(tmp_path / "e", NEW, 5)
    assert [part.exists() for part in parts] == [False, True]
    assert np.array_equal(mc.Ballots.load(tmp_path / "e").labels, NEW.labels)
