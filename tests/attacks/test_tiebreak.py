"""The tie-break in tensors says the same as the core's tie rule and reach, which are written in NumPy."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from majorcert.attacks.aim import NEVER, Aim, rival_gaps
from majorcert.attacks.tiebreak import elected, lacking, winner
from majorcert.core.plurality import plurality, plurality_of_labels

COUNTS = st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=1, max_size=5)


@given(COUNTS)
def test_the_winner_is_the_plurality(counts: list[list[int]]) -> None:
    assert np.array_equal(winner(torch.tensor(counts)).numpy(), plurality(np.array(counts)))
    labels = np.array(counts)
    assert np.array_equal(elected(torch.tensor(counts), 5).numpy(), plurality_of_labels(labels, 5))


@given(COUNTS)
def test_a_label_wins_with_the_votes_that_it_lacks_and_not_with_fewer(counts: list[list[int]]) -> None:
    found = lacking(torch.tensor(counts))
    for row, need in zip(counts, found.tolist(), strict=True):
        for label in range(4):
            enough, fewer = list(row), list(row)
            enough[label] += need[label]
            assert int(plurality(np.array(enough))) == label
            if need[label]:
                fewer[label] += need[label] - 1
                assert int(plurality(np.array(fewer))) != label


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 3))
def test_an_aim_at_a_rival_changes_the_label_with_the_needed_defenders_and_not_with_fewer(
    labels: list[int], rival: int
) -> None:
    said = torch.tensor([labels])
    clean = elected(said, 4)
    if rival == int(clean):
        return
    aim = Aim.at_rival(torch.tensor([rival]), said, clean)
    # Those that say the rival anyway are nearest; of the others only those with the clean label are moved.
    distance = (said != rival).double()
    moved = aim.easiest(distance)
    assert int(moved.sum()) == int(aim.needed[0])
    after = torch.where(moved, rival, said)
    assert int(elected(after, 4)) != int(clean)
    n_needed = int(aim.missing(distance)[0])
    assert n_needed >= 1
    before_last = torch.where(moved & (torch.cumsum(moved & (said != rival), dim=1) < n_needed), rival, said)
    tally = [int((before_last == label).sum()) for label in (rival, int(clean))]
    assert tally[0] < tally[1] + (rival > int(clean))


def test_a_witness_is_aimed_at_as_it_is() -> None:
    aim = Aim.at_choice(torch.tensor([[2, 1, 0]]), torch.tensor([0]))
    assert aim.movable.tolist() == [[True, True, False]]
    assert aim.needed.tolist() == [2]
    assert aim.missing(torch.tensor([[3.0, 4.0, 9.0]])).tolist() == [7.0]
    other = Aim.at_rival(torch.tensor([1]), torch.tensor([[0, 0, 0]]), torch.tensor([0]))
    assert aim.where(torch.tensor([False]), other).said.tolist() == [[1, 1, 1]]
    assert aim.where(torch.tensor([True]), other).said.tolist() == [[2, 1, 0]]


def test_the_clean_label_is_no_rival() -> None:
    distance = torch.tensor([[[0.0, 2.0, 3.0], [0.0, 1.0, 5.0], [0.0, 9.0, 1.0]]])
    gaps = rival_gaps(distance, torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, dtype=torch.long))
    assert gaps.tolist() == [[NEVER, 3.0, 4.0]]
