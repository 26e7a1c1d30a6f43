"""The watchdog: every painted image is judged by the plain path from images to labels, and two promises are checked.

No certified label changes (of detection: without an alert), and no view says otherwise unless the patch touches it. A
broken promise is a fault of this software, not of the user: what shows it is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from majorcert.attacks.logbook import write_png
from majorcert.core.ballots import Ballots
from majorcert.core.detection import detect
from majorcert.core.majority import clean_label
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.regions import Strategy
from majorcert.core.threat import Bools, ImageSize, Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.bounds import Bounds
from majorcert.defences.clipped import ClippedScores
from majorcert.defences.masking import MaskPairs
from majorcert.defences.patchguard import MaskedScores
from majorcert.defences.pool import Pool
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.on_disk import write_json

FLIPPED = "a certified label changed"
SILENT = "a certified label changed without an alert"
MOVED = "a view that the patch does not touch says otherwise"
Places = npt.NDArray[np.int64]
"""(N, 2) the top and the left of each placement."""


@dataclass(frozen=True, eq=False)
class Watchdog:
    """Judges painted versions of some images, and remembers whose promises were broken."""

    ensemble: Ensemble
    images: Tensor
    """(N, C, H, W) uint8, clean"""
    numbers: Ints
    """(N,) their places in the whole split"""
    before: Sequence[Evidence]
    verdict: Verdict
    folder: Path
    """where what shows a broken promise is kept"""
    broken: dict[int, set[str]] = field(default_factory=dict)
    """of the images with a broken promise, by their place among these: which promises"""

    def judge(self, which: Ints, painted: Tensor, placements: Places) -> tuple[Ints, Bools]:
        """(K,) the labels of painted versions of the images `which`, and (K,) whether each raises an alert.

        Where a label costs far less than evidence, as under masks, the whole evidence is asked of the first version
        of each image, and of all that are labelled otherwise.
        """
        if self.verdict.promise == "recovery" and any(each.predicts_cheaply for each in self.ensemble.defenders):
            labels = self.ensemble.predict(painted)
            closely = labels != self.verdict.predicted[which]
            closely[np.unique(which, return_index=True)[1]] = True
            some = np.flatnonzero(closely)
            labels[some] = self._watched(which[some], painted[some], placements[some])[0]
            return labels, np.zeros(len(which), dtype=bool)
        return self._watched(which, painted, placements)

    def _watched(self, which: Ints, painted: Tensor, placements: Places) -> tuple[Ints, Bools]:
        """As `judge`, from the whole evidence of each, with an eye on what should not be."""
        after, detecting = self.ensemble.evidence(painted), self.verdict.promise == "detection"
        labels, alerts = clean_label(after), np.zeros(len(which), dtype=bool)
        if detecting:
            alerts = np.asarray(detect(after, self.verdict.patch, slack=self.verdict.slack).alert)
        flipped = self.verdict.certified[which] & (labels != self.verdict.predicted[which]) & ~alerts
        moved = np.zeros(len(which), dtype=bool)
        for clean, now in zip(self.before, after, strict=True):
            moved |= UNTOUCHED[type(clean)](clean, which, now, self.verdict.patch, placements)
        for k in np.flatnonzero(flipped | moved):
            promises = ([SILENT if detecting else FLIPPED] if flipped[k] else []) + ([MOVED] if moved[k] else [])
            self._keep(int(which[k]), painted[k], placements[k], [each[k : k + 1] for each in after], promises)
        return labels, alerts

    def _keep(
        self, image: int, painted: Tensor, placement: Ints, after: Sequence[Evidence], promises: Sequence[str]
    ) -> None:
        """Write what shows a broken promise: the image clean and painted, the patch, the evidence of both, facts."""
        known = self.broken.setdefault(image, set())
        if set(promises) <= known:
            return
        known.update(promises)
        number, patch, (top, left) = int(self.numbers[image]), self.verdict.patch, placement.tolist()
        folder, before = self.folder / f"{number:06d}", [each[image : image + 1] for each in self.before]
        piece = painted[:, top : top + patch.height, left : left + patch.width]
        for name, pixels in (("clean", self.images[image]), ("painted", painted), ("patch", piece)):
            write_png(folder / f"{name}.png", pixels)
        for name, evidence in (("before", before), ("after", after)):
            parts = (part for each in evidence for part in (each.members if isinstance(each, Pool) else [each]))
            for place, each in enumerate(parts, start=1):
                each.save(folder / f"{name}-{place}.zarr")
        facts = {
            "image": number,
            "broken": sorted(known),
            "certified": bool(self.verdict.certified[image]),
            "by": str(self.verdict.by[image]),
            "predicted": int(self.verdict.predicted[image]),
            "weights_sha256": [defender.weights_sha256 for defender in self.ensemble.defenders],
            "patch": str(patch),
            "placement": [top, left],
        }
        write_json(folder / "facts.json", facts)


def _views_moved(clean: Ballots, which: Ints, now: Ballots, patch: Patch, placements: Places) -> Bools:
    """(N,) did a ballot change of a view that the patch does not touch?"""
    return _moved(now.labels != clean.labels[which], clean.strategy, clean.image_size, patch, placements)


def _points_moved(clean: Any, which: Ints, now: Any, patch: Patch, placements: Places) -> Bools:
    """(N,) did a score change of a view that the patch does not touch?"""
    changed = now.scores.points != clean.scores.points[which]
    return _moved(changed, clean.scores.strategy, clean.image_size, patch, placements)


def _moved(changed: Bools, strategy: Strategy, size: ImageSize, patch: Patch, placements: Places) -> Bools:
    """(N,) is anything of (N, views, ...) changed that the patch does not touch?"""
    reached = strategy.touched(patch, size).mask(*placements.T)
    return np.asarray((changed.any(axis=2) & ~reached).any(axis=1))


def _pairs_moved(clean: MaskPairs, which: Ints, now: MaskPairs, patch: Patch, placements: Places) -> Bools:
    """(N,) did a label change under two masks of which one hides the patch?"""
    covering = clean.masks.covering(patch, clean.image_size)[placements[:, 0], placements[:, 1]]
    first, second = np.triu_indices(covering.shape[1])
    return np.asarray(((now.labels != clean.labels[which]) & (covering[:, first] | covering[:, second])).any(axis=1))


def _pool_moved(clean: Pool, which: Ints, now: Pool, patch: Patch, placements: Places) -> Bools:
    """(N,) did a ballot of any member change that the patch does not touch?"""
    both = zip(clean.members, now.members, strict=True)
    return np.any([_views_moved(before, which, after, patch, placements) for before, after in both], axis=0)


def _bounds_broken(clean: Bounds, which: Ints, now: Bounds, patch: Patch, placements: Places) -> Bools:
    """(N,) does the network say what bounds excluded at this very placement?"""
    return ~clean.reach(patch).at(which, placements[:, 0], placements[:, 1], now.label[:, None])[:, 0]


UNTOUCHED: Mapping[type, Callable[[Any, Ints, Any, Patch, Places], Bools]] = {
    Ballots: _views_moved,
    MaskPairs: _pairs_moved,
    Pool: _pool_moved,
    Bounds: _bounds_broken,
    ClippedScores: _points_moved,
    MaskedScores: _points_moved,
}
"""For each kind of evidence, whether something moved that the patch does not touch, or cannot move so far."""
