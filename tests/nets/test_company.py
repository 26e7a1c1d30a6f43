"""A network that looks at its batch is refused: by its parts, in bad company, and while it votes."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import majorcert as mc
from majorcert.errors import ModelError
from majorcert.nets.data import Dataset
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.scorer import BETWEEN, Scorer

torch.set_num_threads(1)
SIZE = (16, 16)


def defender(network: Any, **options: Any) -> mc.Defender:
    return mc.Defender(network, "columns:4", "crop", 0.5, image_size=SIZE, **options)


def pictures(n: int) -> Tensor:
    return torch.randint(0, 256, (n, 3, *SIZE), generator=torch.Generator().manual_seed(1)).to(torch.uint8)


def normalised(seed: int = 0, **options: Any) -> nn.Module:
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(5, **options)
    return nn.Sequential(norm, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4))


class Holder:
    """A callable object of a user's own."""

    def __init__(self, inner: nn.Module) -> None:
        self.layers = {"first": [inner]}

    def __call__(self, views: Tensor) -> Tensor:
        result: Tensor = self.layers["first"][0](views)
        return result

    def method(self, views: Tensor) -> Tensor:
        return self(views)


class Hidden(nn.Module):
    """A module that eval mode does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = [normalised()]

    def forward(self, views: Tensor) -> Tensor:
        result: Tensor = self.inside[0](views)
        return result


def _in_training(seed: int) -> Callable[[Tensor], Tensor]:
    model = normalised(seed).train()
    return lambda views: model(views)


@pytest.mark.parametrize("seed", range(8))
def test_batch_normalisation_in_training_mode_is_seen_inside_a_function(seed: int) -> None:
    with pytest.raises(ModelError, match="BatchNorm2d is in training mode"):
        defender(_in_training(seed))


@pytest.mark.parametrize(
    "network",
    [
        Holder(normalised()),
        Holder(normalised()).method,
        functools.partial(lambda model, views: model(views), normalised()),
        Hidden(),
        nn.Sequential(nn.Conv2d(5, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten()),
    ],
    ids=["object", "method", "partial", "hidden module", "no running statistics"],
)
def test_parts_that_look_at_the_batch_are_found_wherever_they_are(network: Any) -> None:
    with pytest.raises(ModelError, match=r"looks at its batch: its BatchNorm2d .* batch; put it in eval mode"):
        defender(network)


def test_dropout_in_training_mode_is_seen() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(5 * 4 * 16, 3))
    with pytest.raises(ModelError, match="Dropout is in training mode"):
        defender(lambda views: model(views))
    assert defender(model).ballots(pictures(3)).provenance["view"] == "crop"
    model.eval()
    assert defender(lambda views: model(views)).ballots(pictures(3)).n_classes == 3


def _centred(views: Tensor) -> Tensor:
    means = views.mean(dim=(2, 3))
    return 0.01 * (means - 1e-3 * means.mean(dim=0))


def _brightest(views: Tensor) -> Tensor:
    """Differs only if a mate is as bright as no photo is: a hundredth of what the old check let pass."""
    means = views.mean(dim=(2, 3))
    return means + 1e-4 * (means[:, :3].amax() > 0.999).float()


def _grouped(n: int) -> Callable[[Tensor], Tensor]:
    """As networks of videos do: so many neighbours in the batch are frames of one film."""

    def network(views: Tensor) -> Tensor:
        frames = views.mean(dim=(2, 3)).view(-1, n, views.shape[1])
        return (frames + frames.mean(dim=1, keepdim=True)).flatten(0, 1)

    return network


def _sorted(views: Tensor) -> Tensor:
    means = views.mean(dim=(2, 3))
    return means + torch.arange(len(views))[:, None] * 1e-5


@pytest.mark.parametrize(
    "network",
    [
        lambda views: F.batch_norm(views, None, None, training=True).mean(dim=(2, 3)),
        lambda views: F.dropout(views, 0.5, training=True).mean(dim=(2, 3)),
        _centred,
        _brightest,
        *(_grouped(n) for n in (2, 4, 8, 16)),
        lambda views: views.mean(dim=(2, 3)) + views[:1].mean(),
    ],
    ids=["functional norm", "functional dropout", "a little", "of white mates", "2", "4", "8", "16", "the first"],
)
def test_functions_that_look_at_the_batch_are_refused(network: Any) -> None:
    with pytest.raises(ModelError, match="changes with the other views of the batch"):
        defender(network)


def test_functions_that_look_at_the_place_are_refused() -> None:
    with pytest.raises(ModelError, match=r"in batches of 32 .* changes with its place in the batch"):
        defender(_sorted)


def _honest_with(n_harmless: int, trigger: Callable[[Tensor], bool]) -> tuple[Callable[[Tensor], Tensor], list[int]]:
    """A network that looks at its batch only after some passes, and only then if something is in it."""
    passes: list[int] = []

    def network(views: Tensor) -> Tensor:
        passes.append(len(views))
        means = 5 * views.mean(dim=(2, 3))
        if len(passes) > n_harmless and trigger(views):
            means = means + 1e-3 * means.mean(dim=0)
        return means

    return network, passes


def test_voting_is_watched_from_the_first_tile_on(tmp_path: Path) -> None:
    network, passes = _honest_with(10**9, lambda views: True)
    defender(network)
    network, _ = _honest_with(len(passes), lambda views: True)
    found = defender(network)
    with pytest.raises(ModelError, match="changes with the other views of the batch"):
        found.predict(pictures(1))
    network, _ = _honest_with(len(passes), lambda views: True)
    found = defender(network, class_names=tuple("abcde"))
    data = Dataset(pictures(9), None, tuple("abcde"), "pictures", "test")
    with pytest.raises(ModelError, match="changes with the other views of the batch"):
        found.vote(data, tmp_path / "e.zarr", chunk=4)


def test_one_that_begins_later_is_caught_later() -> None:
    network, _ = _honest_with(BETWEEN, lambda views: bool((views[:, 0] > 0.4).any()))
    found = defender(network)
    found.predict(pictures(4))
    with pytest.raises(ModelError, match="changes with the other views of the batch"):
        found.predict(pictures(2 * BETWEEN + 4))


def test_the_places_left_over_in_a_tile_are_used() -> None:
    network, passes = _honest_with(10**9, lambda views: True)
    defender(network)
    n_before = len(passes)
    network, passes = _honest_with(n_before + 2, lambda views: True)
    found = defender(network)
    found.predict(pictures(2))
    assert len(passes) == n_before + 2, "a tile, and one to watch it"
    with pytest.raises(ModelError, match="changes with the other views of the batch"):
        found.predict(pictures(1))
    assert len(passes) == n_before + 3, "half a tile, and the watch in the other half"


def test_watching_costs_less_than_two_views_in_a_hundred() -> None:
    passes: list[int] = []

    def network(views: Tensor) -> Tensor:
        passes.append(len(views))
        return 5 * views.mean(dim=(2, 3))

    found = defender(network)
    passes.clear()
    n_images = 1600
    found.predict(pictures(n_images))
    assert sum(passes) < 1.02 * n_images * 16
    assert sum(passes) > n_images * 16


@pytest.mark.parametrize("tile", [1, 2, 3, 7, 8, 32, 130])
def test_scores_are_the_same_whatever_is_scored_again(tile: int) -> None:
    """On a GPU some places of each tile are for views of the one before; here with tiles of any size."""
    from dataclasses import replace

    torch.manual_seed(0)
    config = ModelConfig("small", 5, 4, width=8)
    shape = (5, 16, 4)
    views = torch.rand(150, *shape)
    scorer = Scorer.of(build(config), shape, config=config)
    parts: list[Tensor] = []
    replace(scorer, tile=tile).score(150, lambda start, stop: views[start:stop], parts.append).check()
    with torch.inference_mode():
        expected = scorer.network(views).softmax(dim=1)
    np.testing.assert_allclose(torch.cat(parts), expected, atol=1e-6)


class Instance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = nn.InstanceNorm2d(5), nn.Linear(5, 3)

    def forward(self, views: Tensor) -> Tensor:
        result: Tensor = self.last(self.norm(views).amax(dim=(2, 3)))
        return result


@pytest.mark.parametrize(
    "network",
    [
        Instance(),
        nn.Sequential(nn.Flatten(), nn.Linear(320, 333), nn.ReLU(), nn.Linear(333, 10)),
        nn.Sequential(nn.Conv2d(5, 10, 3), nn.GroupNorm(2, 10), nn.GELU(), nn.Flatten(), nn.Linear(280, 7)),
        normalised(),
    ],
    ids=["instance norm", "odd widths", "group norm", "batch norm in eval mode"],
)
def test_networks_that_look_at_each_view_alone_are_not_refused(network: nn.Module) -> None:
    found = defender(network)
    images = pictures(2 * BETWEEN + 4)
    together = found.scores(images)
    np.testing.assert_allclose(
        np.concatenate([found.scores(image[None]) for image in images[:9]]), together[:9], atol=1e-6
    )


class Scaled(nn.Module):
    """Logits that are as confident as a network's after training, so that a few votes move when they are rounded."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(320, 64), nn.Linear(64, 4)

    def forward(self, views: Tensor) -> Tensor:
        result: Tensor = 30 * self.second(self.first(views.flatten(1)))
        return result


def _changed(name: str) -> Any:
    if name == "autocast":
        return torch.autocast("cpu", torch.bfloat16)
    if name == "gradients":
        return torch.enable_grad()
    return _set(
        *{
            "default dtype": (torch.get_default_dtype, torch.set_default_dtype, torch.float64),
            "matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
        }[name]
    )


class _set:  # noqa: N801 (a context, as torch's own)
    def __init__(self, read: Any, write: Any, value: Any) -> None:
        self.write, self.value, self.before = write, value, read()

    def __enter__(self) -> None:
        self.write(self.value)

    def __exit__(self, *error: object) -> None:
        self.write(self.before)


@pytest.mark.parametrize("name", ["autocast", "gradients", "default dtype", "matmul precision"])
def test_what_is_set_around_our_calls_changes_no_vote(name: str) -> None:
    network, images = Scaled(), pictures(64)
    expected = defender(network).scores(images)
    with _changed(name):
        before = (torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), torch.is_grad_enabled())
        inside = defender(network)
        np.testing.assert_array_equal(inside.scores(images), expected)
        assert (torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()) == before
        if name == "matmul precision":
            assert torch.get_float32_matmul_precision() == "medium"
    np.testing.assert_array_equal(inside.scores(images), expected)


def test_our_own_settings_are_in_force_while_a_network_runs() -> None:
    seen: list[tuple[Any, ...]] = []

    def network(views: Tensor) -> Tensor:
        matmul = torch.backends.mkldnn.matmul.fp32_precision
        seen.append((torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), matmul))
        return views.mean(dim=(2, 3))

    for name in ("autocast", "gradients", "default dtype", "matmul precision"):
        with _changed(name):
            defender(network).predict(pictures(2))
    assert set(seen) == {(torch.float32, False, False, "ieee")}
