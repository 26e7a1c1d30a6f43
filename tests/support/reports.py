"""What the tests of reports share: evidence that votes like a network, and evidence that records its reach alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import majorcert as mc


@dataclass(frozen=True, eq=False)
class ReachOnly:
    """A defender of which nothing is known but its label and its reach: ballots behind a curtain."""

    hidden: mc.Ballots
    name: str = "curtain"

    @property
    def n_classes(self) -> int:
        return self.hidden.n_classes

    @property
    def image_size(self) -> tuple[int, int]:
        return self.hidden.image_size

    @property
    def images(self) -> npt.NDArray[np.int64]:
        return self.hidden.images

    @property
    def provenance(self) -> dict[str, Any]:
        return {"name": self.name}

    @property
    def label(self) -> Any:
        return self.hidden.label

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, images: Any) -> "ReachOnly":
        return ReachOnly(self.hidden[images], self.name)

    def reach(self, patch: mc.Patch) -> mc.Reach:
        return self.hidden.reach(patch)


def coherent_ballots(
    specs: Sequence[str],
    *,
    n_images: int,
    image_size: tuple[int, int] = (12, 12),
    n_classes: int = 10,
    seed: int = 0,
) -> tuple[list[mc.Ballots], npt.NDArray[np.int64]]:
    """Votes for the truth, for a rival in one corner of some images, and a few strays; and the truth."""
    random = np.random.default_rng(seed)
    truth = random.integers(n_classes, size=n_images)
    rival = (truth + random.integers(1, n_classes, size=n_images)) % n_classes
    reach = random.uniform(0, 0.8, size=(n_images, 1, 1)) * (random.random((n_images, 1, 1)) < 0.8)
    defenders = []
    for spec in specs:
        strategy = mc.strategy(spec)
        rows, columns = (runs.shape[0] for runs in strategy.visible(image_size))
        inside = (np.arange(rows)[:, None] < reach * rows) & (np.arange(columns) < reach * columns)
        inside = inside if min(rows, columns) > 1 else inside & (reach > 0.2)
        labels = np.where(inside, rival[:, None, None], truth[:, None, None]).reshape(n_images, -1)
        stray = random.random(labels.shape) < 0.08
        labels[stray] = random.integers(-1, n_classes, size=int(stray.sum()))
        defenders.append(
            mc.Ballots(
                labels,
                strategy=strategy,
                image_size=image_size,
                n_classes=n_classes,
                images=np.arange(n_images) + 100,
                provenance={"threshold": 0.3, "weights_sha256": "ab" * 32, "images_sha256": "cd" * 32},
            )
        )
    return defenders, truth


def painted(n_images: int, image_size: tuple[int, int], channels: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Smooth little pictures, (images, channels, height, width)."""
    random = np.random.default_rng(seed)
    coarse = random.integers(40, 216, size=(n_images, channels, 3, 3))
    height, width = image_size
    fine = coarse.repeat(-(-height // 3), axis=2).repeat(-(-width // 3), axis=3)
    return fine[:, :, :height, :width].astype(np.uint8)
