"""What the tests of reports share: evidence that votes like a network, and evidence that records its reach alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import majorcert as mc
from majorcert.defences.shapes import Shape


@dataclass(frozen=True, eq=False)
class ReachOnly(mc.Evidence):
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


@dataclass(frozen=True)
class Cross(Shape):
    """A band of rows and a band of columns together: regions that are no product of both."""

    def regions(self, image_size: tuple[int, int]) -> npt.NDArray[np.bool_]:
        height, width = image_size
        down, across = np.arange(height), np.arange(width)
        return np.stack(
            [
                ((down - start) % height < self.size)[:, None] | ((across - start) % width < self.size)
                for start in range(0, min(image_size), self.stride)
            ]
        )


def every_kind(n_images: int, image_size: tuple[int, int] = (12, 13)) -> list[mc.Evidence]:
    """A defender of each kind, and votes on regions of an unusual shape; of two labels that they mostly agree about."""
    random = np.random.default_rng(5)
    truth = random.integers(0, 3, (n_images, 1))

    def mostly(n: int, share: Any) -> npt.NDArray[np.int64]:
        return np.where(random.random((n_images, n)) < share, truth, random.integers(0, 3, (n_images, n)))

    kind: dict[str, Any] = {"image_size": image_size, "n_classes": 3}
    ease = random.uniform(0.3, 1.1, (n_images, 1))
    cross, rows, columns = (
        mc.Ballots(mostly(strategy.n_ablations(image_size), ease), strategy=strategy, **kind)
        for strategy in (Cross(1), mc.Rows(2), mc.Columns(2, 2))
    )
    masks = mc.Masks(3, stride=2)
    n = masks.n_masks(image_size)
    pairs = mc.MaskPairs(mostly(n * (n + 1) // 2, 0.998), masks=masks, **kind)
    return [cross, mc.MaskedScores(mc.Scores.of_votes(rows), mc.Patch(3)), mc.Pool([rows, columns]), pairs]
