"""Torch's own settings while our networks run: always the same, whatever the caller has set around the call."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

Setting = tuple[Callable[[], Any], Callable[[Any], None], Any]
"""How it is read, how it is written, and what it is while our networks run."""


@contextmanager
def settled(device: torch.device) -> Iterator[None]:
    """No gradients, no autocast, float32 by default, float32 that is float32, and the same kernels in every run.

    So a resumed run ends with the same ballots, and a prediction within somebody's autocast with the certified ones.
    """
    with ExitStack() as inside:
        inside.enter_context(torch.inference_mode())
        for kind in {"cpu", device.type}:
            inside.enter_context(torch.autocast(kind, enabled=False))
        for read, write, value in _settings(device):
            before = read()
            if before != value:
                write(value)
                inside.callback(write, before)
        yield


def _settings(device: torch.device) -> list[Setting]:
    found: list[Setting] = [(torch.get_default_dtype, torch.set_default_dtype, torch.float32)]
    backends: Any = torch.backends
    if device.type == "cuda":
        cudnn = {"enabled": True, "benchmark": False, "deterministic": True}
        found += [_attribute(backends.cudnn, name, value) for name, value in cudnn.items()]
    if not hasattr(backends.mkldnn, "matmul"):  # torch before 2.9
        found.append((torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"))
        return found + ([_attribute(backends.cudnn, "allow_tf32", False)] if device.type == "cuda" else [])
    owners = (backends.cuda.matmul, backends.cudnn.conv) if device.type == "cuda" else ()
    owners += (backends.mkldnn.matmul, backends.mkldnn.conv)
    return found + [_attribute(owner, "fp32_precision", "ieee") for owner in owners]


def _attribute(owner: Any, name: str, value: Any) -> Setting:
    return lambda: getattr(owner, name), lambda new: setattr(owner, name, new), value
