"""`mc.attack`: real patches on images, against an ensemble and, beside it, a classifier without a defence."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from majorcert.attacks.effort import Effort
from majorcert.attacks.logbook import Logbook
from majorcert.attacks.paint import Stock
from majorcert.attacks.run import AttackRun
from majorcert.attacks.summary import summarised
from majorcert.core.threat import Patch, as_patch
from majorcert.errors import DataError, ModelError, StoreError
from majorcert.errors.checks import check_alerting, check_read, checked_slack, whole
from majorcert.nets.data import Dataset
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.member import Promise
from majorcert.nets.on_disk import write_json
from majorcert.nets.scorer import Precision
from majorcert.nets.shards import Clock
from majorcert.nets.shards import Progress as Counted
from majorcert.nets.sources.order import shuffled

ROWS = "attack.jsonl"
SUMMARY = "attack.json"


@dataclass(frozen=True)
class Progress:
    """How far the attack on one classifier is; a step is one step of the search for one candidate patch."""

    classifier: str  # "defended" or "undefended"
    images: int
    n_images: int
    steps: int
    n_steps: int
    steps_per_second: float


@dataclass(frozen=True)
class Attacked:
    """What an attack came to."""

    summary: dict[str, Any]  # accuracies and counts of each classifier, as in attack.json
    complaints: tuple[str, ...]  # each promise that did not hold, in a sentence; none if every certificate did


def attack(
    ensemble: Ensemble,
    images: Dataset,
    patch: Patch | int | tuple[int, int] | str,
    out: str | Path,
    *,
    undefended: Defender | None = None,
    n_images: int | None = None,
    promise: Promise = "recovery",
    slack: int = 0,
    effort: Effort | None = None,
    precision: Precision | None = None,
    batch_size: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Attacked:
    """Attack every image that is classified correctly, certified ones too, with real patches.

    Under the promise of recovery an attack succeeds if the label changes; under detection, if it changes and no alert
    is raised. Rows, summary and painted images go to the folder `out`. Killed and started again with the same settings,
    it goes on.

    >>> mc.attack(ensemble, load("digits", "test"), 2, "attacked", n_images=100).summary["defended"]["under_attack"]

    Args:
        undefended: a classifier that is attacked in the same way, to compare.
        promise: "recovery" or "detection"; the undefended classifier has no alert, its label need only change.
        slack: of detection by one voting defender or pool: an alert is raised by the rule with this slack.
        n_images: so many, by lot from the seed of the effort; by default all.
        precision: of the search; labels are judged in the precision of the ensemble.
        batch_size: candidate patches at once; by default as many as suit.
    """
    check_read(ensemble, "mc.Ensemble.load")
    check_read(images, "majorcert.nets.data.load")
    out, size, how = Path(out), as_patch(patch, images.image_size), effort or Effort()
    if promise not in get_args(Promise):
        raise ModelError(f"the promise is {' or '.join(map(repr, get_args(Promise)))}, got {promise!r}")
    check_alerting(promise == "detection", slack)
    checked_slack(slack, 1 if ensemble.pooled else len(ensemble.defenders))
    if undefended is None and (out / "undefended" / ROWS).exists():
        raise StoreError(
            f"{out}: the record of an attack on an undefended classifier as well; give that again, or another folder"
        )
    if images.channels not in (1, 3):
        raise DataError(f"painted images are saved as PNG, of 1 or 3 channels; these have {images.channels}")
    if images.labels is None:
        raise DataError(f"{images.name} has no labels; an attack needs them, to know which images are correct")
    classifiers = {"defended": (ensemble, out)}
    if undefended is not None:
        classifiers = {"undefended": (Ensemble([undefended]), out / "undefended"), **classifiers}
    n = len(images) if n_images is None else whole(n_images, "the number of images that are attacked", DataError)
    numbers = np.sort(shuffled(len(images), how.seed)[:n])
    sample, stock = images.subset(torch.from_numpy(numbers)), Stock(images.images, images.labels)
    runs: dict[str, AttackRun] = {}
    for name, (each, folder) in classifiers.items():
        each.defenders[0].check_fit(images)
        kept: tuple[Promise, int] = (promise, slack) if name == "defended" else ("recovery", 0)
        runs[name] = AttackRun(each, sample, numbers, stock, size, how, precision, batch_size, folder, *kept)
    # All are opened before any work is done, so that settings which do not fit are refused at once.
    logs = {name: Logbook(run.folder / ROWS, run.about()) for name, run in runs.items()}
    for name, run in runs.items():
        run.run(logs[name], _clock(name, logs[name], len(sample), how, progress).advance)
    summary = summarised(runs, logs)
    write_json(out / SUMMARY, summary)
    complaints = [text for name, run in runs.items() for text in _complaints(run, logs[name], name, summary)]
    return Attacked(summary, tuple(complaints))


def _complaints(run: AttackRun, log: Logbook, name: str, summary: dict[str, Any]) -> list[str]:
    """What should not be: saved files that are not as they were found, and broken promises."""
    found = [
        f"image {number}: the saved file is missing, or not predicted as it was when it was found"
        for number in run.painted_as_recorded(log)
    ]
    if broken := summary[name]["broken"]:
        found.append(
            f"broken promises, {name}: {len(broken)}; either a certified label changed"
            f"{' without an alert' if run.promise == 'detection' else ''} or a view voted otherwise that no patch "
            "touched; this is a fault of majorcert: please report it with the folder "
            f"{run.folder / 'broken'}"
        )
    return found


def _clock(
    name: str, log: Logbook, n_images: int, effort: Effort, listener: Callable[[Progress], None] | None
) -> Clock:
    """Counts candidates x steps and tells the listener how fast they go."""

    def tell(at: Counted) -> None:
        if listener is not None:
            listener(Progress(name, len(log.rows), n_images, at.done, at.total, at.views_per_second))

    return Clock(effort.candidate_steps(n_images), tell)
