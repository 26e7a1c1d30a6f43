"""Ensembles that watch themselves, with real pixels: every patch of a palette at every place, judged by `detect`."""

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import majorcert as mc

torch.set_num_threads(1)
SIZE, NAMES = (4, 5), ("red", "green", "blue")
COLOURS = torch.tensor(list(product((0, 255), repeat=3)), dtype=torch.uint8)
KINDS = ("voting", "pool", "masking", "mixed")


def brightness(views: Tensor) -> Tensor:
    return views[:, :3].mean(dim=(2, 3))


def defenders() -> dict[str, Any]:
    about: dict[str, Any] = {"image_size": SIZE, "class_names": NAMES}
    voting = {
        spec: mc.Defender(brightness, spec, "crop", None, **about) for spec in ("rows:1", "columns:1", "blocks:2")
    }
    return {**voting, "masks:1/2": mc.MaskingDefender(brightness, "masks:1/2", **about)}


def ensemble(kind: str) -> mc.Ensemble:
    *voting, masking = defenders().values()
    members: dict[str, list[Any]] = {"masking": [masking], "mixed": [voting[0], masking, voting[1]]}
    return mc.Ensemble(members.get(kind, voting), pooled=kind == "pool")


def pictures(n: int = 8) -> Tensor:
    """By lot, and each brighter in a colour of its own, the later ones by more; half of them have an odd pixel."""
    images = torch.randint(60, 120, (n, 3, *SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    for k in range(n):
        images[k, k % 3] += 2 * k
        images[k, (k + 1) % 3, 1, 1] += 100 * (k % 2)
    return images


@pytest.mark.parametrize("kind", KINDS)
def test_no_certified_label_changes_without_an_alert(kind: str) -> None:
    watched, images, seen = ensemble(kind), pictures(), Counter[str]()
    verdict = watched.detect(images, 1)
    np.testing.assert_array_equal(verdict.predicted, watched.predict(images))
    for k, image in enumerate(images):
        painted = image.repeat(*SIZE, len(COLOURS), 1, 1, 1)
        for top, left in np.ndindex(SIZE):
            painted[top, left, :, :, top, left] = COLOURS
        after = watched.detect(painted.flatten(0, 2), 1)
        changed, alert = (after.predicted != verdict.predicted[k]).reshape(*SIZE, -1), after.alert.reshape(*SIZE, -1)
        silent = (changed & ~alert).any(axis=2)
        assert not (silent & verdict.safe[k]).any()
        seen["silent change"] += int(silent.sum())
        seen["change with an alert, of a certified image"] += int(verdict.certified[k] & changed.any())
    assert verdict.alert.tolist() == (~verdict.certified).tolist()
    assert verdict.certified.any() != verdict.certified.all()
    assert min(seen["silent change"], seen["change with an alert, of a certified image"]) > 0, seen


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_the_core_says_of_the_evidence(kind: str) -> None:
    watched, images = ensemble(kind), pictures()
    for patch in (1, (2, 1)):
        found, expected = watched.detect(images, patch), mc.detect(watched.evidence(images), patch)
        for name in ("predicted", "alert", "certified", "safe"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert found.witnesses == expected.witnesses


def test_one_defender_watches_itself_and_slack_is_passed_on() -> None:
    images = pictures()
    for defender in defenders().values():
        expected = mc.detect([defender.evidence(images)], 1)
        np.testing.assert_array_equal(defender.detect(images, 1).safe, expected.safe)
    rows, pool = defenders()["rows:1"], ensemble("pool")
    for watched, slack in ((rows, 1), (pool, 7)):
        loose, strict = watched.detect(images, 1, slack=slack), watched.detect(images, 1)
        assert loose.slack == slack
        assert loose.alert.sum() < strict.alert.sum()
        assert loose.certified.sum() < strict.certified.sum()
    with pytest.raises(mc.EvidenceError, match="slack is for one voting defender or pool, got 3"):
        ensemble("voting").detect(images, 1, slack=1)


def test_a_pool_gives_every_strategy_the_same_say() -> None:
    """Four rows, five columns and twenty blocks: a vote is worth 5, 4 and 1 points, in the label and in the alert."""
    images, pool = pictures(), ensemble("pool")
    evidence = pool.evidence(images)
    assert [each.weights for each in evidence] == [(5, 4, 1)]
    members = [each.evidence(images) for each in pool.defenders]
    even = mc.detect([mc.Pool(members, weights=[1, 1, 1])], 1)
    found = pool.detect(images, 1)
    assert (found.safe != even.safe).any()
    assert pool.to("cpu").pooled
