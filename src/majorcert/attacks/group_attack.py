"""A group of images under attack: cheap patches at many placements first, then gradients at the best of them.

Each image draws from random numbers of its own, and a group is attacked from beginning to end before the next one, so
an attack that was killed goes on group by group and ends as if it had not been.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from majorcert.attacks.aim import Aim, rival_gaps
from majorcert.attacks.descent import descend, probe
from majorcert.attacks.effort import Effort
from majorcert.attacks.group import Group, Judge, Outcome
from majorcert.attacks.paint import Pixels, Stock, cheap_patches, noise, paste
from majorcert.attacks.placements import needs, placements_to_probe, sites_of
from majorcert.attacks.victim import Sites
from majorcert.core.plurality import Ints

RECHECKED = 3
"""So many patches of an image that seem to fool the ensemble are judged after each stage; the best one always is, and
of a certified image all of them. Where the search does not see all that the label is made from, of a certified image so
many are judged whatever they seem."""


def attack_group(
    group: Group, effort: Effort, stock: Stock, judge: Judge, *, batch_size: int, progress: Callable[[int], None]
) -> list[Outcome]:
    """Attack every image of the group until the ensemble is fooled or the effort is spent."""
    under_attack = GroupAttack(group, effort, stock, judge, batch_size, progress)
    under_attack.try_cheap_patches()
    for wave in range(effort.placements):
        under_attack.follow_gradients(wave)
    return under_attack.outcomes


class GroupAttack:
    """What is known so far of each image of the group, and what is tried next."""

    def __init__(
        self, group: Group, effort: Effort, stock: Stock, judge: Judge, batch_size: int, progress: Callable[[int], None]
    ) -> None:
        self.group, self.effort, self.stock, self.judge = group, effort, stock, judge
        self.batch_size, self.progress = batch_size, progress
        self.outcomes = [Outcome() for _ in group.numbers]
        self.device = group.victim.clean.device
        self.patch_shape = group.images.shape[1], group.patch.height, group.patch.width
        n_images, n_waves = len(group.numbers), effort.placements
        self.placements = np.zeros((n_images, n_waves, 2), dtype=np.int64)
        self.rivals = np.zeros((n_images, n_waves), dtype=np.int64)
        self.begin = np.zeros((n_images, n_waves, *self.patch_shape), dtype=np.uint8)

    def try_cheap_patches(self) -> None:
        """Judge the best cheap patches, and choose by all of them where gradients will be used."""
        group, effort, victim = self.group, self.effort, self.group.victim
        rngs = [self._rng(image, 0) for image in range(len(group.numbers))]
        placements = placements_to_probe(victim, group.safe, effort.probed, rngs)
        made = [cheap_patches(effort.cheap, group.patch, self.stock, rng) for rng in rngs]
        patches = np.stack([each for each, _ in made])
        shape = len(rngs), effort.probed, effort.cheap  # every patch of an image at every placement of it
        image = np.broadcast_to(np.arange(len(rngs))[:, None, None], shape).reshape(-1)
        where = np.broadcast_to(placements[:, :, None], (*shape, 2)).reshape(-1, 2)
        every = np.broadcast_to(patches[:, None], (*shape, *self.patch_shape)).reshape(-1, *self.patch_shape)
        sites, tried = sites_of(image, where, self.device), torch.tensor(every, device=self.device)
        label, fooled, distance = probe(victim, sites, tried, batch_size=self.batch_size, progress=self.progress)
        gaps = rival_gaps(distance, victim.labels[sites.image], victim.clean[sites.image])
        self._choose(gaps.view(*shape, -1).cpu().numpy(), placements, patches)
        rank = torch.where(fooled, -1.0, gaps.amin(dim=1))
        names = np.broadcast_to(np.array(made[0][1]), shape).reshape(-1)
        self._recheck(sites, tried, rank, label.cpu().numpy(), names)

    def follow_gradients(self, wave: int) -> None:
        """Search from several beginnings at the next placement of each image that still stands."""
        group, effort = self.group, self.effort
        standing = np.flatnonzero([not outcome.flipped for outcome in self.outcomes])
        n_fallen = len(group.numbers) - len(standing)
        self.progress(n_fallen * effort.restarts * (effort.steps + 1))
        if not standing.size:
            return
        image = standing.repeat(effort.restarts)
        sites = sites_of(image, self.placements[image, wave], self.device)
        start = np.concatenate([self._beginnings(int(each), wave) for each in standing])
        found = descend(
            group.victim,
            sites,
            self._aim(image, wave),
            torch.from_numpy(start).to(self.device),
            steps=effort.steps,
            batch_size=self.batch_size,
            progress=self.progress,
        )
        steps = found.steps.cpu().numpy().reshape(len(standing), -1).sum(axis=1)
        for each, spent in zip(standing, steps, strict=True):
            before = self.outcomes[each]
            self.outcomes[each] = replace(
                before, restarts=before.restarts + effort.restarts, steps=before.steps + int(spent)
            )
        names = np.full(len(image), "gradient")
        self._recheck(sites, found.patches, found.rank, self.rivals[image, wave], names)

    def _rng(self, image: int, stage: int) -> np.random.Generator:
        return np.random.default_rng([self.effort.seed, int(self.group.numbers[image]), stage])

    def _choose(self, gaps: npt.NDArray[np.float32], placements: npt.NDArray[np.int64], patches: Pixels) -> None:
        """Where gradients will be used, towards what, and from which cheap patch on; a witness comes last.

        What a rival still lacks under the best cheap patch counts as much as what it needs at least.
        """
        victim = self.group.victim
        far = gaps.min(axis=2) / victim.most_touched + needs(victim, self.group.safe, placements)
        rival, order = far.argmin(axis=2), far.min(axis=2).argsort(axis=1, kind="stable")
        for image, witness in enumerate(self.group.witnesses):
            for wave in range(self.effort.placements):
                place = order[image, wave % order.shape[1]]
                aimed = rival[image, place]
                self.placements[image, wave] = placements[image, place]
                self.rivals[image, wave] = aimed
                self.begin[image, wave] = patches[image, gaps[image, place, :, aimed].argmin()]
            if witness is not None and self.effort.placements > 1:
                self.placements[image, -1] = witness.placement
                self.rivals[image, -1] = witness.rival

    def _aim(self, image: Ints, wave: int) -> Aim:
        """At the rival of the wave; in the last of several, at what the witness says, where there is one."""
        victim = self.group.victim
        which = torch.from_numpy(image).to(self.device)
        rival = torch.from_numpy(self.rivals[image, wave]).to(self.device)
        labels, clean = victim.labels[which], victim.clean[which]
        aim = Aim.at_rival(rival, labels, clean)
        if wave < max(1, self.effort.placements - 1):
            return aim
        none = (-1,) * labels.shape[1]
        forced = [none if witness is None else witness.forced for witness in self.group.witnesses]
        choice = torch.tensor(forced, device=self.device)[which]
        return Aim.at_choice(choice, clean).where(choice[:, 0] >= 0, aim)

    def _beginnings(self, image: int, wave: int) -> Pixels:
        """(restarts, C, h, w): a cheap patch, the image's own pixels, pieces that show the rival, and noise."""
        n, patch = self.effort.restarts, self.group.patch
        rng, rival = self._rng(image, 1 + wave), int(self.rivals[image, wave])
        top, left = self.placements[image, wave]
        own = self.group.images[image, :, top : top + patch.height, left : left + patch.width].numpy()
        n_pieces = max(0, n - 2) // 2
        parts = [
            self.begin[image, wave][None],
            own[None],
            self.stock.pieces(n_pieces, patch, rng, rival),
            noise(max(0, n - 2 - n_pieces), self.patch_shape[0], patch, rng),
        ]
        return np.concatenate(parts)[:n]

    def _recheck(self, sites: Sites, patches: Tensor, rank: Tensor, rivals: Ints, names: npt.NDArray[np.str_]) -> None:
        """Judge the best patches of each image by the plain path; who fails that is out."""
        image, ranks = sites.image.cpu().numpy(), rank.cpu().numpy()
        order = np.lexsort((ranks, image))
        first = np.searchsorted(image[order], image[order])
        place = np.arange(len(order)) - first
        whole = all(surrogate.views.whole for surrogate in self.group.victim.surrogates)
        certified = np.array([safe.all() for safe in self.group.safe])[image[order]]
        seeming = (ranks[order] < 0) | (certified & (not whole))
        chosen = order[(place == 0) | (((certified & whole) | (place < RECHECKED)) & seeming)]
        some = torch.from_numpy(chosen)
        which, patch = torch.from_numpy(image[chosen]), patches.cpu()[some]
        top, left = sites.top.cpu()[some], sites.left.cpu()[some]
        painted = paste(self.group.images[which], patch, top, left)
        labels, alerts = self.judge(image[chosen], painted, np.stack([top.numpy(), left.numpy()], axis=1))
        changed = labels != self.group.victim.clean.cpu().numpy()[image[chosen]]
        for k, candidate in enumerate(chosen):
            outcome = self.outcomes[image[candidate]]
            seen = {"changed": outcome.changed or bool(changed[k]), "alerted": outcome.alerted or bool(alerts[k])}
            tried = replace(outcome, **seen)
            if changed[k] and not alerts[k] and not outcome.flipped:
                tried = replace(
                    tried,
                    flipped=True,
                    by=str(names[candidate]),
                    placement=(int(top[k]), int(left[k])),
                    rival=int(rivals[candidate]),
                    label=int(labels[k]),
                    painted=painted[k],
                )
            self.outcomes[image[candidate]] = tried
