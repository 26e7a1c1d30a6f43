"""Two masks: every table and every rewrite of it, and real pixels under a small network, at every placement.

Inference never leaves the label where the map says safe; where most masks leave the patch visible it can be made to
say anything elsewhere, so there the map is exact.
"""

import zlib
from collections import Counter
from functools import cache
from itertools import product
from typing import Any

import kinds_oracle
import numpy as np
import oracle
import pytest

import majorcert as mc
from majorcert.audit import kinds as literally

Size = tuple[int, int]


def all_tables(n: int, n_classes: int) -> np.ndarray[Any, Any]:
    """(tables, n, n) every symmetric table."""
    upper = np.array(list(product(range(n_classes), repeat=n * (n + 1) // 2)))
    return squared(upper, n)


def some(tables: np.ndarray[Any, Any], step: int) -> np.ndarray[Any, Any]:
    """Every so-many-th table, and all that are nearly of label 0, where certificates are."""
    nearly = np.count_nonzero(tables, axis=(1, 2)) <= 4
    return tables[nearly | (np.arange(len(tables)) % step == 0)]


def squared(upper: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    tables = np.zeros((len(upper), n, n), dtype=np.int64)
    rows, columns = np.triu_indices(n)
    tables[:, rows, columns] = tables[:, columns, rows] = upper
    return tables


def judge(
    tables: np.ndarray[Any, Any], masks: mc.Masks, size: Size, patch: Size, n_classes: int, seen: Counter[str]
) -> None:
    """The label and the map of each table against every rewrite of what no covering mask hides."""
    evidence = mc.MaskPairs(tables, masks=masks, image_size=size, n_classes=n_classes)
    verdict = mc.majorcert([evidence], patch)
    bound = masks.patch.height, masks.patch.width
    covers = kinds_oracle.covering(bound, masks.stride, size, patch)
    n = tables.shape[1]
    for i, table in enumerate(tables.tolist()):
        rows = tuple(map(tuple, table))
        clean = kinds_oracle.double_masking(rows)
        assert evidence.label[i] == verdict.predicted[i] == clean, rows
        for place, cover in covers.items():
            safe = bool(verdict.safe[i][place])
            stays = kinds_oracle.masking_outcomes(rows, cover, n_classes) == {clean}
            assert stays or not safe, (rows, place)
            if 2 * len(cover) < n:
                assert safe == stays, (rows, place)
            seen[f"safe {safe}"] += 1
        same = len(set().union(*rows)) == 1
        assert verdict.certified[i] or not (same and all(covers.values())), rows
        seen[f"certified {verdict.certified[i]}"] += 1
        seen["beyond all pairs"] += bool(verdict.certified[i]) and not same


STEPS = [20, pytest.param(1, marks=pytest.mark.slow)]
"""Every twentieth table, or all of them; what is rewritten of each is always everything."""


@pytest.mark.parametrize("step", STEPS)
def test_every_table_of_four_masks(step: int) -> None:
    """Masks of 1x3 on 1x6, and 59,049 tables of 3 classes; patches of 1x3 have one cover, of 1x2 up to two."""
    seen: Counter[str] = Counter()
    tables, masks = some(all_tables(4, 3), step), mc.Masks(1, 3)
    judge(tables, masks, (1, 6), (1, 3), 3, seen)
    assert seen["certified True"] >= 1
    assert min(seen["safe True"], seen["safe False"]) > 300
    assert seen["beyond all pairs"] == 0
    judge(tables, masks, (1, 6), (1, 2), 3, seen)
    assert seen["beyond all pairs"] >= 1


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("patch", "beyond"), [((1, 3), 0), ((1, 2), 2), ((1, 1), 10)])
def test_every_table_of_five_masks(patch: Size, beyond: int, step: int) -> None:
    seen: Counter[str] = Counter()
    judge(some(all_tables(5, 2), step), mc.Masks(1, 3), (1, 7), patch, 2, seen)
    assert min(seen["safe True"], seen["safe False"]) > 300
    assert seen["certified True"] >= 1
    assert seen["beyond all pairs"] >= beyond


def test_tables_of_six_masks_on_a_grid() -> None:
    """Mostly of one label, with a few odd entries."""
    random, seen = np.random.default_rng(1), Counter[str]()
    masks, size = mc.Masks(2), (3, 4)
    assert masks.n_masks(size) == 6
    odd = random.random((4, 21)) < np.linspace(0, 0.15, 4)[:, None]
    judge(squared(np.where(odd, 1, 0), 6), masks, size, (1, 2), 2, seen)
    assert min(seen["safe True"], seen["safe False"]) >= 5, seen
    assert min(seen["certified True"], seen["certified False"]) >= 1, seen


def test_a_table_that_the_published_condition_does_not_certify() -> None:
    """One odd pair spoils two rows; a placement stays safe if another mask covers it as well."""
    table = np.zeros((1, 4, 4), dtype=np.int64)
    table[0, 1, 3] = table[0, 3, 1] = 1
    pairs = mc.MaskPairs(table, masks="masks:1x3/1", image_size=(1, 6), n_classes=2)
    verdict = mc.majorcert([pairs], (1, 1))
    assert pairs.label.tolist() == [0]
    assert verdict.safe.tolist() == [[[True, True, True, True, True, False]]]
    assert mc.majorcert([pairs], (1, 3)).safe.tolist() == [[[True, False, True, False]]]
    table[0, 1, 3] = table[0, 3, 1] = 0
    table[0, 1, 2] = table[0, 2, 1] = 1
    between = mc.MaskPairs(table, masks="masks:1x3/1", image_size=(1, 6), n_classes=2)
    assert mc.majorcert([between], (1, 1)).certified.tolist() == [True]
    assert mc.majorcert([between], (1, 2)).certified.tolist() == [False]


# ---- masks ----


GEOMETRY = [
    ((1, 1), 1, (3, 4)),
    ((2, 2), 1, (4, 5)),
    ((2, 3), 2, (5, 7)),
    ((3, 1), 3, (7, 4)),
    ((2, 2), 3, (6, 6)),
    ((3, 3), 4, (8, 5)),
    ((4, 4), 1, (4, 4)),
    ((1, 2), 5, (2, 9)),
]


@pytest.mark.parametrize(("bound", "stride", "size"), GEOMETRY)
def test_masks_are_the_literal_ones_and_hide_every_placement(bound: Size, stride: int, size: Size) -> None:
    masks = mc.Masks(*bound, stride=stride)
    pixels = kinds_oracle.hidden(bound, stride, size)
    found = [frozenset(zip(*np.nonzero(each), strict=True)) for each in masks.hidden(size)]
    assert found == list(pixels)
    assert masks.n_masks(size) == len(pixels)
    assert {size[0] - 1, size[1] - 1} == {max(p[axis] for mask in pixels for p in mask) for axis in (0, 1)}
    for patch in product(range(1, size[0] + 1), range(1, size[1] + 1)):
        cover = kinds_oracle.covering(bound, stride, size, patch)
        told = masks.covering(mc.Patch(*patch), size)
        for place, numbers in cover.items():
            assert frozenset(np.flatnonzero(told[place]).tolist()) == numbers
        if patch[0] <= bound[0] and patch[1] <= bound[1]:
            assert all(cover.values()), (patch, "a placement that no mask hides")


def test_the_specs_of_masks() -> None:
    assert mc.Masks(5, stride=3).n_masks((32, 32)) == 100
    for spec in ("masks:5/3", "masks:3x7/2", "masks:2/1"):
        assert str(mc.Masks.parse(spec)) == spec
    assert mc.Masks.parse("masks:4") == mc.Masks(4)
    for spec in ("masks:5/0", "masks:", "masks:x5", "rows:4", "masks:5/3/2"):
        with pytest.raises(mc.MajorcertError):
            mc.Masks.parse(spec)
    with pytest.raises(mc.PatchError, match="a 5x5 patch does not fit in a 4x9 image"):
        mc.Masks(5).n_masks((4, 9))


# ---- real pixels ----


class Network:
    """A small network: it adds up what each visible pixel says for each label, and is moody about some views."""

    def __init__(self, seed: int, size: Size, n_greys: int, n_classes: int) -> None:
        random = np.random.default_rng(seed)
        self.weights = random.integers(-3, 4, size=(*size, n_greys, n_classes)).tolist()
        for row, column, grey in product(range(size[0]), range(size[1]), range(n_greys)):
            self.weights[row][column][grey][grey % n_classes] += 3
        self.moods = random.random(97) < 0.03
        self.seen: dict[tuple[Any, ...], int] = {}

    def __call__(self, view: tuple[Any, ...]) -> int:
        """The label of an image whose hidden pixels are None."""
        if view not in self.seen:
            scores = [0] * len(self.weights[0][0][0])
            for row, line in enumerate(view):
                for column, grey in enumerate(line):
                    if grey is not None:
                        scores = [a + b for a, b in zip(scores, self.weights[row][column][grey], strict=True)]
            label = oracle.plurality(scores)
            moody = self.moods[zlib.crc32(repr(view).encode()) % 97] if all(g is not None for g in view[0]) else False
            self.seen[view] = (label + 1) % len(scores) if moody else label
        return self.seen[view]


def masked(image: tuple[Any, ...], pixels: frozenset[Size]) -> tuple[Any, ...]:
    return tuple(
        tuple(None if (row, column) in pixels else grey for column, grey in enumerate(line))
        for row, line in enumerate(image)
    )


def table_of(network: Network, image: tuple[Any, ...], masks: tuple[frozenset[Size], ...]) -> list[list[int]]:
    return [[network(masked(image, one | other)) for other in masks] for one in masks]


def painted(image: tuple[Any, ...], patch: Size, place: Size, content: tuple[int, ...]) -> tuple[Any, ...]:
    lines = [list(line) for line in image]
    for k, (i, j) in enumerate(product(range(patch[0]), range(patch[1]))):
        lines[place[0] + i][place[1] + j] = content[k]
    return tuple(map(tuple, lines))


@pytest.mark.parametrize(
    ("bound", "stride", "size", "patch", "n_greys"),
    [
        ((1, 2), 1, (3, 3), (1, 2), 3),
        ((2, 2), 1, (3, 4), (2, 2), 2),
        ((2, 2), 2, (4, 4), (2, 1), 2),
        ((1, 2), 2, (2, 5), (1, 1), 3),
        ((1, 1), 2, (3, 4), (1, 2), 2),
        ((1, 1), 1, (3, 3), (2, 1), 2),
    ],
    ids=["rectangles", "squares", "a smaller patch", "a much smaller patch", "a larger patch", "a patch without cover"],
)
def test_no_content_of_a_patch_changes_a_safe_label(
    bound: Size, stride: int, size: Size, patch: Size, n_greys: int
) -> None:
    """Every placement, every content: the network is asked about the painted image under all pairs of masks again."""
    masks = kinds_oracle.hidden(bound, stride, size)
    network = Network(4, size, n_greys, 2)
    random, seen = np.random.default_rng(2), Counter[str]()
    images = [
        tuple(
            tuple(np.where(random.random(size[1]) < clear, i % 2, random.integers(n_greys, size=size[1])).tolist())
            for _ in range(size[0])
        )
        for i, clear in enumerate(np.linspace(0, 1, 14))
    ]
    tables = np.array([table_of(network, image, masks) for image in images])
    pairs = mc.MaskPairs(tables, masks=mc.Masks(*bound, stride=stride), image_size=size, n_classes=2)
    recovered, detected = mc.majorcert([pairs], patch), mc.detect([pairs], patch)
    covers = kinds_oracle.covering(bound, stride, size, patch)
    for i, image in enumerate(images):
        clean = int(pairs.label[i])
        for place in covers:
            safe, watched = bool(recovered.safe[i][place]), bool(detected.safe[i][place])
            changed = silent = False
            for content in product(range(n_greys), repeat=patch[0] * patch[1]):
                after = table_of(network, painted(image, patch, place, content), masks)
                label = kinds_oracle.double_masking(after)
                changed |= label != clean
                silent |= label != clean and not alerts(after, label, covers)
            assert not (safe and changed), (image, place)
            assert not (watched and silent), (image, place)
            seen[f"safe {safe}"] += 1
            seen["changed"] += changed
        seen[f"certified {recovered.certified[i]}"] += 1
        seen[f"detected {detected.certified[i]}"] += 1
    if all(covers.values()):
        assert min(seen["certified True"], seen["certified False"], seen["changed"]) >= 2, seen
        assert min(seen["detected True"], seen["detected False"]) >= 1, seen
    else:
        assert seen["certified True"] == seen["detected True"] == 0, seen
    assert seen["changed"] >= 2, seen


def alerts(table: list[list[int]], label: int, covers: dict[Size, frozenset[int]]) -> bool:
    """Is there a placement without a cover, or whose first covering mask says another label?"""
    return any(not cover or table[min(cover)][min(cover)] != label for cover in covers.values())


# ---- the rest of the kind ----


@cache
def noisy(n_images: int = 30) -> mc.MaskPairs:
    random = np.random.default_rng(6)
    masks, size = mc.Masks(2, stride=2), (6, 7)
    n = masks.n_masks(size)
    labels = np.where(random.random((n_images, n * (n + 1) // 2)) < np.linspace(0, 0.2, n_images)[:, None], 2, 1)
    labels[:, 0] = np.arange(n_images) % 4
    far = random.choice([0.05, 0.5], size=(n_images, n), p=[0.15, 0.85])
    return mc.MaskPairs(labels, masks=masks, image_size=size, n_classes=4, distance=far)


@pytest.mark.parametrize("patch", [(2, 2), (1, 1), (3, 3), (2, 3)])
@pytest.mark.parametrize("tolerance", [None, 0.1])
def test_the_sets_are_the_literal_ones(patch: Size, tolerance: float | None) -> None:
    pairs = noisy() if tolerance is None else noisy().tolerating(tolerance)
    reach, without = pairs.reach(mc.Patch(*patch)), pairs.without(mc.Patch(*patch))
    for i in range(len(pairs)):
        literal = literally.testimony(noisy(), pairs.provenance, i, patch)
        assert pairs.label[i] == literal.label
        for top, left in oracle.placements(patch, (6, 7)):
            for said, expected in ((reach, literal.reach()), (without, literal.without())):
                here = said.at(np.array([i]), np.array([top]), np.array([left]), np.arange(4)[None])
                assert set(np.flatnonzero(here[0]).tolist()) == expected[top, left]


def test_detection_looks_only_where_a_mask_changes_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    sure = Counter[bool]()
    for patch, tolerance in product([(2, 2), (1, 1), (3, 3), (2, 3)], [None, 0.1]):
        pairs = noisy(200) if tolerance is None else noisy(200).tolerating(tolerance)
        found = mc.detect([pairs], patch)
        alone = pairs.stays_alone(mc.Patch(*patch))
        assert not (alone & ~pairs.without(mc.Patch(*patch)).only(pairs.label).all(axis=(1, 2))).any()
        sure.update(alone.tolist())
        with monkeypatch.context() as plain:
            plain.setattr(mc.MaskPairs, "stays_alone", mc.Evidence.stays_alone)
            slow = mc.detect([pairs], patch)
        assert np.array_equal(found.safe, slow.safe)
        assert np.array_equal(found.alert, slow.alert)
    assert min(sure[True], sure[False]) > 20, sure
    with pytest.raises(mc.EvidenceError, match="slack"):
        mc.detect([noisy(200)], 2, slack=1)


def test_masks_may_recover_a_label_that_they_do_not_detect() -> None:
    """Of the pixel in fourth place the first cover is not the one that proves the label: alone it says another."""
    table = np.ones((1, 4, 4), dtype=np.int64)
    table[0, 1, 1] = 0
    pairs = mc.MaskPairs(table, masks="masks:1x3/1", image_size=(1, 6), n_classes=2)
    found = mc.joint([pairs], 1)
    assert found.holds.tolist() == ["recovery"]
    assert found.detection.alert.tolist() == [True]
    assert found.detection.safe.tolist() == [[[True, True, True, False, True, True]]]


def test_fragile_rows_prove_nothing() -> None:
    """Tables that differ from the recorded one only where both rows are fragile: a safe label stays in all of them."""
    table = np.ones((1, 4, 4), dtype=np.int64)
    for weak in product([False, True], repeat=4):
        far = np.where(weak, 0.05, 0.5)[None]
        pairs = mc.MaskPairs(table, masks="masks:1x3/1", image_size=(1, 6), n_classes=2, distance=far).tolerating(0.1)
        covers = kinds_oracle.covering((1, 3), 1, (1, 6), (1, 2))
        safe = mc.majorcert([pairs], (1, 2)).safe[0]
        for place, cover in covers.items():
            free = [
                (i, j)
                for i, j in product(range(4), repeat=2)
                if i <= j and ((weak[i] and weak[j]) or not cover & {i, j})
            ]
            outcomes = set()
            for labels in product((0, 1), repeat=len(free)):
                after = table[0].tolist()
                for (i, j), label in zip(free, labels, strict=True):
                    after[i][j] = after[j][i] = label
                outcomes.add(kinds_oracle.double_masking(after))
            assert not safe[place] or outcomes == {1}
            assert safe[place] == any(not weak[i] for i in cover)


def test_an_unfinished_table_is_worth_what_every_way_to_finish_it_is() -> None:
    """A pair may be missing if both of its rows hold two labels without it; of all others it is refused."""
    tables, n_refused, n_taken = all_tables(4, 2), 0, 0
    about: dict[str, Any] = {"masks": mc.Masks(1, 3), "image_size": (1, 6), "n_classes": 2}
    for gaps in [[(0, 1)], [(1, 2)], [(0, 3), (1, 2)], [(0, 1), (0, 2), (1, 2)], [(2, 2)]]:
        missing = np.zeros((4, 4), dtype=bool)
        for i, j in gaps:
            missing[i, j] = missing[j, i] = True
        mixed = [[len(set(row[~gap].tolist())) == 2 for row, gap in zip(each, missing, strict=True)] for each in tables]
        fit = np.array([all(row[i] and row[j] and i != j for i, j in gaps) for row in mixed])
        partial, said = np.where(missing, -1, tables), {"certify_only": True}
        for table in partial[~fit][::29]:
            n_refused += 1
            with pytest.raises(mc.BallotsError, match="certify_only"):
                mc.MaskPairs(table[None], **about, provenance=said)
        if fit.any():
            ours, theirs = mc.MaskPairs(partial[fit], **about, provenance=said), mc.MaskPairs(tables[fit], **about)
            assert ours.label.tolist() == theirs.label.tolist()
            for promise in (mc.majorcert, mc.detect):
                assert promise([ours], (1, 2)).safe.tolist() == promise([theirs], (1, 2)).safe.tolist()
            n_taken += int(fit.sum())
            with pytest.raises(mc.BallotsError, match="certify_only"):
                mc.MaskPairs(partial[fit][:1], **about)  # fit to be left out, but nobody says so
    assert min(n_refused, n_taken) >= 50


def test_a_table_for_detection_is_worth_what_every_way_to_finish_it_is() -> None:
    """Beside rows that are mixed, those that do not dissent may have gaps: for labels and alerts, not for recovery."""
    tables, seen = all_tables(4, 2), Counter[str]()
    about: dict[str, Any] = {"masks": mc.Masks(1, 3), "image_size": (1, 6), "n_classes": 2}
    for gaps in [[(0, 1)], [(1, 2), (1, 3)], [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]]:
        partial = tables.copy()
        for i, j in gaps:
            partial[:, i, j] = partial[:, j, i] = -1
        unfinished, finished_of = np.unique(partial, axis=0, return_inverse=True)
        for k, table in enumerate(unfinished):
            theirs = mc.MaskPairs(tables[finished_of.ravel() == k], **about)
            try:
                ours = mc.MaskPairs(table[None], provenance={"detect_only": True}, **about)
            except mc.BallotsError:
                seen["refused"] += 1
                seen["refused, and rightly so"] += len(set(theirs.label.tolist())) > 1
                continue
            seen["taken"] += 1
            assert (theirs.label == ours.label).all()
            assert (mc.detect([theirs], (1, 2)).safe == mc.detect([ours], (1, 2)).safe).all()
            assert (mc.majorcert([theirs], (1, 2)).safe >= mc.majorcert([ours], (1, 2)).safe).all()
    assert min(seen["taken"], seen["refused"], seen["refused, and rightly so"]) >= 10, seen
    with pytest.raises(mc.BallotsError, match="rows that do not dissent"):
        mc.MaskPairs(np.full((1, 4, 4), -1), provenance={"detect_only": True}, **about)


def test_tables_are_given_whole_or_as_triangles() -> None:
    pairs = noisy()
    whole = squared(pairs.labels.astype(np.int64), pairs.masks.n_masks((6, 7)))
    again = mc.MaskPairs(whole, masks="masks:2/2", image_size=(6, 7), n_classes=4)
    assert again.labels.tolist() == pairs.labels.tolist()
    assert again.provenance["kind"] == "mask-pairs"
    assert pairs[3:5].label.tolist() == pairs.label[3:5].tolist()
    whole[0, 0, 1] = 3 - whole[0, 0, 1]
    with pytest.raises(mc.BallotsError, match="not symmetric"):
        mc.MaskPairs(whole, masks="masks:2/2", image_size=(6, 7), n_classes=4)
    with pytest.raises(mc.BallotsError, match=r"has 9 masks: .* got int64"):
        mc.MaskPairs(whole[:, :5, :5], masks="masks:2/2", image_size=(6, 7), n_classes=4)
    with pytest.raises(mc.BallotsError, match="labels are 0 to 1, got"):
        mc.MaskPairs(pairs.labels, masks="masks:2/2", image_size=(6, 7), n_classes=2)


def test_the_result_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mc.majorcert([noisy()], 2)
    monkeypatch.setattr("majorcert.defences.masking.CHUNK_ENTRIES", 1)
    monkeypatch.setattr("majorcert.core.majority.CHUNK_BYTES", 1)
    parts = mc.majorcert([noisy()[:]], 2)
    assert whole.safe.tolist() == parts.safe.tolist()
    assert 0 < whole.certified.sum() < len(whole)


def test_the_largest_patch_is_that_of_a_linear_scan() -> None:
    pairs = noisy()
    scan = [mc.majorcert([pairs], side).certified for side in range(1, 7)]
    assert mc.largest_patch([pairs]).tolist() == np.sum(np.logical_and.accumulate(scan), axis=0).tolist()
    assert set(mc.largest_patch([pairs]).tolist()) >= {0, 2}
