"""Double masking by a real network, against every patch there is: all placements, all contents in three greys."""

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

import majorcert as mc
from majorcert.nets.models import ModelConfig, build

torch.set_num_threads(1)
CONFIG, PATCH, GREYS = ModelConfig("small", 1, 3, width=4), mc.Patch(2), torch.tensor([0.0, 0.5, 1.0])
N_CONTENTS = 3**4
Bools = npt.NDArray[np.bool_]
Size = tuple[int, int]


def defender(size: Size) -> mc.MaskingDefender:
    """Of a network with weights by lot that says every label about as often; 4 masks on 5x5, 9 on 6x6."""
    torch.manual_seed(9)
    network: Any = build(CONFIG).eval()
    with torch.no_grad():
        network[-1].bias -= network(torch.randn(99, 1, *size)).mean(dim=0)
    return mc.MaskingDefender(network, "masks:2/2", image_size=size, channels=1, config=CONFIG)


def pictures(n: int, size: Size) -> Tensor:
    """A dark, grey or bright square on grey, the later ones with more and more noise, all in three greys."""
    lot = torch.Generator().manual_seed(4)
    noisy = torch.rand(n, 1, *size, generator=lot) < torch.linspace(0, 1, n)[:, None, None, None]
    images = torch.full((n, 1, *size), 0.5)
    images[:, :, 1:-1, 1:-1] = GREYS[torch.arange(n) % 3][:, None, None, None]
    return torch.where(noisy, GREYS[torch.randint(0, 3, noisy.shape, generator=lot)], images)


def painted(image: Tensor) -> Tensor:
    """(placements, contents, C, H, W): the image with every content of the patch at every placement."""
    places = list(product(*map(range, PATCH.n_placements((image.shape[1], image.shape[2])))))
    images = image.repeat(len(places), N_CONTENTS, 1, 1, 1)
    for versions, (top, left) in zip(images, places, strict=True):
        versions[:, 0, top : top + 2, left : left + 2] = torch.cartesian_prod(*[GREYS] * 4).view(-1, 2, 2)
    return images


def held(promised: list[Bools], broken: list[Bools]) -> None:
    """Nothing that was promised is broken; enough was, enough was not, and much of that is broken."""
    safe, changed = np.concatenate(promised), np.concatenate(broken)
    everywhere = sum(bool(each.all()) for each in promised)
    assert not changed[safe].any()
    assert min(safe.sum(), (~safe).sum()) * N_CONTENTS > 2000
    assert changed[~safe].sum() > 200
    assert 2 <= everywhere <= len(promised) - 2


@pytest.mark.parametrize(("size", "n_images"), [((5, 5), 16), ((6, 6), 6)])
def test_no_content_of_a_patch_changes_a_label_where_the_map_says_safe(size: Size, n_images: int) -> None:
    of, images = defender(size), pictures(n_images, size)
    verdict = of.certify(images, PATCH)
    safe, changed = [np.asarray(verdict.safe)[k].ravel() for k in range(n_images)], list[Bools]()
    for k, image in enumerate(images):
        after = of.predict(painted(image).flatten(0, 1))
        changed.append((after != verdict.predicted[k]).reshape(len(safe[k]), N_CONTENTS))
    held(safe, changed)
    assert sum(each.size for each in changed) > 12_000


def test_no_content_of_a_patch_changes_a_label_that_is_watched_without_an_alert() -> None:
    of, images = defender((5, 5)), pictures(16, (5, 5))
    verdict = of.detect(images, PATCH)
    safe, silent = [np.asarray(verdict.safe)[k].ravel() for k in range(len(images))], list[Bools]()
    for k, image in enumerate(images):
        after = of.detect(painted(image).flatten(0, 1), PATCH)
        changed = (after.predicted != verdict.predicted[k]) & ~np.asarray(after.alert)
        silent.append(changed.reshape(len(safe[k]), N_CONTENTS))
    held(safe, silent)
