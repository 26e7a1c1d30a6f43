"""The folder of a training run: held by one run at a time, with its checkpoint and its log."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from majorcert.errors import ModelError
from majorcert.files.atomic import hold, replacing
from majorcert.nets.folders import check_free, make_folder

LOG = "log.jsonl"


@contextmanager
def held(folder: Path, *, resume: bool) -> Iterator[None]:
    """Make the folder and keep other runs out of it; a killed run holds it no longer."""
    make_folder(folder)
    try:
        handle = hold(folder)
    except BlockingIOError:
        raise ModelError(f"{folder}: another run is being trained there; wait for it, or use another folder") from None
    try:
        if not resume:
            check_free(folder)
        yield
    finally:
        if handle is not None:
            os.close(handle)


class Log:
    """RUN/log.jsonl, one line per epoch; lines of epochs that a resumed run does again are dropped."""

    def __init__(self, run_dir: Path, n_epochs: int, *, writes: bool) -> None:
        self.path, self.writes = run_dir / LOG, writes
        if writes:
            lines = self.path.read_bytes().splitlines(keepends=True) if self.path.is_file() else []
            with replacing(self.path) as beside:
                beside.write_bytes(b"".join(lines[:n_epochs]))

    def add(self, *, seconds: float, images: int, **figures: float | str) -> None:
        if self.writes:
            line = {**figures, "images_per_second": round(images / seconds), "seconds": round(seconds, 3)}
            try:
                with self.path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:
                raise ModelError(f"cannot write {self.path}: {error.strerror}; resume later") from None
