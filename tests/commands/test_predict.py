"""`predict` behind masks looks at no more than its promise asks for, and says what whole tables say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from calls import told
from PIL import Image

import majorcert as mc
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.scorer import Scorer

torch.set_num_threads(1)
SIZE, N_MASKS, N_IMAGES = (8, 8), 16, 40
N_PAIRS = N_MASKS * (N_MASKS + 1) // 2


def pictures() -> Any:
    """Colours by lot, from hardly any contrast to much."""
    rng = np.random.default_rng(5)
    spread = np.linspace(0, 1, N_IMAGES)[:, None, None, None]
    return (128 + spread * (rng.integers(0, 256, size=(N_IMAGES, *SIZE, 3)) - 128)).astype(np.uint8)


def about(channels: int) -> dict[str, Any]:
    config = ModelConfig("small", channels, 3, width=4)
    return {"image_size": SIZE, "class_names": ("red", "green", "blue"), "config": config}


def undecided(channels: int) -> torch.nn.Module:
    torch.manual_seed(1)
    network: Any = build(about(channels)["config"]).eval()
    with torch.no_grad():
        network[-1].bias -= network(torch.randn(99, channels, *SIZE) / 2).mean(dim=0)
    return network


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masking defender and one that votes, whose labels differ from view to view on some of the pictures."""
    out = tmp_path_factory.mktemp("predict")
    mc.MaskingDefender(undecided(3), "masks:2/2", **about(3)).save(out / "masked")
    mc.Defender(undecided(5), "rows:2", threshold=None, **about(5)).save(out / "rows")
    (out / "photos").mkdir()
    for k, image in enumerate(pictures()):
        Image.fromarray(image).save(out / "photos" / f"{k:02d}.png")
    return out


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of views that networks are given."""
    found: list[int] = []
    score: Callable[..., Any] = Scorer.score

    def counted(self: Scorer, n_views: int, *rest: Any) -> Any:
        found.append(n_views)
        return score(self, n_views, *rest)

    monkeypatch.setattr(Scorer, "score", counted)
    return found


def views_of(asked: Callable[[], Any], seen: list[int]) -> tuple[Any, int]:
    seen.clear()
    return asked(), sum(seen)


@pytest.mark.parametrize("promise", ["recovery", "detection"])
@pytest.mark.parametrize("members", [("masked",), ("masked", "rows")])
def test_less_is_looked_at_and_the_same_is_said(
    promise: str, members: tuple[str, ...], folder: Path, seen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble = [word for member in members for word in ("--ensemble", folder / member)]
    command = ("predict", folder / "photos", *ensemble, "--patch", "2", "--patch", "1x2", "--promise", promise)
    rows, n_views = views_of(lambda: told(*command), seen)
    whole: Callable[..., Any] = mc.MaskingDefender._recording
    monkeypatch.setattr(mc.MaskingDefender, "_recording", lambda self, promise, told=None: whole(self, None))
    all_rows, n_all = views_of(lambda: told(*command), seen)
    assert rows == all_rows
    assert n_all == N_IMAGES * (N_PAIRS + SIZE[0] * (len(members) - 1))
    n_saved = N_IMAGES * (N_PAIRS - 2 * N_MASKS) if promise == "detection" else N_IMAGES * N_MASKS
    assert n_all - n_views > n_saved
    proved = [row["certified"]["2x2"] for row in rows]
    assert 5 < sum(proved) < N_IMAGES - 5


def test_detection_takes_the_views_of_a_label(folder: Path, seen: list[int]) -> None:
    """Each mask alone, and of two the rows that dissent."""
    (defender,) = mc.Ensemble.load(folder / "masked").defenders
    labels, n_views = views_of(lambda: defender.predict(pictures()), seen)
    found, n_watched = views_of(lambda: defender.detect(pictures(), mc.Patch(2)), seen)
    assert found.predicted.tolist() == labels.tolist()
    assert n_watched == n_views > N_IMAGES * N_MASKS
    singles = defender.pairs(pictures()).singles()  # type: ignore[attr-defined]
    assert 5 < (singles != singles[:, :1]).any(axis=1).sum() < N_IMAGES - 5
