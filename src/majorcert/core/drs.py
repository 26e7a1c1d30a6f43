"""DRS (derandomized smoothing): one defender, certified alone."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from majorcert.core.majority import majorcert
from majorcert.core.reach import Evidence, offered
from majorcert.core.threat import Patch, as_patch
from majorcert.core.verdict import Verdict
from majorcert.errors.checks import one_of

DrsBound = Literal["margin", "local"]


def drs(ballots: Evidence, patch: Patch, *, bound: DrsBound = "margin") -> Verdict:
    """Certify one defender against every placement of `patch`.

    Sound because only touched ablations can change their ballot: the worst an attacker can do is take them all from the
    winner and give them all to one rival, and every rival is checked. "margin" assumes at once, for every rival, the
    most ablations that any placement touches; "local" looks at each placement, and is never weaker.
    """
    patch = as_patch(patch, ballots.image_size)
    one_of(bound, "bound", get_args(DrsBound))
    if bound == "local":  # Theorem 2 for an ensemble of one: its reach is its label alone, at every placement
        verdict = majorcert([ballots], patch)
        return replace(verdict, by=np.where(verdict.certified, "local", ""), method="drs-local")
    certified = offered(ballots, "margin_certified")(patch)
    by, none, origin = np.where(certified, "margin", ""), (None,) * len(ballots), (ballots.provenance,)
    return Verdict(ballots.label, certified, by, None, none, ballots.images, patch, "drs-margin", origin)
