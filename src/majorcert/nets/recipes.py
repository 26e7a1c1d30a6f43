"""Training recipes by name: plain functions from a strategy to a configuration."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from majorcert.core.regions import Columns, Rows, Strategy
from majorcert.core.threat import ImageSize
from majorcert.defences.bounds import Sizes
from majorcert.defences.masking import Masks
from majorcert.errors import ModelError
from majorcert.nets.augment import Augment
from majorcert.nets.boxes import Boxes
from majorcert.nets.config import TrainConfig
from majorcert.nets.hiding import Hiding, check_view, read_hiding
from majorcert.nets.models import ModelConfig
from majorcert.nets.peer_recipes import bagcert, cbn, ibp, pg_bn, smoothed_vit
from majorcert.nets.resnet import Stride
from majorcert.nets.views import View, in_channels

DIGITS_STRATEGIES = ("rows:2", "columns:2", "blocks:4")
"""For 8x8 images."""
PAPER_STRATEGIES = ("rows:4", "columns:4", "blocks:12")
"""For 32x32 images."""
SGD: dict[str, Any] = {
    "batch_size": 512,
    "lr": 0.2,
    "ema_decay": 0.999,
    "warmup": 3,
    "augment": Augment(shift=4, flip=True),
}
"""How most networks for such images learn."""


def digits(cut: Hiding, channels: int = 1, n_classes: int = 10) -> TrainConfig:
    """For tiny images on a CPU: some seconds for each defender, half a minute under masks."""
    view: View = "masked" if isinstance(cut, Masks) else "crop"
    return TrainConfig(
        strategy=cut,
        view=view,
        model=ModelConfig("small", in_channels(view, channels), n_classes, width=24),
        boxes=_boxes(cut) if isinstance(cut, Masks) else Boxes(),
        threshold=None if isinstance(cut, Masks) else "suited",
        epochs=40,
        batch_size=64,
        lr=0.1,
        ema_decay=0.99,
        warmup=1,
    )


def paper(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As the MajorCert paper trains its defenders."""
    return TrainConfig(
        strategy=cut,
        view="canvas",
        model=ModelConfig("resnet", in_channels("canvas", channels), n_classes),
        epochs=450,
        batch_size=128,
        lr=0.1,
        milestones=(150, 250, 350),
        threshold=0.3,
        augment=Augment(shift=4, fill="zero", flip=True),
    )


def best(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """Crop views of wide bands, a network that shrinks them along their length alone, and a long schedule.

    The published defenders (studies/voting) average three such networks each and their mirror images: `majorcert
    average`. They are more than the usual ensemble below, whose 96 views of an image suit people who must predict.
    """
    network = ModelConfig("resnet", in_channels("crop", channels), n_classes, width=96, strides=_lengthwise(cut))
    return TrainConfig(cut, "crop", network, epochs=225, **SGD)


def lean(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As `best`, without the last stage, in which most weights are, and with a third block in the one before it.

    A third of the weights and four fifths of the time, and on held-out images no worse (docs/lab-notes.md).
    """
    config = best(cut, channels, n_classes)
    return replace(config, model=replace(config.model, blocks=(2, 2, 3), strides=config.model.strides[:3]))


def small(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As `best`, at a ninth of the weights: what the ensemble that comes with majorcert was trained by."""
    config = best(cut, channels, n_classes)
    return replace(config, model=replace(config.model, width=32), epochs=100)


def undefended(cut: Strategy, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """An ordinary ResNet-18 that sees the whole image at once and says one label: what defences are compared with."""
    network = ModelConfig("resnet", in_channels("crop", channels), n_classes)
    return TrainConfig(cut, "crop", network, epochs=60, threshold=None, **SGD)


def masking(cut: Hiding, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """Double masking: a ResNet-18 that sees images under two boxes, larger than the masks; some minutes on a GPU."""
    if not isinstance(cut, Masks):
        raise ModelError(f"this recipe is for masks, such as 'masks:5/3', got {cut}")
    network = ModelConfig("resnet", in_channels("masked", channels), n_classes)
    return TrainConfig(cut, "masked", network, epochs=90, threshold=None, boxes=_boxes(cut), **SGD)


def masking_best(cut: Hiding, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As `masking`, for longer, and with sharpness-aware steps towards the end.

    The published defender averages five of them, three with `--cutmix 0.5` and three with `--boxes 5,7,9,11` (two have
    both), and their mirror images: `majorcert average --mirror --sure 0.9`.
    """
    return replace(masking(cut, channels, n_classes), epochs=200, warmup=6, sharp=0.1, sharp_from=0.55)


def masking_small(cut: Hiding, channels: int = 3, n_classes: int = 10) -> TrainConfig:
    """As `masking-best`, at half of the weights, most of them where images are large: what comes with majorcert."""
    config = masking_best(cut, channels, n_classes)
    return replace(config, model=replace(config.model, width=56, blocks=(2, 2, 3, 1)))


def _boxes(masks: Masks) -> Boxes:
    """As large as the masks, and up to 1.6 times as large; after a quarter of the epochs those that were worst."""
    side = max(masks.patch.height, masks.patch.width) + masks.stride - 1
    return Boxes(sides=(side, round(1.3 * side), round(1.6 * side)), memory_from=0.25)


def _lengthwise(cut: Strategy) -> tuple[Stride, ...]:
    """Strides that keep the short side of a band until the last stage, where it means most."""
    if isinstance(cut, Columns):
        return (1, (2, 1), (2, 1), 2)
    if isinstance(cut, Rows):
        return (1, (1, 2), (1, 2), 2)
    return (1, 1, 2, 2)


RECIPES: dict[str, tuple[Callable[[Any, int, int], TrainConfig], tuple[str, ...]]] = {
    "bagcert": (bagcert, ("fields:32x5",)),
    "best": (best, ("columns:5", "columns:6", "columns:7")),
    "cbn": (cbn, ("fields:32x5",)),
    "digits": (digits, DIGITS_STRATEGIES),
    "ibp": (ibp, ("bounds:5",)),
    "lean": (lean, ("columns:5", "columns:6", "columns:7")),
    "masking": (masking, ("masks:5/3",)),
    "masking-best": (masking_best, ("masks:5/3",)),
    "masking-small": (masking_small, ("masks:5/5",)),
    "paper": (paper, PAPER_STRATEGIES),
    "pg-bn": (pg_bn, ("fields:32x5",)),
    "small": (small, ("columns:5", "columns:6", "columns:8")),
    "smoothed-vit": (smoothed_vit, ("columns:4",)),
    "undefended": (undefended, ("columns:32/32",)),
}
"""What each is made by, and the ensemble that it is for."""


def recipe(name: str, spec: str, channels: int, n_classes: int) -> TrainConfig:
    """The configuration of a named recipe for a strategy spec and a kind of data."""
    return RECIPES[_known(name)][0](read_hiding(spec), channels, n_classes)


def recipe_for(specs: Sequence[str], image_size: ImageSize) -> str:
    """The name of the recipe that suits such strategies and images."""
    cuts = [read_hiding(spec) for spec in specs]
    if any(isinstance(cut, Sizes) for cut in cuts):
        return "ibp"
    masked = any(isinstance(cut, Masks) for cut in cuts)
    return "digits" if max(image_size) < 16 else "masking" if masked else "best"


def adapted(
    config: TrainConfig,
    channels: int,
    view: str | None = None,
    width: int | None = None,
    model: str | None = None,
    boxes: str | None = None,
    worst_of: int | None = None,
    greedy: bool | None = None,
    cutmix: float | None = None,
    flip: bool | None = None,
    **changes: Any,
) -> TrainConfig:
    """A recipe with whatever of it is given otherwise; what is None stays as it was.

    Args:
        width: of the network's first stage, in channels.
        model: name of the network.
        boxes: sides of the boxes that hide images under masks, as in "7,9,11".
        worst_of, greedy: of how many pairs of boxes the worst is learned from, and whether they are searched greedily.
        cutmix: the share of the images that show a square of another one.
        flip: whether every second image is mirrored.
        changes: further fields of the configuration.
    """
    cut: Any = view or config.view
    check_view(config.strategy, cut)
    network = replace(config.model, in_channels=in_channels(cut, channels), **_given(width=width, name=model or None))
    augment = replace(config.augment, **_given(cutmix=cutmix, flip=flip))
    sides = None if boxes is None else _sides(boxes)
    hidden = replace(config.boxes, **_given(sides=sides, worst_of=worst_of, greedy=greedy))
    return replace(config, view=cut, model=network, boxes=hidden, augment=augment, **_given(**changes))


def _given(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in changes.items() if value is not None}


def _sides(boxes: str) -> tuple[int, ...]:
    try:
        return tuple(int(side) for side in boxes.split(","))
    except ValueError:
        raise ModelError(f"boxes are given by their sides, as in '7,9,11', got {boxes!r}") from None


def strategies_of(name: str, patches: Sequence[str] = ()) -> tuple[str, ...]:
    """The specs of the ensemble that a recipe is for, against these patches where it is against patches of a size."""
    specs = RECIPES[_known(name)][1]
    if not patches:
        return specs
    cuts = [read_hiding(spec) for spec in specs]
    if all(isinstance(cut, Sizes) for cut in cuts):
        return (f"bounds:{','.join(patches)}",)
    if len(patches) > 1 or not all(isinstance(cut, Masks) for cut in cuts):
        raise ModelError(f"the recipe {name!r} is not for patches {', '.join(patches)}; give a strategy")
    return tuple(spec.replace(str(Masks.parse(spec).patch.height), patches[0], 1) for spec in specs)


def _known(name: str) -> str:
    if name not in RECIPES:
        raise ModelError(f"there is no recipe {name!r}; use one of {', '.join(RECIPES)}")
    return name
