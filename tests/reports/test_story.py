"""The story of a placement says what the core says, in numbers and in words."""

import numpy as np
import pytest
from cases import draw_case

import majorcert as mc
from majorcert.reports.contents import Contents
from majorcert.reports.promises import promised
from majorcert.reports.story import scene, sentence
from reports import ReachOnly


@pytest.mark.parametrize("seed", range(12))
def test_scenes_agree_with_the_verdict_at_every_placement(seed: int) -> None:
    case = draw_case(seed, n_classes=4, n_defenders=1 + seed % 5, image_sizes=[(4, 5), (5, 4)], n_images=3)
    defenders = case.ballots()
    if seed % 3 == 0:
        defenders[-1] = ReachOnly(defenders[-1])
    patch = mc.Patch(*case.patch)
    verdict = mc.majorcert(defenders, patch)
    for image in range(case.n_images):
        for placement in np.ndindex(verdict.safe.shape[1:]):
            told = scene(defenders, patch, image, placement)
            assert told.safe == verdict.safe[image][placement]
            assert told.clean == verdict.predicted[image]
            if (witness := verdict.witness(image)) and witness.placement == placement:
                assert (told.rival, told.forced) == (witness.rival, witness.forced)


@pytest.mark.parametrize("seed", range(8))
def test_scenes_of_detection_say_what_is_left_without_each_placement(seed: int) -> None:
    case = draw_case(seed, n_classes=4, n_defenders=1 + seed % 4, image_sizes=[(4, 5), (5, 4)], n_images=3)
    defenders, patch = case.ballots(), mc.Patch(*case.patch)
    if seed % 4 == 0:
        defenders = [mc.Pool(defenders)]
    verdict = mc.detect(defenders, patch)
    for image in range(case.n_images):
        for placement in np.ndindex(verdict.safe.shape[1:]):
            told = scene(defenders, patch, image, placement, promised("detection"))
            assert (told.safe, told.clean) == (verdict.safe[image][placement], verdict.predicted[image])
            assert sentence(told, NAMES).startswith("No alert from here" if told.safe else "Alert")
            assert {len(one.can_say) for one in told.testimonies} == {1}
            if (witness := verdict.witness(image)) and witness.placement == placement:
                assert told.rival == witness.rival
                assert tuple(one.can_say[0] for one in told.testimonies) == witness.forced


def test_tallies_count_what_the_patch_cannot_touch() -> None:
    ballots = mc.Ballots([[0, 1, 1, -1, 0, 0]], strategy="columns:1", image_size=(6, 6), n_classes=3)
    told = scene([ballots], mc.Patch(2), 0, (0, 4)).testimonies[0]
    assert [(tally.label, tally.votes, tally.kept, tally.most) for tally in told.told.tallies] == [
        (0, 3, 1, 3),
        (1, 2, 2, 4),
    ]
    assert (told.told.n_touched, told.told.n_ablations, told.can_say) == (2, 6, (0, 1))


def bands(*votes: list[int]) -> list[mc.Ballots]:
    specs = ["rows:1", "columns:1", "rows:1/1"]
    return [
        mc.Ballots([labels], strategy=spec, image_size=(9, 9), n_classes=8)
        for spec, labels in zip(specs, votes, strict=False)
    ]


FIRM, SPLIT, RIVAL = [3] * 9, [3] * 6 + [5] * 3, [5] * 9
NAMES = ["airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse"]


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([FIRM, FIRM, FIRM], "Safe here: every defender says cat and none can be moved."),
        (
            [SPLIT, FIRM, FIRM],
            "Safe here: rows:1 #1 can be made to say dog; columns:1 and rows:1 #2 cannot be moved: "
            "cat keeps 2 of 3, dog gets at most 1.",
        ),
        (
            [RIVAL, FIRM, FIRM],
            "Safe here: rows:1 #1 says dog already; columns:1 and rows:1 #2 cannot be moved: "
            "cat keeps 2 of 3, dog gets at most 1.",
        ),
        (
            [SPLIT, SPLIT, FIRM],
            "Not safe here: with rows:1 #1 and columns:1 saying dog, dog has 2 of 3 votes and cat has 1.",
        ),
        (
            [[5] * 5 + [2] * 4, FIRM],
            "Not safe here: with rows:1 saying bird, bird has 1 of 2 votes and cat has 1, "
            "and the tie goes to bird, the smaller label.",
        ),
        (
            [SPLIT, FIRM],
            "Safe here: rows:1 can be made to say dog; columns:1 cannot be moved: "
            "cat keeps 1 of 2, dog gets at most 1 and loses the tie, being the larger label.",
        ),
        ([SPLIT], "Not safe here: rows:1 can be made to say dog."),
        ([FIRM], "Safe here: rows:1 cannot be moved from cat."),
        (
            [[3, 3] + [-1] * 7],
            "Not safe here: rows:1 can be made to say airplane, car, bird or 4 other labels.",
        ),
    ],
)
def test_the_reason_is_stated_in_words(votes: list[list[int]], expected: str) -> None:
    assert sentence(scene(bands(*votes), mc.Patch(2), 0, (0, 0)), NAMES) == expected


def test_names_that_could_be_misread_stand_in_quotation_marks() -> None:
    told = scene(bands(SPLIT, SPLIT, FIRM), mc.Patch(2), 0, (0, 0))
    text = sentence(told, [str(label) for label in range(8)])
    assert text == "Not safe here: with rows:1 #1 and columns:1 saying “5”, “5” has 2 of 3 votes and “3” has 1."


NEAR = [3] * 5 + [5] * 4
LEFT = "without what the patch could touch"


@pytest.mark.parametrize(
    ("votes", "at", "expected"),
    [
        ([FIRM], 0, f"No alert from here: {LEFT}, rows:1 says cat."),
        ([NEAR], 0, f"Alert: {LEFT}, rows:1 says dog."),
        ([NEAR], 7, f"No alert from here: {LEFT}, rows:1 says cat."),
        (
            [FIRM, NEAR, FIRM],
            0,
            f"No alert from here: {LEFT}, rows:1 #1 and rows:1 #2 say cat and columns:1 says dog: cat has 2 of 3.",
        ),
        (
            [NEAR, NEAR, FIRM],
            0,
            f"Alert: {LEFT}, rows:1 #2 says cat and rows:1 #1 and columns:1 say dog: cat has 1 of 3, dog 2.",
        ),
        (
            [[3] * 5 + [2] * 4, FIRM],
            0,
            f"Alert: {LEFT}, columns:1 says cat and rows:1 says bird: cat has 1 of 2, bird 1, "
            "and the tie goes to bird, the smaller label.",
        ),
    ],
)
def test_what_is_left_in_words(votes: list[list[int]], at: int, expected: str) -> None:
    assert sentence(scene(bands(*votes), mc.Patch(2), 0, (at, at), promised("detection")), NAMES) == expected


@pytest.mark.parametrize(
    ("votes", "slack", "expected"),
    [
        (FIRM, 6, f"No alert from here: {LEFT}, rows:1 says cat, whichever label is given 6 more."),
        (
            FIRM,
            7,
            f"No alert from here, and no proof: {LEFT}, rows:1 says cat if that is given 7 more, "
            "and airplane, car or bird if that is.",
        ),
        (
            NEAR,
            1,
            f"No alert from here, and no proof: {LEFT}, rows:1 says cat if that is given 1 more, and dog if that is.",
        ),
        ([5] * 5 + [3] * 4, 1, f"Alert: {LEFT}, rows:1 does not say dog, even if that is given 1 more."),
    ],
)
def test_what_is_left_with_a_slack_in_words(votes: list[int], slack: int, expected: str) -> None:
    told = scene(bands(votes), mc.Patch(2), 0, (0, 0), promised("detection", slack))
    assert sentence(told, NAMES) == expected


def test_a_slack_is_of_alerts_and_of_one_defender() -> None:
    with pytest.raises(mc.EvidenceError, match="slack is of alerts, and recovery has none"):
        promised("recovery", 1)
    with pytest.raises(mc.EvidenceError, match="slack is for one voting defender or pool, got 3 defenders"):
        Contents(bands(FIRM, FIRM, FIRM), [mc.Patch(2)], promise="detection", slack=1)
    with pytest.raises(mc.EvidenceError, match="slack is a whole number of 0 or more, got -1"):
        promised("detection", -1)


def test_who_cannot_say_what_is_left_says_so() -> None:
    """Masks that are too small for the patch: no label is certain, and there is an alert."""
    masks = mc.Masks(2, stride=2)
    n = masks.n_masks((9, 9))
    pairs = mc.MaskPairs(np.full((1, n, n), 3), masks=masks, image_size=(9, 9), n_classes=8)
    told = scene([pairs, *bands(FIRM, NEAR)], mc.Patch(4), 0, (0, 0), promised("detection"))
    assert "rows:1 says cat, columns:1 says dog and masks:2/2 cannot tell" in sentence(told, NAMES)
    assert not told.safe
