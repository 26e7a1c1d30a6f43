"""What is chosen where nobody says: strategies, networks and schedules that suit the images, told before it begins."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import majorcert as mc
from majorcert.core.regions import strategy
from majorcert.core.threat import as_patch
from majorcert.errors import ModelError
from majorcert.nets import estimate, learner, validation
from majorcert.nets import train as training
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset, load_to_train
from majorcert.nets.defaults import scaled, scaled_apart, suited
from majorcert.nets.defender import Defender
from majorcert.nets.estimate import duration, n_looked, seconds_of
from majorcert.nets.mirrors import mirrored_classes
from majorcert.nets.recipes import RECIPES, digits, recipe, strategies_of
from majorcert.nets.scorer import Scorer
from majorcert.nets.train import Epoch
from majorcert.nets.verbs import train

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize("name", RECIPES)
def test_at_32x32_strategies_are_those_of_the_recipe(name: str) -> None:
    side = 8 if name == "digits" else 32
    assert scaled("masks:12x9/3", (224, 224), patch_given=True) == "masks:12x9/21"
    assert [scaled(spec, (side, side), name) for spec in strategies_of(name)] == list(strategies_of(name))


@pytest.mark.parametrize("image_size", [(28, 28), (43, 43), (64, 48), (168, 224), (224, 224), (500, 375)])
def test_strategies_grow_with_the_image(image_size: tuple[int, int]) -> None:
    """About as many views at any size, and a patch of 2% touches a minority of them."""
    for spec in ("columns:5", "columns:7", "rows:4", "blocks:12"):
        cut = strategy(scaled(spec, image_size))
        usual = 1024 if spec == "blocks:12" else 32
        assert 0.5 * usual <= cut.n_ablations(image_size) <= 2.2 * usual
        touched = cut.touched(as_patch("2%", image_size), image_size).n_touched().max()
        assert touched < cut.n_ablations(image_size) / 2
    assert scaled("columns:6", (224, 224)) == "columns:42/7"
    assert scaled("masks:5/3", (224, 224)) == "masks:35/21"
    assert scaled("masks:5/3", (64, 96)) == "masks:10x15/6"
    assert scaled("columns:32/32", (48, 60), "undefended") == "columns:60/60"


def test_small_images_make_no_two_members_alike() -> None:
    """Twice the same strategy is twice the same network: one seed, one set of weights, and no second opinion."""
    usual = strategies_of("best")
    assert scaled_apart(usual, (24, 24), "best") == ["columns:4", "columns:5", "columns:6"]
    assert scaled_apart(usual, (16, 16), "best") == ["columns:3", "columns:4", "columns:5"]
    assert scaled_apart(usual, (32, 32), "best") == list(usual)
    assert scaled_apart(usual, (2, 2), "best") == ["columns:1", "columns:2"]  # there are no more


@pytest.mark.parametrize("name", ["best", "masking", "masking-best", "small", "undefended"])
def test_the_published_schedules_are_not_touched(name: str) -> None:
    for spec in strategies_of(name):
        config = recipe(name, spec, 3, 10)
        assert suited(config, (32, 32), 40_000, CUDA) == config


def test_networks_and_schedules_suit_size_number_and_device() -> None:
    config = recipe("best", "columns:42/7", 3, 10)
    large, few, slow = (
        suited(config, size, n, device)
        for size, n, device in (((224, 224), 40_000, CUDA), ((32, 32), 700, CUDA), ((32, 32), 40_000, CPU))
    )
    assert (large.model.stem, large.model.width, large.epochs, large.augment.shift) == ("7x7", 64, 90, 28)
    assert (few.batch_size, few.lr) == (32, pytest.approx(0.05))
    assert few.epochs == config.epochs
    assert (slow.model.width, slow.epochs, slow.batch_size) == (16, 30, 512)
    assert suited(config, (32, 32), 700, CPU).epochs == 100


def test_times_are_told_in_words() -> None:
    told = [duration(seconds) for seconds in (0.2, 40, 130, 3_600, 12_300, 200_000)]
    assert told == ["1 second", "40 seconds", "2 minutes", "1.0 hours", "3.4 hours", "2.3 days"]


def many(n: int, side: int) -> Dataset:
    """So many images of one pixel value, in no memory."""
    images = torch.zeros(1, 3, 1, 1, dtype=torch.uint8).expand(n, 3, side, side)
    return Dataset(images, torch.arange(n) % 2, ("cat", "dog"), "photos", "train")


def test_hours_are_told_before_they_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """224-pixel photos with all defaults: bands in proportion, a reduced network, an estimate; nothing is made yet."""
    told: list[str] = []

    def begun(*given: object, before: Callable[[], None], **options: object) -> None:
        before()
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", begun)
    monkeypatch.setattr(estimate, "ON_CPU", 2)
    sizes = torch.tensor([[8, 8], *[[300, 400 + k] for k in range(9)]])
    held_out = replace(many(10, 224), photo_sizes=sizes, files=("tiny.png", *map(str, range(9))))
    with pytest.raises(KeyboardInterrupt):
        train(many(200_000, 224), tmp_path / "runs", device="cpu", told=told.append, validation=held_out)
    plan, time, blame = told
    assert "because of tiny.png of 8x8 pixels" in blame
    assert "columns:35/7, columns:42/7, columns:49/7: resnet of width 16, 30 epochs of 200,000 images" in plan
    assert "hours" in time or "days" in time
    assert not list(tmp_path.glob("runs/*/*"))


def test_an_estimate_is_in_proportion_to_the_work() -> None:
    config = suited(recipe("best", "columns:5", 3, 2), (32, 32), 4_000, CPU)
    once = seconds_of(replace(config, epochs=10), many(4_000, 32), CPU)
    assert once > 0
    assert seconds_of(replace(config, epochs=1_000), many(40_000, 32), CPU) > 20 * once


def quick(**changes: object) -> TrainConfig:
    return replace(digits(strategy("columns:2")), epochs=3, **changes)


def test_an_estimate_knows_of_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many views of validation images as are then looked at, where there is time for every epoch."""
    n_views, score = [0], Scorer.score

    def counted(scorer: Scorer, n: int, *how: Any) -> Any:
        n_views[0] += n
        return score(scorer, n, *how)

    monkeypatch.setattr(Scorer, "score", counted)
    monkeypatch.setattr(validation.Validation, "due", lambda judge, last: True)
    images, held_out = load_to_train("digits", "train")
    assert held_out is not None
    config, images, held_out = quick(), images.subset(torch.arange(320)), held_out.subset(torch.arange(60))
    training.train(config, images, tmp_path / "run", validation=held_out, after_epoch=lambda epoch: None)
    assert n_looked(config, images, held_out, 3 * 320) == n_views[0] == 3 * 60 * 8 + 60 * 8
    often = n_looked(replace(config, epochs=30), images, held_out, 30)
    assert 2 * 480 + 480 < often < 4 * 480, "where it takes longer than to learn: the first, the last, the threshold"
    times = iter(range(100))
    monkeypatch.setattr(estimate, "_now", lambda device: float(next(times)))  # a step takes a second
    alone, together = seconds_of(config, images, CPU), seconds_of(config, images, CPU, validation=held_out)
    assert together - alone == pytest.approx((3 * 480 + 480) / 3 * alone / 960)


def test_being_watched_changes_nothing(tmp_path: Path) -> None:
    images, validation = load_to_train("digits", "train")
    seen: list[Epoch] = []
    assert validation is not None
    dropping = replace(quick().model, name="resnet", width=4, dropout=0.3)  # which draws random numbers of its own
    config, images = quick(threshold=None, model=dropping), images.subset(torch.arange(300))
    validation = validation.subset(torch.arange(60))
    training.train(config, images, tmp_path / "alone", validation=validation)
    watching = {"before": lambda: seconds_of(config, images, CPU), "after_epoch": seen.append}
    training.train(config, images, tmp_path / "watched", validation=validation, **watching)  # type: ignore[arg-type]
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("alone", "watched")]
    assert weights[0] == weights[1]
    assert [epoch.epoch for epoch in seen] == [1, 2, 3]
    assert seen[0].checked is not None
    last = seen[-1].checked
    assert last is not None
    verdict = Defender.load(tmp_path / "watched").certify(validation.images, as_patch(last.patch))
    assert (last.clean, last.certified, last.n) == mc.score(verdict, validation.labels)
    assert last.n == 60
    line = json.loads((tmp_path / "watched" / "log.jsonl").read_text().splitlines()[-1])
    assert (line["clean"], line["certified"], line["abstained"]) == (last.clean, last.certified, last.abstained)


def test_images_that_the_device_cannot_hold_are_brought_to_it_batch_by_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, _ = load_to_train("digits", "train")
    some = images.subset(torch.arange(200))
    training.train(quick(), some, tmp_path / "near")
    monkeypatch.setattr(learner, "fits", lambda images, device: False)
    training.train(quick(), some, tmp_path / "far")
    near, far = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("near", "far"))
    assert near == far


def test_epochs_may_be_raised_when_a_run_is_resumed_and_not_lowered(tmp_path: Path) -> None:
    images, _ = load_to_train("digits", "train")
    some = images.subset(torch.arange(200))
    training.train(replace(quick(), epochs=2), some, tmp_path)
    first = (tmp_path / "weights.safetensors").read_bytes()
    longer = training.train(replace(quick(), epochs=4), some, tmp_path, resume=True)
    assert longer.epochs == 4
    assert (tmp_path / "weights.safetensors").read_bytes() != first
    assert json.loads((tmp_path / "defender.json").read_text())["training"]["config"]["epochs"] == 4
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 4
    with pytest.raises(ModelError, match=r"config.epochs was 4, now 3"):
        training.train(replace(quick(), epochs=3), some, tmp_path, resume=True)
    with pytest.raises(ModelError, match=r"config.lr was"):
        training.train(replace(quick(), epochs=9, lr=0.3), some, tmp_path, resume=True)


def arrows(n: int = 40) -> Dataset:
    """A bar at the left, a bar at the right, and one in the middle, each under its own noise."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 60, (3 * n, 1, 16, 16), dtype=np.uint8)
    for label, at in enumerate((2, 12, 7)):
        images[label * n : (label + 1) * n, :, 3:13, at : at + 2] = 200
    labels = torch.arange(3).repeat_interleave(n)
    return Dataset(torch.from_numpy(images), labels, ("left", "right", "middle"), "signs", "train")


def test_classes_that_the_mirror_makes_of_each_other_are_found(tmp_path: Path) -> None:
    assert mirrored_classes(arrows()) == [("left", "right")]
    told: list[str] = []
    options = {"strategies": ["columns:4"], "recipe": "small", "width": 4, "epochs": 1, "device": "cpu"}
    train(arrows(8), tmp_path / "flipped", told=told.append, **options)  # type: ignore[arg-type]
    assert any("'left' looks like 'right'" in sentence and "--no-flip" in sentence for sentence in told)
    told.clear()
    train(arrows(8), tmp_path / "plain", told=told.append, flip=False, **options)  # type: ignore[arg-type]
    assert not any("mirror" in sentence for sentence in told)
    card = json.loads((tmp_path / "plain" / "defender.json").read_text())
    assert card["training"]["config"]["augment"]["flip"] is False
