"""What is kept when a promise was broken: everything that is needed to see it again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from majorcert.attacks.logbook import write_png
from majorcert.core.reach import Evidence
from majorcert.core.threat import Patch
from majorcert.files.evidence import save_evidence
from majorcert.nets.checkpoint import write_json


def keep_exhibit(
    folder: Path,
    clean: Tensor,
    painted: Tensor,
    placement: tuple[int, int],
    patch: Patch,
    before: Sequence[Evidence],
    after: Sequence[Evidence],
    facts: Mapping[str, Any],
) -> None:
    """Write the image, the painted image, the patch, the evidence of each defender on both, and the facts.

    Args:
        clean: (C, H, W) uint8, as painted.
        before: the evidence of the clean image alone, of each defender.
    """
    top, left = placement
    piece = painted[:, top : top + patch.height, left : left + patch.width]
    for name, image in (("clean", clean), ("painted", painted), ("patch", piece)):
        write_png(folder / f"{name}.png", image)
    for name, evidence in (("before", before), ("after", after)):
        for place, each in enumerate(evidence, start=1):
            save_evidence(each, folder / f"{name}-{place}.zarr")
    write_json(folder / "facts.json", {**facts, "patch": str(patch), "placement": list(placement)})
