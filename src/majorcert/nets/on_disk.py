"""Tensors and JSON on disk: safetensors, never pickle, each file written whole or not at all."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from majorcert.errors import ModelError, StoreError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import plain_size, reason


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
