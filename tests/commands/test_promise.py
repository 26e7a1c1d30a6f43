"""`predict` and `attack` by promise and by method: what they print is the core's, with its alerts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import majorcert as mc
from majorcert.commands.app import app
from majorcert.nets.models import ModelConfig, build
from majorcert.reports.attack_record import alerts_told

torch.set_num_threads(1)
NAMES, CONFIG = ("red", "green", "blue"), ModelConfig("small", 5, 3, width=4)
PATCH = ("--patch", "2", "--promise", "detection", "--device", "cpu")


def asked(*arguments: Any) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two defenders with weights by lot, that are of two minds about pictures by lot."""
    torch.manual_seed(3)
    about: dict[str, Any] = {"image_size": (8, 8), "class_names": NAMES, "config": CONFIG}
    members = [undecided(pictures(), spec, **about) for spec in ("rows:3", "columns:3")]
    torch.manual_seed(3)
    narrow = [undecided(flat(), spec, **about) for spec in ("rows:1", "columns:1")]
    out = tmp_path_factory.mktemp("promise")
    mc.Ensemble(narrow).save(out / "narrow")
    mc.Ensemble(members).save(out / "majority")
    mc.Ensemble(members, pooled=True).save(out / "pooled")
    for k, image in enumerate(pictures()):
        Image.fromarray(image).save(out / f"{k}.png")
    for k, image in enumerate(flat()):
        Image.fromarray(image).save(out / f"flat-{k}.png")
    return out


def undecided(images: Any, spec: str, **about: Any) -> mc.Defender:
    """One whose labels are about as frequent."""
    network = build(CONFIG)
    scores = np.log(mc.Defender(network, spec, "crop", None, **about).scores(images))
    with torch.no_grad():
        list(network.parameters())[-1] -= 0.98 * torch.from_numpy(scores.mean(axis=(0, 1)))
    return mc.Defender(network, spec, "crop", None, **about)


def pictures() -> Any:
    return np.random.default_rng(2).integers(256, size=(12, 8, 8, 3), dtype=np.uint8)


def flat() -> Any:
    """Each of one colour and noise, so that votes agree."""
    rng = np.random.default_rng(2)
    colours = rng.integers(256, size=(12, 1, 1, 3))
    return np.clip(colours + rng.integers(-60, 60, size=(12, 8, 8, 3)), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("rule", ["majority", "pooled"])
def test_predict_says_alert_where_there_is_one(rule: str, folder: Path) -> None:
    files = [folder / f"{k}.png" for k in range(12)]
    how = ("--ensemble", folder / rule, *PATCH)
    found = json.loads(asked("predict", *files, *how, "--json").stdout)
    ensemble = mc.Ensemble.load(folder / rule)
    assert ensemble.pooled == (rule == "pooled")
    verdict = ensemble.detect(pictures(), 2)
    assert 0 < verdict.alert.sum() < 12
    assert [row["alert"]["2x2"] for row in found] == verdict.alert.tolist()
    assert [row["certified"]["2x2"] for row in found] == verdict.certified.tolist()
    assert [NAMES.index(row["label"]) for row in found] == verdict.predicted.tolist()
    assert all(row["promise"] == "detection" and "largest" not in row for row in found)
    told = asked("predict", *files, *how)
    header, *lines = (line.split("\t") for line in told.stdout.splitlines())
    assert header == ["image", "label", "alert 2x2 of 8x8"]
    assert [line[2] == "alert" for line in lines] == verdict.alert.tolist()
    assert "the label would be another one without what some patch of this size could touch" in told.stderr
    for raised in (True, False):
        one = asked("predict", files[verdict.alert.tolist().index(raised)], *how).stderr
        assert ("alert: without some part" in one) == raised
        assert ("no alert: the label is" in one) != raised


def test_predict_says_where_a_slack_leaves_neither_alert_nor_proof(folder: Path) -> None:
    files = [folder / f"flat-{k}.png" for k in range(12)]
    how = ("--ensemble", folder / "majority", "--method", "pool", *PATCH, "--patch", 1, "--slack", 1)
    found = json.loads(asked("predict", *files, *how, "--json").stdout)
    assert {row["slack"] for row in found} == {1}
    told = asked("predict", *files, *how)
    assert "even if it were given 1 votes or points more; where there is none and the label is certified" in told.stderr
    for size, place in (("2x2", 2), ("1x1", 3)):
        verdict = mc.Ensemble.load(folder / "pooled").detect(flat(), mc.Patch(int(size[0])), slack=1)
        silent = ~verdict.alert & ~verdict.certified
        assert [row["alert"][size] for row in found] == verdict.alert.tolist()
        assert [row["certified"][size] for row in found] == verdict.certified.tolist()
        cells = [line.split("\t")[place] for line in told.stdout.splitlines()[1:]]
        assert [cell == "none, not certified" for cell in cells] == silent.tolist()
        assert [cell == "none" for cell in cells] == verdict.certified.tolist()
    assert min(silent.sum(), verdict.alert.sum(), verdict.certified.sum()) > 0
    one = asked("predict", files[int(silent.argmax())], *how).stderr
    assert "no alert, and nothing is proved: without some part of the photo, of the size 1x1, " in one
    assert "has no lead beyond the slack of 1" in one


def test_a_slack_that_cannot_be_is_told_before_photos_are_read(folder: Path) -> None:
    """The words are those of certify."""
    for more, why in (
        (PATCH, "slack is for one voting defender or pool, got 2 defenders; use slack=0"),
        (("--patch", "2"), "slack is of alerts, and recovery has none, got 1"),
    ):
        arguments = ["predict", "nowhere.png", "--ensemble", folder / "majority", *more, "--slack", 1]
        refused = CliRunner().invoke(app, list(map(str, arguments)))
        assert refused.exit_code == 2
        assert why in refused.stderr


def test_votes_are_added_up_on_request(folder: Path) -> None:
    files = [folder / f"{k}.png" for k in range(12)]
    pooled, *same, majority, apart = (
        json.loads(asked("predict", *files, "--ensemble", folder / rule, *more, *PATCH, "--json").stdout)
        for rule, more in (
            ("pooled", ()),
            ("majority", ("--method", "pool")),
            ("majority", ("--pool",)),
            ("majority", ()),
            ("pooled", ("--method", "majorcert-exact")),
        )
    )
    assert same == [pooled, pooled]
    assert apart == majority
    assert list(pooled[0]["defenders"]) == ["1:pool of rows:3, columns:3"]
    assert list(majority[0]["defenders"]) == ["1:rows:3", "2:columns:3"]
    with pytest.raises(mc.ModelError, match="defenders that vote, got masks:2/2"):
        mc.Ensemble([mc.MaskingDefender(lambda views: views.mean((2, 3)), "masks:2/2", image_size=(8, 8))], pooled=True)


def test_predict_masks_the_pool_for_all_patches_that_are_asked_for(folder: Path) -> None:
    files = [folder / f"flat-{k}.png" for k in range(12)]
    how = ("--ensemble", folder / "narrow", "--method", "pg-pool", "--device", "cpu", "--json")
    told = asked("predict", *files, *how, "--patch", "1x2", "--patch", "1")
    pool, found = mc.Pool(mc.Ensemble.load(folder / "narrow").ballots(flat())), json.loads(told.stdout)
    for patch in (mc.Patch(1), mc.Patch(1, 2)):
        verdict = mc.patchguard(pool, patch, mask=mc.Patch(1, 2))
        assert [NAMES.index(row["label"]) for row in found] == verdict.predicted.tolist()
        assert [row["certified"][str(patch)] for row in found] == verdict.certified.tolist()
        assert 0 < verdict.certified.sum() < 12
        assert verdict.certified.tolist() != mc.majorcert([pool], patch).certified.tolist()
    assert verdict.predicted.tolist() != pool.label.tolist()
    assert all(row["presumed"] == {"masked pool of rows:1 + columns:1": "1x2"} for row in found)
    assert "takes for granted that no patch is larger than 1x2" in told.stderr
    (wider,) = json.loads(asked("predict", files[0], *how, "--patch", "1x2", "--patch", "2x1").stdout)
    assert list(wider["presumed"].values()) == ["2x2"]
    refused = CliRunner().invoke(app, ["predict", str(files[0]), *map(str, how), "--promise", "detection"])
    assert refused.exit_code == 2
    assert "MaskedPool cannot say what it says without a part" in refused.stderr


def test_each_photo_is_masked_for_what_a_patch_is_on_it(folder: Path, tmp_path: Path) -> None:
    sizes = ((8, 8), (32, 8), (8, 8), (8, 48))
    for k, (size, image) in enumerate(zip(sizes, pictures(), strict=False)):
        Image.fromarray(image).resize(size[::-1]).save(tmp_path / f"{k}.png")
    how = ("--ensemble", folder / "pooled", "--method", "pg-pool", "--patch", "5px", "--device", "cpu", "--json")
    together, alone = (
        [row for some in files for row in json.loads(asked("predict", *some, *how).stdout)]
        for files in ([sorted(tmp_path.glob("*.png"))], [[tmp_path / f"{k}.png"] for k in range(4)])
    )
    assert together == alone
    masks = [mc.patch_from_photo("5px", size, (8, 8)) for size in sizes]
    assert [list(row["presumed"].values()) for row in together] == [[str(mask)] for mask in masks]
    assert len(set(masks)) == 3


def test_attack_counts_changes_alerts_and_what_is_silent(folder: Path, tmp_path: Path) -> None:
    data, ensemble = tmp_path / "pictures.npz", mc.Ensemble.load(folder / "pooled")
    labels = ensemble.predict(pictures())
    np.savez(data, test_images=pictures(), test_labels=labels, images=pictures(), labels=labels, class_names=NAMES)
    least = ("--restarts", 2, "--steps", 4, "--placements", 2, "--probed", 3, "--cheap", 4)
    how = ("attack", folder / "majority", data, "--pool", *PATCH, *least, "-o", tmp_path / "out")
    summary = json.loads(asked(*how, "--json").stdout)
    found = summary["defended"]
    assert (summary["promise"], found["about"]["promise"], found["about"]["pooled"]) == ("detection", "detection", True)
    assert found["n_certified_attacked"] == ensemble.detect(pictures(), 2).certified.sum()
    assert found["n_certified_flipped"] == 0
    told = asked(*how).stderr
    assert f"label changed: {found['n_changed']}, of these without an alert: {found['n_flipped']}; " in told
    counts = {"n_changed": 5, "n_flipped": 2, "n_alerts": 9, "n_alerts_clean": 3}
    assert alerts_told({"defended": counts}) == [
        "images whose label changed: 5, of these without an alert: 2; "
        "images on which an alert was raised: 9, and which raise one as they are: 3"
    ]
    facts = json.loads(asked("info", tmp_path / "out", "--json").stdout)
    assert facts["promise"] == "detection"
    assert facts["defended"]["n_alerts"] == found["n_alerts"]
    how = ("attack", folder / "majority", data, "--pool", *PATCH, *least, "--slack", 1, "-o", tmp_path / "eased")
    eased = json.loads(asked(*how, "--json").stdout)
    assert eased["defended"]["n_alerts_clean"] == ensemble.detect(pictures(), 2, slack=1).alert.sum()
    assert eased["slack"] == json.loads(asked("info", tmp_path / "eased", "--json").stdout)["slack"] == 1
