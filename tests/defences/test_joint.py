"""Joint promises: attacked ballots are enumerated, and label and alert of each attacked image are those of the rules.

For votes both directions hold: an image is unwavering iff no attack changes its label or raises an alert, and if it is
not, some attack does raise one.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import kinds_oracle
import numpy as np
import oracle
import pytest
from cases import Case
from ensembles import ensembles
from hypothesis import given, settings

import majorcert as mc
from majorcert.audit import kinds as literally
from majorcert.audit.ensemble import opinion_of
from majorcert.defences.joint import Unknown

Rule = Callable[[Any], tuple[int, bool]]
"""The label of an image, and whether there is an alert on it."""


def drawn(specs: tuple[str, ...], size: tuple[int, int], patch: tuple[int, int], n_classes: int, n: int) -> Case:
    """Images that nearly agree on the last label, some more and some less, in ballots of any number of labels."""
    random = np.random.default_rng(len(specs) + n_classes)
    subsets, votes = oracle.all_ballots(n_classes), []
    for spec in specs:
        n_ablations, images = len(oracle.regions(spec, size)), []
        for share in np.linspace(0.0, 0.5, n):
            odd = random.random(n_ablations) < share
            any_of = random.integers(len(subsets), size=n_ablations)
            images.append(
                tuple(
                    subsets[k] if strange else frozenset([n_classes - 1])
                    for k, strange in zip(any_of, odd, strict=True)
                )
            )
        votes.append(tuple(images))
    return Case(specs, size, n_classes, tuple(votes), patch)


def judge(found: mc.Joint, i: int, clean: int, after: Iterable[tuple[int, bool]], exact: bool, seen: Counter) -> None:
    """Compare one image with label and alert of everything that can be made of it."""
    outcomes = set(after)
    moved, raised = any(label != clean for label, _ in outcomes), any(alert for _, alert in outcomes)
    silently = any(label != clean and not alert for label, alert in outcomes)
    assert found.predicted[i] == clean
    assert found.holds[i] != "recovery" or not moved
    assert found.holds[i] != "detection" or not silently
    assert not found.unwavering.certified[i] or not (moved or raised)
    assert found.alertable[i] or not raised
    if exact:
        assert found.unwavering.certified[i] == (not moved and not raised), (i, outcomes)
        assert found.alertable[i] == raised, (i, outcomes)
    seen[str(found.holds[i])] += 1


CASES: list[tuple[tuple[str, ...], tuple[int, int], tuple[int, int], int]] = [
    (("columns:1",), (1, 7), (1, 1), 2),
    (("columns:1",), (1, 9), (1, 2), 2),
    (("columns:2",), (1, 7), (1, 1), 2),
    (("columns:1/2",), (2, 11), (2, 1), 3),
    (("rows:1", "columns:1"), (3, 5), (1, 1), 2),
]
LARGER: list[tuple[tuple[str, ...], tuple[int, int], tuple[int, int], int]] = [
    (("columns:1",), (1, 10), (1, 2), 2),
    (("rows:1", "columns:1", "blocks:1/2"), (4, 4), (1, 1), 2),
    (("columns:1", "columns:1/2", "columns:1"), (1, 5), (1, 1), 3),
]


@pytest.mark.parametrize("cases", [CASES, pytest.param(LARGER, marks=pytest.mark.slow)])
def test_an_ensemble_wavers_iff_some_attack_changes_its_label_or_raises_an_alert(cases: Any) -> None:
    seen: Counter[str] = Counter()
    for specs, size, patch, n_classes in cases:
        case = drawn(specs, size, patch, n_classes, 10)
        found = mc.joint(case.ballots(), patch)
        for i in range(case.n_images):
            literal = case.defenders(i)
            after = {
                (oracle.ensemble_label(attacked), kinds_oracle.ensemble_alert(attacked, patch))
                for place in case.placements()
                for attacked in oracle.attacked(literal, patch, place)
            }
            judge(found, i, oracle.ensemble_label(literal), after, exact=True, seen=seen)
    assert min(seen[name] for name in ("unwavering", "recovery", "detection", "none")) >= 1, seen


@pytest.mark.parametrize(("weights", "slack"), [([1, 1], 0), ([1, 1], 1), ([2, 1], 0), ([2, 1], 2)])
def test_a_pool_with_slack(weights: list[int], slack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a slack an alert may be impossible although the label can be changed silently; never the other way."""
    case, seen = drawn(("rows:1", "columns:1"), (3, 4), (1, 1), 2, 12), Counter[str]()
    found = mc.joint([mc.Pool(case.ballots(), weights=weights)], 1, slack=slack)
    with monkeypatch.context() as patched:
        patched.setattr("majorcert.defences.joint.Voting.at_worst", Unknown.at_worst)
        in_full = mc.joint([mc.Pool(case.ballots(), weights=weights)], 1, slack=slack)
    assert in_full.holds.tolist() == found.holds.tolist()
    for i in range(case.n_images):
        literal = case.defenders(i)
        after = {
            (kinds_oracle.pool_label(attacked, weights), kinds_oracle.pool_alert(attacked, weights, (1, 1), slack))
            for place in case.placements()
            for attacked in oracle.attacked(literal, (1, 1), place)
        }
        clean = kinds_oracle.pool_label(literal, weights)
        judge(found, i, clean, after, exact=slack == 0, seen=seen)
        unharmed = not any(label != clean or alert for label, alert in after)
        assert found.unwavering.certified[i] == unharmed
    assert len(seen) >= 2 + (slack == 0), seen
    assert seen["unwavering"] >= 3, seen


def test_fragile_ballots_are_the_attackers_wherever_the_patch_is() -> None:
    seen: Counter[str] = Counter()
    for specs, size in [(("columns:1",), (1, 7)), (("rows:1", "columns:1"), (2, 4))]:
        plain = drawn(specs, size, (1, 1), 2, 10)
        first = tuple(frozenset([i % len(plain.votes[0][0])]) for i in range(plain.n_images))
        nothing = (frozenset[int](),) * plain.n_images
        case = Case(specs, size, 2, plain.votes, (1, 1), (first, *[nothing] * (len(specs) - 1)))
        found = mc.joint(case.ballots(), 1)
        for i in range(case.n_images):
            literal = case.defenders(i)
            clean = oracle.ensemble_label(literal)
            harmed = any(
                oracle.ensemble_label(attacked) != clean or kinds_oracle.ensemble_alert(attacked, (1, 1))
                for place in case.placements()
                for attacked in oracle.attacked(literal, (1, 1), place)
            )
            assert found.unwavering.certified[i] == (not harmed), i
            seen[str(found.unwavering.certified[i])] += 1
    assert min(seen.values()) >= 4, seen


def tables(n: int, n_images: int) -> list[kinds_oracle.Table]:
    """Tables of label 1, the later ones with more entries of label 0."""
    random, found = np.random.default_rng(2), []
    for share in np.linspace(0, 0.4, n_images):
        table = np.where(random.random((n, n)) < share, 0, 1)
        found.append(tuple(map(tuple, np.minimum(table, table.T).tolist())))
    return found


@pytest.mark.parametrize(("stride", "n_voting"), [(1, 0), (2, 0), (4, 0), (2, 2), (4, 2)])
def test_a_masking_defender_alone_always_lets_itself_be_alarmed(stride: int, n_voting: int) -> None:
    """Unless each mask covers everything, as the one of stride 4 here; beside voting defenders it can be outvoted."""
    size, bound, n_images, seen = (1, 4), (1, 1), 8, Counter[str]()
    covers = kinds_oracle.covering(bound, stride, size, (1, 1))
    said = tables(mc.Masks(1, stride=stride).n_masks(size), n_images)
    pairs = mc.MaskPairs(np.array(said), masks=f"masks:1/{stride}", image_size=size, n_classes=2)
    case = drawn(("columns:1", "blocks:1")[:n_voting], size, (1, 1), 2, n_images)
    found = mc.joint([pairs, *case.ballots()], 1)
    assert found.unwavering.certified.any() == (stride == 4 or n_voting == 2)
    for i in range(n_images):
        voting = case.defenders(i) if n_voting else []

        def rule(table: Any, voting: list[oracle.Defender]) -> tuple[int, bool]:
            label = oracle.majority([kinds_oracle.double_masking(table), *(one.label() for one in voting)], 2)
            left = {
                oracle.majority(
                    [
                        table[min(cover)][min(cover)],
                        *(oracle.plurality(kinds_oracle.left([one], [1], (1, 1), place)) for one in voting),
                    ],
                    2,
                )
                for place, cover in covers.items()
            }
            return label, left != {label}

        after = {
            rule(table, attacked)
            for place, cover in covers.items()
            for table, attacked in product(
                kinds_oracle.rewritten_tables(said[i], cover, 2),
                oracle.attacked(voting, (1, 1), place) if voting else [[]],
            )
        }
        judge(found, i, rule(said[i], voting)[0], after, exact=False, seen=seen)
        if not n_voting and stride < 4:
            assert any(alert for _, alert in after), "so the upper bound is no more than the truth"


@settings(max_examples=50)
@given(ensembles(max_defenders=3, max_images=2))
def test_unwavering_is_what_the_audit_says(case: Case) -> None:
    evidence = case.ballots()
    found = mc.joint(evidence, mc.Patch(*case.patch))
    for i in range(case.n_images):
        told = [literally.testimony(each, each.provenance, i, case.patch) for each in evidence]
        assert found.unwavering.certified[i] == opinion_of("unwavering", told).certified
    assert (found.recovery.certified >= found.unwavering.certified).all()
    assert (found.detection.certified >= found.recovery.certified).all()


def test_each_image_is_judged_by_its_own_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of three labels, of which some drop out in every round, say together what each says alone."""
    monkeypatch.setattr("majorcert.defences.joint.Voting.at_worst", Unknown.at_worst)
    random = np.random.default_rng(4)
    label, odd = random.integers(3, size=(60, 1)), random.random((60, 9)) < random.random((60, 1)) / 2
    votes = np.where(odd, random.integers(3, size=(60, 9)), label)
    about: dict[str, Any] = {"image_size": (1, 9), "n_classes": 3}
    bands = [mc.Ballots(votes, strategy=spec, **about) for spec in ("columns:1", "columns:2")]
    bands.append(mc.Ballots(votes[:, ::-1], strategy="columns:1", **about))
    holds = mc.joint(bands, 1).holds
    assert holds.tolist() == [mc.joint([each[[k]] for each in bands], 1).holds[0] for k in range(60)]
    assert len({(said, y) for said, y in zip(holds, bands[0].label, strict=True) if said == "unwavering"}) == 3


def test_a_fragile_row_does_not_outvote_an_alarm() -> None:
    """One mask hides everything; of the others one is sure whatever happens, and one can only be alarmed."""
    about: dict[str, Any] = {"image_size": (1, 9), "n_classes": 2}
    pairs = mc.MaskPairs([[[1]]], masks="masks:1/9", **about, distance=[[0.05]])
    voting = [mc.Ballots([votes], strategy="columns:1", **about) for votes in ([1] * 9, [1] * 6 + [0] * 3)]
    for tolerance, holds in ((0.01, "unwavering"), (0.1, "recovery")):
        evidence = [pairs.tolerating(tolerance), *voting]
        found = mc.joint(evidence, 1)
        assert found.holds.tolist() == [holds]
        told = [literally.testimony(each, each.provenance, 0, (1, 1)) for each in evidence]
        assert opinion_of("unwavering", told).certified == found.unwavering.certified[0]


def test_where_nobody_looks_nothing_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = drawn(("rows:1", "columns:2", "blocks:2/2"), (5, 6), (2, 2), 3, 30)
    whole = mc.joint(case.ballots(), 2).holds.tolist()
    monkeypatch.setattr("majorcert.defences.joint.CHUNK", 7)
    monkeypatch.setattr("majorcert.defences.joint.Voting.at_worst", Unknown.at_worst)
    assert mc.joint(case.ballots(), 2).holds.tolist() == whole
    assert len(set(whole)) >= 3, whole


def test_of_a_kind_that_is_not_known_anything_is_expected() -> None:
    class Own(mc.Ballots):
        """Of which nobody can say what is left of it."""

        def without(self, patch: mc.Patch, slack: int = 0) -> mc.Reach:
            return super().without(patch)

    about: dict[str, Any] = {"strategy": "columns:1", "image_size": (1, 9), "n_classes": 2}
    sure, own = mc.Ballots([[1] * 9], **about), Own([[1] * 9], **about)
    assert mc.joint([sure], 1).holds.tolist() == ["unwavering"]
    assert mc.joint([own], 1).holds.tolist() == ["recovery"]
    assert mc.joint([own, sure, sure], 1).holds.tolist() == ["unwavering"]
    assert mc.joint([own, own, sure], 1).holds.tolist() == ["recovery"]


def test_the_last_placement_of_the_patch_counts() -> None:
    """Only there it touches two points more for the label: 4 to 5 without another band, and 4 to 3 from elsewhere."""
    about: dict[str, Any] = {"image_size": (1, 6), "n_classes": 2}
    bands = mc.Ballots([[0] * 6], strategy="columns:1", **about)
    edges = mc.Ballots([[1, 0]], strategy="columns:1/5", **about)
    assert mc.joint([mc.Pool([bands, edges], weights=[1, 2])], 1).holds.tolist() == ["recovery"]
    assert mc.joint([mc.Pool([bands, edges], weights=[1, 1])], 1).holds.tolist() == ["unwavering"]


def test_what_the_patch_and_the_placement_both_touch_is_nobodys() -> None:
    """The one row is touched by every patch and left out by every placement: 3 to 3, and 4 if it were given away."""
    about: dict[str, Any] = {"image_size": (1, 7), "n_classes": 2}
    row = mc.Ballots([[0]], strategy="rows:1", **about)
    for bands, holds in (([0, 0, 0, 0, 0, 1, 1], "unwavering"), ([1, 1, 1, 1, 1, 0, 0], "detection")):
        columns = mc.Ballots([bands], strategy="columns:1", **about)
        assert mc.joint([mc.Pool([row, columns], weights=[1, 1])], 1).holds.tolist() == [holds]


def test_no_images() -> None:
    none = mc.Ballots(np.zeros((0, 4), dtype=int), strategy="columns:1", image_size=(1, 4), n_classes=2)
    assert mc.joint([none], 1).holds.tolist() == []
    assert repr(mc.joint([none], 1)) == "Joint(; an alert can be raised on 0 of 0 images)"
