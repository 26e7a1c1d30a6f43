"""The table of results and the drawings, to the letter."""

import numpy as np
import pytest

import majorcert as mc
from majorcert.reports.drawing import image_text, safe_text, side_by_side
from majorcert.reports.rooms import room_of
from majorcert.reports.rows import WORDS, Row, alone, rows
from majorcert.reports.table import rows_text


def evidence(seed: int, spec: str) -> mc.Ballots:
    """Votes that mostly follow the truth (image number modulo 3), on images of 6x6."""
    generator = np.random.default_rng(seed)
    n_ablations = mc.strategy(spec).n_ablations((6, 6))
    truth = np.arange(60) % 3
    strength = generator.uniform(0.3, 1.0, size=60)
    right = generator.random((60, n_ablations)) < strength[:, None]
    labels = np.where(right, truth[:, None], generator.integers(0, 3, size=(60, n_ablations)))
    return mc.Ballots(labels, strategy=spec, image_size=(6, 6), n_classes=3)


def test_every_number_is_that_of_the_method() -> None:
    defenders = {spec: evidence(seed, spec) for seed, spec in enumerate(["rows:1", "columns:2", "blocks:2"])}
    truth, patches = np.arange(60) % 3, [mc.Patch(1), mc.Patch(2, 1)]
    table = {(row.who, row.method, row.patch): row for row in rows(defenders, truth, patches)}
    assert len(table) == (3 * 2 + 4) * 2
    seen, gained = set(), []
    for patch in patches:
        for name, ballots in defenders.items():
            for method, bound in (("DRS margin", "margin"), ("DRS local", "local")):
                expected = mc.score(mc.drs(ballots, patch, bound=bound), truth)  # type: ignore[arg-type]
                found = table[name, method, str(patch)]
                assert (found.clean, found.certified) == pytest.approx((100 * expected.clean, 100 * expected.certified))
                seen.add(found.certified)
        together = "rows:1 + columns:2 + blocks:2"
        for method, reach in ((WORDS["majorcert-paper"], "paper"), (WORDS["majorcert-exact"], "exact")):
            verdict = mc.majorcert(list(defenders.values()), patch, reach=reach)  # type: ignore[arg-type]
            found = table[together, method, str(patch)]
            counts = mc.summary(verdict, truth)
            assert found.n_certified_and_correct == counts.n_certified_and_correct
            assert (found.n_certified, found.n_correct) == (counts.n_certified, counts.n_correct)
        pooled = table[together, WORDS["pool"], str(patch)]
        expected = mc.score(mc.certify([mc.Pool(list(defenders.values()))], patch), truth)
        assert (pooled.clean, pooled.certified) == pytest.approx((100 * expected.clean, 100 * expected.certified))
        by_first = (verdict.predicted == truth) & (verdict.by == "theorem1")
        assert table[together, "MajorCert, theorem 1 alone", str(patch)].n_certified_and_correct == by_first.sum()
        assert 0 < by_first.sum() <= found.n_certified_and_correct < found.n_correct < 60
        gained.append(found.n_certified_and_correct - by_first.sum())
    assert max(gained) > 0
    assert len(seen) > 3


def test_the_text_is_aligned_and_names_a_defender_once() -> None:
    table = [
        Row("rows:1", "DRS margin", "1x1", 10, 8, 9, 8),
        Row("rows:1", "DRS margin", "2x2", 10, 1, 9, 1),
        Row("rows:1", "DRS local", "1x1", 10, 9, 9, 9),
        Row("all", "MajorCert", "2x2", 10, 10, 10, 10),
    ]
    assert rows_text(table).splitlines() == [
        "defender  method      clean  certified 1x1  certified 2x2   n",
        "--------  ----------  -----  -------------  -------------  --",
        "rows:1    DRS margin   90.0           80.0           10.0  10",
        "          DRS local    90.0           90.0                 10",
        "all       MajorCert   100.0                         100.0  10",
    ]


def test_images_and_placements_are_drawn() -> None:
    image = np.array([[[0, 26], [128, 255]]], dtype=np.uint8)
    assert image_text(image) == ["  ..", "++@@"]
    assert image_text(np.stack([image[0] * 0, image[0], image[0]])) == ["    ", "--**"]
    safe = np.array([[True, False, True], [False, False, True]])
    assert safe_text(safe) == [" .## .", "#### ."]
    assert side_by_side(["ab", "c"], ["d"], ["e", "f", "g"]) == "ab    d    e\nc          f\n           g"


def test_peers_have_rows_by_their_own_names() -> None:
    votes, patch = evidence(0, "columns:2"), mc.Patch(2)
    transformer = mc.Ballots(
        votes.labels, strategy="columns:2", image_size=(6, 6), n_classes=3, provenance={"network": "vit"}
    )
    found = {verdict.method: verdict for verdict in alone(transformer, patch)}
    assert list(found) == ["smoothed-vit", "vip"]
    assert found["smoothed-vit"].certified.tolist() == mc.drs(votes, patch).certified.tolist()
    assert found["vip"].certified.tolist() == mc.drs(votes, patch, bound="local").certified.tolist()
    possible = np.random.default_rng(0).random((60, 25, 3)) < 0.02
    possible[:, :, 1] = True
    bounds = mc.Bounds(np.ones(60, dtype=int), possible, sizes="bounds:2", image_size=(6, 6), n_classes=3)
    (verdict,) = alone(bounds, patch)
    assert (verdict.method, room_of(bounds).bound(bounds), room_of(bounds).detects) == ("ibp", patch, False)
    assert verdict.certified.tolist() == (possible.sum(axis=2) == 1).all(axis=1).tolist()
    assert 0 < verdict.certified.sum() < 60
    assert {"ibp", "smoothed-vit", "vip"} <= set(WORDS)
