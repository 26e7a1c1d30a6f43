"""Local-feature networks: each cell sees its field and nothing else, and what is certified of them holds for pixels."""

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from views import cut_all

import majorcert as mc
from majorcert.errors import ModelError
from majorcert.nets import voter as voting
from majorcert.nets.averaging import averaged
from majorcert.nets.data import Dataset
from majorcert.nets.learner import Learner
from majorcert.nets.local import kernels
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.processes import Processes
from majorcert.nets.recipes import recipe
from majorcert.nets.views import Cutter

torch.set_num_threads(1)
NETWORKS: dict[str, dict[str, Any]] = {
    "fields:3": {"name": "local:3", "blocks": (1,), "strides": (1,)},
    "fields:7/2": {"name": "local:7", "blocks": (1, 2), "strides": (1, 2)},
    "fields:9x3": {"name": "local:0x3", "blocks": (1, 1), "strides": (1, (2, 1))},
    "fields:9x4": {"name": "local:0x4", "blocks": (1, 1), "strides": (1, (2, 1))},
    "fields:5x9/2": {"name": "local:5x0", "blocks": (1, 1), "strides": ((2, 1), (1, 2))},
}
SIZE = (9, 8)
"""A stride of 2 fits in one side of it, and not in the other."""


def network(spec: str, seed: int = 0, balance: float = 0.0) -> tuple[nn.Module, ModelConfig]:
    torch.manual_seed(seed)
    config = ModelConfig(in_channels=3, n_classes=3, width=6, **NETWORKS[spec])
    built = build(config).eval()
    with torch.no_grad():
        for name, weight in built.named_parameters():
            if name.endswith("weight") and weight.ndim == 4:
                weight.normal_(std=(2 / weight[0].numel()) ** 0.5)
        head: Any = built.head[1]  # type: ignore[index]
        head.weight.mul_(8)
        # Balanced, no label wins everywhere: the mean of all cells is the same for each.
        views = cut_all(Cutter.of(mc.Fields(1), "whole", SIZE), black_and_white(10, SIZE) / 255)
        head.bias.sub_(balance * built(views).mean(dim=(0, 2, 3)))
    return built, config


@pytest.mark.parametrize("spec", NETWORKS)
def test_a_cell_sees_its_field_and_nothing_else(spec: str) -> None:
    """By the gradient of every cell, in positive numbers throughout, where no paths cancel; padding included."""
    built, _ = network(spec)
    with torch.no_grad():
        for weight in built.parameters():
            weight.abs_()
    image = torch.rand(1, 3, *SIZE, requires_grad=True)
    logits: Tensor = built(image)[0].sum(dim=0).flatten()
    regions = mc.strategy(spec).regions(SIZE)
    assert len(logits) == len(regions)
    for logit, region in zip(logits, regions, strict=True):
        (gradient,) = torch.autograd.grad(logit, image, retain_graph=True)
        np.testing.assert_array_equal((gradient != 0).any(dim=1)[0].numpy(), region)


@pytest.mark.parametrize("spec", NETWORKS)
def test_a_pixel_moves_the_cells_that_it_touches_and_no_other(spec: str) -> None:
    """By impulses through the product's own path to scores, to the last bit, at every pixel."""
    built, config = network(spec)
    found = voting.Voter.of(built, mc.strategy(spec), "whole", None, image_size=SIZE, channels=1, config=config)
    image = torch.randint(0, 256, (1, 1, *SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    painted = image.repeat(SIZE[0] * SIZE[1], 1, 1, 1)
    for number, (row, column) in enumerate(product(range(SIZE[0]), range(SIZE[1]))):
        painted[number, 0, row, column] = 255 - painted[number, 0, row, column]
    scores = found.vote(torch.cat([image, painted]), keep_scores=True).scores
    assert scores is not None
    moved = (scores[1:] != scores[:1]).any(dim=2).numpy()
    touched = mc.strategy(spec).touched(mc.Patch(1), SIZE)
    expected = np.stack([touched.mask(row, column) for row, column in product(range(SIZE[0]), range(SIZE[1]))])
    assert not (moved & ~expected).any()
    assert moved.sum() > 0.8 * expected.sum()


@pytest.mark.parametrize(
    ("spec", "smaller"),
    [
        ("fields:3", "fields:3x1"),
        ("fields:3", "fields:2x3"),
        ("fields:7/2", "fields:6/2"),
        ("fields:9x3", "fields:9x2"),
    ],
)
def test_a_network_that_sees_more_than_its_field_is_refused(spec: str, smaller: str) -> None:
    built, config = network(spec)
    about: dict[str, Any] = {"image_size": SIZE, "channels": 1}
    for known in (config, None):
        with pytest.raises(ModelError, match=r"cell \d+ of the map looks at (row|column) \d+ .* outside of its field"):
            voting.Voter.of(built, mc.strategy(smaller), "whole", None, config=known, **about)
    with pytest.raises(ModelError, match=r"logits of shape \(1, .*, 9, 8\), got \(1, 3, 5, 4\)"):
        voting.Voter.of(network("fields:7/2")[0], mc.strategy("fields:7"), "whole", None, **about)


class Watching(nn.Module):
    """Says otherwise everywhere where its last row is light: a comparison, which makes a number of what is none."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, views: Tensor) -> Tensor:
        light = (views[:, :1, -1:].mean(dim=(2, 3), keepdim=True) > 0.95).float()
        said: Tensor = self.inner(views) + light * torch.tensor([1.0, 0.0, 0.0])[:, None, None]
        return said


def test_a_network_that_makes_numbers_of_what_is_none_is_found_out_by_black_and_white() -> None:
    with pytest.raises(ModelError, match="looks at row 8 of the image, outside of its field"):
        mc.Defender(Watching(network("fields:3")[0]), "fields:3", "whole", image_size=SIZE, channels=1)


def test_zero_weights_hide_nothing_from_the_check() -> None:
    """What a network could see counts, whatever its weights are now."""
    built, config = network("fields:3")
    with torch.no_grad():
        for weight in built.parameters():
            weight.zero_()
    with pytest.raises(ModelError, match="outside of its field"):
        voting.Voter.of(built, mc.Fields(1), "whole", None, image_size=SIZE, channels=1, config=config)


@pytest.mark.parametrize(
    ("length", "blocks", "strides", "expected"),
    [
        (1, (1,), (1,), [1, 1, 1]),
        (4, (1, 1), (1, 1), [2, 2, 1, 2, 1]),
        (5, (2, 1), (1, 1), [3, 2, 1, 1, 1, 2, 1]),
        (8, (1, 1), (2, 1), [4, 3, 1, 2, 1]),
        (0, (1,), (2,), [3, 3, 3]),
    ],
)
def test_convolutions_become_longer_in_turn_while_the_field_has_room(
    length: int, blocks: tuple[int, ...], strides: tuple[int, ...], expected: list[int]
) -> None:
    assert kernels(length, blocks, strides) == expected


@pytest.mark.parametrize("name", ["local:", "local:3x3x3", "local:a"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="local"):
        build(ModelConfig(name, 3, 2))


RULES: dict[str, dict[str, Any]] = {
    "votes": {"threshold": 0.4},
    "clipped": {"threshold": None},
    "masked:1x1": {"threshold": None},
    "masked:1x1/0.2": {"threshold": None},
}


def defender(
    spec: str, rule: str, seed: int = 0, balance: float = 0.0, size: tuple[int, int] = SIZE, **options: Any
) -> mc.Defender:
    built, config = network(spec, seed, balance)
    about: dict[str, Any] = {"image_size": size, "channels": 1, "config": config, **RULES[rule]}
    return mc.Defender(built, spec, "whole", rule=rule, **about, **options)


def black_and_white(n: int, size: tuple[int, int]) -> Tensor:
    """From plain images to noise."""
    generator = torch.Generator().manual_seed(3)
    share = torch.linspace(0, 0.5, n)[:, None, None, None]
    return torch.where(torch.rand(n, 1, *size, generator=generator) < share, 255, 0).to(torch.uint8)


def attacked(images: Tensor, patch: tuple[int, int]) -> tuple[Tensor, Tensor, list[tuple[int, int]]]:
    """Every content of four greys at every placement of each image, which image each is, and where."""
    painted, which, where = [], [], []
    height, width = images.shape[2:]
    for image, top, left in product(range(len(images)), range(height - patch[0] + 1), range(width - patch[1] + 1)):
        for content in product((0, 85, 170, 255), repeat=patch[0] * patch[1]):
            one = images[image].clone()
            one[0, top : top + patch[0], left : left + patch[1]] = torch.tensor(content).view(patch)
            painted.append(one)
            which.append(image)
            where.append((top, left))
    return torch.stack(painted), torch.tensor(which), where


@pytest.mark.parametrize(
    ("rule", "cases"),
    [
        ("votes", [(0, 0.9)]),
        ("clipped", [(2, 0.9), (11, 0.5)]),
        pytest.param("masked:1x1", [(0, 0.9)], marks=pytest.mark.slow),
    ],
)
def test_no_certified_label_flips_whatever_is_painted(rule: str, cases: list[tuple[int, float]]) -> None:
    """Real pixels: every placement and every content of a pixel, of four greys."""
    size, seen = (7, 7), Counter[str]()
    images = black_and_white(3, size)
    painted, which, _ = attacked(images, (1, 1))
    for seed, balance in cases:
        found = defender("fields:3", rule, seed, balance, size)
        verdict, labels = found.certify(images, mc.Patch(1)), found.predict(painted)
        flipped = labels != verdict.predicted[which.numpy()]
        assert not (flipped & verdict.certified[which.numpy()]).any()
        seen += Counter(f"certified {each}" for each in verdict.certified.tolist())
        seen["flipped"] += int(flipped.sum())
        assert (found.predict(images) == verdict.predicted).all()
    assert len(+seen) == 3, seen


def test_the_enumeration_finds_a_field_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that the check refuses, let pass: cells that count as untouched change."""
    monkeypatch.setattr(voting, "check_sight", lambda *given: None)
    built, config = network("fields:3")
    size = (6, 6)
    images = black_and_white(4, size)
    painted, which, where = attacked(images, (1, 1))
    moved = {}
    for spec in ("fields:3", "fields:2x3"):
        found = mc.Defender(built, spec, "whole", 0.4, image_size=size, channels=1, config=config)
        touched = found.strategy.touched(mc.Patch(1), size)
        hit = np.stack([touched.mask(*place) for place in where])
        before, after = found.scores(images)[which.numpy()], found.scores(painted)
        moved[spec] = bool(((before != after).any(axis=2) & ~hit).any())
    assert moved == {"fields:3": False, "fields:2x3": True}


@pytest.mark.parametrize(
    "rule", ["clipped", *(pytest.param(each, marks=pytest.mark.slow) for each in ("votes", "masked:1x1/0.2"))]
)
def test_a_map_is_saved_loaded_voted_and_continued(rule: str, tmp_path: Path) -> None:
    images = black_and_white(9, SIZE)
    dataset = Dataset(images, torch.arange(9) % 3, tuple("abc"), "tiny", "test")
    found, folder, patch = defender("fields:7/2", rule, class_names=tuple("abc")), tmp_path / "run", mc.Patch(1)
    found.save(folder)
    loaded = mc.Defender.load(folder)
    assert (loaded.rule, str(loaded.strategy), loaded.view) == (rule, "fields:7/2", "whole")
    loaded.vote(dataset, folder / "store", chunk=4)
    evidence, direct = mc.load_evidence(folder / "store"), found.evidence(images)
    assert type(evidence) is type(direct)
    assert evidence.label.tolist() == direct.label.tolist() == loaded.to("cpu").predict(images).tolist()
    assert mc.certify([evidence], patch).safe.tolist() == mc.certify([direct], patch).safe.tolist()
    loaded.vote(dataset, folder / "store", chunk=4)
    assert evidence.provenance["weights_sha256"] == found.weights_sha256


def test_what_does_not_vote_has_no_ballots() -> None:
    for rule in ("clipped", "masked:1x1"):
        with pytest.raises(ModelError, match=f"defenders that vote, got one with the rule '{rule}'"):
            defender("fields:3", rule).ballots(black_and_white(1, SIZE))
        with pytest.raises(ModelError, match="defenders that vote"):
            _ = mc.Ensemble([defender("fields:3", rule)]).voting


@pytest.mark.parametrize("rule", ["", "vote", "masked", "masked:5x5/1.5", "masked:5x5/1", "clipped:3"])
def test_other_rules_are_refused(rule: str) -> None:
    built, _ = network("fields:3")
    with pytest.raises(ModelError, match=r"a rule is 'votes', 'clipped' or such as 'masked:5x5/0.1'"):
        mc.Defender(built, "fields:3", "whole", None, image_size=SIZE, channels=1, rule=rule)


def test_whole_images_are_for_fields_alone() -> None:
    with pytest.raises(ModelError, match="'whole', got 'whole' for columns:2"):
        mc.Defender(
            build(config := ModelConfig("small", 3, 2, width=4)),
            "columns:2",
            "whole",
            image_size=SIZE,
            channels=1,
            config=config,
        )
    with pytest.raises(ModelError, match=r"this recipe is for fields.* got columns:2"):
        recipe("bagcert", "columns:2", 1, 3)


def test_one_view_is_the_whole_image() -> None:
    cutter = Cutter.of(mc.Fields(3, stride=2), "whole", SIZE)
    assert (cutter.n_views, cutter.map_size, cutter.n_ablations, cutter.view_size) == (1, (5, 4), 20, SIZE)
    images = torch.rand(2, 1, *SIZE)
    assert torch.equal(cut_all(cutter, images)[:, :1], images)


@pytest.mark.parametrize(("spec", "n_cells"), [("fields:9x3", 8), ("fields:5x9/2", 5), ("fields:7/2", 20)])
def test_a_network_learns_from_one_cell_of_each_image(spec: str, n_cells: int) -> None:
    """In training mode it says of one window what the whole map says of that cell, at the border too; of any cell."""
    built, _ = network(spec)
    image = torch.rand(1, 3, *SIZE)
    every = built(image).flatten(2)
    for part in built.modules():
        part.training = not isinstance(part, nn.BatchNorm2d)
    torch.manual_seed(0)
    some = built(image.expand(200, -1, -1, -1)).flatten(2)
    assert some.shape[2] == 1
    cells = (every - some).abs().sum(dim=1).argmin(dim=1)
    torch.testing.assert_close(some[:, :, 0], every[0, :, cells].T)
    assert set(cells.tolist()) == set(range(n_cells))


def test_a_whole_map_is_learned_from_cell_by_cell() -> None:
    """A network of one's own, which does not choose a window."""
    own, views, labels = nn.Conv2d(3, 3, 1), torch.rand(4, 3, *SIZE), torch.tensor([0, 1, 2, 0])
    dataset = Dataset(black_and_white(4, SIZE), labels, tuple("abc"), "tiny", "train")
    learner = Learner(recipe("bagcert", "fields:3", 1, 3), dataset, Processes("cpu"), start=own)
    logits, losses = learner._losses(views, nn.functional.one_hot(labels).float())
    expected = nn.functional.cross_entropy(own(views), labels[:, None, None].expand(-1, *SIZE), reduction="none")
    torch.testing.assert_close(losses, expected.mean(dim=(1, 2)))
    torch.testing.assert_close(logits, own(views).mean(dim=(2, 3)))


def test_a_map_is_mirrored_back_where_fields_are_their_own_mirror_images(tmp_path: Path) -> None:
    images = black_and_white(3, SIZE)
    for spec, rule in (("fields:9x3", "votes"), ("fields:7/2", "votes"), ("fields:9x3", "clipped")):
        folder, out = (tmp_path / part / rule / spec[-1] for part in ("run", "out"))
        defender(spec, rule).save(folder)
        averaged([folder], out, mirrored=True)
        if spec == "fields:7/2":  # around the columns 0, 2, 4, 6 of 8: the mirror images lie around 1, 3, 5, 7
            with pytest.raises(ModelError, match="outside of its field"):
                mc.Defender.load(out)
            continue
        both = mc.Defender.load(out).scores(images)
        np.testing.assert_allclose(mc.Defender.load(out).scores(images.flip(3)), both[:, ::-1], atol=1e-6)
        one = mc.Defender.load(folder)
        np.testing.assert_allclose(both, (one.scores(images) + one.scores(images.flip(3))[:, ::-1]) / 2, atol=1e-6)
