"""How good a network is while it learns: what it says of some validation images, and what is certified of that."""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from majorcert.core.ballots import Ballots
from majorcert.core.majority import majorcert
from majorcert.defences.bounds import Sizes
from majorcert.defences.masking import Masks
from majorcert.files.photo import read_patches
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.data import Dataset
from majorcert.nets.ensemble import load_defender
from majorcert.nets.hiding import n_views
from majorcert.nets.models import factories_in
from majorcert.nets.own import place_of

PATCH = "2%"
"""Of each photo, or of the image where there are no photos, against which is certified."""
N_VIEWS = 8_192
"""About how many are looked at."""
SHARE = 0.2
"""Of the time: where validating takes more, some epochs go without."""


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
        n, least, (self.patch,) = n_views(hiding, size), 16, read_patches([PATCH], size, validation.photos)
        self.means = f", {PATCH} of each photo" if validation.photos else ""
        if isinstance(hiding, Masks):
            n, least, self.patch, self.means = n * (n + 1) // 2, 4, hiding.patch, ""
        elif isinstance(hiding, Sizes):
            self.patch, self.means = hiding.patches[0], ""
        self.images = validation.drawn(max(least, min(256, N_VIEWS // n)))
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
            # Whoever trains a network of their own has allowed the function that makes it.
            allowed = [place_of(name) for name in factories_in(self.blueprint.model)]
            evidence = load_defender(folder, device=self.device, allow=allowed).evidence(self.images.images)
        verdict, truth = majorcert([evidence], self.patch), self.images.labels
        assert truth is not None
        right = verdict.predicted == truth.numpy()
        silent = (evidence.counts().sum(axis=1) == 0).mean() if isinstance(evidence, Ballots) else 0.0
        self.spent += time.perf_counter() - begun
        proved = (right & verdict.certified).mean()
        return Checked(float(right.mean()), float(proved), float(silent), len(right), f"{self.patch}{self.means}")
