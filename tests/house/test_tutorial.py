"""The code of docs/add-a-defence.md, as a reader would run it, and its reach against every patch on small images."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import majorcert as mc

PAGE = Path(__file__).parents[2] / "docs" / "add-a-defence.md"
BLACK_AND_WHITE = np.array([[0] * 3] + [[255] * 3] * 9)
"""Colours with which the page's reach is exact: black is label 0, white label 1, and the tie rule hides the rest."""


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_the_page_runs_and_is_short(blocks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert sum(len(block.splitlines()) for block in blocks) < 80
    assert f"in {len(blocks[0].splitlines())} lines" in PAGE.read_text(encoding="utf-8")
    page: dict[str, Any] = {}
    exec("\n".join(blocks), page)
    said = capsys.readouterr().out
    assert re.findall(r"^\d", said, flags=re.MULTILINE) == ["1", "3", "4"]
    assert "Witness(" in said
    joined = mc.certify([*page["voters"], page["colour"]], 2)
    for verdict in (mc.certify([page["colour"]], 2), joined):
        assert 0 < verdict.certified.sum() < 12
    assert joined.certified.sum() < mc.certify(page["voters"], 2).certified.sum()


@pytest.mark.parametrize("patch", [mc.Patch(1), mc.Patch(1, 2), mc.Patch(2, 1), mc.Patch(2, 2), mc.Patch(2, 3)])
def test_its_reach_is_what_patches_can_do(blocks: list[str], patch: mc.Patch) -> None:
    page: dict[str, Any] = {}
    exec(blocks[0], page)
    page["COLOURS"] = BLACK_AND_WHITE
    images = np.array(list(product([0, 255], repeat=6))).reshape(-1, 2, 3)

    def evidence(pixels: np.ndarray) -> Any:
        ranked = np.sort(np.repeat(pixels.reshape(len(pixels), -1, 1), 3, axis=2), axis=1)
        return page["MedianColour"](ranked, (2, 3), np.arange(len(pixels)), {})

    reach, label = evidence(images).reach(patch), evidence(images).label
    n_tops, n_lefts = patch.n_placements((2, 3))
    changed = np.zeros((len(images), n_tops, n_lefts), dtype=bool)
    for top, left in np.ndindex(n_tops, n_lefts):
        for paint in product([0, 255], repeat=patch.height * patch.width):
            painted = images.copy()
            painted[:, top : top + patch.height, left : left + patch.width] = np.reshape(
                paint, (patch.height, patch.width)
            )
            said = evidence(painted).label
            assert reach.has(said).all()
            changed[:, top, left] |= said != label
    certified = mc.certify([evidence(images)], patch).certified
    assert not (certified & changed.any(axis=(1, 2))).any()
    few = patch.height * patch.width < 3
    assert certified.any() == few
    assert (~certified).any()
