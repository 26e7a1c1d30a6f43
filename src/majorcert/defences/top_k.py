"""Top-k: no patch drives the clean label out of the k labels with most votes (docs/soundness.md has the proof)."""

from dataclasses import replace

import numpy as np

from majorcert.core.majority import verdict_of
from majorcert.core.plurality import Ints
from majorcert.core.reach import NO_LABEL, Evidence, list_labels
from majorcert.core.threat import Bools, Patch, as_patch
from majorcert.core.verdict import Verdict, Witness
from majorcert.defences.pool import Pool, as_pool, described
from majorcert.errors import EvidenceError
from majorcert.errors.checks import check_read, whole

CHUNK_POINTS = 2**20
"""About how many numbers one array holds at a time; results do not depend on it."""
NEVER = 2**40
"""More points than any image has: what a slot without a rival would need."""


def top_k(evidence: Evidence, patch: Patch, k: int, *, per_ballot: int | None = None) -> Verdict:
    """Certify that the clean label stays among the k labels with most votes, of ballots or a pool.

    A rival stands ahead of the clean label iff it is given the points that it lacks. Sound because the k rivals that
    lack least are the easiest to put ahead together: no touched ballot names one of them twice, and none names more
    labels than it can. For votes the attacker can do just that: the certificate is exact. With k = 1 it is recovery.

    Args:
        k: so many labels are shown; the order is that of votes, on a tie the smaller label first.
        per_ballot: the most labels that one ballot can name, whatever its view shows. By default what is on record: 1
            if a view votes for its top label alone (a `threshold` of None), else any number.

    A witness has a placement, and in `forced` k labels that can all be put ahead there; `rival` is the first of them.
    """
    check_read(evidence, "mc.load_evidence")
    patch, pool = as_patch(patch, evidence.image_size), as_pool(evidence)
    if type(pool) is not Pool:
        raise EvidenceError(f"top-k counts the votes of ballots or a pool, and of {described(evidence)} there are none")
    if (k := whole(k, "k", EvidenceError)) > evidence.n_classes:
        raise EvidenceError(f"k is a number of labels up to the {evidence.n_classes} that there are, got {k}")
    most = _most_labels(pool, per_ballot)
    n_rows, n_columns = patch.n_placements(evidence.image_size)
    safe, witnesses = np.ones((len(pool), n_rows, n_columns), dtype=bool), []
    step = max(1, CHUNK_POINTS // (n_rows * n_columns * min(pool.n_classes, k + 10)))
    for start in range(0, len(pool), step):
        some = pool[start : start + step]
        safe[start : start + step], found = _judged(some, patch, k, min(most, k))
        witnesses += found
    record = {**evidence.provenance, **({} if per_ballot is None else {"per_ballot": most})}
    verdict = verdict_of([evidence], patch, f"top-{k}", "top-k", safe, tuple(witnesses), promise="top-k")
    return replace(verdict, defenders=(record,))


def _most_labels(pool: Pool, per_ballot: int | None) -> int:
    """How many labels a ballot of these defenders can name, as told or on record; refused if a ballot names more."""
    if per_ballot is None:
        alone = all(member.provenance.get("threshold", 0) is None for member in pool.members)
        most = 1 if alone else pool.n_classes
    else:
        most = whole(per_ballot, "the number of labels per ballot", EvidenceError)
    named = max(int((member.labels >= 0).sum(axis=2).max(initial=0)) for member in pool.members)
    if named > most:
        raise EvidenceError(f"a ballot here names {named} labels, so ballots are not of {most} at most")
    return most


def _judged(pool: Pool, patch: Patch, k: int, most: int) -> tuple[Bools, list[Witness | None]]:
    """Where fewer than k rivals can be put ahead together, and who can where that is not so."""
    rivals = _rivals(pool, k)
    count, every = pool.counted(patch, rivals), np.arange(len(pool))
    kept, clean = count.kept.astype(np.int64), (rivals == pool.label[:, None]).argmax(axis=1)
    later = rivals > pool.label[:, None]  # these lose a tie
    lacks = np.maximum(0, kept[every, clean][:, None] - kept + later[:, :, None, None])
    lacks[(rivals == NO_LABEL) | (rivals == pool.label[:, None])] = NEVER
    least, given = np.sort(lacks, axis=1)[:, :k], count.touched + count.free
    safe = (least[:, -1] > given) | (least.sum(axis=1) > most * given)
    safe = safe.take(count.rows, axis=1).take(count.columns, axis=2)
    witnesses: list[Witness | None] = [None] * len(pool)
    for i in np.flatnonzero(~safe.all(axis=(1, 2))):
        top, left = (int(at) for at in np.unravel_index(safe[i].argmin(), safe[i].shape))
        easiest = lacks[i, :, count.rows[top], count.columns[left]].argsort(kind="stable")[:k]
        ahead = tuple(rivals[i, easiest].tolist())
        witnesses[i] = Witness((top, left), ahead[0], ahead)
    return safe, witnesses


def _rivals(pool: Pool, k: int) -> Ints:
    """(images, slots) labels enough to decide, ascending: those with points, the clean one, the first k of the others.

    Labels without points lack the same but for the tie rule, which makes it less for the smaller ones.
    """
    present = pool.solid_points() > 0
    present[np.arange(len(pool)), pool.label] = True
    present |= ~present & ((~present).cumsum(axis=1) <= k)
    return list_labels(present)
