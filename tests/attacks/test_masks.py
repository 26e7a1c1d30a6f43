"""The attack on double masking: it breaks what is not certified, and finds out a defender that breaks its word."""

from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import majorcert as mc
from majorcert.attacks.effort import Effort
from majorcert.attacks.watchdog import FLIPPED, MOVED, Watchdog
from majorcert.errors.frozen import filled
from majorcert.files.evidence import load_evidence
from majorcert.nets import masked
from majorcert.nets.data import Dataset

torch.set_num_threads(1)
SIZE, NAMES = (6, 7), ("red", "green", "blue")
EFFORT = Effort(restarts=3, steps=5, placements=2, probed=4, cheap=4)


def brightness(views: Tensor) -> Tensor:
    """The colour with the most light, where bright pixels count for more than their share."""
    return 3 * (views[:, :3].clamp(min=0) ** 2).mean(dim=(2, 3)) + views[:, :3].mean(dim=(2, 3))


def defended() -> mc.Ensemble:
    return mc.Ensemble([mc.MaskingDefender(brightness, "masks:2/2", image_size=SIZE, class_names=NAMES)])


def pictures(n: int = 18) -> Dataset:
    """Each a little brighter in the colour of its label; the later ones by much more."""
    images = torch.randint(90, 150, (n, 3, *SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    for k in range(n):
        images[k, k % 3] += 2 * k
    return Dataset(images, torch.arange(n) % 3, NAMES, "made", "test")


def test_it_breaks_some_and_nothing_that_is_certified(tmp_path: Path) -> None:
    found = mc.attack(defended(), pictures(), 2, tmp_path, effort=EFFORT)
    assert found.complaints == ()
    row = found.summary["defended"]
    assert 0 < row["certified"] <= row["under_attack"] < row["clean"]
    again = mc.attack(defended(), pictures(), 2, tmp_path, effort=EFFORT)
    assert again.summary == found.summary, "what is there is not done again"


def test_masks_that_leak_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a mask something of the patch shines through: both promises break, and what shows it is kept."""
    whole = masked.shown
    monkeypatch.setattr(masked, "shown", lambda sheet, visible: whole(sheet, torch.ones_like(visible)))
    found = mc.attack(defended(), pictures(), 2, tmp_path, effort=EFFORT)
    assert "broken promises, defended" in found.complaints[-1]
    broken = sorted((tmp_path / "broken").iterdir())
    told = "".join((folder / "facts.json").read_text() for folder in broken)
    assert FLIPPED in told
    assert MOVED in told
    before, after = (load_evidence(broken[0] / f"{name}-1.zarr") for name in ("before", "after"))
    assert isinstance(before, mc.MaskPairs)
    assert not np.array_equal(before.labels, after.labels)  # type: ignore[attr-defined]


def test_every_version_of_an_image_is_judged_and_those_that_change_are_watched(tmp_path: Path) -> None:
    """Of each image the first version is as it was; a later one may change; all are said to be certified."""
    ensemble, images = defended(), pictures(6).images
    before = ensemble.evidence(images)
    verdict = mc.certify(before, 2)
    said = filled(copy(verdict), certified=np.ones(6, dtype=bool))
    watchdog = Watchdog(ensemble, images, np.arange(6), before, said, tmp_path)
    painted = images.repeat_interleave(3, dim=0)
    painted[1::3, :, :2, :2], painted[2::3, 1, :2, :2] = 0, 255
    labels, alerts = watchdog.judge(np.arange(6).repeat(3), painted, np.zeros((18, 2), dtype=np.int64))
    assert labels.tolist() == ensemble.predict(painted).tolist()
    assert not alerts.any()
    changed = {int(k) // 3 for k in np.flatnonzero(labels != verdict.predicted.repeat(3))}
    assert 0 < len(changed) < 6
    assert watchdog.broken == {k: {FLIPPED} for k in changed}


def test_masking_and_voting_together_are_attacked_as_one(tmp_path: Path) -> None:
    voting = mc.Defender(brightness, "rows:3", "crop", 0.4, image_size=SIZE, class_names=NAMES)
    mixed = mc.Ensemble([*defended().defenders, voting])
    found = mc.attack(mixed, pictures(), 2, tmp_path, effort=EFFORT)
    assert found.complaints == ()
    row = found.summary["defended"]
    assert 0 < row["certified"] <= row["under_attack"] < row["clean"]
    assert row["about"]["strategies"] == ["masks:2/2", "rows:3"]
