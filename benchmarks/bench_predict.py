"""Seconds for one image by the bundled ensemble, on one core: `python benchmarks/bench_predict.py` prints them.

The image is a soft one of its own, so that its label is certified: then masks must look at every pair, where a
certificate that fails is found early. A label takes the first round of masks alone.
"""

from functools import partial
from timeit import repeat

import numpy as np
import torch

import majorcert as mc

REPEATS = 5


def soft_image() -> np.ndarray:
    """(1, 32, 32, 3) a sky above a lawn."""
    image = np.zeros((1, 32, 32, 3), dtype=np.uint8)
    image[:, :20], image[:, 20:] = (120, 170, 230), (60, 140, 60)
    return image


def main() -> None:
    torch.set_num_threads(1)
    image = soft_image()
    for who, bound in (("voters", None), ("masks", 5)):
        ensemble = mc.Ensemble.load("cifar10", bound=bound, device="cpu")
        holds = "certified" if ensemble.certify(image, 5).certified.all() else "not certified"
        works = partial(ensemble.predict, image), partial(ensemble.certify, image, 5)
        # The best of some times: other work on the machine only ever adds to them.
        label, certificate = (min(repeat(work, number=1, repeat=REPEATS)) for work in works)
        print(f"{who}: label {label:.2f} s, with its certificate against 5x5 {certificate:.2f} s ({holds})")


if __name__ == "__main__":
    main()
