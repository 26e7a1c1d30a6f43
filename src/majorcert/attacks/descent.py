"""White-box search for a patch: projected gradient with momentum through the touched views of many candidates at once.

Nothing here is trusted: what it finds is rounded to 8 bits and judged by the plain path from images to labels.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from majorcert.attacks.aim import Aim
from majorcert.attacks.victim import Look, Sites, Victim
from majorcert.errors import ModelError

TEMPERATURE = 0.1
"""Of the soft votes."""
PULL = 0.3
"""Weight of the plain cross-entropy, which still has a gradient where no vote is near to changing."""
RESERVE = 0.1
"""Weight of the defenders that need not be moved, as long as others are easier to move."""
MOMENTUM = 0.9
RATES = 0.2, 0.01
"""How far a value moves in the first and in the last step."""
STRETCHES = 4
"""So often images that are done are dropped; each time the device must be waited for."""


class Found(NamedTuple):
    """The best patch of each of N candidates."""

    patches: Tensor  # (N, C, h, w) uint8
    rank: Tensor  # (N,) as `Victim.rank`; under 0 where the ensemble is fooled
    steps: Tensor  # (N,) steps spent


def objective(victim: Victim, look: Look, aim: Aim) -> Tensor:
    """(N,) what is to be made small: by how much the soft votes of the easiest defenders miss what they are to say.

    Under the promise of detection they are to say it without each watched placement as well, so that none tells.
    """
    soft, pulls = [], []
    for place, (surrogate, logs) in enumerate(zip(victim.surrogates, look.log_scores, strict=True)):
        soft.append(surrogate.soft_votes(logs, TEMPERATURE))
        real = victim.looked_at(place, look.sites)[1].any(dim=2)
        said = aim.said[:, victim.points[:, place].argmax(), None, None].expand(*logs.shape[:2], 1)
        pulls.append(-(logs.gather(2, said)[:, :, 0] * real).sum(dim=1) / real.sum(dim=1).clamp(min=1))
    hinge, pull = victim.misses(look, soft, aim), victim.by_defender(pulls)
    weight = torch.where(aim.easiest(hinge.detach()), 1.0, RESERVE) * aim.movable
    return (weight * (hinge + PULL * pull * (hinge.detach() > 0))).sum(dim=1)


def descend(
    victim: Victim,
    sites: Sites,
    aim: Aim,
    start: Tensor,
    *,
    steps: int,
    batch_size: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Found:
    """The best patches that so many steps from `start`, (N, C, h, w) uint8, lead to.

    Candidates are taken `batch_size` at a time, and fewer if the device's memory is too small. An image is given up
    as soon as one of its candidates in the batch fools the ensemble.

    Args:
        progress: called with the number of candidates x steps that were done.
    """
    parts, begun = [], 0
    while begun < len(sites):
        some = slice(begun, min(begun + batch_size, len(sites)))
        rows = torch.arange(some.start, some.stop, device=start.device)
        try:
            parts.append(_descend(victim, sites[rows], aim[rows], start[rows], steps, progress))
        except torch.OutOfMemoryError:
            batch_size //= 2
            if not batch_size:
                raise ModelError("the device's memory is too small for the gradient of a single candidate") from None
            torch.cuda.empty_cache()
            continue
        begun = some.stop
    return Found(*map(torch.cat, zip(*parts, strict=True)))


def _descend(
    victim: Victim, sites: Sites, aim: Aim, start: Tensor, steps: int, progress: Callable[[int], None]
) -> Found:
    best = start.clone()
    best_rank = torch.full((len(sites),), float("inf"), device=start.device)
    spent = torch.zeros(len(sites), dtype=torch.long, device=start.device)
    alive = torch.arange(len(sites), device=start.device)
    here, aimed, kept = sites, aim, victim.kept(sites)
    patches, momentum = start.float() / 255, torch.zeros_like(start, dtype=torch.float32)
    for step in range(steps + 1):
        if step and step % max(1, steps // STRETCHES) == 0 and step < steps:
            staying = _undecided(here, best_rank[alive])
            progress((len(alive) - len(staying)) * (steps + 1 - step))
            alive, here, aimed = alive[staying], here[staying], aimed[staying]
            kept, patches, momentum = [each[staying] for each in kept], patches[staying], momentum[staying]
            if not len(alive):
                break
        patches.requires_grad_()
        # The network sees whole numbers of 255ths, as in a file; the gradient passes as if nothing had been rounded.
        whole = (patches.detach() * 255).round()
        look = victim.look(here, patches + (whole / 255 - patches).detach(), kept)
        with torch.no_grad():
            rank = victim.rank(look, aimed)
            better = rank < best_rank[alive]
            best_rank[alive] = torch.where(better, rank, best_rank[alive])
            best[alive] = torch.where(better[:, None, None, None], whole.to(torch.uint8), best[alive])
        progress(len(alive))
        if step == steps:
            break
        (gradient,) = torch.autograd.grad(objective(victim, look, aimed).sum(), patches)
        with torch.no_grad():
            size = gradient.abs().mean(dim=(1, 2, 3), keepdim=True).clamp(min=1e-20)
            momentum = MOMENTUM * momentum + (gradient / size).nan_to_num()
            rate = RATES[1] + (RATES[0] - RATES[1]) * (1 - step / steps)
            patches = (patches.detach() - rate * momentum.sign()).clamp(0, 1)
            spent[alive] += 1
    return Found(best, best_rank, spent)


def _undecided(sites: Sites, rank: Tensor) -> Tensor:
    """The candidates of images of which none fools the ensemble yet."""
    n_images = int(sites.image.max()) + 1
    decided = torch.zeros(n_images, dtype=torch.long, device=rank.device).index_add_(0, sites.image, (rank < 0).long())
    return (decided[sites.image] == 0).nonzero()[:, 0]


def probe(
    victim: Victim, sites: Sites, patches: Tensor, *, batch_size: int, progress: Callable[[int], None]
) -> tuple[Tensor, Tensor, Tensor]:
    """How patches fare as they are: (N,) the label, (N,) is the ensemble fooled, (N, defenders, labels) how far it is.

    How far is told in votes that each label lacks; between equal ones the mean score decides.
    """
    parts = []
    with torch.no_grad():
        for begun in range(0, len(sites), batch_size):
            some = slice(begun, begun + batch_size)
            here = sites[some]
            look = victim.look(here, patches[some].float() / 255, victim.kept(here))
            parts.append((look.label, look.fooled(victim.clean[here.image]), look.lacking() + 1 - look.support))
            progress(len(here))
    label, fooled, distance = (torch.cat(each) for each in zip(*parts, strict=True))
    return label, fooled, distance
