"""An ensemble of every kind, against literal enumeration: tables and ballots rewritten, and every pick of labels."""

from collections import Counter
from fractions import Fraction
from itertools import product

import kinds_oracle
import numpy as np
import oracle
from cases import Case

import majorcert as mc
from majorcert.audit.points import Points

SIZE, N, N_CLASSES = (2, 4), 8, 3
MASKS = mc.Masks(1, 3)
WEIGHTS = [2, 1]
SPECS = ("columns:1", "rows:1", "columns:1", "columns:1")


def mixed(seed: int, patch: tuple[int, int]) -> tuple[Case, np.ndarray, list[mc.Evidence]]:
    """[pairs, pool, ballots, masked scores] that mostly want the same label, and the case that the votes come from."""
    random = np.random.default_rng(seed)
    wanted, clear = random.integers(N_CLASSES, size=N), random.choice([0.5, 0.85, 1.0], size=N)
    votes = []
    for spec in SPECS:
        n = len(oracle.regions(spec, SIZE))
        labels = np.where(
            random.random((N, n)) < clear[:, None], wanted[:, None], random.integers(N_CLASSES, size=(N, n))
        )
        votes.append(tuple(tuple(frozenset([int(label)]) for label in row) for row in labels))
    case = Case(SPECS, SIZE, N_CLASSES, tuple(votes), patch)
    n = MASKS.n_masks(SIZE)
    odd = random.random((N, n, n)) < (1 - clear)[:, None, None] / 2
    tables = np.where(odd | odd.transpose(0, 2, 1), (wanted[:, None, None] + 1) % N_CLASSES, wanted[:, None, None])
    first, second, third, fourth = case.ballots()
    evidence: list[mc.Evidence] = [
        mc.MaskPairs(tables, masks=MASKS, image_size=SIZE, n_classes=N_CLASSES),
        mc.Pool([first, second], weights=WEIGHTS),
        third,
        mc.MaskedScores(mc.Scores.of_votes(fourth), mc.Patch(1, 2)),
    ]
    return case, tables, evidence


def points_of(case: Case, image: int) -> Points:
    """The literal definition of the last defender."""
    votes = [[int(c in ballot) for c in range(N_CLASSES)] for ballot in case.votes[3][image]]
    return Points(votes, oracle.touched("columns:1", SIZE, (1, 2)), (1, 2), Fraction(0), case.patch, SIZE)


def test_a_mixed_ensemble_is_safe_just_where_every_pick_keeps_its_label() -> None:
    seen: Counter[str] = Counter()
    for seed, patch in product(range(5), [(1, 1), (1, 2)]):
        case, tables, evidence = mixed(seed, patch)
        verdict = mc.majorcert(evidence, mc.Patch(*patch))
        covers = kinds_oracle.covering((1, 3), 1, SIZE, patch)
        for i in range(N):
            members = case.defenders(i)
            table, points = tuple(map(tuple, tables[i].tolist())), points_of(case, i)
            labels = [
                kinds_oracle.double_masking(table),
                kinds_oracle.pool_label(members[:2], WEIGHTS),
                members[2].label(),
                points.label,
            ]
            y = oracle.majority(labels, N_CLASSES)
            assert verdict.predicted[i] == y
            masked = points.reach()
            for place, cover in covers.items():
                sets = [
                    frozenset(kinds_oracle.masking_outcomes(table, cover, N_CLASSES)),
                    frozenset(kinds_oracle.pool_outcomes(members[:2], WEIGHTS, patch, place)),
                    oracle.reach_by_rewriting(members[2].kept(patch, place), len(members[2].touched(patch, place))),
                    masked[place],
                ]
                holds = oracle.majority_invariant(sets, y, N_CLASSES)
                safe = bool(verdict.safe[i][place])
                assert holds or not safe, (seed, i, place)
                if 2 * len(cover) < len(table):
                    assert safe == holds, (seed, i, place)
                seen[f"safe {safe}"] += 1
            seen[f"by {verdict.by[i]}"] += 1
    assert min(seen["safe True"], seen["safe False"]) >= 50, seen
    assert min(seen["by theorem1"], seen["by theorem2"], seen["by "]) >= 2, seen


def test_a_mixed_ensemble_watches_itself() -> None:
    """Detection by pairs, pool and ballots: the plurality of what each says without a placement."""
    seen: Counter[bool] = Counter()
    for seed in range(4):
        case, tables, evidence = mixed(seed, (1, 2))
        verdict = mc.detect(evidence[:3], (1, 2))
        covers = kinds_oracle.covering((1, 3), 1, SIZE, (1, 2))
        for i in range(N):
            members, table = case.defenders(i), tables[i].tolist()
            labels = [
                kinds_oracle.double_masking(table),
                kinds_oracle.pool_label(members[:2], WEIGHTS),
                members[2].label(),
            ]
            y = oracle.majority(labels, N_CLASSES)
            for place, cover in covers.items():
                first = min(cover)
                without = [
                    table[first][first],
                    oracle.plurality(kinds_oracle.left(members[:2], WEIGHTS, (1, 2), place)),
                    oracle.plurality(kinds_oracle.left(members[2:3], [1], (1, 2), place)),
                ]
                assert verdict.safe[i][place] == (oracle.majority(without, N_CLASSES) == y)
            assert verdict.alert[i] == (not verdict.certified[i])
            seen[bool(verdict.certified[i])] += 1
    assert min(seen[True], seen[False]) >= 3, seen
