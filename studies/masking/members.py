"""Networks ready to score views under masks, and the views: what the probes and the final tables share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import majorcert as mc
from majorcert.nets.folded import folded
from majorcert.nets.resnet import resnet

SIZE = 32, 32
N_CLASSES = 10
CHANNELS = 8
"""Of a view: three colours, the others zero, since kernels are faster on eight."""
BATCH = 4096
"""Views in one pass, always: another number may take another kernel, which rounds differently."""


def read(weights: Path) -> nn.Module:
    """The network of a file, in float32, with three channels."""
    state = {name: each.float() if each.is_floating_point() else each for name, each in load_file(weights).items()}
    network = resnet(3, N_CLASSES, len(state["0.0.weight"]))
    network.load_state_dict(state)
    return network.eval()


def lean(network: nn.Module, device: str) -> nn.Module:
    """The same with eight channels and its normalisations folded away, in float16 on a GPU."""
    network = folded(network)
    stem = next(module for module in network.modules() if isinstance(module, nn.Conv2d))
    wide = torch.zeros(len(stem.weight), CHANNELS, *stem.weight.shape[2:])
    wide[:, :3] = stem.weight.data
    stem.weight, stem.in_channels = nn.Parameter(wide), CHANNELS
    return network.to(device, numbers(device), memory_format=torch.channels_last).requires_grad_(False)


def numbers(device: str) -> torch.dtype:
    return torch.float16 if device == "cuda" else torch.float32


class Member:
    """One voice of an average: a network that looks at views, or at their mirror images."""

    def __init__(self, network: nn.Module, mirrored: bool) -> None:
        self.network, self.mirrored = network, mirrored

    def __call__(self, views: Tensor) -> Tensor:
        """(views, classes) probabilities in float32."""
        return self.network(views.flip(3) if self.mirrored else views).float().softmax(dim=1)


class Views:
    """The views of some images under all pairs of masks: the upper triangle row by row, singles on the diagonal."""

    def __init__(self, centred: Tensor, masks: mc.Masks) -> None:
        device = str(centred.device.type)
        self.images = nn.functional.pad(centred, (0, CHANNELS - 3)).to(numbers(device))
        visible = torch.from_numpy(~masks.hidden(SIZE)).to(device)
        self.n_masks = len(visible)
        self.first, self.second = torch.triu_indices(self.n_masks, self.n_masks, device=device)
        self.visible = (visible[self.first] & visible[self.second]).unsqueeze(-1)

    @property
    def n_pairs(self) -> int:
        return len(self.visible)

    def every(self) -> Tensor:
        return torch.arange(len(self.images) * self.n_pairs, device=self.images.device)

    def scored(self, which: Tensor, score: Callable[[Tensor], Tensor]) -> Iterator[tuple[slice, Tensor]]:
        """What `score` gives for these views, a batch at a time; the last batch is filled up."""
        for start in range(0, len(which), BATCH):
            some = which[start : start + BATCH]
            n, filled = len(some), torch.cat([some, some[-1:].expand(BATCH - len(some))])
            shown = torch.where(self.visible[filled % self.n_pairs], self.images[filled // self.n_pairs], 0)
            yield slice(start, start + n), score(shown.permute(0, 3, 1, 2))[:n]

    def least(self, values: Tensor) -> Tensor:
        """(images, masks): of (images x pairs) values the least in each mask's row."""
        table = values.new_empty(len(self.images), self.n_masks, self.n_masks)
        table[:, self.first, self.second] = table[:, self.second, self.first] = values.view(len(self.images), -1)
        return table.amin(dim=2)


def best_two(probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The label (the smaller of equal ones), its probability, and how far the next one is behind."""
    two = probabilities.topk(2, dim=1).values
    label = (probabilities >= two[:, :1]).int().argmax(dim=1)
    return label, two[:, 0], two[:, 0] - two[:, 1]
