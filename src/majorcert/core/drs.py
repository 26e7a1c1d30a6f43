"""DRS (derandomized smoothing): one defender, certified alone."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from majorcert.core.ballots import Ballots
from majorcert.core.majority import majorcert
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch, check_patch
from majorcert.core.verdict import Verdict
from majorcert.errors import EvidenceError

DrsBound = Literal["margin", "local"]


def drs(ballots: Evidence, patch: Patch, *, bound: DrsBound = "margin") -> Verdict:
    """Certify one defender against every placement of `patch`.

    Sound because only touched ablations can change their ballot: the worst an attacker can do is take them all from the
    winner and give them all to one rival, and every rival is checked. "margin" assumes at once, for every rival, the
    most ablations that any placement touches; "local" looks at each placement, and is never weaker.
    """
    check_patch(patch)
    if bound not in get_args(DrsBound):
        raise EvidenceError(f"bound is 'margin' or 'local', got {bound!r}")
    if bound == "local":
        return _local(ballots, patch)
    if not isinstance(ballots, Ballots):
        raise EvidenceError(f"a margin is one of votes, {type(ballots).__name__} has none; use bound='local'")
    certified = ballots.margin_certified(patch)
    return Verdict(
        predicted=ballots.label,
        certified=certified,
        by=np.where(certified, "margin", "").astype("<U8"),
        safe=None,
        witnesses=(None,) * len(ballots),
        images=ballots.images,
        patch=patch,
        method="drs-margin",
        defenders=(ballots.provenance,),
    )


def _local(evidence: Evidence, patch: Patch) -> Verdict:
    """Theorem 2 for an ensemble of one: its reach is its label alone, at every placement."""
    verdict = majorcert([evidence], patch)
    by = np.where(verdict.certified, "local", "").astype("<U8")
    return replace(verdict, by=by, method="drs-local")
