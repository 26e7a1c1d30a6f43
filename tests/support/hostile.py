"""What a stranger might do to a folder of files, for Hypothesis, and a watch on what is opened meanwhile."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from majorcert.errors import MajorcertError

deep: Any = []
for _ in range(500):
    deep = [deep]
NASTY: list[Any] = [
    None, True, False, -1, 0, 1, 2, 1.5, 10**30, -(10**30), 2**63, 1e308, float("nan"), float("inf"), "", "x",
    "../outside", "/etc/passwd", "..", "a\0b", "\ud800", "é" * 50, [], {}, [None], [[1]], {"a": {}}, deep,
    [10**9, 10**6], [10**6, 10**6, 1], "columns:999999", "rows:0", "timm:x", "int64", "float64", "gzip", "|O", "1e999",
]  # fmt: skip
"""Values that no field expects, each of which may be any other field's own."""


@dataclass(frozen=True)
class Artifact:
    """A valid artifact in a folder, how it is read, and how its checksums are made to fit again."""

    make: Callable[[Path], None]
    load: Callable[[Path], Any]
    reseal: Callable[[Path], None] = lambda folder: None


@dataclass(frozen=True)
class Damage:
    """One change to one file of a folder."""

    kind: str
    file: int
    where: float
    value: int
    nasty: Any

    def apply(self, folder: Path) -> None:
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        if not files:
            return
        path = files[self.file % len(files)]
        if self.kind in FILES:
            FILES[self.kind](path)
        elif self.kind in BYTES:
            content = path.read_bytes()
            path.write_bytes(BYTES[self.kind](content, int(self.where * len(content)), self.value))
        else:
            self._change_json(path)

    def _change_json(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n") if path.suffix == ".jsonl" else [path.read_bytes()]
        line = self.value % len(lines)
        try:
            raw = json.loads(lines[line])
        except ValueError:
            return
        places = list(_places(raw))
        if places:
            held, key = places[int(self.where * len(places)) % len(places)]
            if self.kind == "forget":
                del held[key]
            elif self.kind == "rename" and isinstance(held, dict):
                held[str(self.nasty)[:20]] = held.pop(key)
            else:
                held[key] = self.nasty
        lines[line] = json.dumps(raw).encode()
        path.write_bytes(b"\n".join(lines))


def _places(raw: Any) -> Iterator[tuple[Any, Any]]:
    """Every field and every element, however deep."""
    for key in list(raw) if isinstance(raw, dict) else range(len(raw)) if isinstance(raw, list) else ():
        yield raw, key
        yield from _places(raw[key])


def _made_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _made_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parents[len(path.parents) - 1] / "etc" / "passwd")


def _made_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FILES: dict[str, Callable[[Path], None]] = {
    "remove": Path.unlink,
    "folder": _made_folder,
    "link": _made_link,
    "pipe": _made_pipe,
}
BYTES: dict[str, Callable[[bytes, int, int], bytes]] = {
    "empty": lambda content, at, value: b"",
    "cut": lambda content, at, value: content[:at],
    "flip": lambda content, at, value: content[:at] + bytes([value]) + content[at + 1 :],
    "insert": lambda content, at, value: content[:at] + bytes([value]) * (1 + value) + content[at:],
    "drop": lambda content, at, value: content[:at] + content[at + 1 + value :],
    "repeat": lambda content, at, value: content[:at] + content[at - value : at] * 3 + content[at:],
    "number": lambda content, at, value: content[:at] + b"9" * 12 + content[at:],
    "huge": lambda content, at, value: content[:at] + b"\xff" * 8 + content[at + 8 :],
}
JSON = ("replace", "replace", "replace", "forget", "rename")


def damages() -> st.SearchStrategy[list[Damage]]:
    """One to three changes; those to fields of JSON as often as all others together."""
    kinds = st.one_of(st.sampled_from([*BYTES, *FILES]), st.sampled_from(JSON), st.sampled_from(JSON))
    one = st.builds(
        Damage,
        kind=kinds,
        file=st.integers(0, 20),
        where=st.floats(0, 0.999),
        value=st.integers(0, 255),
        nasty=st.sampled_from(NASTY),
    )
    return st.lists(one, min_size=1, max_size=3)


opened: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if opened is not None and event in ("open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir"):
        opened.append(str(arguments[0]))


sys.addaudithook(_watch)


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Whatever is opened meanwhile near the folder must be named within it."""
    global opened
    opened = []
    try:
        yield
    finally:
        names, opened = opened, None
    base = str(folder.parent)
    astray = [
        name for name in map(os.path.normpath, names) if name.startswith(base) and not name.startswith(str(folder))
    ]
    assert not astray
    assert "/etc/passwd" not in names


def load_or_refuse(artifact: Artifact, pristine: Path, changes: list[Damage]) -> bool:
    """Damage a copy and read it: is it accepted? Anything but our own error, on one line, is a failure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "given"
        shutil.copytree(pristine, folder)
        shutil.copytree(pristine, folder.parent / "outside")
        for change in changes:
            change.apply(folder)
        artifact.reseal(folder)
        before = {path: path.read_bytes() for path in (folder.parent / "outside").rglob("*") if path.is_file()}
        refusal = None
        try:
            with watched(folder):
                artifact.load(folder)
        except MajorcertError as error:
            refusal = str(error)
        assert refusal is None or (refusal.strip() and "\n" not in refusal)
        assert before == {path: path.read_bytes() for path in (folder.parent / "outside").rglob("*") if path.is_file()}
        return refusal is None
