"""The search: it sees what the voter sees, it touches only what it may, and it gets somewhere."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import majorcert as mc
from majorcert.attacks.aim import Aim
from majorcert.attacks.descent import descend, objective, probe
from majorcert.attacks.effort import Effort
from majorcert.attacks.group import Outcome
from majorcert.attacks.group_attack import RECHECKED, GroupAttack
from majorcert.attacks.paint import paste
from majorcert.attacks.placements import placements_to_probe, sites_of
from majorcert.attacks.surrogate import Surrogate
from majorcert.attacks.victim import Sites, Victim
from majorcert.errors import ModelError
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.undefended import undefended

torch.set_num_threads(1)
SIZE = (8, 10)
PATCH = mc.Patch(2, 3)
SPECS = ("rows:3", "columns:4/3", "blocks:4/2")


def brightness(views: Tensor) -> Tensor:
    """Votes by the mean of each colour, so every pixel of a view counts and no other."""
    return 12 * views[:, :3].mean(dim=(2, 3))


def defenders(threshold: float | None = 0.4) -> list[Defender]:
    views: tuple[Any, ...] = ("crop", "canvas", "crop")
    return [
        Defender(brightness, spec, view, threshold, image_size=SIZE) for spec, view in zip(SPECS, views, strict=True)
    ]


def pictures(n: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    images = torch.randint(60, 120, (n, 3, *SIZE), dtype=torch.uint8, generator=generator)
    for k in range(n):
        images[k, k % 3] += 5
    return images


def victim_of(ensemble: Ensemble, images: Tensor) -> Victim:
    surrogates = [Surrogate.of(each, PATCH, "float32") for each in ensemble.defenders]
    evidence = ensemble.ballots(images)
    ballots = [torch.from_numpy(each.labels.astype(np.int64)) for each in evidence]
    labels = torch.from_numpy(np.stack([each.label for each in evidence], axis=1))
    return Victim.of(surrogates, images, ballots, torch.eye(len(evidence)), labels, len(ensemble.class_names))


def every_site(n_images: int) -> Sites:
    n_tops, n_lefts = PATCH.n_placements(SIZE)
    cells = np.stack(np.divmod(np.arange(n_tops * n_lefts), n_lefts), axis=1)
    return sites_of(np.arange(n_images).repeat(len(cells)), np.tile(cells, (n_images, 1)), torch.device("cpu"))


@pytest.mark.parametrize("threshold", [0.4, None])
def test_what_the_search_sees_is_what_the_plain_path_says(threshold: float | None) -> None:
    ensemble, images = Ensemble(defenders(threshold)), pictures()
    victim, sites = victim_of(ensemble, images), every_site(len(images))
    np.testing.assert_array_equal(victim.clean.numpy(), ensemble.predict(images))
    patches = torch.randint(
        0, 256, (len(sites), 3, 2, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(4)
    )
    look = victim.look(sites, patches.float() / 255, victim.kept(sites))
    painted = paste(images[sites.image], patches, sites.top, sites.left)
    for place, ballots in enumerate(ensemble.ballots(painted)):
        np.testing.assert_array_equal(look.counts[:, place, 0].numpy(), ballots.counts())
    np.testing.assert_array_equal(look.label.numpy(), ensemble.predict(painted))
    assert (look.label != victim.clean[sites.image]).any()
    label, fooled, distance = probe(victim, sites, patches, batch_size=50, progress=lambda done: None)
    assert torch.equal(label, look.label)
    assert torch.equal(fooled, look.label != victim.clean[sites.image])
    assert torch.allclose(distance, look.lacking() + 1 - look.support)


@pytest.mark.parametrize("spec", [*SPECS, "blocks:2/4", "columns:10/10"])
def test_the_touched_views_are_those_of_the_strategy(spec: str) -> None:
    defender = Defender(brightness, spec, "crop", 0.4, image_size=SIZE)
    surrogate = Surrogate.of(defender, PATCH, "float32")
    touched = defender.strategy.touched(PATCH, SIZE)
    sites = every_site(1)
    ablations, real = surrogate.touched(sites.top, sites.left)
    for k, (top, left) in enumerate(zip(sites.top.tolist(), sites.left.tolist(), strict=True)):
        assert sorted(ablations[k][real[k]].tolist()) == np.flatnonzero(touched.mask(top, left)).tolist()


@pytest.mark.parametrize("threshold", [0.4, None])
def test_soft_votes_become_true_votes_at_low_temperature(threshold: float | None) -> None:
    surrogate = Surrogate.of(defenders(threshold)[0], PATCH, "float32")
    logs = torch.randn(50, 4, 3, generator=torch.Generator().manual_seed(0)).log_softmax(dim=2)
    true = surrogate.votes(logs)
    assert torch.allclose(surrogate.soft_votes(logs, 1e-6), true.float(), atol=1e-3)
    assert not torch.allclose(surrogate.soft_votes(logs, 0.3), true.float(), atol=0.1)


def test_the_gradient_flows_through_touched_views_alone_and_points_to_the_aim() -> None:
    ensemble, images = Ensemble(defenders()), pictures(3)
    victim, sites = victim_of(ensemble, images), every_site(3)
    aim = Aim.at_rival(
        (victim.clean + 1).remainder(3)[sites.image], victim.labels[sites.image], victim.clean[sites.image]
    )
    cut: list[tuple[int, Tensor]] = []
    for place, surrogate in enumerate(victim.surrogates):
        take = surrogate.log_scores

        def seen(painted: Tensor, ablations: Tensor, place: int = place, take: Any = take) -> Tensor:
            cut.append((place, ablations))
            return take(painted, ablations)

        object.__setattr__(surrogate, "log_scores", seen)
    patches = torch.full((len(sites), 3, 2, 3), 0.4, requires_grad=True)
    look = victim.look(sites, patches, victim.kept(sites))
    for place, ablations in cut:
        touched = ensemble.defenders[place].strategy.touched(PATCH, SIZE)
        for k in range(len(sites)):
            mask = touched.mask(int(sites.top[k]), int(sites.left[k]))
            assert mask[ablations[k].numpy()].all() or not mask.any()
    (gradient,) = torch.autograd.grad(objective(victim, look, aim).sum(), patches)
    rival = aim.said[:, 0]
    toward = gradient[torch.arange(len(sites)), rival].mean(dim=(1, 2))
    away = gradient[torch.arange(len(sites)), victim.clean[sites.image]].mean(dim=(1, 2))
    assert (toward <= 0).all()
    assert (away >= 0).all()
    assert (toward < 0).float().mean() > 0.9


def test_descending_changes_labels_that_noise_does_not() -> None:
    ensemble, images = Ensemble(defenders()), pictures()
    victim, sites = victim_of(ensemble, images), every_site(len(images))
    clean = victim.clean[sites.image]
    aim = Aim.at_rival((clean + 1).remainder(3), victim.labels[sites.image], clean)
    start = paste(images[sites.image], torch.full((len(sites), 3, 2, 3), 90, dtype=torch.uint8), sites.top, sites.left)
    start = start[:, :, :2, :3].contiguous()
    done: list[int] = []
    found = descend(victim, sites, aim, start, steps=12, batch_size=64, progress=done.append)
    assert sum(done) == len(sites) * 13, "what is given up early counts as done"
    painted = paste(images[sites.image], found.patches, sites.top, sites.left)
    flipped = ensemble.predict(painted) != clean.numpy()
    np.testing.assert_array_equal(flipped, (found.rank < 0).numpy())
    before = ensemble.predict(paste(images[sites.image], start, sites.top, sites.left)) != clean.numpy()
    assert flipped.sum() > before.sum()
    assert (found.steps <= 12).all()
    verdict = ensemble.certify(images, PATCH)
    assert not (flipped & verdict.certified[sites.image.numpy()]).any()


def test_placements_with_little_slack_come_first() -> None:
    ensemble, images = Ensemble(defenders()), pictures()
    victim, safe = victim_of(ensemble, images), np.asarray(ensemble.certify(images, PATCH).safe)
    assert (~safe).any(axis=(1, 2)).any()
    rngs = [np.random.default_rng(k) for k in range(len(images))]
    chosen = placements_to_probe(victim, safe, 6, rngs)
    assert chosen.shape == (6, 6, 2)
    for image in range(len(images)):
        if (~safe[image]).sum() >= 4:
            assert not safe[image][chosen[image, :4, 0], chosen[image, :4, 1]].any()
    n_placements = safe[0].size
    many = placements_to_probe(victim, safe, 6 * n_placements, rngs)
    assert many.shape == (6, 6 * n_placements, 2)
    for image in range(len(images)):
        assert len({tuple(place) for place in many[image, : 4 * n_placements].tolist()}) == n_placements


def test_a_plain_classifier_can_be_attacked_and_is_never_certified() -> None:
    class Plain(torch.nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            assert images.shape[1:] == (3, *SIZE)
            return brightness(images)

    found, images = undefended(Plain(), image_size=SIZE, class_names=("red", "green", "blue")), pictures()
    assert str(found.strategy) == "columns:10/10"
    np.testing.assert_array_equal(found.predict(images), brightness(images.float() / 255).argmax(dim=1).numpy())
    assert not Ensemble([found]).certify(images, mc.Patch(1)).certified.any()
    assert not found.certify(images, mc.Patch(1)).certified.any()


def test_an_attack_that_does_nothing_is_refused() -> None:
    with pytest.raises(ModelError, match="at least 1 of steps, got 0"):
        Effort(steps=0)


@pytest.mark.parametrize(
    ("safe", "whole", "n_seeming", "n_judged"),
    [(1, 1, 8, 8), (0, 1, 8, RECHECKED), (1, 0, 8, RECHECKED), (1, 0, 0, RECHECKED), (1, 1, 0, 1), (0, 0, 0, 1)],
)
def test_of_a_certified_image_every_seeming_flip_is_judged(
    safe: bool, whole: bool, n_seeming: int, n_judged: int
) -> None:
    """Ten candidates of one image, some of which the search calls flipped; the judge finds none."""
    judged: list[int] = []

    def judge(which: Any, painted: Tensor, placements: Any) -> Any:
        judged.extend(which.tolist())
        return np.zeros(len(painted), dtype=np.int64), np.zeros(len(painted), dtype=bool)

    under_attack = object.__new__(GroupAttack)
    under_attack.group = SimpleNamespace(  # type: ignore[assignment]
        safe=np.full((1, 4, 4), bool(safe)),
        images=torch.zeros(1, 1, 4, 4, dtype=torch.uint8),
        victim=SimpleNamespace(
            clean=torch.zeros(1, dtype=torch.long), surrogates=[SimpleNamespace(views=SimpleNamespace(whole=whole))]
        ),
    )
    under_attack.judge, under_attack.outcomes = judge, [Outcome()]
    sites = Sites(*torch.zeros(3, 10, dtype=torch.long))
    rank = torch.tensor([-1.0] * n_seeming + [1.0] * (10 - n_seeming))
    patches = torch.zeros(10, 1, 1, 1, dtype=torch.uint8)
    under_attack._recheck(sites, patches, rank, np.zeros(10, dtype=np.int64), np.full(10, "gradient"))
    assert len(judged) == n_judged
    assert not under_attack.outcomes[0].flipped
