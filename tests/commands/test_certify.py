"""`majorcert certify` for every kind and method: what it prints is the core's, what it saves can be verified."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import asked, told

import majorcert as mc
from majorcert.files.evidence import load_evidence, load_scores, save_evidence
from majorcert.files.writer import EvidenceWriter

SIZE, N, N_CLASSES = (8, 8), 12, 3


def ballots(strategy: str, seed: int, **about: Any) -> mc.Ballots:
    random = np.random.default_rng(seed)
    shape = N, mc.strategy(strategy).n_ablations(SIZE)
    labels = np.where(random.random(shape) < np.linspace(0, 0.6, N)[:, None], random.integers(3, size=shape), 1)
    return mc.Ballots(labels, strategy=strategy, image_size=SIZE, n_classes=N_CLASSES, **about)


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    """Votes by columns with their scores, votes by rows, and a table of double masking."""
    random = np.random.default_rng(0)
    votes = ballots("columns:1", 1)
    scores = np.eye(3, dtype=np.float16)[votes.labels[:, :, 0]] * np.float16(0.75) + np.float16(0.0625)
    writer = EvidenceWriter.open(tmp_path / "columns.zarr", votes[:0], N, beside={"scores": scores[:0]})
    for images in writer.missing():
        writer.write(images, votes[images], {"scores": scores[images]})
    ballots("rows:1", 2).save(tmp_path / "rows.zarr")
    masks = mc.Masks(2, stride=3)
    n = masks.n_masks(SIZE)
    labels = np.where(random.random((N, n * (n + 1) // 2)) < np.linspace(0, 0.05, N)[:, None], 2, 1)
    mc.MaskPairs(labels, masks=masks, image_size=SIZE, n_classes=N_CLASSES).save(tmp_path / "pairs.zarr")
    return [tmp_path / f"{name}.zarr" for name in ("columns", "rows", "pairs")]


def test_patchguard_by_scores_by_votes_and_with_a_mask_of_its_own(stores: list[Path]) -> None:
    by_scores, by_votes = told("certify", *stores[:2], "--patch", "1", "--method", "pg-drs")
    expected = mc.patchguard(load_scores(stores[0]), 1), mc.patchguard(mc.Ballots.load(stores[1]), 1)
    for line, verdict in zip((by_scores, by_votes), expected, strict=True):
        assert (line["method"], line["mask"]) == ("pg-drs", "1x1")
        assert line["n_certified"] == verdict.certified.sum()
        assert 0 < line["n_certified"] < N
    how = ("--mask", "2x2", "--mask-threshold", "0.25")
    (line,) = told("certify", stores[0], "--patch", "1", "--method", "pg-drs", *how)
    verdict = mc.patchguard(load_scores(stores[0]), 1, threshold=0.25, mask=mc.Patch(2))
    assert (line["mask"], line["n_certified"]) == ("2x2", verdict.certified.sum())
    for each in (how[:2], how[2:]):
        refused = asked("certify", stores[0], "--patch", "1", *each)
        assert refused.exit_code == 2
        assert "a mask and its threshold are of --method pg-drs and pg-pool" in refused.stderr


@pytest.mark.parametrize(
    ("asking", "complaint"),
    [
        (("--method", "pool"), "adds up votes, so its members are ballots; of masks:2/3 (mask-pairs) there are none"),
        (("--top", "2"), "votes of ballots or a pool, and of masks:2/3 (mask-pairs) there are none"),
        (("--method", "pg-drs"), "PatchGuard (pg-drs) masks votes or scores, and mask-pairs have neither"),
        (("--method", "pg-drs", "--mask", "2"), "masks votes or scores, and mask-pairs have neither"),
    ],
)
def test_pairs_of_masks_have_no_votes_to_count_or_mask(
    asking: tuple[str, ...], complaint: str, stores: list[Path]
) -> None:
    refused = asked("certify", stores[2], "--patch", "1", *asking)
    assert (refused.exit_code, complaint in refused.stderr) == (2, True), refused.stderr


def test_masking_knows_no_tolerance(tmp_path: Path) -> None:
    ballots("rows:1", 2, distance=np.full((N, 8), 0.5)).save(tmp_path / "rows.zarr")
    refused = asked("certify", tmp_path / "rows.zarr", "--patch", "1", "--method", "pg-drs", "--fragile", "0.1")
    assert refused.exit_code == 2
    assert "MaskedScores(12 images, rows:1, 3 classes, mask 1x1) was recorded without distances" in refused.stderr


def test_a_store_of_masked_scores_keeps_its_mask(stores: list[Path], tmp_path: Path) -> None:
    evidence = mc.MaskedScores(load_scores(stores[0]), mc.Patch(2), 0.25)
    save_evidence(evidence, evidence_path := tmp_path / "masked.zarr")
    (alone,) = told("certify", evidence_path, "--patch", "1", "--method", "pg-drs")
    assert (alone["mask"], alone["n_certified"]) == ("2x2", mc.drs(evidence, 1, bound="local").certified.sum())
    (together,) = told("certify", evidence_path, stores[1], stores[2], "--patch", "1")
    rows, pairs = mc.Ballots.load(stores[1]), load_evidence(stores[2])
    assert together["n_certified"] == mc.majorcert([evidence, rows, pairs], 1).certified.sum()


def test_pool_and_detection(stores: list[Path]) -> None:
    (pool, detection) = told("certify", *stores[:2], "--patch", "1", "--method", "pool", "--method", "detection")
    votes = [mc.Ballots.load(store) for store in stores[:2]]
    assert pool["n_certified"] == mc.majorcert([mc.Pool(votes)], 1).certified.sum()
    expected = mc.detect(votes, 1)
    assert expected.alert is not None
    assert (detection["promise"], detection["n_certified"]) == ("detection", expected.certified.sum())
    assert detection["n_alerts"] == expected.alert.sum()
    (slack,) = told("certify", stores[0], "--patch", "1", "--method", "detection", "--slack", "1")
    assert (slack["slack"], slack["n_certified"]) == (1, mc.detect(votes[:1], 1, slack=1).certified.sum())
    table = asked("certify", *stores[:2], "--patch", "1", "--method", "pool", "--method", "detection").stdout
    header, *lines = (line.split("\t") for line in table.splitlines())
    assert header[-2:] == ["alerts", "n"]
    assert {len(line) for line in lines} == {len(header)}
    (masked,) = told("certify", *stores[:2], "--patch", "1", "--method", "pg-pool", "--mask", "2")
    expected = mc.patchguard(mc.Pool(votes), mc.Patch(1), mask=mc.Patch(2))
    assert (masked["mask"], masked["n_certified"]) == ("2x2", expected.certified.sum())
    assert "a pool adds up votes" in asked("certify", *stores, "--patch", "1", "--method", "pool").stderr


def test_a_promise_of_the_label_that_each_method_makes(stores: list[Path], tmp_path: Path) -> None:
    """The old spelling, --method detection, is the promise of the majority."""
    promised = ("--patch", "1", "--promise", "detection")
    (old,) = told("certify", *stores, "--patch", "1", "--method", "detection")
    assert told("certify", *stores, *promised) == [old]
    assert told("certify", *stores, *promised, "--method", "detection") == [old]
    votes = [mc.Ballots.load(store) for store in stores[:2]]
    out = tmp_path / "pool.jsonl"
    how = ("--method", "pool", "--slack", "3", "-o", out)
    (pool,) = told("certify", *stores[:2], *promised, *how)
    expected = mc.detect([mc.Pool(votes)], 1, slack=3)
    assert (pool["promise"], pool["slack"]) == ("detection", 3)
    assert (pool["n_certified"], pool["n_alerts"]) == (expected.certified.sum(), expected.alert.sum())
    assert 0 < pool["n_certified"] < N
    assert told("verify", out, "--sample", "all", "--evidence", *stores[:2])["equal"]
    each = told("certify", *stores, *promised, "--method", "drs-local")
    alone = [mc.detect([load_evidence(store)], 1).certified.sum() for store in stores]
    assert [line["n_certified"] for line in each] == alone
    refused = asked("certify", *stores[:2], *promised, "--method", "drs-margin")
    assert refused.exit_code == 2
    assert "detection is promised of majorcert-exact, pool or drs-local, not of drs-margin" in refused.stderr
    assert "slack is for one voting defender" in asked("certify", *stores, *promised, "--slack", "1").stderr
    other = asked("certify", *stores, "--patch", "1", "--method", "detection", "--promise", "unwavering")
    assert other.exit_code == 2
    assert "the method 'detection' promises just that, not unwavering" in other.stderr


def test_methods_are_called_as_in_the_table(stores: list[Path], tmp_path: Path) -> None:
    """By the kind of one defender; of several, and of plain votes, as they are asked for; whatever is promised."""
    ballots("columns:1", 1, provenance={"network": "vit"}).save(tmp_path / "vit.zarr")
    ballots("fields:8x3", 1).save(tmp_path / "map.zarr")
    every = ("--method", "majorcert-exact", "--method", "drs-local", "--method", "pool")
    for some, names in (
        (stores[:1], ["majorcert-exact", "drs-local", "pool"]),
        (stores[:2], ["majorcert-exact", "drs-local", "drs-local", "pool"]),
        ([tmp_path / "vit.zarr"], ["vip", "vip", "pool"]),
        ([tmp_path / "map.zarr"], ["bagcert", "bagcert", "pool"]),
    ):
        for promise in ("recovery", "detection", "unwavering"):
            lines = told("certify", *some, "--patch", "1", *every, "--promise", promise)
            assert [line["method"] for line in lines] == names
            assert {line["promise"] for line in lines} == {promise}
    for promise in ("recovery", "detection"):
        (masks,) = told("certify", stores[2], "--patch", "1", "--promise", promise)
        assert (masks["method"], masks["promise"]) == ("double-masking", promise)
        alone = told("certify", *stores, "--patch", "1", "--promise", promise, "--method", "drs-local")
        assert [line["method"] for line in alone] == ["drs-local", "drs-local", "double-masking"]
    (margin,) = told("certify", tmp_path / "vit.zarr", "--patch", "1", "--method", "drs-margin")
    (guarded,) = told("certify", tmp_path / "map.zarr", "--patch", "1", "--method", "pg-drs")
    assert (margin["method"], guarded["method"]) == ("smoothed-vit", "pg-bn")
    shown = asked("certify", *stores[:2], "--patch", "1", "--method", "pool", "--promise", "detection", "--slack", "3")
    assert shown.stdout.splitlines()[1].split("\t")[1] == "pool, detection, slack 3"


def test_promises_side_by_side(tmp_path: Path) -> None:
    """Each image's strongest promise, and on how many an attacker can raise an alert, as Python has them."""
    votes = {"columns": ballots("columns:3", 2), "rows": ballots("rows:1", 3)}
    for name, each in votes.items():
        each.save(tmp_path / f"{name}.zarr")
    stores, out = [tmp_path / f"{name}.zarr" for name in votes], tmp_path / "joint"
    how = ("certify", *stores, "--patch", "1", "--promise", "joint", "--method", "pool", "--slack", "2")
    lines, expected = told(*how, "-o", out), mc.joint([mc.Pool(list(votes.values()))], 1, slack=2)
    names = ["unwavering", "recovery", "detection", "none"]
    assert set(expected.holds) == set(names)
    assert [line["promise"] for line in lines] == ["recovery", "detection", "unwavering"]
    assert lines[2]["holds"] == {name: (expected.holds == name).sum() for name in names}
    assert lines[2]["n_at_will"] == expected.alertable.sum()
    saved = mc.Verdict.load(out / "03-unwavering-1x1.jsonl")
    assert saved.holds.tolist() == expected.holds.tolist()
    alone = ("unwavering" if each == "joint" else each for each in how)
    assert told(*alone) == lines[2:]
    table = asked(*how)
    header, *_, unwavering = (line.split("\t") for line in table.stdout.splitlines())
    shown = dict(zip(header, unwavering, strict=True))
    assert (shown["alerts"], shown["at will"]) == ("", f"{expected.alertable.mean():.2%}")
    shares = ", ".join(f"{name} {(expected.holds == name).mean():.2%}" for name in names)
    assert f"pool of columns:3 + rows:1, 1x1: the strongest promise that holds is {shares}\n" in table.stderr
    assert "an attacker can raise an alert" in table.stderr
    assert "strongest" not in asked("certify", *stores, "--patch", "1").stderr


@pytest.mark.parametrize("method", ["majorcert-exact", "pg-drs", "pool", "pg-pool", "detection", "drs-local"])
def test_what_is_saved_is_verified_from_the_same_stores(method: str, stores: list[Path], tmp_path: Path) -> None:
    used = {"majorcert-exact": stores, "pool": stores[:2], "pg-pool": stores[:2], "detection": stores}.get(
        method, stores[:1]
    )
    out = tmp_path / "verdict.jsonl"
    told("certify", *used, "--patch", "1", "--method", method, "-o", out)
    said = told("verify", out, "--sample", "all", "--evidence", *used)
    assert said["equal"]
    assert {"what": "label", "n": N, "n_differences": 0} in said["checks"]
    lines = out.read_text().splitlines()
    forged = [line.replace('"certified":false', '"certified":true') for line in lines]
    out.write_text("\n".join(forged) + "\n")
    assert asked("verify", out, "--sample", "all", "--evidence", *used).exit_code in (1, 2)
    wrong = asked("verify", out, "--evidence", *stores, stores[0])
    assert wrong.exit_code == 2
    assert "evidence stores" in wrong.stderr


def test_explain_report_and_info_take_every_kind(stores: list[Path], tmp_path: Path) -> None:
    for some in ([stores[2]], stores):
        assert asked("explain", *some, "--image", "3", "--patch", "1").exit_code == 0
        assert asked("report", *some, "--patch", "1", "-o", tmp_path / "page.html").exit_code == 0
    assert told("info", stores[2])["claims"]["kind"] == "mask-pairs"


def test_a_patch_beyond_the_bound_is_told_by_every_verb(stores: list[Path], tmp_path: Path) -> None:
    said = "masks:2/3 speaks of patches up to 2x2: against 3x1 it certifies no image"
    np.save(tmp_path / "truth.npy", np.ones(N, dtype=int))
    known = ("--truth", tmp_path / "truth.npy")
    for verb in (
        ("certify",),
        ("report", "-o", tmp_path / "page.html"),
        ("explain", "--image", "3"),
        ("advise", *known),
    ):
        assert said in asked(*verb, *stores, "--patch", "3x1").stderr, verb
        assert said not in asked(*verb, *stores, "--patch", "1x2").stderr, verb


def test_what_masks_keep_from_changing_is_rows(tmp_path: Path) -> None:
    masks = mc.Masks(2, stride=3)
    n, store = masks.n_masks(SIZE), tmp_path / "far.zarr"
    about: dict[str, Any] = {"masks": masks, "image_size": SIZE, "n_classes": N_CLASSES}
    mc.MaskPairs(np.ones((N, n, n), dtype=int), distance=np.full((N, n), 0.5), **about).save(store)
    said = asked("certify", store, "--patch", "1", "--fragile", "0.1").stderr
    assert f"0 of {N * n} rows are fragile" in said
    assert f"0 of {N * n} rows could change" in told("info", store)["fragile"]


def test_explain_and_report_tell_of_detection(stores: list[Path], tmp_path: Path) -> None:
    detection = ("--patch", "1", "--promise", "detection")
    evidence = [load_evidence(store) for store in stores]
    verdict = mc.detect(evidence, 1)
    for image in range(N):
        said = asked("explain", *stores, "--image", image, *detection).stdout
        assert ("no alert, and certified" in said) == verdict.certified[image]
        assert ("alert against 1x1" in said) == verdict.alert[image]
    assert 0 < verdict.alert.sum() < N
    said = asked("explain", *stores, "--image", N - 1, *detection, "--at", "0,0").stdout
    assert "without what the patch could touch" in said
    assert asked("report", *stores, *detection, "-o", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert "without an alert" in page
    assert f"{verdict.alert.sum() / N:.1%}" in page
    masked = mc.MaskedScores(load_scores(stores[0]), mc.Patch(2))
    save_evidence(masked, tmp_path / "masked.zarr")
    refused = asked("report", tmp_path / "masked.zarr", *detection, "-o", tmp_path / "page.html")
    assert (refused.exit_code, "MaskedScores cannot say" in refused.stderr) == (2, True)


def test_images_without_a_vote_are_told(tmp_path: Path) -> None:
    labels = np.ones((20, 8), dtype=int)
    labels[:3] = mc.ABSTAIN
    about: dict[str, Any] = {"strategy": "rows:1", "image_size": SIZE, "n_classes": N_CLASSES}
    mc.Ballots(labels, **about).save(tmp_path / "many.zarr")
    labels[:2] = 1
    mc.Ballots(labels, **about).save(tmp_path / "few.zarr")
    both = tmp_path / "few.zarr", tmp_path / "many.zarr"
    for verb in (("certify",), ("report", "-o", tmp_path / "page.html"), ("explain", "--image", "5")):
        said = asked(*verb, *both, "--patch", "1").stderr
        assert "rows:1 #1: none of its views votes on 1 of 20 images (5.0%)" in said
        assert "rows:1 #2: none of its views votes on 3 of 20 images (15.0%)" in said
        assert said.count("a lower threshold would suit") == 1
    assert told("info", both[1])["images_without_a_vote"] == 3
    assert "votes on" not in asked("certify", tmp_path / "few.zarr", "--patch", "1", "--json").stdout
