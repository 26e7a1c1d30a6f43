"""The rule that makes evidence, and so a label, of scores: "votes", "clipped", or "masked:5x5/0.1" (PatchGuard's)."""

import re
from fractions import Fraction
from typing import Any

import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.defences.clipped import ClippedScores
from majorcert.defences.patchguard import MaskedScores
from majorcert.defences.scores import Scores
from majorcert.errors import ModelError
from majorcert.files.scoring import rounded_down

VOTES = "votes"
ONE = 127
"""Points of a score of 1, where scores are evidence: they fit in a byte with a sign."""


def check_rule(rule: str) -> None:
    """Refuse what is no rule."""
    if rule not in (VOTES, "clipped"):
        _guard(rule)


def facts_of(rule: str) -> dict[str, Any]:
    """What evidence by a rule says of it, as plain JSON; nothing of votes."""
    if rule == VOTES:
        return {}
    guard = {} if rule == "clipped" else dict(zip(("mask", "mask_threshold"), map(str, _guard(rule)), strict=True))
    return {"rule": rule, "scores_one": ONE, **guard}


def evidence_of(
    rule: str, labels: npt.NDArray[Any], distance: npt.NDArray[Any], scores: npt.NDArray[Any] | None, **about: Any
) -> Evidence:
    """What the rule makes of the votes and scores of some images.

    Args:
        scores: (images, ablations, classes) from 0 to 1, by every rule but that of votes.
        about: as for `Ballots`.
    """
    if rule == VOTES:
        return Ballots(labels, distance=rounded_down(distance), **about)
    assert scores is not None, "what is no vote is made of scores"
    del about["n_classes"]
    points = Scores.rounded(scores, one=ONE, **about)
    if rule == "clipped":
        return ClippedScores(points)
    mask, share = _guard(rule)
    return MaskedScores(points, mask, float(share))


def _guard(rule: str) -> tuple[Patch, Fraction]:
    """The mask, and the share of a label's points that a window must exceed to be masked."""
    match = re.fullmatch(r"masked:([0-9]{1,6}(?:x[0-9]{1,6})?)(?:/(0\.[0-9]{1,3}|0))?", rule)
    if match is None:
        raise ModelError(f"a rule is 'votes', 'clipped' or such as 'masked:5x5/0.1', got {rule[:40]!r}")
    return Patch.parse(match[1]), Fraction(match[2] or 0)
