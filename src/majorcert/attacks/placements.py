"""Where to paint: placements of each image, the most promising ones first."""

import numpy as np
import numpy.typing as npt
import torch

from majorcert.attacks.aim import rival_gaps
from majorcert.attacks.tiebreak import lacking
from majorcert.attacks.victim import Sites, Victim
from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools

CONSIDERED = 256
"""So many placements of each image are compared by the votes that they leave standing."""
AT_ONCE = 16
"""So many images at a time, which keeps the tables small."""
OUT_OF_REACH = 100.0
"""Added for each defender that cannot be moved by votes alone."""
BY_LOT = 3
"""Every third placement is any one, whatever the votes say."""


def sites_of(images: Ints, placements: npt.NDArray[np.int64], device: torch.device) -> Sites:
    """Candidates from (N,) numbers of images and (N, 2) placements, on the device."""
    image, top, left = images.astype(np.int64), *placements.T
    return Sites(*(torch.tensor(each, device=device) for each in (image, top, left)))


def placements_to_probe(victim: Victim, safe: Bools, n: int, rngs: list[np.random.Generator]) -> npt.NDArray[np.int64]:
    """(images, n, 2) the placements at which the fewest touched votes would have to change, and some by lot.

    Unsafe placements are considered before safe ones; of a certified image all are safe, and those with the least
    slack come out first.
    """
    n_images, n_tops, n_lefts = safe.shape
    n_considered = min(CONSIDERED, n_tops * n_lefts)
    order = np.stack([rng.permutation(n_tops * n_lefts) for rng in rngs])
    unsafe_first = np.take_along_axis(safe.reshape(n_images, -1), order, axis=1).argsort(axis=1, kind="stable")
    considered = np.take_along_axis(order, unsafe_first, axis=1)[:, :n_considered]
    cost = needs(victim, safe, np.stack(np.divmod(considered, n_lefts), axis=2)).min(axis=2)
    by_votes = np.take_along_axis(considered, cost.argsort(axis=1, kind="stable"), axis=1)
    n_by_lot = n // BY_LOT
    by_lot = np.stack([rng.integers(n_tops * n_lefts, size=n_by_lot) for rng in rngs])
    # With fewer placements than asked for they come round again.
    cheapest = by_votes[:, np.arange(n - n_by_lot) % n_considered]
    chosen = np.concatenate([cheapest, by_lot], axis=1)
    return np.stack(np.divmod(chosen, n_lefts), axis=2)


def needs(victim: Victim, safe: Bools, placements: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(images, placements, labels) what each rival needs at (images, placements, 2), by the untouched votes alone.

    The share of the touched votes that would have to be given to it, summed over the defenders that it needs, and far
    more where there are not so many, or a certificate says that nothing can happen. Where an alert watches, nothing
    given counts without the patch: it must lead there already, and the share is of the votes that it lacks on the clean
    image.
    """
    found = []
    for begun in range(0, len(placements), AT_ONCE):
        some = placements[begun : begun + AT_ONCE]
        image = np.arange(begun, begun + len(some)).repeat(some.shape[1])
        sites = sites_of(image, some.reshape(-1, 2), victim.clean.device)
        labels, clean = victim.labels[sites.image], victim.clean[sites.image]
        with torch.no_grad():
            lack, n_touched = lacking(victim.kept_points(sites)), victim.n_touched(sites)[:, :, None]
            wanted, given = (lacking(victim.counts[sites.image]), 0) if victim.watching else (lack, n_touched)
            # The last vote counts for nothing, so that a single view does not favour the label that wins ties.
            share = (wanted - 1).clamp(min=0) / n_touched.clamp(min=1)
            gaps = rival_gaps(share + OUT_OF_REACH * (lack > given), labels, clean)
        found.append(gaps.double().cpu().numpy().reshape(*some.shape[:2], -1))
    proved = safe[np.arange(len(safe))[:, None], placements[:, :, 0], placements[:, :, 1]]
    return np.concatenate(found) + OUT_OF_REACH * proved[:, :, None]
