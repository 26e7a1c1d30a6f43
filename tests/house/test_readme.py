"""The table of results in the README: every number of ours is recomputed from the evidence by the public functions."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import majorcert as mc

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "results" / "cifar10"


def rows() -> list[tuple[str, list[str], str]]:
    """The defenders, the numbers and the recipe of each row that names its evidence."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (.+?) \| (.+) \| `([a-z-]+)` \|$", text, flags=re.MULTILINE)
    return [(who, [cell.strip() for cell in cells.split("|")], recipe) for who, cells, recipe in found]


def defenders(who: str, recipe: str) -> list[mc.Evidence]:
    """The masks that the row names, or all; then the voters, in one count if the row says so."""
    named = re.search(r"masks:(\d)/(\d)", who)
    stores = json.loads((STUDY / "recipes.json").read_text(encoding="utf-8"))[recipe]["defenders"]
    evidence = [mc.load_evidence(STUDY / store) for store in stores]
    masks = [each for each in evidence if isinstance(each, mc.MaskPairs)]
    voters = [each for each in evidence if isinstance(each, mc.Ballots)]
    if named:
        masks = [each for each in masks if str(each.masks) == named[0]]
    return [*masks, mc.Pool(voters)] if "in one count" in who else masks + voters


def test_the_table_has_its_rows() -> None:
    assert [recipe for _, _, recipe in rows()] == ["best"] * 2 + ["paper"] * 2 + ["small"] + [
        *["masking"] * 2,
        *["masking-one"] * 2,
        "masking-small",
        "mixed",
    ]
    assert all(len(cells) == 5 for _, cells, _ in rows())


def test_the_promises_side_by_side_are_those_of_the_record() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    records = json.loads((STUDY / "promises.json").read_text(encoding="utf-8"))
    pool = [each for each in records if (each["recipe"], each["who"], each.get("slack", 0)) == ("best", "pool", 0)]
    joint = {each["patch"]: each for each in pool if each["promise"] == "joint"}
    short = {each["patch"]: each for each in pool if each["promise"] == "top-3"}
    for name in ("recovery", "detection", "unwavering"):
        cells = next(line for line in text.splitlines() if line.startswith(f"| {name} |")).split(" | ")
        assert cells[3:5] == [f"{joint[size][f'{name}_and_correct']:.2f}" for size in ("2x2", "5x5")]
    cells = next(line for line in text.splitlines() if line.startswith("| among the first 3 |")).split(" | ")
    assert cells[3:5] == [f"{short[size]['certified_and_correct']:.2f}" for size in ("2x2", "5x5")]
    assert f"{joint['2x2']['alerts']}% of the clean images raise an alert at 2x2, {joint['5x5']['alerts']}%" in text


@pytest.mark.slow
@pytest.mark.parametrize(("who", "cells", "recipe"), rows(), ids=[who for who, _, _ in rows()])
def test_every_number_is_that_of_the_evidence(who: str, cells: list[str], recipe: str) -> None:
    said, clean = defenders(who, recipe), set()
    truth = np.load(STUDY / "truth.npy")[said[0].images]
    for side, recovery, detection in ((2, cells[1], cells[3]), (5, cells[2], cells[4])):
        assert bool(recovery) == bool(detection)
        if not recovery:
            continue
        score = mc.score(mc.certify(said, mc.Patch(side)), truth)
        clean.add(f"{score.clean:.2%}")
        assert f"{score.certified:.2%}" == f"{recovery}%"
        found = mc.detect(said, mc.Patch(side))
        assert f"{mc.score(found, truth).certified:.2%} ({found.alert.mean():.2%})".replace("%", "") == detection
    assert clean == {f"{cells[0]}%"}


def test_other_methods_are_those_of_the_results() -> None:
    """Clean where it differs with the patch: at 2x2, then at 5x5."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    results = json.loads((STUDY / "results.json").read_text(encoding="utf-8"))["rows"]
    for name, method, store in (
        ("BagCert-style", "bagcert", "fields-32x5"),
        ("PG-BN", "pg-bn", "fields-32x5"),
        ("CBN", "cbn", "fields-32x5"),
        ("IBP for 2x2", "ibp", "bounds-2"),
        ("IBP for 5x5", "ibp", "bounds-5"),
        ("ViP", "vip", "columns-4"),
    ):
        line = next(line for line in text.splitlines() if line.startswith(f"| {name}:"))
        cells = [cell.strip() for cell in line.split("|")][1:]
        some = [row for row in results if row["method"] == method and Path(row["evidence"][0]).stem == store]
        kept = {row["patch"]: row for row in some if row["promise"] == "recovery"}
        assert cells[2:4] == [f"{kept[size]['certified']:.2f}" if size in kept else "" for size in ("2x2", "5x5")]
        assert cells[1] == ", ".join(dict.fromkeys(f"{row['clean']:.2f}" for row in kept.values()))


def test_the_weights_that_the_voting_study_names_are_those_that_voted() -> None:
    text = (ROOT / "studies" / "voting" / "README.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `([a-z]+-\d+)` \| `([0-9a-f]{64})` \|$", text, flags=re.MULTILINE))
    stores = json.loads((STUDY / "recipes.json").read_text(encoding="utf-8"))["best"]["defenders"]
    voted = [mc.load_evidence(STUDY / store).provenance for store in stores]
    assert named == {Path(store).stem: each["weights_sha256"] for store, each in zip(stores, voted, strict=True)}
