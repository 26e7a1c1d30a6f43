"""The 1,797 handwritten digits, 8x8 grey, that scikit-learn carries: no download, seconds to train."""

import numpy as np

from majorcert.errors import DataError
from majorcert.nets.sources.order import shuffled
from majorcert.nets.sources.part import Part

N_TEST = 360


def read(*, test: bool) -> Part:
    """The last 360 images of a fixed shuffle are the test part, the other 1,437 the training part."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError as error:
        raise DataError(
            f"the digits come with scikit-learn ({error}); pip install 'majorcert[nets]' brings it"
        ) from None
    bunch = load_digits()
    order = shuffled(len(bunch.target), seed=0)
    chosen = order[-N_TEST:] if test else order[:-N_TEST]
    # The scans have the integer values 0 to 16; times 255/16, rounded, every value stays distinct.
    images = np.rint(bunch.images[chosen, None] * (255 / 16)).astype(np.uint8)
    return Part(images, bunch.target[chosen].astype(np.int64), tuple(str(name) for name in bunch.target_names))
