"""Cases that the core and the oracle both judge: the same votes, once as arrays and once as sets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import oracle

import majorcert as mc
from majorcert.core.reach import Reach

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """An ensemble, what its ablations vote for on several images, and a patch."""

    specs: tuple[str, ...]
    image_size: tuple[int, int]
    n_classes: int
    votes: tuple[tuple[tuple[oracle.Ballot, ...], ...], ...]
    """defender, image, ablation: the labels voted for"""
    patch: tuple[int, int]
    fragile: tuple[tuple[frozenset[int], ...], ...] = ()
    """defender, image: the ablations whose ballots are fragile; () when nothing is known of that"""

    @property
    def n_images(self) -> int:
        return len(self.votes[0])

    def ballots(self) -> list[mc.Ballots]:
        """The evidence of each defender, as the core takes it; with a tolerance if any ballots may be fragile."""
        found = []
        for a, (spec, votes) in enumerate(zip(self.specs, self.votes, strict=True)):
            labels = padded(votes, self.n_classes)
            about = {"strategy": spec, "image_size": self.image_size, "n_classes": self.n_classes}
            if not self.fragile:
                found.append(mc.Ballots(labels, **about))
                continue
            distance = np.full(labels.shape[:2], 0.5)
            for i, numbers in enumerate(self.fragile[a]):
                distance[i, list(numbers)] = 0.1
            found.append(mc.Ballots(labels, **about, distance=distance).tolerating(0.2))
        return found

    def defenders(self, image: int) -> list[oracle.Defender]:
        """The same evidence for one image, as the oracle takes it."""
        return [
            oracle.Defender(spec, self.image_size, self.n_classes, votes[image], self.fragile_of(a, image))
            for a, (spec, votes) in enumerate(zip(self.specs, self.votes, strict=True))
        ]

    def fragile_of(self, defender: int, image: int) -> frozenset[int]:
        return self.fragile[defender][image] if self.fragile else frozenset()

    def shaken(self, seed: int) -> "Case":
        """The same case with some fragile ballots: of some images none, of others up to a third."""
        random = np.random.default_rng(seed)
        fragile = []
        for votes in self.votes:
            share = random.choice([0.0, 0.1, 0.2, 0.35], size=len(votes))
            marks = random.random((len(votes), len(votes[0]))) < share[:, None]
            fragile.append(tuple(frozenset(np.flatnonzero(image).tolist()) for image in marks))
        return replace(self, fragile=tuple(fragile))

    def reach_sets(self, reach: Reach) -> dict[tuple[int, int, int], set[int]]:
        """The labels in reach for each image, top and left, asked for one by one."""
        sets: dict[tuple[int, int, int], set[int]] = {}
        shape = (self.n_images, *mc.Patch(*self.patch).n_placements(self.image_size))
        for label in range(self.n_classes):
            inside = np.broadcast_to(reach.spread(reach.has(np.full(self.n_images, label))), shape)
            for where in np.ndindex(shape):
                sets.setdefault(where, set()).update([label] if inside[where] else [])
        return sets

    def placements(self) -> list[tuple[int, int]]:
        return oracle.placements(self.patch, self.image_size)


def padded(votes: Sequence[Sequence[oracle.Ballot]], n_classes: int) -> Labels:
    """(images, ablations, k), the labels of a ballot first and mc.ABSTAIN after them."""
    k = max([1, *(len(ballot) for image in votes for ballot in image)])
    labels = np.full((len(votes), len(votes[0]), min(k, n_classes)), mc.ABSTAIN)
    for i, image in enumerate(votes):
        for j, ballot in enumerate(image):
            labels[i, j, : len(ballot)] = sorted(ballot)
    return labels


def draw_specs(random: np.random.Generator, n_defenders: int, image_size: tuple[int, int]) -> tuple[str, ...]:
    """Strategies of any kind, with sizes that fit and strides 1 to 3, which need not divide the image."""
    specs = []
    for _ in range(n_defenders):
        kind = str(random.choice(["rows", "columns", "blocks"]))
        side = {"rows": image_size[0], "columns": image_size[1], "blocks": min(image_size)}[kind]
        size = int(random.integers(1, min(side, 2) + 1))
        stride = int(random.choice([1, 1, 1, 1, 2, 2, 3]))
        specs.append(f"{kind}:{size}" + (f"/{stride}" if stride > 1 else ""))
    return tuple(specs)


def draw_ballots(
    random: np.random.Generator, n_ablations: int, n_classes: int, wanted: int, agreement: float
) -> tuple[oracle.Ballot, ...]:
    """The wanted label nearly everywhere, perhaps a run of another one, and some ballots of any number of labels."""
    labels = np.full(n_ablations, wanted)
    if random.random() < 0.4:
        run = random.integers(n_ablations) + np.arange(random.integers(n_ablations // 2 + 1))
        labels[run % n_ablations] = random.integers(n_classes)
    odd = random.random(n_ablations) >= agreement
    if random.random() < 0.2:
        odd[::2] = True
    any_labels = random.random((n_ablations, n_classes)) < random.choice([0.2, 0.5])
    return tuple(
        frozenset(np.flatnonzero(any_labels[j]).tolist()) if odd[j] else frozenset([int(labels[j])])
        for j in range(n_ablations)
    )


def draw_votes(
    random: np.random.Generator, specs: Sequence[str], image_size: tuple[int, int], n_classes: int, n_images: int
) -> tuple[tuple[tuple[oracle.Ballot, ...], ...], ...]:
    """Votes that mostly agree, so that certificates occur."""
    wanted = random.integers(n_classes, size=n_images)
    agreement = random.choice([0.4, 0.8, 0.95, 1.0], size=n_images)
    votes = []
    for spec in specs:
        n_ablations = len(oracle.regions(spec, image_size))
        astray = random.random(n_images) < 0.15
        held = np.where(astray, random.integers(n_classes, size=n_images), wanted)
        votes.append(
            tuple(
                draw_ballots(random, n_ablations, n_classes, int(held[i]), float(agreement[i])) for i in range(n_images)
            )
        )
    return tuple(votes)


def draw_case(
    seed: int, *, n_classes: int, n_defenders: int, image_sizes: Sequence[tuple[int, int]], n_images: int
) -> Case:
    """A case from a seed: mostly small patches, now and then any size up to the whole image."""
    random = np.random.default_rng(seed)
    image_size = image_sizes[int(random.integers(len(image_sizes)))]
    specs = draw_specs(random, n_defenders, image_size)
    most = image_size if random.random() < 0.25 else (min(2, image_size[0]), min(2, image_size[1]))
    patch = (int(random.integers(1, most[0] + 1)), int(random.integers(1, most[1] + 1)))
    votes = draw_votes(random, specs, image_size, n_classes, n_images)
    return Case(specs, image_size, n_classes, votes, patch)


def draw_coherent(
    seed: int, specs: tuple[str, ...], image_size: tuple[int, int], n_classes: int, patch: tuple[int, int], n: int
) -> Case:
    """Images whose votes have a region of a rival, and some noise, so that every verdict occurs."""
    random = np.random.default_rng(seed)
    votes = []
    wanted, rival = random.integers(n_classes, size=(2, n))
    share, noise = random.choice([0.02, 0.1, 0.2, 0.3], size=n), random.choice([0.0, 0.05, 0.2], size=n)
    for spec in specs:
        rows, columns = (len(runs) for runs in mc.strategy(spec).visible(image_size))
        images = []
        for i in range(n):
            labels = np.full((rows, columns), wanted[i])
            region = np.ix_(*(np.arange(max(1, round(side * share[i] ** (1 / 2)))) for side in (rows, columns)))
            labels[region] = rival[i]
            odd = random.random((rows, columns)) < noise[i]
            labels[odd] = random.integers(-1, n_classes, size=odd.sum())
            images.append(tuple(frozenset([int(label)] if label >= 0 else []) for label in labels.ravel()))
        votes.append(tuple(images))
    return Case(specs, image_size, n_classes, tuple(votes), patch)
