"""The images that recorded evidence is about."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from majorcert.core.reach import Evidence
from majorcert.errors import DataError


def pictures_of(spec: str | None, evidence: Evidence, data_dir: Path, split_seed: int) -> npt.NDArray[np.uint8] | None:
    """The images that the evidence is about, if any are given; refused when they are not the very same."""
    if spec is None:
        return None
    from majorcert.audit.revote import check_images
    from majorcert.nets.recorded import recorded_images

    whole = recorded_images(spec, evidence, data_dir=data_dir, seed=split_seed, skip_bad=True)
    if (last := int(evidence.images.max(initial=-1))) >= len(whole):
        raise DataError(f"{spec}: has {len(whole)} images, but image {last} was voted on; give the same data")
    if "images_sha256" in evidence.provenance and check_images(whole, [evidence]).differences:
        raise DataError(f"{spec}: these are other images than those that were voted on; give the same data and split")
    return whole.images.numpy()[evidence.images]
