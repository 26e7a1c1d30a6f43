"""The rows of the masks that cover a patch: which second masks break them, in numbers and in words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import majorcert as mc
from majorcert.commands.app import app
from majorcert.reports.contents import Contents
from majorcert.reports.explain import MOST_ROWS, explain
from majorcert.reports.mask_rows import Dissent, boxes, covering_rows
from majorcert.reports.promises import RECOVERY, promised
from majorcert.reports.rooms import room_of
from majorcert.reports.story import row_alone, row_sentences, scene

SIZE, MASKS = (8, 8), mc.Masks(3, stride=2)
CORNERS = [(top, left) for top in (0, 2, 4) for left in (0, 2, 4)]
NAMES = ["airplane", "bird", "cat", "9"]


def pairs_with(*changed: tuple[int, int, int], label: int = 1, **kind: Any) -> mc.MaskPairs:
    """One image of one label, with another one under some pairs of masks."""
    table = np.full((1, 9, 9), label)
    for first, second, other in changed:
        table[0, first, second] = table[0, second, first] = other
    return mc.MaskPairs(table, masks=MASKS, image_size=SIZE, n_classes=4, **kind)


def told(pairs: mc.MaskPairs, patch: int, at: tuple[int, int], promise: str = "recovery") -> Any:
    return scene([pairs], mc.Patch(patch), 0, at, promised(promise)).testimonies[0]


def test_boxes_are_where_the_masks_hide() -> None:
    found = boxes(mc.Masks(2, 3, stride=2), (7, 6))
    assert found.tolist() == [[top, left, 3, 4] for top in (0, 2, 4) for left in (0, 2)]


@pytest.mark.parametrize("tolerance", [None, 0.5])
def test_a_placement_is_proved_iff_one_of_its_rows_proves(tolerance: float | None) -> None:
    random, seen = np.random.default_rng(3), set()
    truth = random.integers(0, 3, (30, 1))
    labels = np.where(random.random((30, 45)) < 0.97, truth, random.integers(0, 3, (30, 45)))
    kind: dict[str, Any] = {"masks": MASKS, "image_size": SIZE, "n_classes": 3}
    pairs = mc.MaskPairs(labels, distance=random.random((30, 9)), **kind)
    pairs = pairs if tolerance is None else pairs.tolerating(tolerance)
    table = np.zeros((30, 9, 9), int)
    table[:, *np.triu_indices(9)] = labels
    table = np.maximum(table, table.transpose(0, 2, 1))
    for patch in (mc.Patch(1), mc.Patch(3), mc.Patch(2, 4), mc.Patch(5)):
        safe = mc.majorcert([pairs], patch).safe
        assert safe is not None
        for image, top, left in np.ndindex(safe.shape):
            rows = covering_rows(pairs[image : image + 1], patch, (top, left))
            assert any(row.agreed and not row.fragile for row in rows) == safe[image, top, left]
            seen.add(bool(safe[image, top, left]))
            for row in rows:
                mask, label = CORNERS.index(row.mask), pairs.label[image]
                assert mask in np.flatnonzero(MASKS.covering(patch, SIZE)[top, left])
                expected = {(CORNERS[j], table[image, mask, j]) for j in range(9) if table[image, mask, j] != label}
                assert {(each.second, each.label) for each in row.dissent} == expected
                assert (row.alone, row.n_seconds, row.n_unseen) == (table[image, mask, mask], 9, 0)
    assert seen == {True, False}


def test_the_mask_alone_is_the_first_to_dissent() -> None:
    pairs = pairs_with((4, 0, 2), (4, 4, 0), (4, 8, 2))
    (row,) = covering_rows(pairs, mc.Patch(3), (3, 3))
    assert row.dissent == (Dissent((2, 2), 0), Dissent((0, 0), 2), Dissent((4, 4), 2))


def test_rows_in_words() -> None:
    pairs = pairs_with((4, 0, 2), (4, 3, 3), (4, 4, 0), (4, 7, 2), (4, 8, 2), (5, 5, 3))
    assert row_sentences(told(pairs, 1, (3, 5)), NAMES) == [
        "mask at 0,2: bird under every second mask",
        "mask at 0,4: bird under every second mask",
        "mask at 2,2: not bird under 5 of 9 second masks (airplane alone; cat with 0,0; “9” with 2,0; 2 more)",
        "mask at 2,4: not bird under 1 of 9 second masks (“9” alone)",
    ]


def test_a_fragile_row_does_not_count_and_says_so() -> None:
    pairs = pairs_with((1, 4, 2), distance=np.where(np.arange(9) == 0, 1e-4, 1.0)[None]).tolerating(1e-3)
    one = told(pairs, 1, (0, 3))
    assert row_sentences(one, NAMES) == [
        "mask at 0,0: bird under every second mask; it is fragile and does not count",
        "mask at 0,2: not bird under 1 of 9 second masks (cat with 2,2)",
    ]
    assert one.told.remark == "2 of 9 masks cover the patch; under 1 of them no second mask changes the label"
    assert row_alone(told(pairs, 1, (0, 3), "detection"), NAMES) == "at 0,0: bird; it is fragile and does not count"


def test_pairs_that_nobody_looked_at_are_counted_apart() -> None:
    pairs = pairs_with((0, 1, 2), (3, 4, 2), (0, 3, -1), (0, 4, -1), provenance={"certify_only": True})
    one = told(pairs, 3, (0, 0))
    assert row_sentences(one, NAMES) == [
        "mask at 0,0: not bird under 1 of 9 second masks (cat with 0,2); under 2 nobody looked"
    ]
    assert one.told.rows[0].n_unseen == 2


def test_a_page_holds_only_what_differs() -> None:
    def n_characters(labels: Any) -> int:
        pairs = mc.MaskPairs(labels, masks="masks:5/3", image_size=(32, 32), n_classes=10)
        blocks = room_of(pairs).images("0.0", pairs, [mc.Patch(5)], RECOVERY.sets)
        return sum(len(block.text) for block in blocks)

    labels = np.repeat(np.arange(256)[:, None] % 10, 5050, axis=1)
    same = n_characters(labels)
    labels[::2, 7] = (labels[::2, 7] + 1) % 10
    assert same < 500
    assert same < n_characters(labels) < 2000


@pytest.mark.parametrize(
    ("side", "last"),
    [(3, "  mask at 2,2: bird under every second mask"), (4, "  and 7 more masks")],
)
def test_the_story_names_so_many_masks_and_counts_the_others(side: int, last: str) -> None:
    masks = mc.Masks(side, stride=1)
    n = masks.n_masks(SIZE)
    pairs = mc.MaskPairs(np.ones((1, n, n), int), masks=masks, image_size=SIZE, n_classes=4)
    contents = Contents([pairs], [mc.Patch(1)], class_names=NAMES)
    lines = explain(contents, 0, mc.Patch(1), (side - 1, side - 1))[0]
    assert sum(line.startswith("  mask at ") for line in lines) == MOST_ROWS
    assert lines[-1] == last


@pytest.mark.parametrize("promise", ["recovery", "detection"])
def test_who_has_no_covering_mask_has_no_rows(promise: str) -> None:
    """Masks too small for the patch, and a pool, which has none."""
    votes = mc.Ballots(np.ones((1, 8), int), strategy="columns:1", image_size=SIZE, n_classes=4)
    for defender in (pairs_with(), mc.Pool([votes])):
        lines = explain(Contents([defender], [mc.Patch(5)], promise=promise), 0, mc.Patch(5))[0]
        assert not [line for line in lines if "mask at" in line or "first mask" in line]


def test_the_command_names_them_for_both_promises(tmp_path: Path) -> None:
    pairs = pairs_with((4, 8, 2), (4, 4, 0), provenance={"class_names": NAMES}, distance=np.full((1, 9), 0.01))
    pairs.save(tmp_path / "pairs.zarr")
    asked = ["explain", str(tmp_path / "pairs.zarr"), "--image", "0", "--patch", "3", "--at", "3,3"]
    lines = CliRunner().invoke(app, asked, catch_exceptions=False).stdout.splitlines()
    assert lines[-1] == "  mask at 2,2: not bird under 2 of 9 second masks (airplane alone; cat with 4,4)"
    near = [*asked[:-1], "0,0", "--fragile", "0.02"]
    lines = CliRunner().invoke(app, near, catch_exceptions=False).stdout.splitlines()
    assert lines[-1] == "  mask at 0,0: bird under every second mask; it is fragile and does not count"
    asked += ["--promise", "detection"]
    lines = CliRunner().invoke(app, asked, catch_exceptions=False).stdout.splitlines()
    assert lines[-1] == "  under the first mask that covers the patch, at 2,2: airplane"
