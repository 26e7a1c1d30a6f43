"""Certified detection: no patch changes the label without an alert."""

from collections.abc import Sequence

import numpy as np

from majorcert.core.majority import Witnesses, most_certified_alone, survey, verdict_of
from majorcert.core.reach import Evidence, offered
from majorcert.core.threat import Bools, Patch, as_patch
from majorcert.core.verdict import Verdict
from majorcert.errors.checks import check_together, checked_slack

CHUNK = 256  # images that are looked at together; results do not depend on it


def detect(defenders: Sequence[Evidence], patch: Patch, *, slack: int = 0) -> Verdict:
    """Certify that no patch changes the label silently, for an ensemble that watches itself.

    On any image the ensemble says its label, and raises an alert iff at some placement it would say another one without
    what a patch there could touch. Sound because a patch cannot change what is said without it: if that is the clean
    label, an attacked image either keeps the label, or differs from it there and raises the alert.

    Args:
        slack: votes (of a pool: points) by which another label must lead, without the patch, for an alert; only for one
            voting defender or pool. Fewer alerts on clean images, and fewer images certified.
    """
    check_together(defenders)
    patch, slack = as_patch(patch, defenders[0].image_size), checked_slack(slack, len(defenders))
    safe, witnesses = _left(defenders, patch, slack)
    recorded = [offered(defender, "as_recorded")() for defender in defenders]
    if slack:  # a label that is certified leads by so much everywhere, so that no other one does
        alert = ~np.asarray(safe.all(axis=(1, 2)))
        alert[alert] = _outvoted(recorded[0][np.flatnonzero(alert)], patch, slack)
    else:  # without a tolerance each set is one label: there is an alert where another one is their plurality
        same = all(ours is theirs for ours, theirs in zip(defenders, recorded, strict=True))
        alert = ~np.asarray((safe if same else _left(recorded, patch, slack)[0]).all(axis=(1, 2)))
    more = {"promise": "detection", "alert": alert, "slack": slack}
    return verdict_of(defenders, patch, "detection", "detection", safe, witnesses, **more)


def _left(defenders: Sequence[Evidence], patch: Patch, slack: int) -> tuple[Bools, Witnesses]:
    """Where the clean label is still said without the touched part; if most defenders are sure of it, nobody looks."""
    firm = most_certified_alone(defenders, patch, slack, by="stays_alone")
    return survey(defenders, lambda each: offered(each, "without")(patch, slack), patch, ~firm)


def _outvoted(defender: Evidence, patch: Patch, slack: int) -> Bools:
    """(images,) does the label lose at some placement, even given so many votes more?"""
    parts = [defender[start : start + CHUNK] for start in range(0, max(1, len(defender)), CHUNK)]
    return ~np.concatenate([part.without(patch, slack).has(part.label).all(axis=(1, 2)) for part in parts])
