"""The device that a network runs on."""

import os

import torch
from torch import Tensor, nn

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
        wanted = torch.device("cuda", set_by_torchrun("LOCAL_RANK", 0))
    if wanted.type == "cuda" and (wanted.index or 0) >= torch.cuda.device_count():
        raise ModelError(
            f"{device!r} was asked for, but torch sees {torch.cuda.device_count()} CUDA devices; use 'cpu'"
        )
    return wanted


def brought(images: Tensor, device: torch.device) -> Tensor:
    """The images on the device; on the way to a GPU nobody waits for them."""
    pinned = images.pin_memory() if device.type == "cuda" and not images.is_cuda else images
    return pinned.to(device, non_blocking=True)


def fits(images: Tensor, device: torch.device) -> bool:
    """Whether the device has room for the images beside the network: on a GPU half of what is free."""
    return device.type != "cuda" or 2 * images.numel() <= torch.cuda.mem_get_info(device)[0]


def fastest_layout(model: nn.Module, device: torch.device) -> torch.memory_format:
    """The order in memory that is fastest; but on a CPU not where torch's backward pass would end the process.

    That happens to narrow 1x1 convolutions with a stride of a long view: 8 channels of 224 rows.
    """
    strided = (part for part in model.modules() if isinstance(part, nn.Conv2d) and set(part.stride) != {1})
    if device.type == "cpu" and any(part.kernel_size == (1, 1) for part in strided):
        return torch.contiguous_format
    return torch.channels_last


def place_among() -> tuple[int, int]:
    """Which process this is, and of how many: as torchrun says, else the first of one."""
    rank, size = set_by_torchrun("RANK", 0), set_by_torchrun("WORLD_SIZE", 1)
    if rank >= size:
        raise ModelError(
            f"RANK is {rank} and WORLD_SIZE {size}, so this process has nothing to do; start with torchrun"
        )
    return rank, size


def set_by_torchrun(name: str, otherwise: int) -> int:
    """A number from the environment, where torchrun puts it."""
    text = os.environ.get(name, str(otherwise))
    if not (text.isascii() and text.isdecimal()):
        raise ModelError(f"{name} is a whole number of 0 or more, as torchrun sets it, got {text!r}; unset it")
    return int(text)
