"""The attack under the promise of detection: it succeeds only where the label changes and no alert is raised."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import majorcert as mc
from majorcert.attacks import descent, run, watchdog
from majorcert.attacks.aim import Aim
from majorcert.attacks.descent import objective
from majorcert.attacks.effort import Effort
from majorcert.attacks.logbook import Logbook
from majorcert.attacks.paint import Stock, paste
from majorcert.attacks.placements import sites_of
from majorcert.attacks.victim import Sites
from majorcert.nets.data import Dataset
from majorcert.nets.undefended import undefended

torch.set_num_threads(1)
SIZE, PATCH, NAMES = (6, 8), mc.Patch(2), ("red", "green", "blue")
EFFORT = Effort(restarts=2, steps=6, placements=2, probed=5, cheap=6)
KINDS = ("voting", "pool", "masking", "mixed")


def brightness(views: Tensor) -> Tensor:
    return 12 * views[:, :3].mean(dim=(2, 3))


def ensemble(kind: str) -> mc.Ensemble:
    about: dict[str, Any] = {"image_size": SIZE, "class_names": NAMES}
    voting = [mc.Defender(brightness, spec, "crop", 0.38, **about) for spec in ("rows:2", "columns:3", "columns:2/2")]
    masking = mc.MaskingDefender(lambda views: views[:, :3].mean(dim=(2, 3)), "masks:2/2", **about)
    members: dict[str, list[Any]] = {"one": voting[1:2], "masking": [masking], "mixed": [voting[0], masking, voting[1]]}
    return mc.Ensemble(members.get(kind, voting), pooled=kind == "pool")


def pictures(n: int = 18) -> Dataset:
    """Each a little brighter in the colour of its label; the later ones by much more; another one in a corner."""
    images = torch.randint(60, 120, (n, 3, *SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    for k in range(n):
        images[k, k % 3] += 4 * (k // 3)
        images[k, (k + 1) % 3, :2, :3] += 60
    return Dataset(images, torch.arange(n) % 3, NAMES, "made", "test")


def attacked(kind: str, out: Path, **options: Any) -> Any:
    return mc.attack(ensemble(kind), pictures(), PATCH, out, promise="detection", effort=EFFORT, **options)


@pytest.mark.parametrize("kind", ["voting", "masking", "mixed", pytest.param("pool", marks=pytest.mark.slow)])
def test_it_fools_some_silently_and_nothing_that_is_certified(kind: str, tmp_path: Path) -> None:
    found = attacked(kind, tmp_path)
    assert found.complaints == ()
    assert found.summary["promise"] == "detection"
    row = found.summary["defended"]
    assert row["n_certified_attacked"] > 0
    assert row["n_certified_flipped"] == 0 < row["n_flipped"]
    assert row["n_flipped"] < row["n_changed"] <= row["n_attacked"], "a change with an alert is no success"
    assert kind == "masking" or row["n_certified_changed"] > 0, "with an alert, which breaks no promise"
    assert 0 < row["n_certified_alerted"] <= row["n_alerts"] < row["n_attacked"]
    assert row["n_certified_changed"] <= row["n_certified_alerted"]
    assert 0 < row["n_alerts_clean"] == row["n_attacked"] - row["n_certified_attacked"]
    rows = Logbook(tmp_path / "attack.jsonl", row["about"]).rows
    for each in rows:
        verdict = ensemble(kind).detect(pictures().images[each["image"]][None], PATCH)
        assert (each["certified"], each["alert"]) == (verdict.certified[0], verdict.alert[0])
        assert not each["flipped"] or each["changed"]
    again = attacked(kind, tmp_path)
    assert again.summary == found.summary, "what is there is not done again"


def every_site(n_images: int) -> Sites:
    n_tops, n_lefts = PATCH.n_placements(SIZE)
    cells = np.stack(np.divmod(np.arange(n_tops * n_lefts), n_lefts), axis=1)
    return sites_of(np.arange(n_images).repeat(len(cells)), np.tile(cells, (n_images, 1)), torch.device("cpu"))


def a_run(kind: str, folder: Path, slack: int = 0) -> run.AttackRun:
    images = pictures()
    stock = Stock(images.images, images.labels)
    return run.AttackRun(
        ensemble(kind), images, np.arange(len(images)), stock, PATCH, EFFORT, None, None, folder, "detection", slack
    )


@pytest.mark.parametrize(("kind", "slack"), [*((kind, 0) for kind in KINDS), ("pool", 4), ("one", 1)])
def test_what_the_search_takes_for_silent_is_silent(kind: str, slack: int, tmp_path: Path) -> None:
    """At every placement, random patches: label and alert as the plain path says, but for rows of second masks."""
    under, images = a_run(kind, tmp_path, slack), pictures().images
    every, sites = np.arange(len(images)), every_site(len(images))
    victim = under._victim(images, under.ensemble.evidence(images), every)
    lot = torch.Generator().manual_seed(4)
    patches = torch.randint(0, 256, (len(sites), 3, 2, 2), dtype=torch.uint8, generator=lot)
    look = victim.look(sites, patches.float() / 255, victim.kept(sites))
    evidence = under.ensemble.evidence(paste(images[sites.image], patches, sites.top, sites.left))
    verdict, clean = mc.detect(evidence, PATCH, slack=slack), victim.clean[sites.image]
    fooled = (verdict.predicted != clean.numpy()) & ~verdict.alert
    assert 0 < fooled.sum() < (verdict.predicted != clean.numpy()).sum()
    usual = np.ones(len(sites), dtype=bool)
    for pairs in [each for each in evidence if isinstance(each, mc.MaskPairs)]:
        counts = np.stack([(pairs.singles() == label).sum(axis=1) for label in range(3)], axis=1)
        usual &= pairs.label == counts.argmax(axis=1)
    assert usual.mean() > 0.9
    np.testing.assert_array_equal(look.fooled(clean).numpy()[usual], fooled[usual])
    np.testing.assert_array_equal(look.label.numpy()[usual], verdict.predicted[usual])


def test_with_a_slack_more_is_silent_and_nothing_that_is_certified_changes_so(tmp_path: Path) -> None:
    strict, eased = (attacked("pool", tmp_path / f"{slack}", slack=slack) for slack in (0, 8))
    plain, row = strict.summary["defended"], eased.summary["defended"]
    assert eased.complaints == ()
    assert (eased.summary["slack"], row["about"]["slack"], "slack" in strict.summary) == (8, 8, False)
    assert row["n_certified_flipped"] == 0 < row["n_certified_attacked"] < plain["n_certified_attacked"]
    assert row["n_alerts_clean"] < plain["n_alerts_clean"]
    for each in Logbook(tmp_path / "8" / "attack.jsonl", row["about"]).rows:
        verdict = ensemble("pool").detect(pictures().images[each["image"]][None], PATCH, slack=8)
        assert (each["certified"], each["alert"]) == (verdict.certified[0], verdict.alert[0])
    painted = sorted((tmp_path / "8" / "painted").glob("*.png"))
    images = np.stack([np.asarray(Image.open(path)) for path in painted])
    assert len(painted) == row["n_flipped"] > plain["n_flipped"]
    assert not ensemble("pool").detect(images, PATCH, slack=8).alert.any()
    assert ensemble("pool").detect(images, PATCH).alert.any(), "by the rule without a slack some would be told"
    with pytest.raises(mc.StoreError, match="slack was 8"):
        attacked("pool", tmp_path / "8", slack=9)


def test_a_slack_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(mc.EvidenceError, match="slack is for one voting defender or pool, got 3 defenders"):
        attacked("voting", tmp_path, slack=1)
    with pytest.raises(mc.EvidenceError, match="slack is of alerts, and recovery has none"):
        mc.attack(ensemble("pool"), pictures(), PATCH, tmp_path, slack=1)
    with pytest.raises(mc.EvidenceError, match="a masking defender has none"):
        attacked("masking", tmp_path, slack=1)


def test_where_the_label_has_changed_the_loss_still_asks_for_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descent, "TEMPERATURE", 1e-4)
    under, images = a_run("voting", tmp_path), pictures().images
    evidence, every, sites = under.ensemble.evidence(images), np.arange(len(images)), every_site(len(images))
    patches = torch.rand(len(sites), 3, 2, 2, generator=torch.Generator().manual_seed(4))
    losses, silent = [], torch.empty(0)
    for promise in ("detection", "recovery"):
        victim = replace(under, promise=promise)._victim(images, evidence, every)
        look, clean = victim.look(sites, patches, victim.kept(sites)), victim.clean[sites.image]
        aim = Aim.at_rival(look.label, victim.labels[sites.image], clean)
        losses.append(objective(victim, look, aim)[look.label != clean])
        if promise == "detection":
            silent = look.fooled(clean)[look.label != clean]
    told = losses[0][~silent] > losses[1][~silent]
    assert told.all()
    assert len(told) > 10


def test_an_attack_that_forgets_the_alert_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge calls every change silent: what was painted is judged again from its files, with alerts."""

    def deaf(*arguments: Any, **options: Any) -> mc.Verdict:
        verdict = mc.detect(*arguments, **options)
        return replace(verdict, alert=np.zeros_like(verdict.alert))

    honest = attacked("voting", tmp_path / "honest").summary["defended"]
    monkeypatch.setattr(watchdog, "detect", deaf)
    found = attacked("voting", tmp_path / "deaf")
    assert found.summary["defended"]["n_flipped"] > honest["n_flipped"]
    assert any("not predicted as it was" in complaint for complaint in found.complaints)
    assert any("without an alert" in complaint for complaint in found.complaints), "certified ones are among them"


def test_a_certificate_that_is_not_sound_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(*arguments: Any, **options: Any) -> mc.Verdict:
        verdict = mc.detect(*arguments, **options)
        return replace(verdict, certified=np.ones_like(verdict.certified))

    monkeypatch.setattr(run, "detect", planted)
    found = attacked("voting", tmp_path, n_images=6)
    assert "changed without an alert" in found.complaints[-1]
    assert found.summary["defended"]["broken"]
    facts = next((tmp_path / "broken").iterdir()) / "facts.json"
    assert watchdog.SILENT in facts.read_text()


def test_the_undefended_classifier_has_no_alert(tmp_path: Path) -> None:
    plain = undefended(brightness, image_size=SIZE, class_names=NAMES)
    found = attacked("voting", tmp_path, undefended=plain, n_images=6)
    assert "promise" not in found.summary["undefended"]["about"]
    assert "n_alerts" not in found.summary["undefended"]
    assert found.summary["defended"]["about"]["promise"] == "detection"
    with pytest.raises(mc.StoreError, match="promise was 'detection'"):
        mc.attack(ensemble("voting"), pictures(), PATCH, tmp_path, undefended=plain, n_images=6, effort=EFFORT)
    with pytest.raises(mc.ModelError, match="'recovery' or 'detection', got 'alarm'"):
        mc.attack(ensemble("voting"), pictures(), PATCH, tmp_path, promise="alarm")  # type: ignore[arg-type]
