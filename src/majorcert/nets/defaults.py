"""What suits images of a size, so many of them, and a device, where nobody says otherwise: made for 32x32, scaled."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from majorcert.core.regions import Blocks, Columns, Rows
from majorcert.core.threat import ImageSize
from majorcert.defences.masking import Masks
from majorcert.nets.config import TrainConfig
from majorcert.nets.hiding import read_hiding

USUAL_SIDE = {"digits": 8}
"""Of the images that the strategies of a recipe are for; of all others 32."""
LARGE = 96
"""A side from which on networks look at a quarter of the resolution."""


def scaled(spec: str, image_size: ImageSize, recipe: str = "best", *, patch_given: bool = False) -> str:
    """The strategy with sizes and strides in the same proportion to the image; as many views, then, of any size.

    Args:
        patch_given: the patch that masks are against is not of the recipe, and stays as it is.
    """
    hiding, usual = read_hiding(spec), USUAL_SIDE.get(recipe, 32)

    def grown(n: int, side: int) -> int:
        return min(side, max(1, (2 * n * side + usual) // (2 * usual)))

    height, width = image_size
    side = width if isinstance(hiding, Columns) else height if isinstance(hiding, Rows) else min(image_size)
    if isinstance(hiding, Columns | Rows | Blocks):
        return str(replace(hiding, size=grown(hiding.size, side), stride=grown(hiding.stride, side)))
    if isinstance(hiding, Masks):
        sides = hiding.patch.height, hiding.patch.width
        if not patch_given:
            sides = grown(sides[0], height), grown(sides[1], width)
        return str(Masks(*sides, stride=grown(hiding.stride, side)))
    return spec


def scaled_apart(specs: Sequence[str], image_size: ImageSize, recipe: str, *, patch_given: bool = False) -> list[str]:
    """All of them scaled; of those that a small image makes alike, the later is wider by a pixel, or left out."""
    found: list[str] = []
    for spec in specs:
        cut = read_hiding(scaled(spec, image_size, recipe, patch_given=patch_given))
        while str(cut) in found and isinstance(cut, Columns | Rows | Blocks) and cut.size < min(image_size):
            cut = replace(cut, size=cut.size + 1)
        if str(cut) not in found:
            found.append(str(cut))
    return found


def suited(config: TrainConfig, image_size: ImageSize, n_images: int, device: torch.device) -> TrainConfig:
    """The configuration for such images: unchanged for the 40,000 of CIFAR-10 on a GPU.

    Large images are first reduced by the stem of the network; few images are learned from in small batches; on a CPU
    the network is narrow and the schedule short.
    """
    if config.model.name != "resnet" or config.view == "whole":
        return config
    side, on_cpu, large = max(image_size), device.type == "cpu", max(image_size) >= LARGE
    batch = config.batch_size
    while batch > 16 and batch * 12 > n_images:
        batch //= 2
    epochs = min(config.epochs, 90 if large else config.epochs)
    if on_cpu:  # many passes over few images, few over many
        epochs = min(epochs, max(30, min(100, 300_000 // n_images)))
    n_steps = epochs * max(1, n_images // batch)
    return replace(
        config,
        model=replace(
            config.model,
            width=min(config.model.width, 16 if on_cpu else 64 if large else config.model.width),
            stem="7x7" if large else config.model.stem,
        ),
        batch_size=batch,
        lr=config.lr * math.sqrt(batch / config.batch_size),
        epochs=epochs,
        warmup=min(config.warmup, epochs / 10),
        ema_decay=config.ema_decay if n_steps >= 4_000 else min(config.ema_decay, 0.99),
        augment=replace(config.augment, shift=config.augment.shift * side // 32 if side > 32 else config.augment.shift),
    )
