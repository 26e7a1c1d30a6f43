"""Several trained networks of one kind as one defender: their probabilities are averaged, then the ballot is cast."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from majorcert.errors import ModelError
from majorcert.nets.card import Card
from majorcert.nets.ensemble_file import member_folders, resolved, write_members
from majorcert.nets.folders import ENSEMBLE, check_free
from majorcert.nets.mean import Average, Mirror
from majorcert.nets.models import average, mirror, mirrors_in

ALIKE = ("strategy", "view", "image_size", "channels", "class_names")
"""What the cards of networks that are averaged agree in."""


def averaged(runs: Sequence[Path], out: Path, *, mirrored: bool = False, threshold: float | None = None) -> list[Card]:
    """Write the defender that averages these runs, or the ensemble that averages these ensembles member by member.

    Args:
        mirrored: show each network every view and its mirror image (not for digits or letters).
        threshold: of the new defenders; by default as in the first run.
    """
    if not runs or (len(runs) == 1 and not mirrored):
        raise ModelError(f"an average is made of two runs or more, or of one that is mirrored; got {len(runs)}")
    if threshold is not None and not 0 < threshold <= 1:
        raise ModelError(f"the threshold is above 0 and at most 1, got {threshold}")
    runs = [resolved(run) for run in runs]
    if len({run.resolve() for run in runs}) < len(runs):
        raise ModelError("one of the runs is given twice; an average is of different networks")
    members = [member_folders(run) for run in runs]
    for run, folders in zip(runs, members, strict=True):
        if len(folders) != len(members[0]):
            raise ModelError(f"{run} has {len(folders)} defenders, and {runs[0]} has {len(members[0])}")
    groups = list(zip(*members, strict=True))
    cards = [_alike(group, mirrored) for group in groups]
    places = [out / group[0].name for group in groups] if (runs[0] / ENSEMBLE).is_file() else [out]
    for folder in (out, *places):
        check_free(folder)
    written = [
        _merge(group, kinds, place, mirrored, threshold)
        for group, kinds, place in zip(groups, cards, places, strict=True)
    ]
    if places != [out]:
        write_members(out, [place.name for place in places])
    return written


def _alike(runs: Sequence[Path], mirrored: bool) -> list[Card]:
    """The cards of these runs, which must be of one kind."""
    cards = [Card.read(run) for run in runs]
    for run, card in zip(runs, cards, strict=True):
        for fact in ALIKE:
            expected, got = getattr(cards[0], fact), getattr(card, fact)
            if str(got) != str(expected):
                raise ModelError(f"{run}: its {fact} is {got}, and {runs[0]} has {expected}; only like runs average")
        if mirrored and mirrors_in(card.model):
            raise ModelError(f"{run} is mirrored already, and a second mirror would change nothing")
    return cards


def _merge(runs: Sequence[Path], cards: Sequence[Card], out: Path, mirrored: bool, threshold: float | None) -> Card:
    networks = [card.network(run) for run, card in zip(runs, cards, strict=True)]
    network, first, config = networks[0], cards[0], cards[0].model
    if len(runs) > 1:
        network, config = Average(networks), average(tuple(card.model for card in cards))
    if mirrored:
        network, config = Mirror(network, crop=first.view == "crop"), mirror(config, first.view)
    training = {"members": [{**card.training, "weights_sha256": card.weights_sha256} for card in cards]}
    chosen = first.threshold if threshold is None else threshold
    return replace(first, model=config, threshold=chosen, training=training).write(out, network.state_dict())
