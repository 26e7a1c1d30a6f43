"""Tensors and JSON on disk: safetensors, never pickle, each file written whole or not at all."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from majorcert.errors import ModelError, StoreError
from majorcert.files.atomic import replacing
from majorcert.files.seal import plain
from majorcert.files.untrusted import parse_json, plain_size, reason, typed
from majorcert.nets.folders import CHECKPOINT

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
            header = typed(parse_json(metadata[FORMAT]), _Header)
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


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> str:
    """Write a safetensors file atomically; returns the SHA-256 of its bytes."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata)
    _write(path, content)
    return hashlib.sha256(content).hexdigest()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically."""
    _write(path, (json.dumps(content, indent=2) + "\n").encode())


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file, on the CPU, and its metadata."""
    try:
        plain_size(path)
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelError(
            f"cannot read {path} as safetensors ({reason(error)}); it is missing, damaged or of another kind"
        ) from None


def fingerprint(tensors: Mapping[str, Tensor], header: str = "") -> str:
    """SHA-256 of tensors, each by name, type, shape and bytes, and of what a checkpoint is about."""
    digest = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f";{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _write(path: Path, content: bytes) -> None:
    try:
        with replacing(path) as beside, beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except StoreError as error:
        said = reason(error.__cause__ or error)
        raise ModelError(f"cannot write {path}: {said}; what was there before is untouched") from None


def _differing(found: Any, wanted: Any, name: str = "") -> list[str]:
    """The leaves in which two JSON values differ, in words."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted(set(found) | set(wanted))
        return [
            line for key in keys for line in _differing(found.get(key), wanted.get(key), f"{name}.{key}".strip("."))
        ]
    return [] if found == wanted else [f"{name} was {found!r}, now {wanted!r}"]
