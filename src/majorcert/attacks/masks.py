"""An attack on double masking: patches under which one mask at a time leaves the wrong label.

What the attacker wants is that the plurality under one mask is another label; or that under some mask another label
holds against every second one. Both ask that views which show some of the patch say another label, so their mean loss
is what the gradient follows. A mask that hides the patch cannot be moved: where its row is unanimous, all is in vain.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from majorcert.attacks.effort import Effort
from majorcert.attacks.group import Judge, Outcome
from majorcert.attacks.paint import Pixels, Pool, cheap_patches, noise, paste
from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, Patch
from majorcert.nets.company import Network
from majorcert.nets.masked import MaskCutter, centred
from majorcert.nets.masking import MaskingDefender
from majorcert.nets.views import to_unit

MASKS_AT_ONCE = 32
"""So many masks, by lot, are looked through at each step."""
RECHECKED = 3
"""So many patches at a placement, those with the largest loss, are judged."""
STRIDE = 0.15
"""How far the first steps go, from black to white being 1."""


@dataclass(frozen=True, eq=False)
class MaskTarget:
    """A masking defender as an attacker sees it: its network with a gradient, and its masks."""

    network: Network
    cutter: MaskCutter

    @classmethod
    def of(cls, defender: MaskingDefender) -> "MaskTarget":
        network, scorer = defender.model, defender.masker.scorer
        if isinstance(network, nn.Module):
            network = copy.deepcopy(network).eval().to(scorer.device).requires_grad_(False)
        return cls(network, defender.masker.cutter)

    def loss(self, painted: Tensor, label: int, masks: Tensor) -> Tensor:
        """(N,) how much more the best other label has than `label`, in logits, on average under these masks."""
        which = torch.arange(len(painted), device=masks.device).repeat_interleave(len(masks))
        each = masks.repeat(len(painted))
        views = self.cutter.take(centred(painted), which, each, each)
        logits = self.network(views.contiguous()).float()
        own = torch.zeros_like(logits)
        own[:, label] = torch.inf
        return ((logits - own).amax(dim=1) - logits[:, label]).tanh().view(len(painted), -1).mean(dim=1)


@dataclass(frozen=True, eq=False)
class MaskAttack:
    """One image after another: cheap patches at many placements, then gradients at the best of them."""

    target: MaskTarget
    patch: Patch
    effort: Effort
    pool: Pool
    judge: Judge

    def on(self, which: int, image: Tensor, number: int, label: int, safe: Bools) -> Outcome:
        """What becomes of one uint8 image, the `which`-th of its group; `safe` says where nothing can happen."""
        effort, rng = self.effort, np.random.default_rng((self.effort.seed, number))
        places = _placements(safe, effort.probed, rng)
        losses, begin = np.full(len(places), -np.inf), []
        for k, place in enumerate(places):
            patches, kinds = cheap_patches(effort.cheap, self.patch, self.pool, rng)
            found, loss = self._judged(which, image, label, place, patches, kinds, rng)
            if found is not None:
                return found
            losses[k] = loss.max()
            begin.append(patches[loss.argmax()])
        for k in np.argsort(-losses, kind="stable")[: effort.placements]:
            starts = noise(effort.restarts, image.shape[0], self.patch, rng)
            starts[0] = begin[k]
            patches = self._descended(image, label, places[k], starts, rng)
            found, _ = self._judged(which, image, label, places[k], patches, ["gradient"] * len(patches), rng)
            if found is not None:
                return found
        return Outcome(restarts=effort.restarts * effort.placements, steps=effort.steps)

    def _descended(self, image: Tensor, label: int, place: Ints, starts: Pixels, rng: np.random.Generator) -> Pixels:
        """(N, C, h, w): patches after some steps along the sign of the gradient, ever shorter ones."""
        device = self.target.cutter.visible.device
        unit = to_unit(image[None].to(device)).expand(len(starts), -1, -1, -1)
        patches = to_unit(torch.from_numpy(starts).to(device))
        for step in range(self.effort.steps):
            patches.requires_grad_(True)
            loss = self.target.loss(self._painted(unit, patches, place), label, self._masks(rng))
            (gradient,) = torch.autograd.grad(loss.sum(), patches)
            stride = STRIDE * (1 - step / self.effort.steps)
            patches = (patches.detach() + stride * gradient.sign()).clamp(0, 1)
        return (patches * 255).round().to(torch.uint8).cpu().numpy()

    def _judged(
        self,
        which: int,
        image: Tensor,
        label: int,
        place: Ints,
        patches: Pixels,
        kinds: list[str],
        rng: np.random.Generator,
    ) -> tuple[Outcome | None, Ints]:
        """What the best of these patches do, judged by the defender itself; and the loss of each."""
        device = self.target.cutter.visible.device
        some = torch.from_numpy(patches)
        painted = self._painted(image[None].expand(len(some), -1, -1, -1), some, place)
        with torch.no_grad():
            loss = self.target.loss(painted.to(device), label, self._masks(rng)).cpu().numpy()
        best = np.argsort(-loss, kind="stable")[:RECHECKED]
        said = self.judge(np.full(len(best), which), painted[best], np.repeat(place[None], len(best), axis=0))
        for k, now in zip(best, said, strict=True):
            if now != label:
                return self._found(kinds[k], place, int(now), painted[k]), loss
        return None, loss

    def _found(self, kind: str, place: Ints, label: int, painted: Tensor) -> Outcome:
        steps = self.effort.steps if kind == "gradient" else 0
        return Outcome(True, kind, (int(place[0]), int(place[1])), label, label, int(steps > 0), steps, painted)

    def _painted(self, images: Tensor, patches: Tensor, place: Ints) -> Tensor:
        top, left = (torch.full((len(patches),), int(each), device=images.device) for each in place)
        return paste(images, patches, top, left)

    def _masks(self, rng: np.random.Generator) -> Tensor:
        chosen = rng.permutation(self.target.cutter.n_masks)[:MASKS_AT_ONCE]
        return torch.from_numpy(chosen).to(self.target.cutter.visible.device)


def _placements(safe: Bools, n: int, rng: np.random.Generator) -> Ints:
    """(at most n, 2) placements by lot; those where nothing is proved come first."""
    every = np.argwhere(np.ones_like(safe))
    order = rng.permutation(len(every))
    return every[order[np.argsort(safe[tuple(every[order].T)], kind="stable")][:n]]
