"""Several trained networks of one kind as one defender: their probabilities are averaged, then the ballot is cast."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from majorcert.errors import ModelError
from majorcert.nets.card import Card
from majorcert.nets.mean import Average, Mirror
from majorcert.nets.models import average, mirror


def merged(runs: Sequence[Path], out: Path, *, mirrored: bool = False, threshold: float | None = None) -> Card:
    """Write the defender that averages the networks of these run folders; returns its card.

    Args:
        mirrored: show each network every view and its mirror image (not for digits or letters).
        threshold: of the new defender; by default as the first run's.
    """
    if not runs or (len(runs) == 1 and not mirrored):
        raise ModelError(f"an average is made of two runs or more, or of one that is mirrored; got {len(runs)}")
    cards = [Card.read(run) for run in runs]
    for run, card in zip(runs, cards, strict=True):
        for fact in ("strategy", "view", "image_size", "channels", "class_names"):
            expected, got = getattr(cards[0], fact), getattr(card, fact)
            if str(got) != str(expected):
                raise ModelError(f"{run}: its {fact} is {got}, and {runs[0]} has {expected}; only like runs average")
    first = cards[0]
    networks = [card.network(run) for run, card in zip(runs, cards, strict=True)]
    network, config = networks[0], first.model
    if len(runs) > 1:
        network, config = Average(networks), average(tuple(card.model for card in cards))
    if mirrored:
        network, config = Mirror(network, crop=first.view == "crop"), mirror(config, first.view)
    training = {"members": [{**card.training, "weights_sha256": card.weights_sha256} for card in cards]}
    chosen = first.threshold if threshold is None else threshold
    return replace(first, model=config, threshold=chosen, training=training).write(out, network.state_dict())
