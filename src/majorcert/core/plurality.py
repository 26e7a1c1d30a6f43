"""Who wins a vote: the most votes, and the smallest label index on a tie. The one tie rule of the project."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger]


def standing(n_votes: Ints, label: Ints, n_classes: int) -> Ints:
    """One integer by which labels are compared: a beats b iff the standing of a is the larger one.

    More votes mean a larger standing, because the second term is under `n_classes`; with equal votes the smaller
    label has the larger standing. Standings of different labels always differ, so `>=` and `>` are then the same.
    """
    return n_votes * n_classes + (n_classes - 1 - label)


def plurality(counts: Ints) -> Ints:
    """(...,) the winning label of (..., classes) vote counts."""
    n_classes = counts.shape[-1]
    return standing(counts.astype(np.int64), np.arange(n_classes), n_classes).argmax(axis=-1)


def plurality_of_labels(labels: Ints, n_classes: int) -> Ints:
    """(images,) the winning label when each of (images, defenders) casts one vote."""
    n_votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
    winner = standing(n_votes, labels.astype(np.int64), n_classes).argmax(axis=1)
    return labels[np.arange(len(labels)), winner].astype(np.int64)
