"""The classifiers of views: a ResNet, a small network for tiny images, an EfficientNet-Lite, any timm model, one of
your own, or a mean over such.

A `ModelConfig` and the weights rebuild a network exactly; there is no other state. Views go in with values as they
are (0 to 1, coordinates -1 to 1) and logits come out; the first batch normalisation does the scaling.
"""

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from majorcert.errors import ModelError
from majorcert.files.untrusted import reason, typed
from majorcert.nets.efficientnet import LITE, efficientnet
from majorcert.nets.ibp import IntervalNet
from majorcert.nets.joined import Average, Cascade, Mirror
from majorcert.nets.local import LOCAL, local
from majorcert.nets.own import FACTORY, NORMAL, Normal, colours_of, function_of, made, place_of
from majorcert.nets.resnet import Stride, resnet
from majorcert.nets.views import VIEWS, View
from majorcert.nets.vit import VisionTransformer

MAX_BLOCKS = 1000
VIT_TOKENS = {"2x2": 2, "4x4": 4}
"""The side of a token in pixels, by the stem of a vision transformer; 2 by any other."""
MAX_PASSES = 1000
"""Of plain networks for one view: mirrors in mirrors double them."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
"""Of an architecture; by others, such as "local-dir:/path" and "hf-hub:who/what", timm reads files or the network."""
CASCADE = "cascade:"
EFFICIENTNETS = {f"efficientnet-{name}": name for name in LITE}
MIRRORS = tuple(f"mirror:{view}" for view in (*VIEWS, "masked", "whole"))


@dataclass(frozen=True)
class ModelConfig:
    """What kind of network: name "resnet", "small", "vit", "ibp", "local:<field>", "efficientnet-lite0", "timm:<name>",
    "factory:<module>:<function>", or of `members` "average", "mirror:<view>", "cascade:<probability>" or
    "normal:<mean>/<spread>"."""

    name: str
    in_channels: int
    n_classes: int
    width: int = 64
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    strides: tuple[Stride, ...] = (1, 2, 2, 2)
    stem: str = "3x3"
    dropout: float = 0.0
    members: tuple["ModelConfig", ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Any) -> "ModelConfig":
        """Read what `to_json` wrote; an unknown or missing field is refused."""
        try:
            _check_known(raw)
            return typed(raw, cls)
        except ValueError as error:
            raise ModelError(f"cannot read the model configuration: {reason(error)}") from None


def _check_known(raw: Any) -> None:
    """A field that is not known says something that would be ignored."""
    if isinstance(raw, Mapping):
        unknown = sorted(set(raw) - {field.name for field in fields(ModelConfig)})
        if unknown:
            raise ValueError(f"it has unknown fields {unknown}; is it from a newer version?")
        for member in raw.get("members") or ():
            _check_known(member)


def check(config: ModelConfig) -> None:
    """Refuse a configuration that makes no sense, of the members too."""
    numbers = (config.in_channels, config.n_classes, config.width)
    if any(not isinstance(number, int) or number < 1 for number in numbers):
        raise ModelError(f"in_channels, n_classes and width are whole numbers of at least 1, got {numbers}")
    if not 0 <= config.dropout < 1:
        raise ModelError(f"a dropout is from 0 to 1, got {config.dropout}")
    if sum(config.blocks) > MAX_BLOCKS or len(config.members) > MAX_BLOCKS:
        raise ModelError(f"a network has at most {MAX_BLOCKS} blocks, and an average as many members")
    for member in config.members:
        check(member)
    if n_passes(config) > MAX_PASSES:
        raise ModelError(f"a network looks at a view at most {MAX_PASSES} times, got {n_passes(config)}")


def build(config: ModelConfig, allowed: Sequence[str] = ()) -> nn.Module:
    """The network that a configuration describes, with fresh weights from torch's global random state.

    Args:
        allowed: functions outside of this package that may be called to make it, "package.module:function".
    """
    check(config)
    kind = config.in_channels, config.n_classes
    if config.name == "resnet":
        return resnet(*kind, config.width, config.blocks, config.stem, config.strides, config.dropout)
    if config.name.startswith(LOCAL):
        return local(config.name, *kind, config.width, config.blocks, config.strides, config.dropout)
    if config.name == "small":
        return small(*kind, config.width)
    if config.name == "ibp":
        return IntervalNet(*kind, config.width, _plain(config.strides))
    if config.name == "vit":
        sizes = config.width, sum(config.blocks), VIT_TOKENS.get(config.stem, 2)
        return VisionTransformer(*kind, *sizes, config.dropout)
    if config.name == "average":
        return Average([build(member, allowed) for member in _checked_members(config)])
    if config.name in MIRRORS:
        (member,) = _checked_members(config)
        return Mirror(build(member, allowed), config.name.removeprefix("mirror:"))
    if config.name.startswith(CASCADE):
        (member,) = _checked_members(config)
        return Cascade(build(member, allowed), _sure(config.name))
    if config.name.startswith(NORMAL):
        (member,) = _checked_members(config)
        return Normal(build(member, allowed), *colours_of(config.name))
    if config.name in EFFICIENTNETS:
        return efficientnet(EFFICIENTNETS[config.name], *kind, config.dropout)
    if config.name.startswith("timm:"):
        return _timm(config)
    if config.name.startswith(FACTORY):
        return made(config.name, allowed)
    raise ModelError(
        f"there is no model {config.name!r}; use 'resnet', 'small', 'vit', 'efficientnet-lite0', 'timm:<name>' or "
        "'factory:<module>:<function>'"
    )


def n_passes(config: ModelConfig) -> int:
    """How many plain networks a view goes through, or how often through one."""
    inner = sum(n_passes(member) for member in config.members)
    if config.name.startswith(CASCADE):
        return inner + 1
    if config.name == "average" or config.name.startswith(NORMAL):
        return inner
    return 2 * inner if config.name in MIRRORS else 1


def mirrors_in(config: ModelConfig) -> set[str]:
    """The names of the mirrors in a configuration and in its members."""
    return {name for member in config.members for name in mirrors_in(member)} | ({config.name} & set(MIRRORS))


def factories_in(config: ModelConfig) -> set[str]:
    """The names of networks in a configuration that are not of this package, of whose parts nothing is known."""
    own = {config.name} if config.name.startswith(FACTORY) else set()
    return own.union(*(factories_in(member) for member in config.members))


def foreign(factory: str, in_channels: int, n_classes: int) -> ModelConfig:
    """The configuration of a network that a function of the user's own makes, "package.module:function"."""
    return ModelConfig(f"{FACTORY}{place_of(factory)}", in_channels, n_classes)


def n_weights(config: ModelConfig) -> int:
    """How many numbers the network learns; it is built without memory for them. Of a user's own it is not known."""
    if factories_in(config):
        return 0
    try:
        with torch.device("meta"):
            return sum(weight.numel() for weight in build(config).parameters())
    except ModelError:
        if config.name.startswith("timm:"):
            return 0  # some of timm cannot be built so; but nothing in a configuration can make them larger
        raise


def check_named(name: str) -> None:
    """Refuse the name of a network that cannot be made, before the images are known that it is for."""
    if factories_in(some := ModelConfig(name, 3, 2)):
        function_of(name)
    elif not n_weights(some):  # of timm, and perhaps not there
        with torch.random.fork_rng([]):
            build(some)


def check_weights(config: ModelConfig, weights: Mapping[str, Tensor]) -> None:
    """Refuse a network of more weights than its file has, before it is built and takes the memory for them."""
    check(config)
    expected, found = n_weights(config), sum(tensor.numel() for tensor in weights.values())
    if expected > found:
        raise ModelError(f"the network has {expected:,} weights, and the file {found:,} numbers")


def small(in_channels: int, n_classes: int, width: int = 32) -> nn.Module:
    """Four 3x3 convolutions at full resolution, for images of about 8x8 and windows down to one pixel."""
    widths = [in_channels, width, width, 2 * width, 2 * width]
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, n_classes))


def average(members: tuple[ModelConfig, ...]) -> ModelConfig:
    """The configuration of the network that averages the probabilities of `members`."""
    return ModelConfig("average", members[0].in_channels, members[0].n_classes, members=members)


def mirror(member: ModelConfig, view: View) -> ModelConfig:
    """The configuration of the network that shows `member` each view and its mirror image."""
    return ModelConfig(f"mirror:{view}", member.in_channels, member.n_classes, members=(member,))


def cascade(whole: ModelConfig, sure: float) -> ModelConfig:
    """The configuration of the network that asks the first member of a mean first."""
    _sure(name := f"{CASCADE}{sure:g}")
    return ModelConfig(name, whole.in_channels, whole.n_classes, members=(whole,))


def first_of(config: ModelConfig) -> ModelConfig:
    """The plain network that a mean begins with."""
    return first_of(config.members[0]) if config.members else config


def _plain(strides: tuple[Stride, ...]) -> tuple[int, ...]:
    """Strides that are the same in both directions."""
    if not strides or any(not isinstance(stride, int) or stride < 1 for stride in strides):
        raise ModelError(f"the strides of 'ibp' are whole numbers of at least 1, one or more, got {strides}")
    return tuple(stride for stride in strides if isinstance(stride, int))


def _sure(name: str) -> float:
    try:
        sure = float(name.removeprefix(CASCADE))
    except ValueError:
        sure = 0.0
    if not 0 < sure <= 1:
        raise ModelError(f"a cascade has a probability above 0 and at most 1, as in '{CASCADE}0.9', got {name!r}")
    return sure


def _checked_members(config: ModelConfig) -> tuple[ModelConfig, ...]:
    for member in config.members:
        if (member.in_channels, member.n_classes) != (config.in_channels, config.n_classes):
            raise ModelError(
                f"networks that are averaged take the same views to the same classes; expected {config.in_channels} "
                f"channels and {config.n_classes} classes, got {member.in_channels} and {member.n_classes}"
            )
    if not config.members or (config.name != "average" and len(config.members) > 1):
        raise ModelError(
            f"an average needs at least one member network, a mirror or cascade just one, got {len(config.members)}; "
            "`majorcert average` makes them of trained networks"
        )
    return config.members


def _timm(config: ModelConfig) -> nn.Module:
    name = config.name.removeprefix("timm:")
    if not PLAIN_NAME.fullmatch(name):
        raise ModelError(f"'timm:' is followed by the plain name of an architecture of timm's, got {name[:80]!r}")
    try:
        timm = importlib.import_module("timm")
    except (ImportError, RuntimeError) as error:  # a torchvision of another build raises RuntimeError
        raise ModelError(
            f"{config.name} needs the timm package ({error}); pip install 'majorcert[timm]' brings it"
        ) from None
    try:
        model = timm.create_model(
            name, pretrained=False, in_chans=config.in_channels, num_classes=config.n_classes, drop_rate=config.dropout
        )
    except (RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"timm cannot build {name!r}: {error}") from None
    if not isinstance(model, nn.Module):
        raise ModelError(f"timm returned no network for {name!r}")
    return model
