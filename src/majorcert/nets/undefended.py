"""A classifier of whole images as a defender that hides nothing, so that it can be attacked in the same way."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from majorcert.core.regions import Columns
from majorcert.core.threat import ImageSize
from majorcert.errors import ModelError
from majorcert.errors.frozen import filled
from majorcert.nets.company import Network
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble_file import resolved


class _Colours(nn.Module):
    """Gives the inner network the colours of a crop view without the two channels that say where each pixel is."""

    def __init__(self, inner: Network) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, views: Tensor) -> Tensor:
        return self.inner(views[:, :-2])


def undefended(
    model: Network,
    *,
    image_size: ImageSize,
    channels: int = 3,
    class_names: Sequence[str] | None = None,
    **options: Any,
) -> Defender:
    """A plain classifier, from (N, C, H, W) images of 0 to 1 to logits, as a defender with one view: the whole image.

    Every patch touches that view, so nothing is ever certified.

    >>> undefended(network, image_size=(32, 32)).certify(images, Patch(1)).certified.any()
    False

    Args:
        options: `device`, `precision`, `batch_size` and `compiled`, as for `Defender`.
    """
    whole = Columns(image_size[1], stride=image_size[1])
    about: dict[str, Any] = {"image_size": image_size, "channels": channels, "class_names": class_names}
    return Defender(_Colours(model), whole, "crop", None, **about, **options)


def load_undefended(run: str | Path, **options: Any) -> Defender:
    """A network that `majorcert train` made with one view of everything; its label is its top label, as usual.

    Args:
        options: as for `Defender.load`.
    """
    trained = Defender.load(resolved(run), **options)
    if trained.voter.cutter.n_ablations != 1:
        height, width = trained.image_size
        raise ModelError(
            f"{run} is a defender ({trained.strategy}), not an undefended classifier; train one for {height}x{width} "
            f"images with --strategy columns:{width}/{width}"
        )
    known = None if trained.blueprint is None else replace(trained.blueprint, threshold=None)
    return filled(copy(trained), threshold=None, blueprint=known).to(trained.voter.device)
