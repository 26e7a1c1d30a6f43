"""Learning from bounds: intervals that grow, the worst of several placements, Adam, and runs that go on."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from intervals import hidden, leads
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from majorcert.defences.bounds import Sizes
from majorcert.errors import ModelError
from majorcert.nets import train as train_module
from majorcert.nets.bound_learner import N_LOTS, BoundLearner
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.ibp import Widening
from majorcert.nets.optimizer import descend
from majorcert.nets.patched import Patches
from majorcert.nets.processes import Processes
from majorcert.nets.recipes import adapted, recipe
from majorcert.nets.train import Progress, train

torch.set_num_threads(1)


def toy(n: int = 24) -> Dataset:
    """Dark and bright pictures."""
    labels = torch.arange(n) % 2
    images = torch.randint(0, 100, (n, 3, 8, 8), generator=torch.Generator().manual_seed(0)) + 150 * labels.view(
        -1, 1, 1, 1
    )
    return Dataset(images.to(torch.uint8), labels, ("dark", "bright"), "toy", "train")


def config(**changes: object) -> TrainConfig:
    found = adapted(recipe("ibp", "bounds:2,3x1", 3, 2), 3, width=3)
    return replace(found, epochs=4, batch_size=8, **changes)


def learner(**changes: object) -> BoundLearner:
    made = BoundLearner(config(**changes), toy(), Processes("cpu"))
    made.prepare(torch.arange(8), 2, 3)
    return made


def test_intervals_grow_from_nothing_to_everything() -> None:
    widening = Widening(begins=0.2, ends=0.6, clean=0.1)
    assert [widening.at(done)[0] for done in (0.0, 0.2, 0.4, 0.6, 1.0)] == pytest.approx([0, 0, 0.5, 1, 1])
    assert [widening.at(done)[1] for done in (0.0, 0.3, 0.6, 1.0)] == pytest.approx([1, 0.55, 0.1, 0.1])
    for wrong in ({"tried": 0}, {"clean": 1.1}, {"sparing": -0.1}, {"begins": 0.7}):
        with pytest.raises(ModelError, match="tried"):
            Widening(**wrong)  # type: ignore[arg-type]


def whole_image(made: BoundLearner, images: Tensor, labels: Tensor, patches: Patches) -> Tensor:
    """(patches,) the loss of the worst case, by intervals over the whole image."""
    under = torch.zeros(len(patches.image), 1, 8, 8)
    for each, (top, left), (height, width) in zip(under, patches.start.tolist(), patches.sides.tolist(), strict=True):
        each[:, top : top + height, left : left + width] = 1
    truth = labels[patches.image]
    least = leads(made.model, hidden(images[patches.image], under, made.width), truth)
    return F.cross_entropy(-least, truth, reduction="none")


def test_a_patch_lies_anywhere_in_the_image() -> None:
    made = learner()
    lots = torch.rand(4000, N_LOTS, generator=torch.Generator().manual_seed(0))
    lots[0], lots[1] = 0.0, 1.0 - 2**-24
    drawn = made._patches(lots)
    assert torch.equal(drawn.image, torch.arange(4000))
    assert set(map(tuple, drawn.sides.tolist())) == {(2, 2), (3, 1)}
    assert int(drawn.start.min()) == 0
    assert ((drawn.start + drawn.sides) <= 8).all()
    seen = {(*start, *sides) for start, sides in zip(drawn.start.tolist(), drawn.sides.tolist(), strict=True)}
    assert len(seen) == Sizes(2, "3x1").n_placements((8, 8))


def test_one_is_tried_in_each_part_of_the_image() -> None:
    made = learner(widening=Widening(tried=3, tried_from=0.0))
    made.begin(0)
    drawn = made._patches(torch.rand(500, 9 * N_LOTS))
    room = 8 - drawn.sides
    part = (3 * drawn.start // (room + 1)).view(9, 500, 2)
    assert torch.equal(drawn.image.view(9, 500), torch.arange(500).expand(9, -1))
    for number, each in enumerate(part):
        assert (each - torch.tensor(divmod(number, 3))).abs().max() <= 1, "in its part, or on its border"
    assert len({tuple(start) for start in drawn.start[drawn.sides[:, 0] == 2].tolist()}) == 49


@pytest.mark.parametrize("strides", [(1, 2, 1), (2, 1), (1, 2)])
def test_the_worst_of_the_tried_placements_is_learned_from(strides: tuple[int, ...]) -> None:
    """At the borders too: 36 placements of each image of 8x8; and by the same gradient as over the whole image."""
    network = replace(config().model, strides=strides)
    made = learner(model=network, widening=Widening(tried=6, tried_from=0.5))
    assert made.begin(0)
    assert made.tried == 1
    assert made.begin(2)
    assert made.tried == 6
    images, labels, lots = torch.rand(8, 3, 8, 8), torch.arange(8) % 2, torch.rand(8, 36 * N_LOTS)
    for width in (0.4, 1.0):
        made.width.fill_(width)
        made.clean.fill_(0.0)
        found = made._losses(made._views(images, lots, None), F.one_hot(labels).float())[1]
        each = whole_image(made, images, labels, made.drawn).view(36, 8)
        torch.testing.assert_close(found, each.amax(dim=0))
        assert (each.amax(dim=0) > each.amin(dim=0)).all()
        ours = torch.autograd.grad(found.sum(), made.weights)
        torch.testing.assert_close(ours, torch.autograd.grad(each.amax(dim=0).sum(), made.weights))


def test_the_loss_is_of_the_image_and_of_the_worst_case() -> None:
    made = learner(widening=Widening())
    images, labels = torch.rand(8, 3, 8, 8), torch.arange(8) % 2
    lots = torch.rand(8, N_LOTS)
    views = made._views(images, lots, None)
    plain = F.cross_entropy(made.model(images), labels, reduction="none")
    made.width.fill_(0.0)
    made.clean.fill_(0.3)
    torch.testing.assert_close(made._losses(views, F.one_hot(labels).float())[1], plain)
    made.width.fill_(1.0)
    worst = whole_image(made, images, labels, made.drawn)
    torch.testing.assert_close(made._losses(views, F.one_hot(labels).float())[1], 0.3 * plain + 0.7 * worst)
    assert (worst > plain).all()
    sparing = learner(widening=Widening(sparing=0.5))
    sparing.width.fill_(1.0)
    sparing.clean.fill_(0.0)
    spared = sparing._losses(sparing._views(images, lots, None), F.one_hot(labels).float())[1]
    torch.testing.assert_close(spared, 2 * (1 - (-worst).exp().sqrt()))


def test_adam_is_adam() -> None:
    made = learner(clip=0.0, weight_decay=0.03, widening=Widening())
    twin = [weight.detach().clone().requires_grad_(True) for weight in made.weights]
    theirs = torch.optim.AdamW(twin, lr=1e-3, betas=(0.9, 0.999), weight_decay=0.03)
    chance = torch.Generator().manual_seed(0)
    for step in range(4):
        made.prepare(torch.arange(8), step, 3)
        rate = made.config.learning_rate(step, 3)
        theirs.param_groups[0]["lr"] = rate
        for weight, other in zip(made.weights, twin, strict=True):
            weight.grad = torch.randn(weight.shape, generator=chance)
            other.grad = weight.grad.clone()
        with torch.no_grad():
            descend(made.config, made.lr, made.weights, made._gradients(), made.velocity, made.squares)
        theirs.step()
    for weight, other in zip(made.weights, twin, strict=True):
        torch.testing.assert_close(weight.detach(), other.detach(), atol=1e-6, rtol=1e-3)


def test_a_long_gradient_is_shortened() -> None:
    for clip, expected in ((0.5, 0.5), (1e9, None)):
        made = learner(optimizer="sgd", momentum=0.0, clip=clip, weight_decay=0.0)
        before = [weight.detach().clone() for weight in made.weights]
        for weight in made.weights:
            weight.grad = torch.ones_like(weight)
        made.lr.fill_(1.0)
        with torch.no_grad():
            descend(made.config, made.lr, made.weights, made._gradients(), made.velocity, made.squares)
        moved = torch.cat([(new - old).flatten() for new, old in zip(made.weights, before, strict=True)]).norm()
        full = sum(weight.numel() for weight in made.weights) ** 0.5
        assert float(moved.detach()) == pytest.approx(expected or full, rel=1e-4)


def test_an_interrupted_run_ends_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_module, "SECONDS_BETWEEN_REPORTS", 0)
    told: list[Progress] = []

    def stop(at: Progress) -> None:
        told.append(at)
        if len(told) == 7:
            raise KeyboardInterrupt

    wanted = config(widening=Widening(begins=0.0, ends=0.5, tried=2, tried_from=0.5))
    train(wanted, toy(), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(wanted, toy(), tmp_path / "parts", checkpoint_every=1, progress=stop)
    train(wanted, toy(), tmp_path / "parts", checkpoint_every=1, resume=True)
    one, other = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "parts"))
    assert one == other


def test_other_defenders_do_not_learn_so() -> None:
    other = recipe("small", "columns:4", 3, 2)
    with pytest.raises(ModelError, match="bounds"):
        BoundLearner(other, toy(), Processes("cpu"))
