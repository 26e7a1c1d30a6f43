"""Classes that are each other's mirror image, such as signs that point left and right: flips would teach them wrong."""

import torch
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.nets.data import Dataset

SIDE, N_IMAGES = 16, 50
"""Images of each class are looked at, so small and in grey."""
MOST = 0.6


def mirrored_classes(dataset: Dataset) -> list[tuple[str, str]]:
    """Pairs of classes whose mirrored images look like the other one, by the nearest mean image.

    A rough look, with no network: of three in five images of either class the mirror image is nearer to the mean of the
    other class than to that of its own, while of as many the image itself is not. It can miss pairs.
    """
    if dataset.labels is None:
        return []
    places = [torch.nonzero(dataset.labels == label).ravel() for label in range(dataset.n_classes)]
    groups = [dataset.images[place[:: max(1, len(place) // N_IMAGES)]] for place in places]
    known = [label for label, group in enumerate(groups) if len(group) > 1]
    small = [F.adaptive_avg_pool2d(groups[label].float().mean(dim=1, keepdim=True), SIDE) for label in known]
    small = [F.layer_norm(each.squeeze(1), (SIDE, SIDE)) for each in small]  # whatever the light
    means = torch.stack([each.mean(dim=0) for each in small]) if small else torch.zeros(0, SIDE, SIDE)

    def shares(flipped: bool) -> torch.Tensor:
        """(classes, classes): how many images of the first are nearer to the second than to the first."""
        rows = []
        for own, each in enumerate(small):
            distances = torch.cdist((each.flip(2) if flipped else each).flatten(1), means.flatten(1))
            rows.append((distances < distances[:, own : own + 1]).double().mean(dim=0))
        return torch.stack(rows) if rows else torch.zeros(0, 0)

    swapped = (shares(flipped=True) > MOST) & (shares(flipped=False) < 1 - MOST)
    pairs = torch.nonzero(swapped & swapped.T).tolist()
    return [(dataset.class_names[known[a]], dataset.class_names[known[b]]) for a, b in pairs if a < b]
