"""DRS (derandomized smoothing): one defender, certified alone."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from majorcert.core.majority import majorcert
from majorcert.core.reach import Evidence, offered
from majorcert.core.threat import Patch, as_patch
from majorcert.core.verdict import Verdict
from majorcert.errors import EvidenceError

DrsBound = Literal["margin", "local"]


def drs(ballots: Evidence, patch: Patch, *, bound: DrsBound = "margin") -> Verdict:
    """Certify one defender against every placement of `patch`.

    Sound because only touched ablations can change their ballot: the worst an attacker can do is take them all from the
    winner and give them all to one rival, and every rival is checked. "margin" assumes at once, for every rival, the
    most ablations that any placement touches; "local" looks at each placement, and is never weaker.
    """
    patch = as_patch(patch)
    if bound not in get_args(DrsBound):
        raise EvidenceError(f"bound is 'margin' or 'local', got {bound!r}")
    if bound == "local":
        # Theorem 2 for an ensemble of one: its reach is its label alone, at every placement.
        verdict = majorcert([ballots], patch)
        return replace(verdict, by=np.where(verdict.certified, "local", "").astype("<U9"), method="drs-local")
    certified = offered(ballots, "margin_certified")(patch)
    return Verdict(
        predicted=ballots.label,
        certified=certified,
        by=np.where(certified, "margin", "").astype("<U9"),
        safe=None,
        witnesses=(None,) * len(ballots),
        images=ballots.images,
        patch=patch,
        method="drs-margin",
        defenders=(ballots.provenance,),
    )
