"""The checkpoint of a training run: all that it takes to go on, to the bit."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from majorcert.errors import ModelError
from majorcert.files.seal import plain
from majorcert.files.untrusted import decoded
from majorcert.nets.folders import CHECKPOINT
from majorcert.nets.on_disk import fingerprint, read_tensors, write_json, write_tensors

FORMAT = "majorcert-checkpoint"
VERSION = 2
"""1 had no fingerprint."""


@dataclass(frozen=True)
class _Header:
    version: int
    about: dict[str, Any]
    epoch: int
    step: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training run between two steps."""

    about: dict[str, Any]  # everything that must be the same for the run to continue: configuration, data, device
    epoch: int  # epochs done
    step: int  # steps done in the epoch after them
    seconds: float  # time spent in that epoch so far
    tensors: dict[str, Tensor]

    def write(self, run_dir: Path) -> None:
        """Write RUN/checkpoint.safetensors, which is complete in itself, and its JSON beside it for people."""
        progress = {"epoch": self.epoch, "step": self.step, "seconds": self.seconds}
        header = {"format": FORMAT, "version": VERSION, **progress, "about": self.about}
        text = json.dumps(header)
        metadata = {FORMAT: text, "sha256": fingerprint(self.tensors, text)}
        write_tensors(run_dir / CHECKPOINT, self.tensors, metadata)
        write_json((run_dir / CHECKPOINT).with_suffix(".json"), header)

    @classmethod
    def read(cls, run_dir: Path, about: Mapping[str, Any]) -> "Checkpoint | None":
        """The checkpoint in a run directory, None if there is none; it must be one of this very run."""
        path = run_dir / CHECKPOINT
        if not path.exists():
            return None
        tensors, metadata = read_tensors(path)
        try:
            header = decoded(metadata[FORMAT], _Header)
        except (KeyError, ValueError):
            raise ModelError(
                f"{path} is no majorcert checkpoint; resume from the directory that `train` wrote"
            ) from None
        if header.version != VERSION:
            raise ModelError(f"{path} is of version {header.version}, not {VERSION}; delete it to begin again")
        if metadata.get("sha256") != fingerprint(tensors, metadata[FORMAT]):
            raise ModelError(f"{path} is damaged, its SHA-256 differs; delete it to begin again")
        found = cls(header.about, header.epoch, header.step, header.seconds, tensors)
        differing = _differing(found.about, _with_epochs_of(found.about, plain(about)))
        if differing:
            raise ModelError(f"{path} is of another training run: {'; '.join(differing)}; use another run directory")
        return found


def _with_epochs_of(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """What is wanted, but for more epochs than were planned: a run may be made longer."""
    planned, now = (about.get("config", {}).get("epochs") for about in (found, wanted))
    if not isinstance(planned, int) or not isinstance(now, int) or now <= planned:
        return wanted
    return {**wanted, "config": {**wanted["config"], "epochs": planned}}


def _differing(found: Any, wanted: Any, name: str = "") -> list[str]:
    """The leaves in which two JSON values differ, in words."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted(set(found) | set(wanted))
        return [
            line for key in keys for line in _differing(found.get(key), wanted.get(key), f"{name}.{key}".strip("."))
        ]
    return [] if found == wanted else [f"{name} was {found!r}, now {wanted!r}"]
