"""How good a network is while it learns: what it says of some validation images, and what is certified of that."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from majorcert.core.majority import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.threat import ImageSize, Patch
from majorcert.defences.bounds import Sizes
from majorcert.defences.masking import Masks
from majorcert.files.asked_patches import read_patches
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.data import Dataset
from majorcert.nets.device import place_among
from majorcert.nets.ensemble import load_defender
from majorcert.nets.hiding import Hiding, n_views
from majorcert.nets.member import Member
from majorcert.nets.models import factories_in
from majorcert.nets.own import place_of

PATCH = "2%"
"""Of each photo, or of the image where there are no photos, against which is certified."""
N_VIEWS = 8_192
"""About how many are looked at."""
ENOUGH = 50
"""Images by which one defence can be told from another; fewer will do if there are no more."""
SHARE = 0.2
"""Of the time: where validating takes more, some epochs go without."""


def n_looks(hiding: Hiding, image_size: ImageSize) -> int:
    """How many views of an image its evidence takes."""
    n = n_views(hiding, image_size)
    return n * (n + 1) // 2 if isinstance(hiding, Masks) else n


def n_checked(hiding: Hiding, image_size: ImageSize) -> int:
    """How many validation images are looked at after an epoch, if there are so many."""
    return max(4 if isinstance(hiding, Masks) else 16, min(256, N_VIEWS // n_looks(hiding, image_size)))


def just_trained(folder: str | Path, device: torch.device | str) -> Member:
    """The defender in a folder; whoever trains a network of their own has allowed the function that makes it."""
    allowed = [place_of(name) for name in factories_in(Blueprint.read(Path(folder)).model)]
    return load_defender(folder, device=device, allow=allowed)


def tried(
    runs: Sequence[Path], validation: Dataset | None, device: torch.device | str
) -> tuple[list[Evidence], Patch, Ints] | None:
    """What trained defenders say of some validation images, a patch to judge by, and the labels.

    None without such images, where another process does it, and where so many views belong to an image that too few
    could be looked at in the time that an epoch's check takes.
    """
    if validation is None or place_among()[0]:
        return None
    known = [Blueprint.read(run) for run in runs]
    most = N_VIEWS // max(n_looks(each.strategy, each.image_size) for each in known)
    some = validation.drawn(max(1, min(256, most)))
    if some.labels is None or len(some) < min(ENOUGH, len(validation)):
        return None
    (patch,) = read_patches([PATCH], validation.image_size, validation.photos)
    return [just_trained(run, device).evidence(some.images) for run in runs], patch, some.labels.numpy()


@dataclass(frozen=True)
class Checked:
    """Shares of some validation images: right, certified and right, and without any vote."""

    clean: float
    certified: float
    abstained: float
    n: int
    patch: str
    """in pixels of the networks' image, and what that means on the photo"""

    def __str__(self) -> str:
        shares = f"clean {self.clean:.1%}, certified {self.certified:.1%} ({self.patch})"
        return f"{shares}, without a vote {self.abstained:.1%}, of {self.n} validation images"


class Validation:
    """Judges a network in training, without a trace in it: not in its weights, nor in any random numbers."""

    def __init__(self, blueprint: Blueprint, validation: Dataset, device: torch.device) -> None:
        self.blueprint, self.device = blueprint, device
        hiding, size = blueprint.strategy, blueprint.image_size
        (self.patch,) = read_patches([PATCH], size, validation.photos)
        self.means = f", {PATCH} of each photo" if validation.photos else ""
        if isinstance(hiding, Masks):
            self.patch, self.means = hiding.patch, ""
        elif isinstance(hiding, Sizes):
            self.patch, self.means = hiding.patches[0], ""
        self.images = validation.drawn(n_checked(hiding, size))
        self.begun, self.spent = time.perf_counter(), 0.0

    def due(self, *, last: bool) -> bool:
        """Whether there is time for it."""
        return last or self.spent <= SHARE * (time.perf_counter() - self.begun)

    def checked(self, weights: dict[str, Tensor]) -> Checked:
        """What the network with these weights comes to."""
        begun = time.perf_counter()
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), TemporaryDirectory() as folder:
            self.blueprint.write(Path(folder), weights)  # and loaded as anybody would, of whatever kind it is
            evidence = just_trained(folder, self.device).evidence(self.images.images)
        verdict, truth = majorcert([evidence], self.patch), self.images.labels
        assert truth is not None
        right = verdict.predicted == truth.numpy()
        self.spent += time.perf_counter() - begun
        counted = (right, right & verdict.certified, evidence.abstained())
        clean, certified, abstained = (float(each.mean()) for each in counted)
        return Checked(clean, certified, abstained, len(right), f"{self.patch}{self.means}")
