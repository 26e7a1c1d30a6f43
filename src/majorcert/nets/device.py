"""The device that a network runs on."""

import os

import torch

from majorcert.errors import ModelError


def usable_device(device: torch.device | str) -> torch.device:
    """The device of that name, "auto" for CUDA where there is any; one that is not there is refused.

    Under torchrun "cuda" is the one that belongs to this process.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        wanted = torch.device(device)
    except RuntimeError:
        raise ModelError(f"there is no device {device!r}; use 'auto', 'cpu', 'cuda' or 'cuda:1'") from None
    if wanted.type == "cuda" and ":" not in str(wanted):
        wanted = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if wanted.type == "cuda" and (wanted.index or 0) >= torch.cuda.device_count():
        raise ModelError(
            f"{device!r} was asked for, but torch sees {torch.cuda.device_count()} CUDA devices; use 'cpu'"
        )
    return wanted
