"""Recipes for the other methods of the field: local features, interval bounds and a vision transformer."""

from dataclasses import replace

from majorcert.core.regions import Strategy
from majorcert.defences.bounds import Sizes
from majorcert.defences.fields import Fields
from majorcert.errors import ModelError
from majorcert.nets.augment import Augment
from majorcert.nets.config import TrainConfig
from majorcert.nets.hiding import Hiding
from majorcert.nets.ibp import Widening
from majorcert.nets.local import LOCAL
from majorcert.nets.models import ModelConfig
from majorcert.nets.views import in_channels


def bagcert(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As BagCert: the cells of one map vote. It learns from one cell of each image at a time.

    The published defender averages two such networks (seeds 0 and 1) and their mirror images: `majorcert average`.
    """
    return TrainConfig(
        strategy=cut,
        view="whole",
        model=_local(cut, in_channels("whole", channels), n_classes),
        epochs=217,
        batch_size=1024,
        lr=0.4,
        ema_decay=0.999,
        warmup=3,
        augment=Augment(shift=4, flip=True),
    )


def ibp(cut: Hiding, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """Interval bounds: a small network of local features that learns from the worst case under a patch."""
    if not isinstance(cut, Sizes):
        raise ModelError(f"this recipe is for bounds, such as 'bounds:5', got {cut}")
    return TrainConfig(
        strategy=cut,
        view="bounds",
        model=ModelConfig("ibp", in_channels("bounds", channels), n_classes, width=128, strides=(1, 2)),
        epochs=34,
        batch_size=256,
        lr=2e-3,
        weight_decay=0.0,
        optimizer="adam",
        clip=5.0,
        ema_decay=0.999,
        warmup=1,
        threshold=None,
        augment=Augment(shift=2, flip=True),
        widening=Widening(begins=0.05, ends=0.5, clean=0.0, tried=4, tried_from=0.4, sparing=0.5),
    )


def smoothed_vit(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """A vision transformer that sees the tokens of a band alone, from scratch."""
    return TrainConfig(
        strategy=cut,
        view="crop",
        model=ModelConfig("vit", in_channels("crop", channels), n_classes, width=192, blocks=(8,), stem="2x2"),
        epochs=120,
        batch_size=512,
        lr=1e-3,
        weight_decay=0.05,
        optimizer="adam",
        clip=1.0,
        ema_decay=0.999,
        warmup=5,
        augment=Augment(shift=4, flip=True),
    )


def cbn(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As Clipped BagNet: what the cells of one map say, between 0 and 1, is added up."""
    return replace(bagcert(cut, channels, n_classes), rule="clipped", threshold=None)


def pg_bn(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As PatchGuard on BagNet: of each label the loudest window of the map is masked, against patches up to 5x5."""
    return replace(bagcert(cut, channels, n_classes), rule="masked:5x5", threshold=None)


def _local(cut: Strategy, n_in: int, n_classes: int) -> ModelConfig:
    """A network with such fields; those that are not square are bands, as long as the image."""
    if not isinstance(cut, Fields):
        raise ModelError(f"this recipe is for fields, such as 'fields:32x5' or 'fields:11/2', got {cut}")
    network = ModelConfig(f"{LOCAL}{cut.size}", n_in, n_classes, width=192)
    if cut.size > cut.width:
        return replace(network, name=f"{LOCAL}0x{cut.width}", strides=((1, cut.stride), *[(2, 1)] * 3))
    if cut.width > cut.size:
        return replace(network, name=f"{LOCAL}{cut.size}x0", strides=((cut.stride, 1), *[(1, 2)] * 3))
    return replace(network, strides=(1, 1, cut.stride, 1))
