"""Steps down a gradient that a CUDA graph can record; torch's own optimisers read the learning rate on the CPU."""

import torch
from torch import Tensor

from majorcert.nets.config import SQUARES_DECAY, TrainConfig

Tensors = list[Tensor]


def descend(
    config: TrainConfig, lr: Tensor, weights: Tensors, gradients: Tensors, velocity: Tensors, squares: Tensors
) -> None:
    """Change the weights in place, by the optimiser of the configuration, and what it remembers.

    Args:
        gradients: are used up.
        squares: Adam's mean of squared gradients; empty for stochastic gradient descent.
    """
    if config.clip:
        length = torch.stack(torch._foreach_norm(gradients)).norm()
        torch._foreach_mul_(gradients, (config.clip / (length + 1e-12)).clamp(max=1))
    if squares:
        steps = _adam(config, weights, gradients, velocity, squares)
    else:
        steps = _nesterov(config, weights, gradients, velocity)
    torch._foreach_mul_(steps, -lr)
    torch._foreach_add_(weights, steps)


def _nesterov(config: TrainConfig, weights: Tensors, gradients: Tensors, velocity: Tensors) -> Tensors:
    """Stochastic gradient descent with Nesterov momentum."""
    torch._foreach_add_(gradients, weights, alpha=config.weight_decay)
    torch._foreach_mul_(velocity, config.momentum)
    torch._foreach_add_(velocity, gradients)
    torch._foreach_add_(gradients, velocity, alpha=config.momentum)
    return gradients


def _adam(config: TrainConfig, weights: Tensors, gradients: Tensors, velocity: Tensors, squares: Tensors) -> Tensors:
    """Adam, with its weight decay apart from the gradient."""
    torch._foreach_lerp_(velocity, gradients, 1 - config.momentum)
    torch._foreach_mul_(squares, SQUARES_DECAY)
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - SQUARES_DECAY)
    steps = list(torch._foreach_div(velocity, torch._foreach_add(torch._foreach_sqrt(squares), 1e-8)))
    torch._foreach_add_(steps, weights, alpha=config.weight_decay)
    return steps
