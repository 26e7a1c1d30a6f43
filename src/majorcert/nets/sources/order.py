"""A shuffle that is the same on every machine and with every version of every library."""

import hashlib

import numpy as np
import numpy.typing as npt


def shuffled(n: int, seed: int) -> npt.NDArray[np.int64]:
    """The numbers 0 to n - 1 in the order of the SHA-256 of "seed:number"."""
    digests = [hashlib.sha256(f"{seed}:{number}".encode()).digest() for number in range(n)]
    return np.array(sorted(range(n), key=digests.__getitem__), dtype=np.int64)
