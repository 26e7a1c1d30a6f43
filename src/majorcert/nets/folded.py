"""A trained network made lean for voting: the same function up to rounding, with fewer passes over memory."""

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)
from torch.nn.utils.fusion import fuse_conv_bn_eval

from majorcert.nets.resnet import BasicBlock

GROUP = 4
"""Features of a matrix product on a CPU are a multiple of this, or it rounds a row by its place among others."""


def folded(model: nn.Module) -> nn.Module:
    """A copy in eval mode, whose batch normalisations and ReLUs are part of the convolution before them."""
    model = copy.deepcopy(model).eval()
    for sequence in [module for module in model.modules() if isinstance(module, nn.Sequential)]:
        _fold(sequence)
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, BasicBlock):
                setattr(parent, name, FoldedBlock(child))
            elif type(child) is nn.Linear and child.in_features % GROUP:
                setattr(parent, name, EvenLinear(child))
    return model


def _fold(sequence: nn.Sequential) -> None:
    """Convolution, normalisation and ReLU of a sequence become one module, at the place of the first.

    Of torch's very types: what is derived from them may do more, as timm's normalisations that end in a ReLU.
    """
    for k in range(len(sequence) - 1):
        convolution, normalisation = sequence[k], sequence[k + 1]
        if type(convolution) is nn.Conv2d and type(normalisation) is nn.BatchNorm2d:
            lean = fuse_conv_bn_eval(convolution, normalisation)
            sequence[k], sequence[k + 1] = lean, nn.Identity()
            if k + 2 < len(sequence) and type(sequence[k + 2]) is nn.ReLU:
                sequence[k], sequence[k + 2] = ConvolutionReLU(lean), nn.Identity()


class ConvolutionReLU(nn.Module):
    """A convolution, what is added to it, and a ReLU: one kernel on CUDA, where the three are bound by memory.

    That kernel has no gradient, and a compiler fuses as much by itself: for both the three stay apart.
    """

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution
        self.plain = convolution.padding_mode == "zeros" and not isinstance(convolution.padding, str)

    def forward(self, features: Tensor, shortcut: Tensor | None = None) -> Tensor:
        conv = self.convolution
        apart = torch.is_grad_enabled() or torch.compiler.is_compiling()
        if apart or not features.is_cuda or not self.plain:
            result: Tensor = conv(features)
            return F.relu(result if shortcut is None else result.add_(shortcut), inplace=True)
        place: Any = conv.stride, conv.padding, conv.dilation, conv.groups
        if shortcut is None:
            return torch.cudnn_convolution_relu(features, conv.weight, conv.bias, *place)
        return torch.cudnn_convolution_add_relu(features, conv.weight, shortcut, 1.0, conv.bias, *place)


class EvenLinear(nn.Module):
    """A linear layer with as many features that are 0 as make the answer to a view the same at every place."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.n_more = -layer.in_features % GROUP
        self.weight = nn.Parameter(F.pad(layer.weight.detach(), (0, self.n_more)), requires_grad=False)
        self.bias = layer.bias

    def forward(self, features: Tensor) -> Tensor:
        return F.linear(F.pad(features, (0, self.n_more)), self.weight, self.bias)


class FoldedBlock(nn.Module):
    """A BasicBlock whose sequences were folded."""

    def __init__(self, block: BasicBlock) -> None:
        super().__init__()
        self.first, self.second = block.body[0], ConvolutionReLU(cast(nn.Conv2d, block.body[3]))
        self.shortcut = block.shortcut

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.second(self.first(features), self.shortcut(features))
        return result
