"""Several trained networks of one kind as one defender: their probabilities are averaged, then the ballot is cast."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from majorcert.defences.masking import Masks
from majorcert.errors import ModelError
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.compact import Bits, compact
from majorcert.nets.ensemble_file import member_folders, resolved, saved_pooled, write_members
from majorcert.nets.folders import ENSEMBLE, check_free
from majorcert.nets.joined import Average, Cascade, Mirror
from majorcert.nets.models import average, cascade, mirror, mirrors_in
from majorcert.nets.own import as_listed
from majorcert.nets.resizing import resizing_of

ALIKE = ("strategy", "view", "rule", "image_size", "channels", "class_names")
"""What the blueprints of networks that are averaged agree in."""


def averaged(
    runs: Sequence[Path],
    out: Path,
    *,
    mirrored: bool = False,
    threshold: float | None = None,
    sure: float | None = None,
    masks: str | None = None,
    bits: Bits = 32,
    allow: str | Sequence[str] = (),
) -> list[Blueprint]:
    """Write the defender that averages these runs, or the ensemble that averages these ensembles member by member.

    Defenders in a folder `bounded` of an ensemble are an ensemble of their own, and are averaged apart.

    Args:
        mirrored: show each network every view and its mirror image (not for digits or letters).
        threshold: of the new defenders; by default as in the first run. With one run it makes such a defender of it.
        sure: under masks, the first network alone decides where its top probability is at least that.
        bits: that a weight is kept in, as for `Defender.save`; fewer than 32 also of one run.
        masks: look through these instead of those that the first run is for, as in "masks:2/4".
        allow: functions of your own that may be called to make networks, as for `mc.Ensemble.load`.
    """
    if not runs or (len(runs) == 1 and not mirrored and masks is None and threshold is None and bits == 32):
        raise ModelError(
            "an average is made of two runs or more, or of one that is mirrored, has another threshold or masks, or is "
            f"kept in fewer bits; got {len(runs)}"
        )
    if threshold is not None and not 0 < threshold <= 1:
        raise ModelError(f"the threshold is above 0 and at most 1, got {threshold}")
    runs = [resolved(run) for run in runs]
    if len({run.resolve() for run in runs}) < len(runs):
        raise ModelError("one of the runs is given twice; an average is of different networks")
    members = [member_folders(run) for run in runs]
    for run, folders in zip(runs, members, strict=True):
        if len(folders) != len(members[0]):
            raise ModelError(f"{run} has {len(folders)} defenders, and {runs[0]} has {len(members[0])}")
        if saved_pooled(run) != saved_pooled(runs[0]):
            raise ModelError(f"of {run} and {runs[0]} one adds up the votes of its members, and the other does not")
    groups = list(zip(*members, strict=True))
    blueprints = [_alike(group, mirrored) for group in groups]
    if masks is not None:
        blueprints = [[replace(each, strategy=Masks.parse(masks)) for each in group] for group in blueprints]
    places = [out / group[0].name for group in groups] if (runs[0] / ENSEMBLE).is_file() else [out]
    for folder in (out, *places):
        check_free(folder)
    written = [
        _merge(group, kinds, place, mirrored, threshold, sure, bits, as_listed(allow))
        for group, kinds, place in zip(groups, blueprints, places, strict=True)
    ]
    if places != [out]:
        write_members(out, [place.name for place in places], pooled=saved_pooled(runs[0]))
    return written


def _alike(runs: Sequence[Path], mirrored: bool) -> list[Blueprint]:
    """The blueprints of these runs, which must be of one kind."""
    blueprints = [Blueprint.read(run) for run in runs]
    for run, blueprint in zip(runs, blueprints, strict=True):
        for fact in ALIKE:
            expected, got = getattr(blueprints[0], fact), getattr(blueprint, fact)
            if str(got) != str(expected):
                raise ModelError(f"{run}: its {fact} is {got}, and {runs[0]} has {expected}; only like runs average")
        if mirrored and mirrors_in(blueprint.model):
            raise ModelError(f"{run} is mirrored already, and a second mirror would change nothing")
        if resizing_of(blueprint.training) != resizing_of(blueprints[0].training):
            raise ModelError(f"{run} learned from photos resized in another way than {runs[0]}; only like runs average")
    return blueprints


def _merge(
    runs: Sequence[Path],
    blueprints: Sequence[Blueprint],
    out: Path,
    mirrored: bool,
    threshold: float | None,
    sure: float | None,
    bits: Bits,
    allowed: Sequence[str],
) -> Blueprint:
    networks = [blueprint.network(run, allowed) for run, blueprint in zip(runs, blueprints, strict=True)]
    network, first, config = networks[0], blueprints[0], blueprints[0].model
    if len(runs) > 1:
        network, config = Average(networks), average(tuple(blueprint.model for blueprint in blueprints))
    if mirrored:
        network, config = Mirror(network, first.view), mirror(config, first.view)
    if sure is not None:
        network, config = Cascade(network, sure), cascade(config, sure)
    training = {
        "members": [{**blueprint.training, "weights_sha256": blueprint.weights_sha256} for blueprint in blueprints]
    }
    chosen = first.threshold if threshold is None else threshold
    return replace(first, model=config, threshold=chosen, training=training).write(out, compact(network, bits))
