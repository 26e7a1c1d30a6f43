"""`mc.attack` from Python: no terminal, no files of the user's but the folder that it is given."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import majorcert as mc
from majorcert.attacks import run
from majorcert.attacks.attack import Progress, attack
from majorcert.attacks.effort import Effort
from majorcert.errors import DataError, ModelError
from majorcert.nets.data import Dataset
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.undefended import undefended

torch.set_num_threads(1)
SIZE = (8, 10)
LEAST = Effort(restarts=2, steps=3, placements=2, probed=3, cheap=4)
NAMES = ("red", "green", "blue")


def brightness(views: Tensor) -> Tensor:
    return 12 * views[:, :3].mean(dim=(2, 3))


def ensemble() -> Ensemble:
    kind = {"image_size": SIZE, "class_names": NAMES}
    return Ensemble([Defender(brightness, spec, "crop", 0.4, **kind) for spec in ("rows:3", "columns:4/3")])


def pictures(n: int = 12) -> Dataset:
    """Each a little brighter in the colour of its label; the later ones by much more."""
    images = torch.randint(60, 120, (n, 3, *SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    for k in range(n):
        images[k, k % 3] += 10 * k
    return Dataset(images, torch.arange(n) % 3, NAMES, "made", "test")


def test_it_breaks_some_and_nothing_that_is_certified(tmp_path: Path) -> None:
    told: list[Progress] = []
    plain = undefended(brightness, image_size=SIZE, class_names=NAMES)
    found = attack(
        ensemble(), pictures(), mc.Patch(2), tmp_path, undefended=plain, n_images=9, effort=LEAST, progress=told.append
    )
    assert found.complaints == ()
    defended, whole = found.summary["defended"], found.summary["undefended"]
    assert found.summary["n"] == 9
    assert 0 < defended["certified"] <= defended["under_attack"] < defended["clean"]
    assert whole["certified"] == 0
    assert {now.classifier for now in told} == {"defended", "undefended"}
    assert (told[-1].steps, told[-1].n_images) == (told[-1].n_steps, 9)
    again = mc.attack(ensemble(), pictures(), "2x2", tmp_path, undefended=plain, n_images=9, effort=LEAST)
    assert again.summary == found.summary, "what is there is not done again"


def test_a_broken_promise_of_a_pool_is_kept_by_what_each_member_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(*asked: Any) -> mc.Verdict:
        verdict = mc.majorcert(*asked)
        return replace(verdict, certified=np.ones_like(verdict.certified))

    monkeypatch.setattr(run, "majorcert", planted)
    found = attack(Ensemble(ensemble().defenders, pooled=True), pictures(), 2, tmp_path, effort=LEAST)
    assert "broken promises, defended" in found.complaints[0]
    first = next((tmp_path / "broken").iterdir())
    strategies = [str(mc.Ballots.load(first / f"{name}.zarr").strategy) for name in ("before-1", "after-1", "after-2")]
    assert strategies == ["rows:3", "rows:3", "columns:4/3"]


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    images = pictures()
    unlabelled = Dataset(images.images, None, NAMES, "made", "test")
    with pytest.raises(DataError, match="made has no labels"):
        attack(ensemble(), unlabelled, mc.Patch(2), tmp_path / "out")
    with pytest.raises(ModelError, match="'float32' or 'bfloat16' or 'float16', got 'half'"):
        attack(ensemble(), images, mc.Patch(2), tmp_path / "out", precision="half")  # type: ignore[arg-type]
    others = Dataset(images.images, images.labels, ("a", "b", "c"), "made", "test")
    with pytest.raises(DataError, match="has the classes a, b, c, the defender was made for red, green, blue"):
        attack(ensemble(), others, mc.Patch(2), tmp_path / "out")
    smaller = Dataset(images.images[:, :, :6], images.labels, NAMES, "made", "test")
    with pytest.raises(DataError, match="takes images of 3 channels, 8x10"):
        attack(ensemble(), smaller, mc.Patch(2), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_images_are_drawn_by_lot_from_the_seed(tmp_path: Path) -> None:
    drawn = []
    for seed in (0, 1):
        effort = Effort(restarts=1, steps=1, placements=1, probed=1, cheap=1, seed=seed)
        attack(ensemble(), pictures(), 1, tmp_path / str(seed), n_images=4, effort=effort)
        rows = (tmp_path / str(seed) / "attack.jsonl").read_text().splitlines()[1:]
        drawn.append([int(row.split('"image":')[1].split(",")[0]) for row in rows])
    assert drawn[0] != drawn[1]
    with pytest.raises(DataError, match="images that are attacked is a whole number of 1 or more, got -4"):
        attack(ensemble(), pictures(), 1, tmp_path / "none", n_images=-4)
    assert not (tmp_path / "none").exists()
    assert all(np.all(np.diff(numbers) > 0) for numbers in drawn)
