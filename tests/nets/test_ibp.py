"""Interval bounds on real pixels: what they exclude, no patch that is found makes the network say."""

import copy
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from intervals import hidden, leads
from torch import Tensor, nn

from majorcert.core.threat import Patch
from majorcert.defences.bounds import Sizes
from majorcert.nets import bounder as rooms
from majorcert.nets import patched as around
from majorcert.nets.bounder import Bounder
from majorcert.nets.bounding import BoundsDefender
from majorcert.nets.ibp import SCALE, IntervalNet, Span
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.patched import Clean, Patches, Window

SIZE = (4, 5)
SHARES = (0.02, 0.1, 0.3, 0.7, 1.0, 1.4)
"""By which part of what the bounds fear the label leads."""


def tiny(seed: int, channels: int, n_classes: int = 3, strides: tuple[int, ...] = (1, 2, 1)) -> IntervalNet:
    """A network with random weights; every second one only rises with its pixels, or only falls: bounds are exact."""
    torch.manual_seed(seed)
    network = build(ModelConfig("ibp", channels, n_classes, width=3, strides=strides))
    assert isinstance(network, IntervalNet)
    with torch.no_grad():
        for layer, _ in network.layers:
            layer.weight.mul_(2)
            if seed % 2:
                layer.weight.abs_()
        if seed % 2:
            network.last.weight.copy_(network.last.weight.sort(dim=0).values)
        if seed % 4 == 3:
            network.convolutions[0].weight.neg_()  # type: ignore[operator, union-attr]
    return network


def everywhere(patch: Patch) -> Tensor:
    """(placements, 1, H, W): 1 under the patch."""
    places = list(np.ndindex(*patch.n_placements(SIZE)))
    under = torch.zeros(len(places), 1, *SIZE)
    for each, (top, left) in zip(under, places, strict=True):
        each[:, top : top + patch.height, left : left + patch.width] = 1
    return under


def contested(network: IntervalNet, image: Tensor, under: Tensor, share: float) -> IntervalNet:
    """The network with other biases, so that its first label leads by a share of what a patch can do by the bounds."""
    with torch.no_grad():
        logits, first = network(image), torch.zeros(len(under), dtype=torch.int64)
        least = leads(network, hidden(image.expand(len(under), -1, -1, -1), under), first)
        lost = (logits[:, :1] - logits - least).median(dim=0).values
        network.last.bias -= logits[0] + share * lost
    return network


def painted(network: IntervalNet, image: Tensor, under: Tensor, patch: Patch) -> Tensor:
    """(placements, versions, C, H, W): with all black-and-white patches if they are few, with grey ones, and with those
    where gradients lead towards each label."""
    n, shape, chance = len(under), image.shape[1:], torch.Generator().manual_seed(0)
    if image.shape[1] * patch.height * patch.width <= 4:
        every = torch.tensor(list(product((0.0, 1.0), repeat=4))).view(-1, 1, patch.height, patch.width)
        plain = torch.zeros(n, len(every), *shape)
        for versions, (top, left) in zip(plain, np.ndindex(*patch.n_placements(SIZE)), strict=True):
            versions[:, :, top : top + patch.height, left : left + patch.width] = every
    else:
        plain = (torch.rand(n, 40, *shape, generator=chance) > 0.5).float()
    grey = torch.rand(n, 10, *shape, generator=chance)
    found = torch.full((n, 3, *shape), 0.5, requires_grad=True)
    for _ in range(5):
        logits = network(torch.where(under[:, None] > 0, found, image).flatten(0, 1)).view(n, 3, 3)
        wanted = logits.diagonal(dim1=1, dim2=2) - (logits - 1e9 * torch.eye(3)).amax(dim=2)
        (slope,) = torch.autograd.grad(wanted.sum(), found)
        found = (found + 0.4 * slope.sign()).clamp(0, 1).detach().requires_grad_(True)
    return torch.where(under[:, None] > 0, torch.cat([plain, grey, found.detach()], dim=1), image)


def counted(patch: Patch, channels: int = 1) -> tuple[int, int, int]:
    """How many labels were excluded and how many were not, and how often an excluded one was said after all."""
    n_excluded = n_open = n_broken = 0
    under = everywhere(patch)
    for seed, share in enumerate([share for share in SHARES for _ in range(3)]):
        image = torch.rand(1, channels, *SIZE, generator=torch.Generator().manual_seed(seed))
        network = contested(tiny(seed, channels), image, under, share)
        defender = BoundsDefender(network, f"bounds:{patch}", image_size=SIZE, channels=channels)
        reach = defender.evidence(image).reach(patch)
        allowed = np.stack([reach.has(np.array([c]))[0].ravel() for c in range(3)], axis=1)
        n_open, n_excluded = n_open + int(allowed.sum()), n_excluded + int((~allowed).sum())
        versions = painted(network, image, under, patch)
        said = defender.predict(versions.flatten(0, 1)).reshape(len(under), -1)
        n_broken += int((~np.take_along_axis(allowed, said, axis=1)).sum())
    return n_excluded, n_open, n_broken


@pytest.mark.parametrize(("patch", "channels"), [(Patch(2), 1), (Patch(3, 1), 2)])
def test_no_patch_makes_the_network_say_what_bounds_exclude(patch: Patch, channels: int) -> None:
    n_excluded, n_open, n_broken = counted(patch, channels)
    assert n_broken == 0
    assert n_excluded > 30, "some labels are excluded"
    assert n_open > 120, "and some are not"


def _one_class_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    true = rooms.lowest_leads

    def fault(*given: object) -> Tensor:
        least: Tensor = true(*given)  # type: ignore[arg-type]
        least[:, 2] = torch.inf
        return least

    monkeypatch.setattr(rooms, "lowest_leads", fault)


def _pixel_row_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    true = rooms.patched

    def fault(network: IntervalNet, clean: Clean, patches: Patches, windows: list[Window]) -> Span:
        less = patches.sides - torch.tensor([1, 0])
        return true(network, clean, patches._replace(sides=less), windows)

    monkeypatch.setattr(rooms, "patched", fault)


def _cell_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last column that sees the patch is left out of every window."""
    true = Window.seen_by

    def fault(self: Window, layer: nn.Conv2d) -> Window:
        found = true(self, layer)
        return found._replace(length=max(1, found.length - 1))

    monkeypatch.setattr(Window, "seen_by", fault)


def _placement_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lead of the last placement is believed without a look."""
    true = Bounder._leads

    def fault(self: Bounder, clean: Clean, labels: Tensor, patch: Patch, places: Tensor) -> Tensor:
        last = (places + 1 == torch.tensor(patch.n_placements(self.image_size))).all(dim=1)
        return torch.where(last[:, None], torch.inf, true(self, clean, labels, patch, places))

    monkeypatch.setattr(Bounder, "_leads", fault)


def _radius_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Radii by weights with their signs: they cancel, or are below 0."""
    monkeypatch.setattr(Tensor, "abs", lambda self: self)


def _half_of_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(around, "SCALE", SCALE / 2)


@pytest.mark.parametrize(
    "plant",
    [
        _one_class_unchecked,
        _pixel_row_too_few,
        _cell_too_few,
        _placement_skipped,
        _radius_lost,
        _half_of_the_range,
    ],
)
def test_a_planted_fault_is_found(plant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)  # type: ignore[operator]
    assert counted(Patch(2))[2] > 0


def test_windows_are_as_good_as_the_whole_image() -> None:
    """What is computed around the patch alone is what the whole image with its intervals gives."""
    kinds: list[tuple[tuple[int, int], tuple[int, ...]]] = [((13, 12), (1, 2, 1)), ((9, 16), (1, 2)), ((11, 9), (2, 2))]
    for seed, (size, strides) in enumerate(kinds):
        network = tiny(seed, 3, n_classes=5, strides=strides)
        ours = Bounder.of(network, Sizes("3x2", 4), image_size=size)
        images = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(seed)).double()
        labels, _ = ours.labels(images)
        clean = Clean.of(ours.network, images)
        for patch in ours.sizes.patches:
            seen = []
            for places in ours._alike(patch, 2):
                found = ours._leads(clean, labels, patch, places)
                for (top, left), least in zip(places.tolist(), found.unbind(1), strict=True):
                    under = torch.zeros(2, 1, *size, dtype=torch.float64)
                    under[:, :, top : top + patch.height, left : left + patch.width] = 1
                    whole = leads(ours.network, hidden(images, under), labels)
                    torch.testing.assert_close(least, whole, rtol=0, atol=1e-12)
                    seen.append((top, left))
            assert sorted(seen) == list(np.ndindex(*patch.n_placements(size))), "every placement once"


def test_rounding_does_less_than_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds in float32 against those in float64: by the count for float32 they agree, by that for float64 not."""
    monkeypatch.setattr(rooms, "UNIT", 2.0**-24)
    for seed, strides in enumerate([(1, 2, 1), (2, 1), (1,)]):
        ours = Bounder.of(tiny(seed, 3, strides=strides), Sizes(3), image_size=(9, 8))
        images, labels = torch.rand(4, 3, 9, 8), torch.tensor([0, 1, 2, 0])
        places = next(ours._alike(Patch(3), 4))
        exact = ours._leads(Clean.of(ours.network, images.double()), labels, Patch(3), places)
        slack = ours.slack
        rough = replace(ours, network=copy.deepcopy(ours.network).float())
        wrong = (rough._leads(Clean.of(rough.network, images), labels, Patch(3), places).double() - exact).abs().max()
        assert 2.0**-29 * slack < float(wrong) < slack / 2


def test_a_lead_within_rounding_is_not_believed() -> None:
    network = tiny(0, 1)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        network.last.bias[2] = -1
    defender = BoundsDefender(network.double(), "bounds:2", image_size=SIZE, channels=1)
    slack = defender.bounder.slack
    for lead, reach in ((slack / 2, 0b011), (2 * slack, 0b001)):
        defender.bounder.network.last.bias[1] = -lead
        assert (defender.evidence(torch.rand(1, 1, *SIZE)).words == reach).all()
