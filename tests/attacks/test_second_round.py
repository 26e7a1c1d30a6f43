"""The second round of double masking in the search: it sees the pairs of masks that overrule a changed plurality."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import majorcert as mc
from majorcert.attacks import second_round
from majorcert.attacks.aim import Aim
from majorcert.attacks.descent import descend
from majorcert.attacks.effort import Effort
from majorcert.attacks.paint import Stock, paste
from majorcert.attacks.placements import needs, sites_of
from majorcert.attacks.run import AttackRun
from majorcert.attacks.second_round import SOME_ROWS, SecondRound
from majorcert.attacks.victim import Sites, Victim
from majorcert.nets.data import Dataset

torch.set_num_threads(1)
SIZE, PATCH, NAMES = (7, 9), mc.Patch(2, 3), ("red", "green", "blue")
MASKS = mc.Masks(2, 3, stride=2)
CPU = torch.device("cpu")


def brightness(views: Tensor) -> Tensor:
    """The colour with the most light, where bright pixels count for more than their share."""
    return 3 * (views.clamp(min=0) ** 2).mean(dim=(2, 3)) + views.mean(dim=(2, 3))


def pictures(n: int = 24) -> Dataset:
    """Each a little brighter in the colour of its label, the later ones by more; another one in the middle."""
    images = torch.randint(90, 150, (n, 3, *SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    for k in range(n):
        images[k, k % 3] += 4 + 5 * k // 2
        images[k, (k + 1) % 3, 2:5, 3:6] += 80
    return Dataset(images, torch.arange(n) % 3, NAMES, "made", "test")


def defender() -> mc.MaskingDefender:
    return mc.MaskingDefender(brightness, MASKS, image_size=SIZE, class_names=NAMES)


def victim(folder: Path) -> Victim:
    data, ensemble = pictures(), mc.Ensemble([defender()])
    stock, effort = Stock(data.images, torch.arange(len(data)) % 3), Effort(restarts=2, steps=3, placements=2)
    under = AttackRun(ensemble, data, np.arange(len(data)), stock, PATCH, effort, None, None, folder)
    return under._victim(data.images, list(ensemble.evidence(data.images)), np.arange(len(data)))


def every_site(n_images: int) -> Sites:
    n_tops, n_lefts = PATCH.n_placements(SIZE)
    cells = np.stack(np.divmod(np.arange(n_tops * n_lefts), n_lefts), axis=1)
    return sites_of(np.arange(n_images).repeat(len(cells)), np.tile(cells, (n_images, 1)), CPU)


def test_the_rows_to_break_are_those_of_masks_that_hide_most_of_the_patch() -> None:
    """By a second mask that breaks a covering row of the clean image, where there is one; literally."""
    pairs, hidden = defender().pairs(pictures().images), MASKS.hidden(SIZE)
    table, n, n_broken = pairs.table(), MASKS.n_masks(SIZE), 0
    sites = every_site(len(pairs))
    found, overruling = SecondRound.of(pairs, PATCH, CPU).pairs(sites.image, sites.top, sites.left)
    for image, top, left, numbers, rows in zip(sites.image, sites.top, sites.left, found, overruling, strict=True):
        inside = hidden[:, top : top + PATCH.height, left : left + PATCH.width].sum(axis=(1, 2))
        covers, odd = np.flatnonzero(inside == 6), table[image] != pairs.label[image]
        first, second = np.divmod(numbers.numpy(), n)
        assert sorted(inside[first], reverse=True) == sorted(inside[inside < 6], reverse=True)[:SOME_ROWS]
        assert rows.tolist() == (~odd[first].any(axis=1)).tolist()
        breaking = [j for j in np.flatnonzero(odd[covers[0]]) if j not in covers]
        assert set(second) <= ({breaking[0]} if breaking else {next(j for j in range(n) if j not in covers), 0})
        n_broken += bool(breaking)
    assert 200 < n_broken < len(sites) - 200


def test_what_the_search_sees_of_pairs_is_what_the_defender_says(tmp_path: Path) -> None:
    under, images, n = victim(tmp_path), pictures().images, MASKS.n_masks(SIZE)
    sites = every_site(len(images))
    lot = torch.Generator().manual_seed(1)
    patches = torch.randint(0, 256, (len(sites), 3, 2, 3), dtype=torch.uint8, generator=lot)
    painted = paste(images[sites.image], patches, sites.top, sites.left)
    views, worth = under.looked_at(0, sites)
    n_votes = under.ballots[0].shape[1]
    numbers = views[:, -SOME_ROWS:] - n_votes
    said = under.surrogates[0].log_scores(painted.float() / 255, views)[:, -SOME_ROWS:].argmax(dim=2)
    table = torch.from_numpy(defender().pairs(painted).table().astype(np.int64))
    assert torch.equal(said, table[torch.arange(len(sites))[:, None], numbers // n, numbers % n])
    label = under.clean[sites.image]
    assert set(worth[:, -SOME_ROWS:].unique().tolist()) == {0, n_votes + 1}
    assert not worth[:, -SOME_ROWS:].gather(2, (label + 1).remainder(3)[:, None, None].expand(-1, SOME_ROWS, 1)).any()


def unsafe_sites() -> Sites:
    """Wherever nothing is proved."""
    safe = torch.from_numpy(np.asarray(defender().certify(pictures().images, PATCH).safe))
    sites = every_site(len(safe))
    return sites[~safe[sites.image, sites.top, sites.left]]


def changed(sites: Sites, patches: Tensor) -> Tensor:
    """(N,) which of the patches change what the defender says."""
    images = pictures().images
    painted = paste(images[sites.image], patches, sites.top, sites.left)
    return torch.from_numpy(defender().predict(painted) != defender().predict(images)[sites.image.numpy()])


def believed(folder: Path, sites: Sites, patches: Tensor) -> Tensor:
    under = victim(folder)
    look = under.look(sites, patches.float() / 255, under.kept(sites))
    return look.fooled(under.clean[sites.image])


def test_the_search_is_seldom_wrong_about_who_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patches by lot wherever nothing is proved: of those that change the plurality many are overruled."""
    sites, lot = unsafe_sites(), torch.Generator().manual_seed(0)
    patches = torch.randint(0, 256, (len(sites), 3, 2, 3), dtype=torch.uint8, generator=lot)
    fooled = changed(sites, patches)
    aware = believed(tmp_path, sites, patches)
    monkeypatch.setattr(second_round, "SOME_ROWS", 0)
    unaware = believed(tmp_path, sites, patches)
    assert not (aware & ~unaware).any()
    assert (unaware & ~fooled).sum() > 2 * (aware & ~fooled).sum() > 0
    assert (aware & fooled).sum() > 0.8 * (unaware & fooled).sum() > 50


def test_descending_breaks_the_second_round_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one grey patch at every placement where nothing is proved, by a few steps."""
    sites, n_changed = unsafe_sites(), list[int]()
    start = torch.full((len(sites), 3, 2, 3), 120, dtype=torch.uint8)
    for n_rows in (SOME_ROWS, 0):
        monkeypatch.setattr(second_round, "SOME_ROWS", n_rows)
        under = victim(tmp_path)
        clean = under.clean[sites.image]
        aim = Aim.at_rival((clean + 1).remainder(3), under.labels[sites.image], clean)
        found = descend(under, sites, aim, start, steps=8, batch_size=64)
        n_changed.append(int(changed(sites, found.patches).sum()))
    assert n_changed[0] > 1.5 * n_changed[1] > 30


def test_where_a_row_proves_the_label_nothing_is_painted_first(tmp_path: Path) -> None:
    """What single masks say would not tell: there a rival needs as little as elsewhere."""
    under, safe = victim(tmp_path), np.asarray(defender().certify(pictures().images, PATCH).safe)
    places = np.stack(np.divmod(np.arange(safe[0].size), safe.shape[2]), axis=1)
    need, blind = (
        needs(under, proved, np.tile(places, (len(safe), 1, 1))).min(axis=2) for proved in (safe, np.zeros_like(safe))
    )
    flat = safe.reshape(len(safe), -1)
    assert need[flat].min() > need[~flat].max()
    assert blind[flat].min() <= blind[~flat].max()
    assert 300 < flat.sum() < flat.size - 300
