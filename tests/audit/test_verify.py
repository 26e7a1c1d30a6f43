"""The checker: honest verdicts pass, and every planted fault is named."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from calls import asked
from cases import draw_case, draw_coherent

import majorcert as mc
from majorcert.audit import ensemble as opinion
from majorcert.audit import revote
from majorcert.audit.judgement import judged_anew
from majorcert.audit.verify import sampled, verify
from majorcert.core.verdict import Verdict, Witness
from majorcert.errors import DataError, EvidenceError
from majorcert.files.evidence import load_evidence
from majorcert.nets.data import Dataset, load
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.views import in_channels

torch.set_num_threads(1)
SPECS = ("rows:2", "columns:2", "blocks:3")
PATCH = mc.Patch(2)
N = 30
N_CLASSES = 4
EXCESS = revote.FLOAT32_MOVES
CERTIFIERS: dict[str, Callable[[list[mc.Ballots]], Verdict]] = {
    "drs-margin": lambda ballots: mc.drs(ballots[0], PATCH, bound="margin"),
    "drs-local": lambda ballots: mc.drs(ballots[0], PATCH, bound="local"),
    "majorcert-exact": lambda ballots: mc.majorcert(ballots, PATCH, reach="exact"),
    "majorcert-paper": lambda ballots: mc.majorcert(ballots, PATCH, reach="paper"),
}


def ballots() -> list[mc.Ballots]:
    """Votes on 8x8 images with a region of a rival in one corner; of the second half in the opposite corner."""
    found = draw_coherent(3, SPECS, (8, 8), N_CLASSES, (2, 2), N).ballots()
    labels = [np.concatenate([each.labels[: N // 2], each.labels[N // 2 :, ::-1]]) for each in found]
    about: dict[str, Any] = {"image_size": (8, 8), "n_classes": N_CLASSES, "images": np.arange(100, 100 + N)}
    return [mc.Ballots(each, strategy=spec, **about) for each, spec in zip(labels, SPECS, strict=True)]


def ran(verdict: Verdict, evidence: list[mc.Ballots], folder: Path, *options: Any) -> Any:
    """`majorcert verify` on files of these."""
    verdict.save(folder / "verdict.jsonl")
    stores = []
    for place, each in enumerate(evidence):
        stores.append(str(folder / f"{place}.zarr"))
        each.save(stores[-1])
    return asked("verify", folder / "verdict.jsonl", "--sample", "all", "--evidence", *stores, *options)


def passes(*arguments: Any) -> str:
    result = ran(*arguments)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def fails(*arguments: Any) -> str:
    """What is said about the differences."""
    result = ran(*arguments)
    assert result.exit_code == 1, result.output
    return str(result.stderr)


def refuses(*arguments: Any) -> str:
    result = ran(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return str(result.stderr)


def changed(array: Any, place: Any, value: Any) -> Any:
    copy = array.copy()
    copy[place] = value
    return copy


@pytest.mark.parametrize("method", CERTIFIERS)
def test_an_honest_verdict_passes(method: str, tmp_path: Path) -> None:
    evidence = ballots()
    verdict = CERTIFIERS[method](evidence)
    assert verdict.method == method
    assert 0 < verdict.certified.sum() < N, "both verdicts should occur"
    table = passes(verdict, evidence[: len(verdict.defenders)], tmp_path)
    assert f"certified\t{N}\t0" in table
    assert f"safe map\t{N}\t0" in table


@pytest.mark.parametrize("seed", range(40))
def test_the_checker_and_the_core_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = draw_case(seed, n_classes=3 + seed % 3, n_defenders=1 + seed % 4, image_sizes=[(4, 5), (6, 3)], n_images=4)
    evidence, patch = case.ballots(), mc.Patch(*case.patch)
    verdicts = [mc.majorcert(evidence, patch), mc.majorcert(evidence, patch, reach="paper")]
    verdicts += [mc.drs(evidence[0], patch, bound="local"), mc.drs(evidence[0], patch)]
    for max_picks in (opinion.MAX_PICKS, 0):
        monkeypatch.setattr(opinion, "MAX_PICKS", max_picks)
        opinion.majority_holds.cache_clear()
        for verdict in verdicts:
            checks = judged_anew(verdict, evidence[: len(verdict.defenders)], range(case.n_images))
            assert [each for check in checks for each in check.differences] == []
    opinion.majority_holds.cache_clear()


TOLERANCE = 0.2
FRAGILE: dict[str, Callable[[list[mc.Ballots]], Verdict]] = {
    method: lambda ballots, certify=certify: certify([each.tolerating(TOLERANCE) for each in ballots])  # type: ignore[misc]
    for method, certify in CERTIFIERS.items()
}


def shaky() -> list[mc.Ballots]:
    """The same votes, of some of which it is known that they are near to changing."""
    found = []
    for place, each in enumerate(ballots()):
        random = np.random.default_rng(place)
        share = random.choice([0.0, 0.1, 0.25], size=(N, 1))
        distance = np.where(random.random(each.labels.shape[:2]) < share, 0.15, 0.7)
        about: dict[str, Any] = {"image_size": (8, 8), "n_classes": N_CLASSES, "images": each.images}
        found.append(mc.Ballots(each.labels, strategy=each.strategy, distance=distance, **about))
    return found


@pytest.mark.parametrize("method", FRAGILE)
def test_an_honest_verdict_with_fragile_ballots_passes(method: str, tmp_path: Path) -> None:
    evidence = shaky()
    verdict, plain = FRAGILE[method](evidence), CERTIFIERS[method](evidence)
    assert 0 < verdict.certified.sum() < plain.certified.sum(), "some certificates should be lost, and some stay"
    evidence = evidence[: len(verdict.defenders)]
    passes(verdict, evidence, tmp_path)
    said = json.loads(passes(verdict, evidence, tmp_path, "--json"))
    assert said["fragile"] == [TOLERANCE] * len(evidence)


@pytest.mark.parametrize("method", FRAGILE)
def test_fragility_that_was_ignored_is_caught(method: str, tmp_path: Path) -> None:
    """A verdict that claims a tolerance and was made without it."""
    evidence = shaky()
    plain, honest = CERTIFIERS[method](evidence), FRAGILE[method](evidence)
    forged = replace(plain, defenders=honest.defenders)
    row = int(np.flatnonzero(plain.certified & ~honest.certified)[0])
    said = fails(forged, evidence[: len(plain.defenders)], tmp_path)
    assert f"image {100 + row}, certified: expected False, found True" in said


@pytest.mark.parametrize("method", FRAGILE)
@pytest.mark.parametrize("altered", [0.1, 0.9, None])
def test_an_altered_tolerance_is_caught(method: str, altered: float | None, tmp_path: Path) -> None:
    evidence = shaky()
    honest = FRAGILE[method](evidence)
    origins = tuple({**origin, "fragile": altered} for origin in honest.defenders)
    expected, found = ("True", "False") if altered != 0.9 else ("False", "True")
    said = fails(replace(honest, defenders=origins), evidence[: len(origins)], tmp_path)
    assert f"certified: expected {expected}, found {found}" in said


def test_a_tolerance_that_cannot_be_checked_is_refused(tmp_path: Path) -> None:
    evidence = shaky()
    verdict = FRAGILE["majorcert-exact"](evidence)
    assert "evidence 1 was recorded without distances" in refuses(verdict, ballots(), tmp_path)
    for wrong in (-1.0, "little", True):
        origins = tuple({**origin, "fragile": wrong} for origin in verdict.defenders)
        said = refuses(replace(verdict, defenders=origins), evidence, tmp_path)
        assert "'fragile' is a number of 0 or more" in said


@pytest.mark.parametrize("seed", range(20))
def test_the_checker_and_the_core_agree_on_fragile_ballots(seed: int) -> None:
    case = draw_case(seed, n_classes=3 + seed % 3, n_defenders=1 + seed % 4, image_sizes=[(4, 5), (6, 3)], n_images=4)
    case = case.shaken(seed)
    evidence, patch = case.ballots(), mc.Patch(*case.patch)
    verdicts = [mc.majorcert(evidence, patch), mc.majorcert(evidence, patch, reach="paper")]
    verdicts += [mc.drs(evidence[0], patch, bound="local"), mc.drs(evidence[0], patch)]
    for verdict in verdicts:
        checks = judged_anew(verdict, evidence[: len(verdict.defenders)], range(case.n_images))
        assert [each for check in checks for each in check.differences] == []


def test_a_changed_verdict_bit_is_caught(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.drs(evidence[0], PATCH)
    row = int(np.flatnonzero(~verdict.certified)[0])
    forged = replace(verdict, certified=changed(verdict.certified, row, True), by=changed(verdict.by, row, "margin"))
    assert f"image {100 + row}, certified: expected False, found True" in fails(forged, evidence[:1], tmp_path)


def test_a_changed_bit_of_the_map_is_caught(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    assert verdict.safe is not None
    row = next(row for row in range(N) if (~verdict.safe[row]).sum() > 1)
    top, left = (int(n) for n in np.argwhere(~verdict.safe[row])[-1])
    forged = replace(verdict, safe=changed(verdict.safe, (row, top, left), True))
    complaint = f"image {100 + row}, placement ({top}, {left}), safe: expected False, found True"
    assert complaint in fails(forged, evidence, tmp_path)


def test_a_changed_verdict_bit_that_contradicts_its_row_is_caught_in_any_sample(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    row = int(np.flatnonzero(~verdict.certified)[0])
    forged = replace(verdict, certified=changed(verdict.certified, row, True))
    seed = next(seed for seed in range(100) if row not in sampled(N, 1, seed))
    said = fails(forged, evidence, tmp_path, "--sample", 1, "--seed", seed)
    assert f"image {100 + row}, certified, by its own safe map: expected False, found True" in said


def test_a_changed_ballot_is_caught(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    for row, ablation in np.ndindex(N, 8):
        labels = changed(evidence[0].labels, (row, ablation), (evidence[0].labels[row, ablation] + 1) % N_CLASSES)
        other = mc.Ballots(labels, strategy="rows:2", image_size=(8, 8), n_classes=N_CLASSES, images=evidence[0].images)
        maps = mc.majorcert([other, *evidence[1:]], PATCH).safe, verdict.safe
        if not np.array_equal(*maps):  # type: ignore[arg-type]
            break
    said = fails(verdict, [other, *evidence[1:]], tmp_path)
    assert f"image {100 + row}, placement (" in said
    assert {line.split(",")[0] for line in said.splitlines()} == {f"image {100 + row}"}


def without_last_column(verdict: Verdict) -> Verdict:
    """The verdict of somebody who believes that the last column of placements does not exist, so cannot hurt."""
    assert verdict.safe is not None
    safe = changed(verdict.safe, (slice(None), slice(None), -1), True)
    certified = safe.all(axis=(1, 2))
    by = np.where(certified & ~verdict.certified, "theorem2", verdict.by)
    witnesses = tuple(None if holds else w for holds, w in zip(certified, verdict.witnesses, strict=True))
    assert certified.sum() > verdict.certified.sum(), "some image should be unsafe in the last column alone"
    return replace(verdict, safe=safe, certified=certified, by=by, witnesses=witnesses)


def last_column_matters() -> tuple[list[mc.Ballots], Verdict]:
    """Of all placements of two pixels side by side, the last alone touches two votes for the winner."""
    votes = [[1, 2, 1, 2, 1, 2, 1, 1]]
    evidence = [mc.Ballots(votes, strategy="columns:1", image_size=(8, 8), n_classes=3)]
    return evidence, mc.majorcert(evidence, mc.Patch(1, 2))


def test_a_last_column_that_was_not_looked_at_is_caught(tmp_path: Path) -> None:
    evidence, verdict = last_column_matters()
    said = fails(without_last_column(verdict), evidence, tmp_path)
    assert "placement (0, 6), safe" in said
    assert "certified: expected False, found True" in said


def test_a_map_without_the_last_column_is_caught(tmp_path: Path) -> None:
    evidence, verdict = last_column_matters()
    narrow = without_last_column(verdict)
    assert narrow.safe is not None
    said = fails(replace(narrow, safe=narrow.safe[:, :, :-1]), evidence, tmp_path)
    assert "rows and columns of placements: expected (8, 7), found (8, 6)" in said
    assert "placement (0, 6), safe" in said


def test_a_wrong_tie_rule_is_caught(tmp_path: Path) -> None:
    evidence = ballots()
    mirrored = [
        mc.Ballots(
            np.where(each.labels >= 0, N_CLASSES - 1 - each.labels, mc.ABSTAIN),
            strategy=each.strategy,
            image_size=(8, 8),
            n_classes=N_CLASSES,
            images=each.images,
        )
        for each in evidence
    ]
    # Ties to the largest label are ties to the smallest one, with the labels counted from the other end.
    verdict = mc.majorcert(mirrored, PATCH)

    def back(witness: Witness | None) -> Witness | None:
        if witness is None:
            return None
        forced = tuple(N_CLASSES - 1 - label for label in witness.forced)
        return Witness(witness.placement, N_CLASSES - 1 - witness.rival, forced)

    other = replace(verdict, predicted=N_CLASSES - 1 - verdict.predicted, witnesses=tuple(map(back, verdict.witnesses)))
    honest = mc.majorcert(evidence, PATCH)
    wrong = np.flatnonzero(other.certified != honest.certified)
    assert len(wrong)
    said = fails(other, evidence, tmp_path)
    assert f"image {100 + wrong[0]}, certified: expected {honest.certified[wrong[0]]}" in said


def test_a_wrong_strategy_size_is_caught(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    origins = ({**verdict.defenders[0], "strategy": "rows:1"}, *verdict.defenders[1:])
    said = fails(replace(verdict, defenders=origins), evidence, tmp_path)
    assert "strategy of defender 1: expected rows:2, found rows:1" in said


def test_a_verdict_made_for_another_strategy_size_is_caught(tmp_path: Path) -> None:
    evidence = ballots()
    smaller = mc.Ballots(
        evidence[2].labels, strategy="blocks:2", image_size=(8, 8), n_classes=N_CLASSES, images=evidence[2].images
    )
    verdict = mc.majorcert([*evidence[:2], smaller], PATCH)
    forged = replace(verdict, defenders=tuple(each.provenance for each in evidence))
    said = fails(forged, evidence, tmp_path)
    assert ", placement (" in said
    assert "safe (and at 2 more placements): expected False, found True" in said


def test_other_images_are_caught(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    said = fails(replace(verdict, images=verdict.images[::-1]), evidence, tmp_path)
    assert f"image in row 0, as in evidence 1: expected 100, found {99 + N}" in said
    fewer = mc.majorcert([each[:-1] for each in evidence], PATCH)
    assert f"number of images of evidence 1: expected {N}, found {N - 1}" in fails(fewer, evidence, tmp_path)


def test_an_ensemble_of_evidence_on_different_images_is_caught(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    for place, fingerprint in ((0, "aa"), (2, "bb")):
        about: dict[str, Any] = {"image_size": (8, 8), "n_classes": N_CLASSES, "images": evidence[place].images}
        about |= {"strategy": SPECS[place], "provenance": {"images_sha256": fingerprint}}
        evidence[place] = mc.Ballots(evidence[place].labels, **about)
    forged = replace(verdict, defenders=tuple(each.provenance for each in evidence))
    assert "images_sha256 of evidence 3, as of those before: expected aa, found bb" in fails(forged, evidence, tmp_path)


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (lambda w, y: replace(w, forced=(y,) * 3), "plurality of the forced labels: expected another label"),
        (lambda w, y: replace(w, rival=y), "rival: expected a label that beats"),
        (lambda w, y: replace(w, forced=w.forced[:2]), "forced labels: expected a label of each of 3 defenders"),
        (lambda w, y: replace(w, forced=(9, *w.forced[1:])), "label forced on defender 1: expected one of"),
        (lambda w, y: replace(w, placement=(9, 9)), "placement of the witness: expected (0, 0), found (9, 9)"),
        (lambda w, y: replace(w, placement=(0, 1)), "placement of the witness: expected (0, 0), found (0, 1)"),
        (lambda w, y: None, "placement of the witness: expected (0, 0), found None"),
    ],
)
def test_a_false_witness_is_caught(fault: Callable[[Witness, int], Witness], complaint: str, tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    row = next(row for row in range(N) if (w := verdict.witness(row)) is not None and w.placement == (0, 0))
    witness = verdict.witness(row)
    assert witness is not None
    forged = list(verdict.witnesses)
    forged[row] = fault(witness, int(verdict.predicted[row]))
    said = fails(replace(verdict, witnesses=tuple(forged)), evidence, tmp_path)
    assert f"image {100 + row}, " in said
    assert complaint in said


def test_what_is_not_covered_is_refused(tmp_path: Path) -> None:
    evidence = ballots()
    odd = replace(mc.drs(evidence[0], PATCH), method="guess")
    assert "verify does not cover the method 'guess'" in refuses(odd, evidence[:1], tmp_path)
    strange = replace(mc.drs(evidence[0], PATCH), defenders=({**evidence[0].provenance, "kind": "tea leaves"},))
    assert "does not cover 'tea leaves'" in refuses(strange, evidence[:1], tmp_path)


def test_mistakes_are_refused(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    assert "evidence stores: expected 3, got 2; give" in refuses(verdict, evidence[:2], tmp_path)
    assert "--sample is a number of images" in refuses(verdict, evidence, tmp_path, "--sample", "0")
    assert "give the images too" in refuses(verdict, evidence, tmp_path, "--weights", tmp_path)
    large = replace(verdict, patch=mc.Patch(9))
    assert "a 9x9 patch does not fit in a 8x8 image" in refuses(large, evidence, tmp_path)
    nameless: Any = replace(verdict, defenders=({},) * 3)
    assert "strategy of defender 1: expected rows:2, found not on record" in fails(nameless, evidence, tmp_path)


def test_the_sample_is_chosen_by_the_seed() -> None:
    assert sampled(1000, 20, 1) == sampled(1000, 20, 1) != sampled(1000, 20, 2)
    assert sampled(3, 20, 1) == sampled(3, None, 0) == [0, 1, 2]
    with pytest.raises(EvidenceError, match="a sample has 1 image or more, or is None for all of them; got 0"):
        sampled(3, 0, 1)


def test_json_says_the_same(tmp_path: Path) -> None:
    evidence = ballots()
    verdict = mc.majorcert(evidence, PATCH)
    honest = json.loads(passes(verdict, evidence, tmp_path, "--json", "--sample", "5"))
    assert honest["equal"]
    assert len(honest["sample"]) == 5
    forged = replace(verdict, predicted=(verdict.predicted + 1) % N_CLASSES)
    found = json.loads(ran(forged, evidence, tmp_path, "--json").stdout)
    assert not found["equal"]
    assert found["differences"][0]["image"] == 100
    assert {"what": "label", "n": N, "n_differences": N} in found["checks"]


def test_verdicts_are_checked_without_torch(tmp_path: Path) -> None:
    evidence = ballots()[:1]
    passes(mc.drs(evidence[0], PATCH), evidence, tmp_path)
    words = ["verify", str(tmp_path / "verdict.jsonl"), "--evidence", str(tmp_path / "0.zarr")]
    code = f"import sys; sys.modules['torch'] = None; from majorcert.commands.app import app; app({words!r})"
    environment = {**os.environ, "PYTHONPATH": str(Path(mc.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_votes_at_the_threshold_may_differ_and_are_counted() -> None:
    scores = np.full((1, 4, 3), 0.1)
    scores[0, :, 0] = [0.9, 0.2995, 0.3005, 0.31]
    evidence = mc.Ballots([[0, 0, -1, -1]], strategy="columns:1", image_size=(1, 4), n_classes=3)
    check, n_near = revote.check_ballots(evidence, [0], scores, 0.3, near=1e-3, excess=EXCESS)
    assert n_near == 2
    assert [str(each) for each in check.differences] == [
        "image 0, the ballot of ablation 3 of columns:1: expected [0], found []"
    ]
    top = np.array([[[0.4, 0.4, 0.2], [0.3, 0.3005, 0.0], [0.3, 0.4, 0.3], [0.2, 0.2, 0.6]]])
    evidence = mc.Ballots([[0, 0, 0, 2]], strategy="columns:1", image_size=(1, 4), n_classes=3)
    check, n_near = revote.check_ballots(evidence, [0], top, None, near=1e-3, excess=EXCESS)
    assert n_near == 1
    assert [each.what for each in check.differences] == ["the ballot of ablation 2 of columns:1"]


def test_a_ballot_for_the_top_label_has_one_label() -> None:
    """A forger who deletes the votes of rivals must not pass for rounding: the top score is always at the top."""
    scores = np.array([[[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]] * 2])
    for ballot in ([1, -1], [-1, -1], [0, 1]):
        labels = [[[0, -1], ballot] * 2]
        evidence = mc.Ballots(labels, strategy="columns:1", image_size=(1, 4), n_classes=3)
        check, n_near = revote.check_ballots(evidence, [0], scores, None, near=1e-3, excess=EXCESS)
        assert (len(check.differences), n_near) == (0 if ballot == [1, -1] else 1, 0)


@pytest.mark.parametrize(("threshold", "true"), [(0.3, 0.1), (None, 0.25)])
def test_a_distance_that_the_scores_do_not_bear_out_is_caught(threshold: float | None, true: float) -> None:
    scores = np.array([[[0.7, 0.2, 0.1]] * 4])
    about: dict[str, Any] = {"strategy": "columns:1", "image_size": (1, 4), "n_classes": 3}
    for far, n_differences in ((true / 2, 0), (true, 0), (true + 5e-4, 1), (true + 0.02, 1)):
        evidence = mc.Ballots([[0, 0, 0, 0]], **about, distance=np.full((1, 4), far, np.float16))
        check, n_near = revote.check_ballots(evidence, [0], scores, threshold, near=1e-3, excess=EXCESS)
        assert (len(check.differences), n_near) == (n_differences, 0)
        check, _ = revote.check_ballots(evidence, [0], scores, threshold, near=1e-3, excess=1e-3)
        assert len(check.differences) == (far > true + 1e-3)
    assert "the distance of ablation 0 (and 3 more) of columns:1: expected at most" in str(check.differences[0])


@pytest.mark.parametrize(("threshold", "votes"), [(0.3, [0.2995, 0.1, 0.1]), (None, [0.3, 0.3005, 0.1])])
def test_a_ballot_that_rounding_changed_was_not_far_from_changing(threshold: float | None, votes: list[float]) -> None:
    """Whoever passes off a changed ballot as rounding must not call it solid as well."""
    about: dict[str, Any] = {"strategy": "columns:1", "image_size": (1, 4), "n_classes": 3}
    for far, n_differences in ((0.0, 0), (2.0**-14, 1), (0.5, 1)):
        evidence = mc.Ballots([[0] * 4], **about, distance=np.full((1, 4), far, np.float16))
        check, n_near = revote.check_ballots(evidence, [0], np.array([[votes] * 4]), threshold, 1e-3, EXCESS)
        assert (len(check.differences), n_near) == (n_differences, 0 if n_differences else 4)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, an ensemble of tiny networks, its votes and their verdict; and another ensemble of the same kind."""
    folder = tmp_path_factory.mktemp("studio")
    rng = np.random.default_rng(0)
    images = (rng.integers(0, 150, (24, 1, 1, 1)) + rng.integers(0, 100, (24, 8, 8, 1))).astype(np.uint8)
    labels = np.arange(24) % N_CLASSES
    np.savez(folder / "data.npz", images=images, labels=labels, test_images=images[4:], test_labels=labels[4:])
    np.savez(folder / "other.npz", images=images, labels=labels, test_images=255 - images[4:], test_labels=labels[4:])
    dataset = load(str(folder / "data.npz"), "test")
    for name, seed in (("runs", 0), ("others", 10)):
        members = [_defender(spec, seed + place) for place, spec in enumerate(SPECS)]
        Ensemble(members).save(folder / name)
        for member in members:
            member.vote(dataset, folder / f"{name}-{type(member.strategy).__name__.lower()}.zarr")
    return folder


def _defender(spec: str, seed: int) -> Defender:
    torch.manual_seed(seed)
    config = ModelConfig("small", in_channels("crop", 1), N_CLASSES, width=8)
    network: Any = build(config)
    with torch.no_grad():
        centred = network[-1].weight - network[-1].weight.mean(dim=1, keepdim=True)
        network[-1].weight.copy_(40 * centred)  # opinions strong enough to vote
    about: dict[str, Any] = {"class_names": [str(k) for k in range(N_CLASSES)], "config": config}
    return Defender(network, spec, "crop", 0.3, image_size=(8, 8), channels=1, **about)


def voted(studio: Path, name: str = "runs") -> list[mc.Ballots]:
    return [mc.Ballots.load(studio / f"{name}-{spec.split(':')[0]}.zarr") for spec in SPECS]


def origin(studio: Path, data: str = "data.npz", runs: str = "runs") -> list[Any]:
    return ["--images", studio / data, "--weights", studio / runs, "--device", "cpu"]


def test_an_honest_vote_passes(studio: Path, tmp_path: Path) -> None:
    evidence = voted(studio)
    verdict = mc.majorcert(evidence, PATCH)
    table = passes(verdict, evidence, tmp_path, *origin(studio))
    assert "hash of the images\t3\t0" in table
    assert f"ballots of blocks:3\t{64 * 20}\t0" in table
    assert "weights of columns:2\t8\t0" in table
    assert "ballots changed by rounding alone\t0\tallowed" in table


def test_the_network_is_the_one_on_record_where_there_is_one(studio: Path, tmp_path: Path) -> None:
    for record, outcome in (({}, passes), ({"network_sha256": "other"}, fails)):
        evidence = voted(studio)
        origins = {key: value for key, value in evidence[1].provenance.items() if key != "network_sha256"}
        about: dict[str, Any] = {"strategy": "columns:2", "image_size": (8, 8), "n_classes": N_CLASSES}
        evidence[1] = mc.Ballots(evidence[1].labels, provenance={**origins, **record}, **about)
        said = outcome(mc.majorcert(evidence, PATCH), evidence, tmp_path, *origin(studio))
        assert ("network_sha256 of evidence 2, as of" in said) == (outcome is fails)


def test_weights_are_paired_with_their_evidence(studio: Path, tmp_path: Path) -> None:
    evidence = voted(studio)[::-1]
    verdict = mc.majorcert(evidence, PATCH)
    passes(verdict, evidence, tmp_path, *origin(studio))
    said = fails(verdict, evidence, tmp_path, "--images", studio / "data.npz", "--weights", studio / "others")
    assert "weights_sha256 of evidence 1, as of" in said
    assert "strategy of evidence" not in said, "where no fingerprint fits, like goes with like"


def test_a_changed_ballot_that_decides_nothing_is_caught_by_voting_anew(studio: Path, tmp_path: Path) -> None:
    evidence = voted(studio)
    said = evidence[0].labels[5, 3]
    labels = changed(evidence[0].labels, (5, 3), np.where(np.arange(len(said)) == 0, (said[0] + 2) % N_CLASSES, -1))
    about: dict[str, Any] = {"strategy": "rows:2", "image_size": (8, 8), "n_classes": N_CLASSES}
    evidence[0] = mc.Ballots(labels, provenance=evidence[0].provenance, **about)
    verdict = mc.majorcert(evidence, PATCH)
    passes(verdict, evidence, tmp_path)
    assert "image 5, the ballot of ablation 3 of rows:2: expected" in fails(
        verdict, evidence, tmp_path, *origin(studio)
    )


def test_a_distance_that_is_too_large_by_little_is_caught_by_voting_anew(studio: Path, tmp_path: Path) -> None:
    """A ballot that is made solid at 1e-3 by adding half of that; what a verdict of bfloat16 allows is said."""
    evidence = voted(studio)
    verdict = mc.majorcert([each.tolerating(1e-3) for each in evidence], PATCH)
    honest = passes(verdict, evidence, tmp_path, *origin(studio), "--json")
    assert json.loads(honest)["excess"] == [EXCESS] * 3
    distance = evidence[0].distance
    assert distance is not None
    row, ablation = np.argwhere((distance < 0.25) & (distance > 0.01))[0]
    scores = Defender.load(studio / "runs" / "rows-2", device="cpu").scores(
        load(str(studio / "data.npz"), "test").images[row : row + 1]
    )
    larger = revote.distance_of(scores[0, ablation].tolist(), float(np.float32(0.3))) + 5e-4
    about: dict[str, Any] = {"strategy": "rows:2", "image_size": (8, 8), "n_classes": N_CLASSES}
    about |= {"provenance": evidence[0].provenance, "distance": changed(distance, (row, ablation), np.float16(larger))}
    evidence[0] = mc.Ballots(evidence[0].labels, **about)
    verdict = mc.majorcert([each.tolerating(1e-3) for each in evidence], PATCH)
    said = fails(verdict, evidence, tmp_path, *origin(studio))
    assert f"image {row}, the distance of ablation {ablation} of rows:2: expected at most" in said
    passes(verdict, evidence, tmp_path, *origin(studio), "--excess", "1e-3")
    looser = ran(verdict, evidence, tmp_path, *origin(studio), "--excess", "1e-3").stderr
    assert "a distance on record may be too large by 0.001" in looser


def test_distances_of_another_precision_are_checked_as_the_votes_are(studio: Path, tmp_path: Path) -> None:
    evidence = voted(studio)
    verdict = mc.majorcert(evidence, PATCH)
    done = ran(verdict, evidence, tmp_path, *origin(studio), "--precision", "bfloat16", "--near", "0.3", "--json")
    assert json.loads(done.stdout)["excess"] == [0.3] * 3


def test_ballots_near_the_threshold_are_no_free_gift(studio: Path, tmp_path: Path) -> None:
    """A score that lies 5e-4 over the threshold: float32 moves it by a hundredth of that, so the vote must stand."""
    dataset, defender = load(str(studio / "data.npz"), "test"), _defender("rows:2", 0)
    scores = defender.scores(dataset.images)
    image, ablation, label = (int(place) for place in np.argwhere((scores > 0.2) & (scores < 0.8))[0])
    threshold = float(scores[image, ablation, label]) - 5e-4
    about: dict[str, Any] = {"class_names": defender.class_names, "config": defender.blueprint.model}  # type: ignore[union-attr]
    near = Defender(defender.model, "rows:2", "crop", threshold, image_size=(8, 8), channels=1, **about)
    near.save(tmp_path / "run")
    honest = near.ballots(dataset.images)
    ballot = honest.labels[image, ablation]
    left = np.append(ballot[ballot != label], mc.ABSTAIN)
    assert len(left) == len(ballot), "the ballot should have the label"
    facts: dict[str, Any] = {"strategy": "rows:2", "image_size": (8, 8), "n_classes": N_CLASSES}
    about = {**honest.provenance, "dataset": "data.npz", "split": "test"}
    forged = mc.Ballots(changed(honest.labels, (image, ablation), left), provenance=about, **facts)
    verdict, how = mc.majorcert([forged], PATCH), ("--images", studio / "data.npz", "--weights", tmp_path / "run")
    said = fails(verdict, [forged], tmp_path, *how, "--device", "cpu")
    assert f"image {image}, the ballot of ablation {ablation} of rows:2" in said
    loose = ran(verdict, [forged], tmp_path, *how, "--device", "cpu", "--near", "1e-3")
    assert loose.exit_code == 0, loose.output
    assert "rows:2: 1 of 160 ballots on record are not what the network votes now" in loose.stderr
    assert "no difference found, but 1 ballots" in loose.stderr
    told = json.loads(ran(verdict, [forged], tmp_path, *how, "--device", "cpu", "--near", "1e-3", "--json").stdout)
    assert (told["n_changed_by_rounding"], told["near"]) == (1, [1e-3])


def test_it_says_how_much_of_the_split_was_judged(studio: Path, tmp_path: Path) -> None:
    evidence = [each[:15] for each in voted(studio)]
    said = ran(mc.majorcert(evidence, PATCH), evidence, tmp_path, *origin(studio), "--json")
    assert (json.loads(said.stdout)["n"], json.loads(said.stdout)["n_split"]) == (15, 20)
    assert "about 15 of the 20 images of the split" in said.stderr


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        ({}, {}, 2e-5),
        ({"device": "cuda"}, {"compiled": True}, 2e-5),
        ({"precision": "bfloat16"}, {"precision": "bfloat16"}, 0.01),
        ({"precision": "bfloat16", "device": "cuda"}, {"precision": "bfloat16"}, 0.07),
        ({}, {"precision": "bfloat16"}, 0.07),
        ({}, {"precision": None}, 0.07),
    ],
)
def test_what_rounding_may_do_follows_precision_and_device(now: Any, then: Any, expected: float) -> None:
    plain = {"precision": "float32", "device": "cpu", "compiled": False}
    network: Any = SimpleNamespace(facts=lambda: {**plain, **now})
    evidence = mc.Ballots([[0] * 4], strategy="columns:1", image_size=(1, 4), n_classes=3, provenance={**plain, **then})
    assert revote.rounding(network, evidence) == expected


def test_verify_is_a_function_of_python(studio: Path) -> None:
    evidence = voted(studio)
    defenders = [Defender.load(studio / "runs" / name) for name in ("rows-2", "columns-2", "blocks-3")]
    images = load(str(studio / "data.npz"), "test")
    audit = mc.verify(mc.majorcert(evidence, PATCH), evidence, sample=4, images=images, defenders=defenders)
    assert audit.differences == ()
    assert (len(audit.rows), audit.n_split, audit.n_changed) == (4, 20, 0)
    with pytest.raises(EvidenceError, match="got 2 networks and the evidence of 3"):
        verify(mc.majorcert(evidence, PATCH), evidence, images=images, defenders=defenders[:2])
    with pytest.raises(DataError, match="give the images too"):
        verify(mc.majorcert(evidence, PATCH), evidence, defenders=defenders)


def test_the_members_of_a_pool_vote_anew(studio: Path, tmp_path: Path) -> None:
    pool, stores = mc.Pool(voted(studio)), [studio / f"runs-{spec.split(':')[0]}.zarr" for spec in SPECS]
    mc.majorcert([pool], PATCH).save(tmp_path / "verdict.jsonl")
    words = ["verify", tmp_path / "verdict.jsonl", "--evidence", *stores, *origin(studio)]
    done = asked(*words)
    assert done.exit_code == 0, done.output
    assert f"ballots of blocks:3\t{64 * 20}\t0" in done.stdout
    others = asked(*[*words[:-4], *origin(studio, runs="others")])
    assert "the ballot of ablation" in others.stderr


def test_scores_are_compared_with_new_ones(studio: Path, tmp_path: Path) -> None:
    """Kept as half floats, or in 255 steps; a score that is off by more than both roundings is named."""
    defender, images = Defender.load(studio / "runs" / "rows-2"), load(str(studio / "data.npz"), "test")
    defender.vote(images, tmp_path / "scored.zarr", scores=True)
    halves = mc.Scores.load(tmp_path / "scored.zarr")
    about: dict[str, Any] = {"strategy": "rows:2", "image_size": (8, 8), "provenance": halves.provenance}
    steps = mc.Scores(np.rint(halves.points / (halves.one / 255)).astype(int), one=255, **about)
    for scores in (halves, steps):
        evidence = mc.MaskedScores(scores, PATCH)
        given: dict[str, Any] = {"sample": None, "images": images, "defenders": [defender]}
        assert verify(mc.patchguard(scores, PATCH), [evidence], **given).differences == ()
        off = changed(scores.points, (3, 2, 1), int(scores.points[3, 2, 1]) + scores.one // 100)
        forged = mc.Scores(off, one=scores.one, **about)
        found = verify(mc.patchguard(forged, PATCH), [mc.MaskedScores(forged, PATCH)], **given).differences
        assert [(each.image, each.what) for each in found] == [(3, "the score of label 1 in ablation 2 of rows:2")]


def test_points_that_rounding_may_change_are_counted(studio: Path) -> None:
    """Points of a rule are of the scores themselves: a neighbour will do only where a score lies between the two."""
    known = Defender.load(studio / "runs" / "rows-2")
    kind: dict[str, Any] = {"image_size": (8, 8), "channels": 1, "class_names": known.class_names, "device": "cpu"}
    defender = Defender(known.model, "rows:2", known.view, None, rule="masked:2x2", **kind)
    images = load(str(studio / "data.npz"), "test")
    evidence, exact = defender.evidence(images.images), defender.scores(images.images).astype(float) * 127
    assert isinstance(evidence, mc.MaskedScores)
    record = {**evidence.provenance, **defender.facts(), "images_sha256": images.sha256()}
    about: dict[str, Any] = {"strategy": "rows:2", "image_size": (8, 8), "one": 127, "provenance": record}
    points = evidence.scores.points.astype(int)
    given: dict[str, Any] = {"sample": None, "images": images, "defenders": [defender]}
    between = np.abs(np.abs(exact - points) - 0.5) / 127  # how far a score must move to be rounded to its neighbour
    place = tuple(int(k) for k in np.argwhere((between > 5e-5) & (between < 2e-4))[0])
    off = changed(points, place, int(points[place] + (1 if exact[place] > points[place] else -1)))
    for kept, near, expected in ((points, None, (0, 0)), (off, None, (1, 0)), (off, 3e-4, (0, 1))):
        masked = mc.MaskedScores(mc.Scores(kept, **about), PATCH)
        audit = verify(mc.majorcert([masked], PATCH), [masked], near=near, **given)
        assert (len(audit.differences), audit.n_changed) == expected, audit.differences


def test_tables_of_masks_are_compared_with_new_ones(studio: Path, tmp_path: Path) -> None:
    torch.manual_seed(3)
    config = ModelConfig("small", 1, N_CLASSES, width=8)
    network: Any = build(config)
    with torch.no_grad():
        network[-1].weight.mul_(40)
    names = [str(k) for k in range(N_CLASSES)]
    about: dict[str, Any] = {"image_size": (8, 8), "channels": 1, "class_names": names, "config": config}
    defender = mc.MaskingDefender(network, "masks:2/3", **about)
    defender.save(tmp_path / "run")
    images = load(str(studio / "data.npz"), "test")
    for certify_only in (False, True):
        store = tmp_path / f"{certify_only}.zarr"
        defender.vote(images, store, certify_only=certify_only)
        evidence = load_evidence(store)
        verdict = mc.majorcert([evidence], PATCH)
        verdict.save(tmp_path / "verdict.jsonl")
        words = ["verify", tmp_path / "verdict.jsonl", "--evidence", store, "--sample", "all", "--device", "cpu"]
        words += ["--images", studio / "data.npz", "--weights", tmp_path / "run"]
        done = asked(*words)
        assert done.exit_code == 0, done.output
        assert "labels of masks:2/3\t" in done.stdout
    given: dict[str, Any] = {"sample": None, "images": images, "defenders": [defender]}
    kept: dict[str, Any] = {"masks": "masks:2/3", "image_size": (8, 8), "n_classes": N_CLASSES}
    kept["provenance"] = evidence.provenance
    entry = 4, int(np.flatnonzero(evidence.labels[4] >= 0)[1])
    labels = changed(evidence.labels, entry, (evidence.labels[entry] + 1) % N_CLASSES)
    forged = mc.MaskPairs(labels, **kept, distance=evidence.distance)
    (found,) = verify(mc.majorcert([forged], PATCH), [forged], **given).differences
    assert (found.image, found.what) == (4, "the label under masks 0 and 1 of masks:2/3")
    solid = mc.MaskPairs(evidence.labels, **kept, distance=changed(evidence.distance, (5, 2), 0.9))
    (found,) = verify(mc.majorcert([solid], PATCH), [solid], **given).differences
    assert (found.image, found.what) == (5, "the distance of mask 2 of masks:2/3")


def test_chunks_that_changed_places_are_caught_by_voting_anew_alone(studio: Path, tmp_path: Path) -> None:
    """Each is whole, and nothing in it says which images it is about: docs/hostile.md tells of this."""
    store = tmp_path / "swapped.zarr"
    defender = Defender.load(studio / "runs" / "blocks-3", device="cpu")
    defender.vote(load(str(studio / "data.npz"), "test"), store, chunk=5)
    before = mc.majorcert([mc.Ballots.load(store)], PATCH)
    first, second = (store / "labels" / "c" / str(number) / "0" / "0" for number in (0, 1))
    contents = first.read_bytes(), second.read_bytes()
    assert contents[0] != contents[1]
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    evidence = [mc.Ballots.load(store)]
    assert ", placement (" in fails(before, evidence, tmp_path)
    after = mc.majorcert(evidence, PATCH)
    passes(after, evidence, tmp_path)
    weights = ("--images", studio / "data.npz", "--weights", studio / "runs" / "blocks-3", "--device", "cpu")
    assert "the ballot of ablation" in fails(after, evidence, tmp_path, *weights)


def test_the_weights_of_another_model_are_caught(studio: Path, tmp_path: Path) -> None:
    evidence = voted(studio)
    verdict = mc.majorcert(evidence, PATCH)
    said = fails(verdict, evidence, tmp_path, *origin(studio, runs="others"))
    assert "weights_sha256 of evidence 1, as of" in said
    assert "the ballot of ablation" in said


def test_evidence_that_names_another_strategy_size_is_caught(studio: Path, tmp_path: Path) -> None:
    evidence = voted(studio)
    about: dict[str, Any] = {"strategy": "blocks:2", "image_size": (8, 8), "n_classes": N_CLASSES}
    evidence[2] = mc.Ballots(evidence[2].labels, provenance=evidence[2].provenance, **about)
    verdict = mc.majorcert(evidence, PATCH)
    passes(verdict, evidence, tmp_path)
    said = fails(verdict, evidence, tmp_path, *origin(studio))
    assert "expected blocks:3, found blocks:2" in said


def test_images_that_were_not_voted_on_are_caught(studio: Path, tmp_path: Path) -> None:
    evidence = voted(studio)
    verdict = mc.majorcert(evidence, PATCH)
    said = fails(verdict, evidence, tmp_path, "--images", studio / "other.npz")
    assert "images_sha256 of evidence 3: expected" in said
    evidence[1] = mc.Ballots(
        evidence[1].labels, strategy="columns:2", image_size=(8, 8), n_classes=N_CLASSES, images=np.arange(20) + 7
    )
    said = fails(verdict, evidence, tmp_path, "--images", studio / "data.npz")
    assert "image that was voted on (and 6 more): expected one of 20, from 0 on, found 20" in said


def test_a_pool_tolerates_what_its_members_do() -> None:
    facts: dict[str, Any] = {"strategy": "columns:1", "image_size": (4, 4), "n_classes": 3}
    pool = mc.Pool([mc.Ballots([[0] * 4], **facts, distance=[[0.25] * 4])] * 2)
    honest = mc.certify([pool.tolerating(0.1)], 1)
    assert verify(honest, [pool]).differences == ()
    assert verify(honest, [pool]).tolerances == (0.1,)
    for verdict in (honest, mc.certify([pool], 1)):
        forged = replace(verdict, defenders=({**verdict.defenders[0], "fragile": 0.9},))
        assert "fragile of defender 1" in verify(forged, [pool]).differences[0].what


def test_a_slack_without_detection_is_named() -> None:
    evidence = ballots()[0]
    forged = replace(mc.certify([evidence], PATCH), slack=3)
    assert [difference.what for difference in verify(forged, [evidence], sample=1).differences] == [
        "slack, which is of detection"
    ]


def test_a_verdict_of_nobody_is_refused() -> None:
    nobody = replace(mc.certify(ballots(), PATCH), defenders=())
    with pytest.raises(EvidenceError, match="0 evidence"):
        verify(nobody, [])


def test_masks_on_record_are_those_of_the_network() -> None:
    """Another mask set has as many masks, and hides larger patches; but the network never looked under those."""
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 3))
    images = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = Dataset(images, None, ("a", "b", "c"), "noise", "test")
    defender = mc.MaskingDefender(network, "masks:2/2", image_size=(8, 8), class_names=data.class_names)
    honest = defender.evidence(data.images)
    about: dict[str, Any] = {"image_size": (8, 8), "n_classes": 3, "provenance": honest.provenance}
    forged = mc.MaskPairs(np.zeros_like(honest.labels), masks="masks:5/1", **about)
    for evidence, found in ((honest, False), (forged, True)):
        audit = verify(mc.certify([evidence], 2), [evidence], images=data, defenders=[defender])
        assert any("strategy of evidence 1" in each.what for each in audit.differences) == found


def tables(odd: float, distance: npt.ArrayLike) -> mc.MaskPairs:
    """Of one image under four masks: the label 0, but under masks 0 and 1 and under 0 and 2 an odd one."""
    table = np.zeros((1, 4, 4), int)
    table[0, 0, 1:3] = table[0, 1:3, 0] = odd
    about: dict[str, Any] = {"masks": "masks:1/2", "image_size": (4, 4), "n_classes": 3}
    return mc.MaskPairs(table, **about, distance=np.array([distance]))


def test_rounding_changes_a_pair_only_where_both_its_rows_are_near() -> None:
    def n_differences(distance: list[float]) -> int:
        check, _ = revote.check_pairs(tables(0, [0.0] * 4), [0], tables(1, distance), EXCESS, EXCESS)
        return len(check.differences)

    assert n_differences([0.0, 0.3, 0.3, 0.3]) == 1
    assert n_differences([0.0, 0.0, 0.3, 0.3]) == 1
    assert n_differences([0.0, 0.0, 0.0, 0.3]) == 0


@pytest.mark.parametrize(
    ("recorded", "anew", "found"), [(0.125, 0.1171875, 0), (0.140625, 0.1171875, 1), (2e-4, 0.0, 1)]
)
def test_a_distance_of_masks_may_be_one_step_larger(recorded: float, anew: float, found: int) -> None:
    """Two distances that differ in the last bit may be rounded down to neighbouring steps."""
    check, _ = revote.check_pairs(tables(0, [recorded] * 4), [0], tables(0, [anew] * 4), EXCESS, EXCESS)
    assert len(check.differences) == found


def test_a_tolerance_of_a_kind_that_has_none_is_refused() -> None:
    distance = np.full((1, 4), 0.01)
    member = mc.Ballots(np.zeros((1, 4), int), strategy="columns:1", image_size=(4, 4), n_classes=2, distance=distance)
    masked = mc.patchguard(pool := mc.Pool([member]), 1)
    evidence = [mc.MaskedPool(pool, mc.Patch(1))]
    assert judged_anew(masked, evidence, range(1))
    (record,) = masked.defenders
    for forged in ({**record, "fragile": 0.4}, {**record, "members": [{**record["members"][0], "fragile": 0.4}]}):
        with pytest.raises(mc.MajorcertError, match="tolerance"):
            judged_anew(replace(masked, defenders=(forged,)), evidence, range(1))


def test_evidence_of_other_class_names_is_no_ensemble() -> None:
    def votes(names: list[str]) -> mc.Ballots:
        about: dict[str, Any] = {"strategy": "columns:1", "image_size": (4, 4), "n_classes": 2}
        return mc.Ballots(np.zeros((1, 4), int), **about, provenance={"class_names": names})

    ours, other = votes(["cat", "dog"]), votes(["dog", "cat"])
    verdict = mc.certify([ours, ours], 1)
    assert not mc.verify(verdict, [ours, ours]).differences
    forged = replace(verdict, defenders=(ours.provenance, other.provenance))
    found = mc.verify(forged, [ours, other]).differences
    assert [each.what for each in found] == ["class_names of evidence 2, as of those before"]
