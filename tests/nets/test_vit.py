"""The vision transformer sees the visible pixels of a view, and where they are; nothing else."""

import numpy as np
import pytest
import torch

from majorcert.errors import ModelError
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.defender import Defender
from majorcert.nets.hiding import read_hiding
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.vit import VisionTransformer

torch.set_num_threads(1)
CONFIG = ModelConfig("vit", 5, 4, width=32, blocks=(2,))


def transformer(seed: int = 0, side: int = 2) -> VisionTransformer:
    torch.manual_seed(seed)
    network = VisionTransformer(5, 4, width=32, depth=2, side=side).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return network


@pytest.mark.parametrize("spec", ["columns:3", "rows:2", "blocks:5/2", "columns:5/3"])
def test_hidden_pixels_change_no_score(spec: str) -> None:
    defender = Defender(transformer(), spec, "crop", None, image_size=(8, 10), config=CONFIG)
    regions = torch.from_numpy(defender.strategy.regions((8, 10)))[:, None]
    images = torch.rand(1, 3, 8, 10, generator=torch.Generator().manual_seed(0)).expand(len(regions), -1, -1, -1)
    other = torch.where(regions, images, 1 - images)
    own = np.arange(len(regions))
    assert np.array_equal(defender.scores(images)[own, own], defender.scores(other)[own, own])
    seen = torch.where(regions, 1 - images, images)
    assert (defender.scores(images)[own, own] != defender.scores(seen)[own, own]).any(axis=1).all()


@pytest.mark.parametrize(("size", "side"), [((5, 7), 2), ((4, 4), 2), ((6, 5), 4)])
def test_every_pixel_is_in_one_token(size: tuple[int, int], side: int) -> None:
    views = torch.arange(5 * size[0] * size[1], dtype=torch.float32).view(1, 5, *size) + 1
    tokens = transformer(side=side).tokens(views)
    assert tokens.shape == (1, -(-size[0] // side) * -(-size[1] // side), 5 * side**2)
    assert sorted(tokens[tokens > 0].tolist()) == sorted(views.flatten().tolist())
    first = views[0, :, :side, :side]
    assert torch.equal(
        tokens[0, 0].view(5, side, side), torch.nn.functional.pad(first, (0, 0, 0, side - first.shape[1]))
    )


def test_it_matters_where_a_view_was() -> None:
    views = torch.rand(1, 5, 6, 4)
    moved = views.clone()
    moved[:, -1] += 0.25
    network = transformer()
    assert not torch.allclose(network(views), network(moved))


def test_it_is_for_crops_and_widths_that_heads_divide() -> None:
    canvas = ModelConfig("vit", 6, 4, width=32, blocks=(2,))
    with pytest.raises(ModelError, match="crop"):
        Blueprint(read_hiding("columns:2"), "canvas", 0.3, (8, 10), 3, tuple("abcd"), canvas)
    with pytest.raises(ModelError, match="32"):
        build(ModelConfig("vit", 5, 4, width=33))
