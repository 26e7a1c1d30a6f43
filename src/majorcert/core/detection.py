"""Certified detection: no patch changes the label without an alert."""

import operator
from collections.abc import Sequence

import numpy as np

from majorcert.core.majority import check_together, clean_label, survey
from majorcert.core.reach import Evidence, offered
from majorcert.core.threat import Bools, Patch, as_patch
from majorcert.core.verdict import Verdict
from majorcert.errors import EvidenceError

CHUNK = 256
"""Images that are looked at together; results do not depend on it."""


def detect(defenders: Sequence[Evidence], patch: Patch, *, slack: int = 0) -> Verdict:
    """Certify that no patch changes the label silently, for an ensemble that watches itself.

    On any image the ensemble says its label, and raises an alert iff at some placement it would say another one without
    what a patch there could touch. Sound because a patch cannot change what is said without it: if that is the clean
    label, an attacked image either keeps the label, or differs from it there and raises the alert.

    Args:
        slack: votes (of a pool: points) by which another label must lead, without the patch, for an alert; only for one
            voting defender or pool. Fewer alerts on clean images, and fewer images certified.
    """
    patch = as_patch(patch)
    check_together(defenders)
    if operator.index(slack) < 0 or (slack and len(defenders) > 1):
        raise EvidenceError(f"slack is 0, or votes of one voting defender or pool; got {slack} for {len(defenders)}")
    everywhere, recorded = (
        np.ones(len(defenders[0]), dtype=bool),
        [offered(defender, "as_recorded")() for defender in defenders],
    )
    exact = not slack and all(ours is theirs for ours, theirs in zip(defenders, recorded, strict=True))
    safe, witnesses = survey(defenders, patch, lambda each: offered(each, "without")(patch, slack), everywhere)
    certified = np.asarray(safe.all(axis=(1, 2)))
    return Verdict(
        predicted=clean_label(defenders),
        certified=certified,
        by=np.where(certified, "detection", "").astype("<U9"),
        safe=safe,
        witnesses=witnesses,
        images=defenders[0].images,
        patch=patch,
        method="detection",
        defenders=tuple(defender.provenance for defender in defenders),
        promise="detection",
        alert=~certified if exact else _alert(recorded, patch, slack),
        slack=operator.index(slack),
    )


def _alert(defenders: Sequence[Evidence], patch: Patch, slack: int) -> Bools:
    """(images,) does the ensemble raise an alert on the clean image itself? As recorded, without a tolerance."""
    if not slack:  # each set is one label then, and where another one is their plurality there is an alert
        everywhere = np.ones(len(defenders[0]), dtype=bool)
        safe, _ = survey(defenders, patch, lambda each: offered(each, "without")(patch), everywhere)
        return ~np.asarray(safe.all(axis=(1, 2)))
    silent = np.ones(len(defenders[0]), dtype=bool)
    for start in range(0, len(silent), CHUNK):
        part = defenders[0][start : start + CHUNK]
        silent[start : start + CHUNK] = part.without(patch, slack).has(part.label).all(axis=(1, 2))
    return ~silent
