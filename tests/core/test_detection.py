"""Detection: attacked ballots are enumerated, and the alert rule is applied to each of them by its definition.

A certified image never changes its label silently. What a defender says without a placement is just what the
definition says, whatever fragile ballots become; so the certificate is that rule in both directions.
"""

from collections import Counter
from typing import Any

import kinds_oracle
import numpy as np
import oracle
import pytest
from cases import Case, draw_case
from ensembles import ensembles
from hypothesis import given

import majorcert as mc
from majorcert.audit import kinds as literally

SMALL: list[tuple[tuple[str, ...], tuple[int, int], tuple[int, int]]] = [
    (("columns:1",), (1, 8), (1, 1)),
    (("columns:1",), (1, 6), (1, 2)),
    (("columns:2/2",), (1, 5), (1, 1)),
    (("columns:2",), (1, 5), (1, 1)),
]


def drawn(
    specs: tuple[str, ...], size: tuple[int, int], patch: tuple[int, int], *, n_images: int, fragile: bool
) -> Case:
    """Two classes, contested images and clear ones; if asked for, a fragile ballot of the first defender."""
    random = np.random.default_rng(3)
    ballots = [frozenset(labels) for labels in ((1,), (0,), (0, 1), ())]
    votes = []
    for spec in specs:
        n = len(oracle.regions(spec, size))
        shares = [[p, 0.8 * (1 - p), 0.1 * (1 - p), 0.1 * (1 - p)] for p in np.linspace(0.3, 1.2, n_images).clip(max=1)]
        votes.append(tuple(tuple(ballots[k] for k in random.choice(4, size=n, p=share)) for share in shares))
    if not fragile:
        return Case(specs, size, 2, tuple(votes), patch)
    first = tuple(frozenset([i % len(votes[0][0])]) for i in range(n_images))
    return Case(specs, size, 2, tuple(votes), patch, (first, *[(frozenset(),) * n_images] * (len(specs) - 1)))


def count_silent_changes(case: Case, verdict: mc.Verdict, rule: Any, seen: Counter[str]) -> None:
    """Each attack at each placement, and with it whatever fragile ballots become: does the label change silently?

    Args:
        rule: takes the ballots of an image to its label and whether there is an alert.
    """
    for i in range(case.n_images):
        literal = case.defenders(i)
        clean, alert = rule(literal)
        assert (verdict.predicted[i], verdict.alert[i]) == (clean, alert), (case, i)
        for place in case.placements():
            after = {rule(attacked) for attacked in oracle.attacked(literal, case.patch, place)}
            silent = any(label != clean and not raised for label, raised in after)
            safe = bool(verdict.safe[i][place])
            assert not (safe and silent), (case, i, place)
            seen[f"safe {safe}"] += 1
            seen["silent change"] += silent
            seen["change with an alert"] += safe and any(label != clean for label, _ in after)
        assert verdict.certified[i] == verdict.safe[i].all()
        seen[f"certified {verdict.certified[i]}"] += 1
        seen[f"alert {alert}"] += 1


@pytest.mark.parametrize("fragile", [False, True])
@pytest.mark.parametrize("slack", [0, 1, 2])
def test_no_certified_label_of_one_defender_changes_silently(slack: int, fragile: bool) -> None:
    seen: Counter[str] = Counter()
    for specs, size, patch in SMALL:
        case = drawn(specs, size, patch, n_images=16, fragile=fragile)
        verdict = mc.detect(case.ballots(), mc.Patch(*patch), slack=slack)
        assert (verdict.promise, verdict.slack) == ("detection", slack)

        def rule(literal: list[oracle.Defender], patch: tuple[int, int] = patch) -> tuple[int, bool]:
            return literal[0].label(), kinds_oracle.pool_alert(literal, [1], patch, slack)

        count_silent_changes(case, verdict, rule, seen)
    assert min(seen["certified True"], seen["certified False"], seen["silent change"]) >= 5, seen
    assert min(seen["alert True"], seen["alert False"]) >= (3 if slack < 2 else 0), seen
    assert seen["change with an alert"] >= (10 if slack < 2 else 0), seen


@pytest.mark.parametrize("fragile", [False, True])
def test_no_certified_label_of_an_ensemble_changes_silently(fragile: bool) -> None:
    seen: Counter[str] = Counter()
    for specs in [("rows:1", "columns:1"), ("rows:1", "columns:1/2", "blocks:1/2")]:
        case = drawn(specs, (3, 4), (1, 1), n_images=10, fragile=fragile and len(specs) < 3)
        verdict = mc.detect(case.ballots(), 1)
        count_silent_changes(
            case,
            verdict,
            lambda literal: (oracle.ensemble_label(literal), kinds_oracle.ensemble_alert(literal, (1, 1))),
            seen,
        )
    assert min(seen["certified True"], seen["certified False"], seen["silent change"]) >= 5, seen
    assert min(seen["alert True"], seen["alert False"], seen["change with an alert"]) >= 5, seen


@pytest.mark.parametrize(("weights", "slack", "fragile"), [([1, 1], 0, False), ([3, 2], 2, False), ([2, 1], 1, True)])
def test_no_certified_label_of_a_pool_changes_silently(weights: list[int], slack: int, fragile: bool) -> None:
    seen: Counter[str] = Counter()
    case = drawn(("rows:1", "columns:1"), (3, 4), (1, 1), n_images=20, fragile=fragile)
    verdict = mc.detect([mc.Pool(case.ballots(), weights=weights)], 1, slack=slack)
    count_silent_changes(
        case,
        verdict,
        lambda literal: (
            kinds_oracle.pool_label(literal, weights),
            kinds_oracle.pool_alert(literal, weights, (1, 1), slack),
        ),
        seen,
    )
    assert min(seen["certified True"], seen["certified False"], seen["silent change"]) >= 3, seen


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_members", [1, 2])
def test_without_is_what_rewriting_fragile_ballots_leaves(n_classes: int, n_members: int) -> None:
    """Exact in both directions: the set is made of the labels that win, for some content of the fragile ballots."""
    seen: Counter[str] = Counter()
    sizes = [(1, 6), (3, 3), (5, 1)]
    for seed in range(12):
        plain = draw_case(seed, n_classes=n_classes, n_defenders=n_members, image_sizes=sizes, n_images=4)
        case, weights = plain.shaken(seed), [1, 2][:n_members]
        pool, patch = mc.Pool(case.ballots(), weights=weights), mc.Patch(*case.patch)
        for slack in (0, 1, 2):
            sets = [case.reach_sets(pool.without(patch, slack))]
            if n_members == 1:
                sets.append(case.reach_sets(case.ballots()[0].without(patch, slack)))
            verdict = mc.detect([pool], patch, slack=slack)
            for i in range(case.n_images):
                literal = case.defenders(i)
                for place in case.placements():
                    said = kinds_oracle.pool_without(literal, weights, case.patch, place, slack)
                    assert all(found[i, *place] == said for found in sets), (case, i, place, slack)
                    assert verdict.safe[i][place] == (said == {kinds_oracle.pool_label(literal, weights)})
                assert verdict.alert[i] == kinds_oracle.pool_alert(literal, weights, case.patch, slack)
                seen[f"{slack} {verdict.certified[i]}"] += 1
    assert min(seen[f"{slack} {holds}"] for slack in (0, 1, 2) for holds in (True, False)) >= 2, seen


@given(ensembles())
def test_an_ensemble_is_certified_iff_every_plurality_without_a_placement_is_its_label(case: Case) -> None:
    evidence = case.ballots()
    verdict = mc.detect(evidence, mc.Patch(*case.patch))
    for i in range(case.n_images):
        literal = case.defenders(i)
        told = [literally.testimony(each, each.provenance, i, case.patch) for each in evidence]
        y = oracle.ensemble_label(literal)
        for place in case.placements():
            said = [each.without()[place] for each in told]
            assert verdict.safe[i][place] == oracle.majority_invariant(said, y, case.n_classes)
        assert verdict.alert[i] == kinds_oracle.ensemble_alert(literal, case.patch)
        assert case.fragile or verdict.alert[i] == (not verdict.certified[i])


@given(ensembles(max_defenders=3))
def test_what_is_recovered_is_detected(case: Case) -> None:
    """Where no patch can change the label at all, it is also what is left without any: touched votes only add to it."""
    recovered, detected = (promise(case.ballots(), mc.Patch(*case.patch)) for promise in (mc.majorcert, mc.detect))
    assert (detected.safe >= recovered.safe).all()


def test_a_witness_says_what_is_left_without_its_placement() -> None:
    votes = (tuple(frozenset([label]) for label in (1, 1, 1, 0, 0)),)
    case = Case(("columns:1",), (1, 5), 3, (votes,), (1, 2))
    verdict = mc.detect(case.ballots(), (1, 2))
    assert verdict.predicted.tolist() == [1]
    witness = verdict.witness(0)
    assert witness is not None
    assert (witness.placement, witness.rival, witness.forced) == ((0, 0), 0, (0,))
    assert verdict.alert.tolist() == [True]
    assert mc.detect(case.ballots(), (1, 2), slack=1).alert.tolist() == [True], "2 votes against 1 and a slack of 1"
    quiet = mc.detect(case.ballots(), (1, 2), slack=2)
    assert quiet.alert.tolist() == [False]
    assert quiet.certified.tolist() == [False]


def bands(*rows: str) -> list[mc.Ballots]:
    """Bands of one pixel, a digit for each; one row for each defender."""
    votes = tuple((tuple(frozenset([int(vote)]) for vote in row),) for row in rows)
    return Case(("columns:1",) * len(rows), (1, len(rows[0])), 2, votes, (1, 1)).ballots()


def test_most_must_be_sure_of_the_same_label() -> None:
    """Two of three are sure, each of another label; the third changes sides without either of its first two bands."""
    assert mc.detect(bands("1111", "0000", "0011"), 1).safe.tolist() == [[[False, False, True, True]]]
    assert mc.detect(bands("0000", "0000", "0011"), 1).certified.tolist() == [True]


def test_another_without_takes_over_no_short_cut() -> None:
    class Doubtful(mc.Ballots):
        """Of whom it is not known what it says without a part."""

        def without(self, patch: mc.Patch, slack: int = 0) -> mc.Reach:
            return super().without(patch, slack=len(self.labels[0]))

    (sure,) = bands("0000")
    doubtful = Doubtful(sure.labels, strategy="columns:1", image_size=(1, 4), n_classes=2)
    assert mc.detect([sure], 1).certified.tolist() == [True]
    assert mc.detect([doubtful], 1).certified.tolist() == [False]


def test_who_cannot_say_what_is_asked_is_refused_even_where_the_others_decide() -> None:
    (sure,) = bands("0000")
    masked = mc.MaskedScores(mc.Scores.of_votes(sure), mc.Patch(1))
    for images in (slice(None), slice(0)):
        ensemble = [sure[images], sure[images], masked[images]]
        with pytest.raises(mc.EvidenceError, match="MaskedScores cannot say"):
            mc.detect(ensemble, 1)
        with pytest.raises(mc.EvidenceError, match="for ballots, got MaskedScores"):
            mc.majorcert(ensemble, 1, reach="paper")
        assert mc.majorcert(ensemble, 1).certified.all()


def test_slack_is_for_one_voting_defender() -> None:
    case = drawn(("rows:1", "columns:1"), (3, 4), (1, 1), n_images=2, fragile=False)
    with pytest.raises(mc.EvidenceError, match="slack is for one voting defender or pool, got 2"):
        mc.detect(case.ballots(), 1, slack=1)
    with pytest.raises(mc.EvidenceError, match=r"slack .*0.*-1"):
        mc.detect(case.ballots()[:1], 1, slack=-1)
    with pytest.raises(mc.EvidenceError, match="MaskedScores cannot say"):
        mc.detect([mc.MaskedScores(mc.Scores.of_votes(case.ballots()[0]), mc.Patch(1))], 1)


def test_the_result_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    case = draw_case(5, n_classes=3, n_defenders=1, image_sizes=[(4, 5)], n_images=9).shaken(5)
    whole = mc.detect(case.ballots(), mc.Patch(*case.patch), slack=1)
    monkeypatch.setattr("majorcert.core.majority.CHUNK_BYTES", 1)
    monkeypatch.setattr("majorcert.core.detection.CHUNK", 2)
    parts = mc.detect(case.ballots(), mc.Patch(*case.patch), slack=1)
    assert whole.safe.tolist() == parts.safe.tolist()
    assert whole.alert.tolist() == parts.alert.tolist()
    assert whole.witnesses == parts.witnesses


@pytest.mark.parametrize("slack", [2**31, 2**61, 2**62, 2**63, 10**30])
def test_a_slack_beyond_all_points_is_refused(slack: int) -> None:
    """2**62 votes times four classes is 0 in 64 bits, and would be certified as if there were no slack."""
    ballots = mc.Ballots([[0, 0, 1, 0]], strategy="columns:1", image_size=(4, 4), n_classes=4)
    assert mc.detect([ballots], 1).certified.all()
    assert not mc.detect([ballots], 1, slack=2**31 - 1).certified.any()
    for evidence in (ballots, mc.Pool([ballots])):
        with pytest.raises(mc.EvidenceError, match=f"slack .*{slack}"):
            mc.detect([evidence], 1, slack=slack)
