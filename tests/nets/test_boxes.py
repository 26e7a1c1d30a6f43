"""The boxes that masking networks learn under: drawn anywhere, remembered where they were worst, searched for."""

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.errors import ModelError
from majorcert.nets.augment import N_RANDOM, Augment, Moves, gathered
from majorcert.nets.boxes import FADING, N_NUMBERS, Boxes, Memory, middles_of, under, worst
from majorcert.nets.data import Dataset
from majorcert.nets.learner import Learner
from majorcert.nets.masked import outside
from majorcert.nets.models import ModelConfig
from majorcert.nets.processes import Processes
from majorcert.nets.recipes import recipe
from majorcert.nets.views import to_unit


def test_boxes_are_of_the_given_sides_anywhere_inside() -> None:
    boxes = Boxes(sides=(2, 5, 9)).drawn(torch.rand(9000, N_NUMBERS), (6, 7))
    assert boxes.shape == (9000, 2, 4)
    top, left, height, width = boxes.flatten(0, 1).unbind(1)
    assert set(zip(height.tolist(), width.tolist(), strict=True)) == {(2, 2), (5, 5), (6, 7)}
    assert (set(top[height == 2].tolist()), set(left[width == 2].tolist())) == (set(range(5)), set(range(6)))
    assert bool((top + height <= 6).all() & (left + width <= 7).all())
    edge = Boxes(sides=(2,)).drawn(torch.full((1, N_NUMBERS), 1.0), (6, 7))
    assert edge.flatten().tolist() == [4, 5, 2, 2] * 2


def test_a_remembered_pair_hides_the_same_pixels_of_the_image_however_it_is_shown() -> None:
    """The pixels of an image are numbered; what a remembered box hides under other shifts and flips is looked up."""
    numbers = torch.arange(1, 85, dtype=torch.uint8).view(1, 1, 7, 12)
    augment, lots = Augment(shift=1, flip=True), torch.rand(400, N_RANDOM, generator=torch.Generator().manual_seed(0))
    worst = torch.tensor([[2, 3, 2, 2], [3, 8, 2, 2]])[None]
    memory, index = Memory(3, (7, 12), torch.device("cpu")), torch.tensor([1])
    memory.keep(index, middles_of(worst, Moves.of(augment, lots[:1]), (7, 12)), torch.ones(1), torch.zeros(1).bool())
    shows = gathered(numbers, torch.zeros(400, dtype=torch.int64), augment, lots)
    many, both = index.expand(400), torch.zeros(400, N_NUMBERS)
    found = memory.recalled(many, worst.expand(400, 2, 4), Moves.of(augment, lots), both)
    hidden = [set(shown[~seen].tolist()) for shown, seen in zip(shows[:, 0], outside(found, (7, 12)), strict=True)]
    assert len(hidden[0]) == 8
    assert all(each == hidden[0] for each in hidden)
    assert len({tuple(each) for each in found.flatten(1).tolist()}) > 10, "always shown in the same way"


def test_the_worst_pair_is_remembered_and_the_others_fade() -> None:
    memory, index, no = Memory(4, (9, 9), torch.device("cpu")), torch.arange(2), torch.zeros(2, dtype=torch.bool)
    still, lots = Moves(torch.zeros(1, 2).long(), no[:1]), torch.zeros(2, N_NUMBERS)
    new = torch.tensor([6, 6, 3, 3]).expand(2, 2, 4)
    assert torch.equal(memory.recalled(index, new, still, lots), new), "nothing is known yet"
    first = torch.tensor([[[7, 7], [9, 9]]] * 2)
    memory.keep(index, first, torch.tensor([2.0, 1.0]), no)
    memory.keep(index, first + 2, torch.tensor([1.0, 3.0]), no)
    assert memory.loss.tolist() == pytest.approx([2 * FADING, 3, -1, -1])
    assert memory.middles[:2].tolist() == torch.stack([first[0], first[0] + 2]).tolist()
    assert memory.recalled(index, new, still, lots)[:, :, :2].tolist() == [[[2, 2], [3, 3]], [[3, 3], [4, 4]]]
    memory.keep(index, first, torch.tensor([0.5, 0.5]), memory.replayed(index, lots))
    assert memory.loss.tolist() == pytest.approx([0.5, 0.5, -1, -1]), "a replayed pair has its loss of today"
    lot = torch.tensor([[0.1, 0.1], [0.6, 0.1], [0.6, 0.9], [0.9, 0.1]])
    lots = torch.cat([torch.zeros(4, 6), lot], dim=1)
    many = memory.recalled(index[:1].expand(4), new[:1].expand(4, 2, 4), still, lots)
    assert (many[:, :, :2] != 6).any(dim=2).tolist() == [[True, True], [True, False], [False, True], [False, False]]


@pytest.mark.parametrize("greedy", [False, True])
def test_of_several_pairs_the_worst_is_found(greedy: bool) -> None:
    """Against a loop over images, by a loss that is not the sum of what each box does."""
    pairs = torch.randint(0, 50, (30, 5, 2, 4), generator=torch.Generator().manual_seed(2))

    def loss_of_one(pair: torch.Tensor) -> float:
        first, second = (int((each * torch.tensor([1, 3, 7, 11])).sum()) for each in pair)
        return float((first * second + first + 17 * second) % 101)

    found = worst(pairs, lambda each: torch.tensor([loss_of_one(pair) for pair in each]), greedy=greedy)
    for tried, chosen in zip(pairs, found, strict=True):
        candidates = list(tried)
        if greedy:
            first = max((pair[0] for pair in tried), key=lambda box: loss_of_one(torch.stack([box, box])))
            candidates = [torch.stack([first, pair[1]]) for pair in tried]
        assert loss_of_one(chosen) == max(map(loss_of_one, candidates))
        assert any(torch.equal(chosen, pair) for pair in candidates)
    with pytest.raises(ModelError, match="worst of several boxes; say of how many, 2 or more"):
        Boxes(sides=(3,), greedy=True)
    with pytest.raises(ModelError, match="are the worst of 1 or more"):
        Boxes(sides=(3,), worst_of=0)


def test_a_step_learns_from_the_worst_pair_and_looks_at_the_others_without_a_trace() -> None:
    size, truth = (6, 6), torch.arange(64) % 3
    images = torch.randint(0, 256, (64, 1, *size), generator=torch.Generator().manual_seed(5), dtype=torch.uint8)
    data = Dataset(images, truth, ("a", "b", "c"), "noise", "train")
    usual = recipe("digits", "masks:2/2", 1, 3)
    boxes = replace(usual.boxes, worst_of=4, worst_from=0.5, memory_from=1.0)
    config = replace(usual, model=ModelConfig("small", 1, 3, width=4), epochs=4, batch_size=64, boxes=boxes)
    learner = Learner(config, data, Processes("cpu"))
    assert [learner.begin(epoch) for epoch in range(4)] == [True, False, True, False]
    alone, batch = copy.deepcopy(learner.model), torch.arange(64)
    state = learner.generator.get_state()
    learner.prepare(batch, 0, 1)
    learner.step()
    generator = torch.Generator()
    generator.set_state(state)
    lots = torch.rand(64, N_RANDOM + 4 * N_NUMBERS, generator=generator)[:, N_RANDOM:].view(64, 4, N_NUMBERS)
    views = [under(to_unit(data.images), boxes.drawn(lots[:, number], size)) for number in range(4)]
    with torch.no_grad():
        losses = [F.cross_entropy(copy.deepcopy(alone)(each), truth, reduction="none") for each in views]
    hardest = torch.stack(losses).argmax(dim=0)
    assert len(set(hardest.tolist())) == 4
    alone(torch.stack(views)[hardest, batch])
    for name, kept in alone.named_buffers():
        if "running" in name:
            torch.testing.assert_close(dict(learner.model.named_buffers())[name], kept)
