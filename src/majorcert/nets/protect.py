"""A classifier as it is, put behind masks: `mc.protect`."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from majorcert.core.reach import Evidence
from majorcert.core.threat import ImageSize, Patch, as_patch
from majorcert.defences.masking import Masks
from majorcert.errors import ModelError
from majorcert.errors.checks import checked_size, whole
from majorcert.errors.frozen import filled
from majorcert.files.photo import containing
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.imagenet import pretrained
from majorcert.nets.masking import MaskingDefender
from majorcert.nets.member import Promise
from majorcert.nets.models import ModelConfig, foreign
from majorcert.nets.own import Normal, known_colours, normal_name
from majorcert.nets.shards import Clock

PER_SIDE = 6
"""Masks down and across, as in PatchCleanser: 666 pairs."""


def protect(
    model: nn.Module | str,
    patch: Any,
    *,
    image_size: ImageSize | None = None,
    channels: int = 3,
    class_names: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    masks: int = PER_SIDE,
    factory: str | None = None,
    **how: Any,
) -> MaskingDefender:
    """A masking defender of a classifier of whole images, left as it is: nothing is trained.

    >>> guarded = mc.protect(network, "2%", image_size=(224, 224), mean=(0.49, 0.46, 0.41), std=(0.23, 0.22, 0.22))
    >>> guarded.certify(images, "2%")

    Args:
        model: a torch module from (N, C, H, W) images to logits; or "imagenet", "imagenet:lite1", "imagenet:lite2".
        patch: the largest one that it answers for: 32, (24, 40), "24x40", or "2%" of the image.
        mean, std: of the colours that it was trained on, where they run from 0 to 1; by default it takes those.
        masks: so many down and across. More are smaller, so more is certified, and take longer: their number squared
            for a label, and that squared, halved, for a certificate.
        factory: the function that makes such a network, "package.module:function"; with it the defender can be saved.
        how: `device`, `precision`, `batch_size` and `compiled`, as for `Defender`.
    """
    if isinstance(model, str):
        known = pretrained(model)
        if channels != 3 or any(each is not None for each in (image_size, class_names, mean, std, factory)):
            raise ModelError(f"{model!r} has its own image size, classes and colours; give the patch, masks and device")
        size = known.side, known.side
        about: dict[str, Any] = {"class_names": known.class_names, "config": known.config, "training": known.origin}
        return MaskingDefender(
            known.network, masks_for(as_patch(patch, size), size, masks), image_size=size, **about, **how
        )
    if not isinstance(model, nn.Module):
        raise ModelError(f"what is protected is a torch module, or 'imagenet'; got {type(model).__name__}")
    if image_size is None:
        raise ModelError("a network of your own is protected at one image size; give image_size=(height, width)")
    size = checked_size(image_size)
    colours = known_colours(mean, std, channels)
    cover = masks_for(as_patch(patch, size), size, masks)
    guarded = MaskingDefender(
        Normal(model, *colours), cover, image_size=size, channels=channels, class_names=class_names, **how
    )
    if factory is None:
        return guarded
    names = guarded.class_names
    config = ModelConfig(normal_name(*colours), channels, len(names), members=(foreign(factory, channels, len(names)),))
    return filled(guarded, blueprint=Blueprint(cover, "masked", None, size, channels, names, config))


def guarded(
    together: Ensemble,
    photo: Tensor,
    patches: Sequence[Patch],
    *,
    promise: Promise,
    told: Callable[[str], None],
    progress: Callable[[int, int, str], None],
) -> list[Evidence]:
    """The evidence of one photo, for one promise, by masking defenders put behind masks that cover all these patches.

    Args:
        told: called with the label, as soon as it is known.
        progress: called with the views that were looked at, the most that there are, and what is being done.
    """
    masks, found = masks_for(containing(patches), together.image_size), list[Evidence]()
    for each in together.defenders:
        if not isinstance(each, MaskingDefender):
            raise ModelError(f"a classifier behind masks that suit a photo stands alone, got {each.strategy} beside it")
        guard = each.behind(masks)
        counted = Clock(guard.masker.n_pairs, lambda at: progress(at.done, at.total, f"{at.done} of {at.total} views"))
        how: dict[str, Any] = {"promise": promise, "progress": counted.advance}
        found.append(guard.pairs(photo, told=lambda labels: told(together.class_names[labels[0]]), **how))
    return found


def masks_for(patch: Patch, image_size: ImageSize, per_side: int = PER_SIDE) -> Masks:
    """The smallest masks, at most so many down and across, that cover every placement of the patch."""
    whole(per_side, "masks down and across", ModelError)
    strides = [-(-n // per_side) for n in patch.n_placements(image_size)]
    return Masks(patch.height, patch.width, stride=max(strides))
