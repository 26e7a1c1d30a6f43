"""The choice of a pool's members: which sets may be chosen, and which of those that are as good is."""

from typing import Any

import numpy as np
import pytest
from calls import script


@pytest.fixture(scope="module")
def study() -> Any:
    script("studies/mixes.py")  # which it imports
    return script("studies/members.py")


def tried(study: Any, names: str, certified: list[float], clean: float) -> Any:
    return study.Tried(tuple(names.split()), np.array(certified), clean, (0.5, 0.5))


def test_sets_have_several_kinds_and_blocks_once(study: Any) -> None:
    found = study.sets_of(("columns:4", "columns:5", "columns:6", "rows:4", "blocks:10", "blocks:12"))
    assert ("columns:4", "rows:4", "blocks:12") in found
    assert ("columns:4", "columns:5", "columns:6") not in found
    assert not [names for names in found if {"blocks:10", "blocks:12"} <= set(names)]
    assert {len(names) for names in found} == {3, 4, 5}
    assert len(study.sets_of(study.CANDIDATES)) == 358


def test_of_sets_that_are_as_good_the_most_accurate_is_chosen(study: Any) -> None:
    order = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    certified = {
        "a b": [1.0, 1, 1, 1, 1, 1, 0, 0],
        "a c": [0.0, 1, 1, 1, 1, 1, 1, 0],
        "b c": [0.5, 1, 1, 1, 1, 1, 0, 0.4],
        "a b c": [0.0, 0, 0, 0, 0, 0, 0, 0],
    }
    clean = {"a b": 0.8, "a c": 0.9, "b c": 0.9, "a b c": 1.0}
    both = [tried(study, names, certified[names], clean[names]) for names in certified]
    lines = study.ranked(both, both, order)
    assert [line.members for line in lines] == [("a", "c"), ("b", "c"), ("a", "b"), ("a", "b", "c")]
    assert [line.as_good for line in lines] == [True, True, True, False]
    worst = lines[-1]
    assert worst.behind == pytest.approx(6 / 8)
    assert worst.error == pytest.approx((6 / 8 * 2 / 8 / 7) ** 0.5)
