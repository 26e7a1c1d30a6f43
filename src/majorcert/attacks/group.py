"""Images that are attacked together, and what became of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from torch import Tensor

from majorcert.attacks.victim import Victim
from majorcert.core.plurality import Ints
from majorcert.core.threat import Bools, Patch
from majorcert.core.verdict import Witness


@dataclass(frozen=True, eq=False)
class Group:
    """Images that are attacked together."""

    victim: Victim
    images: Tensor  # (N, C, H, W) uint8, on the CPU
    numbers: Ints  # (N,) their places in the data set
    safe: Bools  # (N, placement rows, placement columns) where a certificate says that nothing can happen
    witnesses: Sequence[Witness | None]
    patch: Patch


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one image."""

    flipped: bool = False
    """is the ensemble fooled: another label, and no alert?"""
    by: str = ""
    """"solid", "noise", "transplant" or "gradient" """
    placement: tuple[int, int] | None = None
    rival: int | None = None
    """the label that was aimed at"""
    label: int | None = None
    """what is predicted now"""
    changed: bool = False
    """did any judged patch change the label, with an alert or without?"""
    alerted: bool = False
    """did any judged patch raise an alert?"""
    restarts: int = 0
    steps: int = 0
    painted: Tensor | None = field(default=None, repr=False)
    """(C, H, W) uint8: the image with the patch that changed its label"""


Judge = Callable[[Ints, Tensor, npt.NDArray[np.int64]], tuple[Ints, Bools]]
"""From numbers of images in the group, painted uint8 images and (N, 2) placements to what is predicted, and alerts."""
