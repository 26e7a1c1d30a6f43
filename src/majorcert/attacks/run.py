"""One ensemble under attack: certificates first, then patches on every image that is classified correctly."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from majorcert.attacks.effort import Effort
from majorcert.attacks.group import Group, Outcome
from majorcert.attacks.group_attack import attack_group
from majorcert.attacks.logbook import Logbook, write_png
from majorcert.attacks.paint import Stock
from majorcert.attacks.surrogate import Surrogate
from majorcert.attacks.victim import Victim
from majorcert.attacks.watchdog import Watchdog
from majorcert.core.detection import detect
from majorcert.core.majority import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.errors import DataError, StoreError
from majorcert.files.attack_rows import Row
from majorcert.nets.data import Dataset
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.member import Promise
from majorcert.nets.scorer import Precision
from majorcert.nets.sources.decode import read_image

CANDIDATE_PIXELS = {"cuda": 2**23, "cpu": 2**16}
"""About how many pixels the touched views of one batch of candidates have."""
GROUP = {"cuda": 256, "cpu": 16}
"""How many images are attacked together."""
ALERT = -1
"""Stands for the label of an image that raises an alert, of which none is believed."""


@dataclass(frozen=True, eq=False)
class AttackRun:
    """One ensemble, the images it is attacked on, and how."""

    ensemble: Ensemble
    images: Dataset  # with their labels
    numbers: Ints  # (N,) the places of the images in the whole split
    stock: Stock
    patch: Patch
    effort: Effort
    asked: Precision | None  # the precision of the search, if not the one that suits
    at_once: int | None  # candidates in one batch, if not as many as suit
    folder: Path  # where painted images go, and in `broken` what shows a broken promise
    promise: Promise = "recovery"
    slack: int = 0  # of detection, as `detect` takes it

    @cached_property
    def surrogates(self) -> tuple[Surrogate, ...]:
        watching = self.promise == "detection"
        return tuple(Surrogate.of(each, self.patch, self.asked, watching=watching) for each in self.ensemble.defenders)

    @property
    def device(self) -> str:
        return self.surrogates[0].rows.device.type

    @property
    def batch_size(self) -> int:
        n_pixels = sum(each.n_pixels for each in self.surrogates)
        return self.at_once or max(1, CANDIDATE_PIXELS.get(self.device, CANDIDATE_PIXELS["cpu"]) // n_pixels)

    @property
    def group(self) -> int:
        return GROUP.get(self.device, GROUP["cpu"])

    @property
    def truth(self) -> Ints:
        assert self.images.labels is not None, "without labels no attack begins"
        labels: Ints = self.images.labels.numpy()
        return labels

    def about(self) -> dict[str, Any]:
        """Everything that the rows depend on."""
        return {
            "patch": str(self.patch),
            "dataset": self.images.name,
            "split": self.images.split,
            "n": len(self.images),
            **asdict(self.effort),
            "strategies": [str(defender.strategy) for defender in self.ensemble.defenders],
            "thresholds": [defender.threshold for defender in self.ensemble.defenders],
            **{
                name: [defender.fingerprints()[name] for defender in self.ensemble.defenders]
                for name in ("weights_sha256", "network_sha256")
            },
            "images_sha256": self.images.sha256(),
            "device": self.device,
            "precision": self.surrogates[0].precision,
            "batch_size": self.batch_size,
            "group": self.group,
            **({"promise": self.promise} if self.promise != "recovery" else {}),
            **({"slack": self.slack} if self.slack else {}),
            **({"pooled": True} if self.ensemble.pooled else {}),
        }

    def run(self, log: Logbook, progress: Callable[[int], None]) -> None:
        """Attack the images that are not in the log yet; `progress` is told candidates x steps."""
        self._check(log.rows)
        for begun in range(0, len(self.images), self.group):
            some = slice(begun, min(begun + self.group, len(self.images)))
            if len(log.rows) > begun:
                progress(self.effort.candidate_steps(some.stop - some.start))
                continue
            clock = time.perf_counter()
            rows = self._rows(some, progress)
            log.add(rows, time.perf_counter() - clock)

    def _check(self, rows: list[Row]) -> None:
        """Refuse a record that lacks images: what is not in it would never be attacked."""
        begun = [row["image"] for row in rows]
        whole = len(begun) == len(self.images) or len(begun) % self.group == 0
        if not whole or begun != self.numbers[: len(begun)].tolist():
            raise StoreError(
                f"{self.folder}: the record of the attack is damaged, it does not have a row for each image; "
                "remove the folder and attack anew"
            )

    def _rows(self, some: slice, progress: Callable[[int], None]) -> list[Row]:
        """Certify a group of images, attack those that are classified correctly, and say what became of each."""
        images, numbers = self.images.images[some], self.numbers[some]
        before: list[Any] = self.ensemble.evidence(images)
        detecting = self.promise == "detection"
        verdict = detect(before, self.patch, slack=self.slack) if detecting else majorcert(before, self.patch)
        watchdog = Watchdog(self.ensemble, images, numbers, before, verdict, self.folder / "broken")
        correct = np.flatnonzero(verdict.predicted == self.truth[some])
        progress(self.effort.candidate_steps(len(images) - len(correct)))
        outcomes: dict[int, Outcome] = {}
        if correct.size:
            group = Group(
                victim=self._victim(images, before, correct),
                images=images[correct],
                numbers=numbers[correct],
                safe=np.asarray(verdict.safe)[correct],
                witnesses=[verdict.witness(int(each)) for each in correct],
                patch=self.patch,
            )
            found = attack_group(
                group,
                self.effort,
                self.stock,
                lambda which, painted, placements: watchdog.judge(correct[which], painted, placements),
                batch_size=self.batch_size,
                progress=progress,
            )
            outcomes = dict(zip(correct.tolist(), found, strict=True))
        return [self._row(some.start + k, k, verdict, outcomes.get(k), watchdog) for k in range(len(images))]

    def _victim(self, images: torch.Tensor, before: list[Any], some: Ints) -> Victim:
        """Some of the images with their evidence; the networks of a pool vote together."""
        networks, points = before, np.eye(len(before))
        if self.ensemble.pooled:
            networks, points = before[0].members, np.array([before[0].weights])
        cast = [each.views.cast(evidence[some]) for each, evidence in zip(self.surrogates, networks, strict=True)]
        return Victim.of(
            self.surrogates,
            images[some],
            [torch.from_numpy(each.astype(np.int64)) for each in cast],
            torch.from_numpy(points),
            torch.from_numpy(np.stack([each.label[some] for each in before], axis=1)),
            len(self.ensemble.class_names),
            watching=self.promise == "detection",
            slack=self.slack,
            seconds=[each.views.second(found[some]) for each, found in zip(self.surrogates, networks, strict=True)],
        )

    def _row(self, place: int, k: int, verdict: Verdict, outcome: Outcome | None, watchdog: Watchdog) -> Row:
        """What became of one image, which is the k-th of its group; a painted one is saved."""
        number, found = int(self.numbers[place]), outcome or Outcome()
        if found.painted is not None:
            write_png(self._png(number), found.painted)
        silence = (
            {}
            if verdict.alert is None
            else {"alert": bool(verdict.alert[k]), "changed": found.changed, "alerted": found.alerted}
        )
        return {
            "image": number,
            "truth": int(self.truth[place]),
            "predicted": int(verdict.predicted[k]),
            "certified": bool(verdict.certified[k]),
            "attacked": outcome is not None,
            "flipped": found.flipped,
            "by": found.by,
            "placement": found.placement,
            "rival": found.rival,
            "label": found.label,
            "restarts": found.restarts,
            "steps": found.steps,
            **silence,
            "broken": sorted(watchdog.broken.get(k, ())),
        }

    def painted_as_recorded(self, log: Logbook) -> list[int]:
        """The numbers of the images whose file, read again, is not predicted as its row says; there should be none."""
        rows = [row for row in log.rows if row["flipped"]]
        painted = {row["image"]: found for row in rows if (found := self._painted(row["image"])) is not None}
        if not painted:
            return [row["image"] for row in rows]
        images = torch.from_numpy(np.stack(list(painted.values())))
        if self.promise == "detection":
            verdict = self.ensemble.detect(images, self.patch, slack=self.slack)
            labels = np.where(np.asarray(verdict.alert), ALERT, verdict.predicted)
        else:
            labels = self.ensemble.predict(images)
        said = dict(zip(painted, labels.tolist(), strict=True))
        return [row["image"] for row in rows if row["label"] != said.get(row["image"])]

    def kept_as_broken(self) -> set[int]:
        """The numbers of the images that show a broken promise, also of a run that was interrupted right afterwards."""
        folder = self.folder / "broken"
        return {int(each.name) for each in folder.iterdir() if each.name.isdecimal()} if folder.is_dir() else set()

    def _painted(self, number: int) -> npt.NDArray[np.uint8] | None:
        try:
            return read_image(self._png(number), self.images.image_size, self.images.channels)
        except DataError:
            return None

    def _png(self, number: int) -> Path:
        return self.folder / "painted" / f"{number:06d}.png"
