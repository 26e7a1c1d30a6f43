"""Views under masks do not see what is hidden, and what is looked at decides as the whole table would."""

from typing import Any

import numpy as np
import pytest
import torch

import majorcert as mc
from majorcert.core.reach import NO_LABEL
from majorcert.nets.joined import Cascade
from majorcert.nets.masked import MaskCutter, centred, outside, shown
from majorcert.nets.masker import Masker, _Look, _order
from majorcert.nets.models import ModelConfig, average, build, mirror
from majorcert.nets.models import cascade as cascaded
from majorcert.nets.shards import fetched

torch.set_num_threads(1)
SIZE, N_CLASSES = (7, 6), 4
SPECS = ["masks:2/2", "masks:1x2/3", "masks:3/1"]


def images(n: int, channels: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (n, channels, *SIZE), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


def masker(spec: str = "masks:2/2", seed: int = 0, **options: Any) -> Masker:
    """Of a network that is in two minds: its labels differ from pair to pair."""
    torch.manual_seed(seed)
    config = ModelConfig("small", 3, N_CLASSES, width=4)
    network = build(config)
    with torch.no_grad():
        network[-1].weight *= 20  # type: ignore[index]
        views = torch.randn(50, 3, *SIZE)
        network[-1].bias -= network.eval()(views).mean(dim=0)  # type: ignore[index]
    return Masker.of(network, mc.Masks.parse(spec), image_size=SIZE, channels=3, config=config, **options)


def whole_table(of: Masker, some: torch.Tensor) -> mc.MaskPairs:
    table = of.table(some)
    labels, distance = fetched(table.health, table.labels, table.distance)()
    facts: dict[str, Any] = {"masks": of.cutter.masks, "image_size": SIZE, "n_classes": N_CLASSES}
    return mc.MaskPairs(labels, distance=distance, **facts)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_view_does_not_depend_on_any_hidden_pixel(spec: str, channels: int) -> None:
    """To the last bit, for every pair of masks, whatever is painted there: the sign of zero included."""
    masks = mc.Masks.parse(spec)
    cutter, hidden = MaskCutter.of(masks, SIZE), torch.from_numpy(masks.hidden(SIZE))
    before = images(1, channels)
    for first, second in torch.triu_indices(len(hidden), len(hidden)).T:
        covered = hidden[first] | hidden[second]
        which, pair = torch.zeros(1, dtype=torch.int64), (first[None], second[None])
        view = cutter.take(centred(before), which, *pair)
        for paint in (0.0, 255.0, float("nan"), float("inf"), -1e30):
            after = torch.where(covered, torch.tensor(paint), before.float())
            again = cutter.take(centred(after / 255), which, *pair)
            assert torch.equal(again.contiguous().view(torch.int32), view.contiguous().view(torch.int32))
        assert torch.equal(view[0].permute(1, 2, 0)[~covered], centred(before)[0][~covered])


def test_a_hidden_pixel_has_the_mean_colour() -> None:
    grey = torch.full((1, 1, 2, 2), 0.5)
    assert centred(grey).abs().max() == 0
    visible = torch.tensor([[[True, False], [False, True]]])
    assert shown(centred(grey + 0.25), visible)[0, 0].tolist() == [[1, 0], [0, 1]]


def test_boxes_hide_what_is_inside_and_nothing_else() -> None:
    boxes = torch.tensor([[[0, 0, 2, 3], [5, 4, 2, 2]], [[1, 1, 0, 4], [6, 0, 1, 6]]])
    visible = outside(boxes, SIZE)
    expected = torch.ones(2, *SIZE, dtype=torch.bool)
    expected[0, :2, :3] = expected[0, 5:, 4:] = expected[1, 6] = False
    assert torch.equal(visible, expected)


@pytest.mark.parametrize("spec", SPECS)
def test_labels_stand_under_their_own_pair(spec: str) -> None:
    """The table says at (i, j) what the network says when masks i and j, cut here by hand, hide the image."""
    of, some = masker(spec), images(3)
    table, hidden = whole_table(of, some), torch.from_numpy(mc.Masks.parse(spec).hidden(SIZE))
    place = 0
    for i in range(len(hidden)):
        for j in range(i, len(hidden)):
            sheet = centred(some).clone()
            sheet[:, hidden[i] | hidden[j]] = 0
            padded = torch.cat([sheet.permute(0, 3, 1, 2)] * of.scorer.tile)[: of.scorer.tile]
            with torch.inference_mode():
                expected = of.scorer.network(padded.contiguous())[:3].argmax(dim=1)
            assert table.labels[:, place].tolist() == expected.tolist()
            place += 1
    assert len(np.unique(table.labels)) > 1


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", range(2))
def test_the_rows_that_dissent_decide_as_the_whole_table_does(spec: str, seed: int) -> None:
    of, some = masker(spec, seed), images(40, seed=seed)
    table = whole_table(of, some)
    assert of.predict(some).tolist() == table.label.tolist()
    majority = [np.bincount(row).argmax() for row in table.singles()]
    assert (table.singles() != table.singles()[:, :1]).any(), "no image had a second round"
    if spec == SPECS[0]:
        assert (table.label == majority).any()


def test_a_dissenting_row_overrules_the_majority() -> None:
    """Of all the networks above, some image is decided in the second round."""
    overruled = 0
    for seed in range(4):
        table = whole_table(masker("masks:2/2", seed), images(40, seed=seed))
        majority = np.array([np.bincount(row, minlength=N_CLASSES).argmax() for row in table.singles()])
        overruled += int((table.label != majority).sum())
    assert overruled


@pytest.mark.parametrize("wary", [False, True])
def test_only_what_is_needed_is_looked_at(wary: bool) -> None:
    """A patch that one mask hides: the masks, then that mask's row, as long as it is of one label; nothing more."""
    seen: list[int] = []
    hidden = torch.from_numpy(mc.Masks(2, stride=2).hidden(SIZE))

    def network(views: torch.Tensor) -> torch.Tensor:
        """A wary one minds that the second mask hides a pixel: with it, the row of the first mask is mixed."""
        bright = (views[:, 0, :2, :2] > 1.5).all(dim=(1, 2)) | (wary & (views[:, 0, 0, 3] == 0))
        return 5 * torch.stack([~bright, bright], dim=1).float()

    of = Masker.of(network, mc.Masks(2, stride=2), image_size=SIZE, channels=3)
    score = of.scorer.score

    def counted(n_views: int, *rest: Any) -> Any:
        seen.append(n_views)
        return score(n_views, *rest)

    object.__setattr__(of.scorer, "score", counted)
    plain, attacked = torch.full((1, 3, *SIZE), 128, dtype=torch.uint8), torch.full((1, 3, *SIZE), 128).byte()
    attacked[:, :, :2, :2] = 255
    assert of.predict(plain).tolist() == [int(wary)]
    assert wary or seen == [len(hidden)]
    seen.clear()
    assert of.predict(attacked).tolist() == [int(wary)]
    covering = int(hidden[:, :2, :2].any(dim=2).any(dim=1).sum())
    assert covering == 1
    assert (seen[0], sum(seen[1:])) == (len(hidden), 1 if wary else len(hidden) - 1)


def test_the_second_mask_is_first_the_one_that_hides_what_speaks_for_the_label() -> None:
    labels = torch.full((1, 3, 3), NO_LABEL, dtype=torch.int32)
    labels.diagonal(dim1=1, dim2=2)[:] = torch.tensor([0, 1, 0])
    scores = torch.tensor([[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]])
    assert _order(labels, scores).tolist() == [[[1, 2], [0, 2], [1, 0]]]
    assert _order(labels[:0], scores[:0]).shape == (0, 3, 2)


def cascade(sure: float = 0.6) -> tuple[Masker, Cascade]:
    """Of two networks that often differ."""
    torch.manual_seed(5)
    plain = ModelConfig("small", 3, N_CLASSES, width=4)
    config = cascaded(mirror(average((plain, plain)), "masked"), sure)
    network = build(config).eval()
    assert isinstance(network, Cascade)
    with torch.no_grad():
        members: Any = network.members[0].members
        for member in members[0].members:
            member[-1].weight *= 2 / member(views := centred(images(50)).permute(0, 3, 1, 2)).std(dim=0)[:, None]
            member[-1].bias -= member(views).mean(dim=0)
    return Masker.of(network, mc.Masks.parse(SPECS[0]), image_size=SIZE, channels=3, config=config), network


def test_a_cascade_says_under_every_pair_what_its_network_says() -> None:
    (of, network), some = cascade(), images(12)
    table = whole_table(of, some)
    first, second = torch.triu_indices(of.n_masks, of.n_masks)
    agreed = []
    for k in range(len(some)):
        views = of.cutter.take(centred(some), torch.full_like(first, k), first, second)
        with torch.inference_mode():
            expected = network(views).argmax(dim=1)
            agreed.append(network.first(views).argmax(dim=1) == network.members[0](views).argmax(dim=1))
        assert table.labels[k].tolist() == expected.tolist()
    assert not torch.cat(agreed).all(), "both stages always said the same"
    assert of.predict(some).tolist() == table.label.tolist()


def test_the_distance_of_a_cascade_is_never_more_than_the_truth() -> None:
    """Every probability of both stages moves by a little less than the distance of a view: its label stays."""
    (of, network), some, moves = cascade(), images(6), torch.Generator().manual_seed(0)
    look = _Look(of, some, None)
    place = torch.cartesian_prod(torch.arange(6), torch.arange(of.n_masks), torch.arange(of.n_masks)).T
    look.views(*place)
    labels, far = look.labels[tuple(place)], look.distance[tuple(place)][:, None]
    with torch.inference_mode():
        views = of.cutter.take(centred(some), *place)
        alone, mean = (stage(views).softmax(dim=1) for stage in (network.first, network.members[0]))
    sure, agreed = alone.amax(dim=1) >= network.sure, alone.argmax(dim=1) == mean.argmax(dim=1)
    for kind in (sure & agreed, sure & ~agreed, ~sure & agreed, ~sure & ~agreed):
        assert int((kind & (far[:, 0] > 0.01)).sum()) > 3
    for scale, holds in ((0.999, True), (1.5, False)):
        changed = torch.zeros_like(sure)
        for _ in range(300):
            signs = 2 * torch.randint(0, 2, (2, *alone.shape), generator=moves) - 1
            one, two = alone + scale * far * signs[0], mean + scale * far * signs[1]
            moved = torch.where(one.amax(dim=1, keepdim=True) >= network.sure, one, two).argmax(dim=1)
            changed |= moved != labels
        assert bool(changed.any()) != holds


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("first", [False, True], ids=["at once", "labels first"])
def test_what_is_left_out_changes_no_certificate(spec: str, seed: int, first: bool) -> None:
    of, some = masker(spec, seed), images(30, seed=seed)
    told: list[int] = []
    whole, part = whole_table(of, some), of.table_to_certify(some, None, told.extend if first else None)
    facts: dict[str, Any] = {"masks": spec, "image_size": SIZE, "n_classes": N_CLASSES}
    partial = mc.MaskPairs(
        part.labels.numpy(), distance=part.distance.numpy(), provenance={"certify_only": True}, **facts
    )
    assert told == (whole.label.tolist() if first else [])
    known = partial.labels != NO_LABEL
    assert np.array_equal(partial.labels[known], whole.labels[known])
    assert np.array_equal(partial.label, whole.label)
    finished = known.all(axis=1)
    assert np.array_equal(partial.distance[finished], whole.distance[finished])  # type: ignore[index]
    for patch in (mc.Patch(1), mc.Patch(2)):
        try:
            ours, theirs = (mc.certify([each], patch) for each in (partial, whole))
        except mc.PatchError:
            continue
        assert np.array_equal(ours.safe, theirs.safe)  # type: ignore[arg-type]
        ours, theirs = (mc.detect([each], patch) for each in (partial, whole))
        assert np.array_equal(ours.certified, theirs.certified)
        assert np.array_equal(ours.alert, theirs.alert)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", SPECS)
def test_what_detection_leaves_out_changes_no_label_and_no_alert(spec: str) -> None:
    """And what is left proves no more of recovery than the whole table does."""
    of, some, told = masker(spec, 1), images(30, seed=1), list[int]()
    whole, part = whole_table(of, some), of.table_to_detect(some, None, told.extend)
    facts: dict[str, Any] = {"masks": spec, "image_size": SIZE, "n_classes": N_CLASSES}
    partial = mc.MaskPairs(part.labels.numpy(), provenance={"detect_only": True}, **facts)
    assert told == partial.label.tolist() == whole.label.tolist()
    assert (partial.labels == NO_LABEL).mean() > 0.3
    for side in (1, 2):
        ours, theirs = (mc.detect([each], side) for each in (partial, whole))
        assert np.array_equal(ours.safe, theirs.safe)  # type: ignore[arg-type]
        assert np.array_equal(ours.alert, theirs.alert)  # type: ignore[arg-type]
        proved, provable = (np.asarray(mc.certify([each], side).safe) for each in (partial, whole))
        assert not (proved & ~provable).any()


def test_some_images_are_left_unfinished_and_some_are_not() -> None:
    labels = torch.cat([masker("masks:2/2", seed).table_to_certify(images(30, seed=seed)).labels for seed in range(3)])
    unfinished = (labels == NO_LABEL).any(dim=2).any(dim=1)
    assert 0 < int(unfinished.sum()) < len(unfinished)


def test_a_partial_table_is_never_taken_for_a_whole_one() -> None:
    """Without the word in its provenance, or with a gap that could matter, it is refused."""
    of = masker("masks:2/2", 1)
    labels = of.table_to_certify(images(30, seed=1)).labels.numpy()
    facts: dict[str, Any] = {"masks": of.cutter.masks, "image_size": SIZE, "n_classes": N_CLASSES}
    with pytest.raises(mc.BallotsError, match="certify_only"):
        mc.MaskPairs(labels, **facts)
    said = {"provenance": {"certify_only": True}, **facts}
    assert mc.MaskPairs(labels, **said)
    for i, j in ((0, 0), (0, 1)):
        even = np.zeros_like(labels[:1])
        even[0, i, j] = even[0, j, i] = NO_LABEL
        with pytest.raises(mc.BallotsError, match="rows that are known to be mixed"):
            mc.MaskPairs(even, **said)
