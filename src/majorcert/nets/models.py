"""The classifiers of views: a ResNet, a small network for tiny images, any timm model, or a mean over such.

A `ModelConfig` and the weights rebuild a network exactly; there is no other state. Views go in with values as they
are (0 to 1, coordinates -1 to 1) and logits come out; the first batch normalisation does the scaling.
"""

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from majorcert.errors import ModelError
from majorcert.files.untrusted import reason
from majorcert.nets.mean import Average, Mirror
from majorcert.nets.resnet import Stride, n_resnet_weights, resnet
from majorcert.nets.views import VIEWS, View

MAX_BLOCKS = 1000
MAX_PASSES = 1000
"""Of plain networks for one view: mirrors in mirrors double them."""
MIRRORS = tuple(f"mirror:{view}" for view in VIEWS)


@dataclass(frozen=True)
class ModelConfig:
    """What kind of network: name "resnet", "small", "timm:<name>", or of `members` "average" or "mirror:<view>"."""

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
    def from_json(cls, raw: Mapping[str, Any]) -> "ModelConfig":
        """Read what `to_json` wrote; an unknown or missing field is refused."""
        if not isinstance(raw, Mapping):
            raise ModelError("the model configuration, and each of its members, is a JSON object")
        unknown = sorted(set(raw) - {field.name for field in fields(cls)})
        if unknown:
            raise ModelError(f"the model configuration has unknown fields {unknown}; is it from a newer version?")
        try:
            return cls(
                **{
                    **raw,
                    "blocks": tuple(int(n) for n in raw.get("blocks", (2, 2, 2, 2))),
                    "strides": tuple(_stride(stride) for stride in raw.get("strides", (1, 2, 2, 2))),
                    "members": tuple(cls.from_json(member) for member in raw.get("members", ())),
                }
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"cannot read the model configuration: {reason(error)}") from None


def check(config: ModelConfig) -> None:
    """Refuse a configuration that makes no sense, of the members too."""
    numbers = (config.in_channels, config.n_classes, config.width)
    if any(not isinstance(number, int) or number < 1 for number in numbers):
        raise ModelError(f"in_channels, n_classes and width are whole numbers of at least 1, got {numbers}")
    if not isinstance(config.name, str) or not isinstance(config.dropout, float | int) or not 0 <= config.dropout < 1:
        raise ModelError(f"a model has a name and a dropout from 0 to 1, got {config.name!r} and {config.dropout!r}")
    if sum(config.blocks) > MAX_BLOCKS or len(config.members) > MAX_BLOCKS:
        raise ModelError(f"a network has at most {MAX_BLOCKS} blocks, and an average as many members")
    for member in config.members:
        check(member)
    if n_passes(config) > MAX_PASSES:
        raise ModelError(f"a network looks at a view at most {MAX_PASSES} times, got {n_passes(config)}")


def build(config: ModelConfig) -> nn.Module:
    """The network that a configuration describes, with fresh weights from torch's global random state."""
    check(config)
    if config.name == "resnet":
        return resnet(
            config.in_channels,
            config.n_classes,
            config.width,
            config.blocks,
            config.stem,
            config.strides,
            config.dropout,
        )
    if config.name == "small":
        return small(config.in_channels, config.n_classes, config.width)
    if config.name == "average":
        return Average([build(member) for member in _checked_members(config)])
    if config.name in MIRRORS:
        (member,) = _checked_members(config)
        return Mirror(build(member), crop=config.name == "mirror:crop")
    if config.name.startswith("timm:"):
        return _timm(config)
    raise ModelError(f"there is no model {config.name!r}; use 'resnet', 'small' or 'timm:<name>'")


def n_passes(config: ModelConfig) -> int:
    """How many plain networks a view goes through, or how often through one."""
    inner = sum(n_passes(member) for member in config.members)
    return inner if config.name == "average" else 2 * inner if config.name in MIRRORS else 1


def mirrors_in(config: ModelConfig) -> set[str]:
    """The names of the mirrors in a configuration and in its members."""
    return {name for member in config.members for name in mirrors_in(member)} | ({config.name} & set(MIRRORS))


def n_weights(config: ModelConfig) -> int:
    """How many numbers the network learns, counted without building it; 0 where only timm knows."""
    if config.name in ("average", *MIRRORS):
        return sum(n_weights(member) for member in config.members)
    if config.name == "small":
        widths = [config.in_channels, config.width, config.width, 2 * config.width, 2 * config.width]
        body = sum(9 * n_in * n_out + 2 * n_out for n_in, n_out in pairwise(widths))
        return body + (widths[-1] + 1) * config.n_classes
    if config.name == "resnet":
        return n_resnet_weights(
            config.in_channels, config.n_classes, config.width, config.blocks, config.stem, config.strides
        )
    return 0


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
    if not members:
        raise ModelError("an average needs at least one member network")
    return ModelConfig("average", members[0].in_channels, members[0].n_classes, members=members)


def mirror(member: ModelConfig, view: View) -> ModelConfig:
    """The configuration of the network that shows `member` each view and its mirror image."""
    return ModelConfig(f"mirror:{view}", member.in_channels, member.n_classes, members=(member,))


def _checked_members(config: ModelConfig) -> tuple[ModelConfig, ...]:
    for member in config.members:
        if (member.in_channels, member.n_classes) != (config.in_channels, config.n_classes):
            raise ModelError(
                f"networks that are averaged take the same views to the same classes; expected {config.in_channels} "
                f"channels and {config.n_classes} classes, got {member.in_channels} and {member.n_classes}"
            )
    if not config.members or (config.name in MIRRORS and len(config.members) > 1):
        raise ModelError(
            f"an average needs at least one member network, a mirror just one, got {len(config.members)}; "
            "`majorcert average` makes them of trained networks"
        )
    return config.members


def _timm(config: ModelConfig) -> nn.Module:
    name = config.name.removeprefix("timm:")
    try:
        timm = importlib.import_module("timm")
    except (ImportError, RuntimeError) as error:  # a torchvision of another build raises RuntimeError
        raise ModelError(f"{config.name} needs the timm package ({error}); install majorcert[timm]") from None
    try:
        model = timm.create_model(
            name, pretrained=False, in_chans=config.in_channels, num_classes=config.n_classes, drop_rate=config.dropout
        )
    except (RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"timm cannot build {name!r}: {error}") from None
    if not isinstance(model, nn.Module):
        raise ModelError(f"timm returned no network for {name!r}")
    return model


def _stride(raw: Any) -> Stride:
    if isinstance(raw, int):
        return raw
    down, across = raw
    return int(down), int(across)
