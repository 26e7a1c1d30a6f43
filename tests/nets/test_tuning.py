"""A network of the user's own: learns on from its own weights, is kept with its factory, and serves every verb."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import majorcert as mc
from majorcert.errors import ModelError
from majorcert.nets.data import Dataset

torch.set_num_threads(1)
SOURCE = """
import torch
from torch import nn
def small(channels=3):
    torch.manual_seed(1)
    layers = nn.Conv2d(channels, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(24, 2))
def five():
    return small(5)
"""
QUICK: dict[str, Any] = {"batch_size": 16, "device": "cpu", "progress": None}


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "nets_to_tune.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "nets_to_tune", raising=False)
    import nets_to_tune  # type: ignore[import-not-found]

    return nets_to_tune


def pictures(n: int = 48) -> Dataset:
    """Dark ones and light ones."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=n)
    images = rng.integers(0, 128, size=(n, 3, 10, 8)) + 127 * labels[:, None, None, None]
    images = torch.from_numpy(images.astype(np.uint8))
    return Dataset(images, torch.from_numpy(labels), ("dark", "light"), "shades", "train")


@pytest.mark.parametrize(("spec", "made"), [("masks:2/4", "small"), ("columns:3", "five")])
def test_training_begins_with_its_own_weights_and_is_loaded_by_its_factory(
    nets: Any, tmp_path: Path, spec: str, made: str
) -> None:
    network: nn.Module = getattr(nets, made)()
    place, data = f"nets_to_tune:{made}", pictures()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    options = {"strategies": [spec], "model": network, "factory": place, **QUICK}
    mc.train(data, tmp_path / "still", lr=0.0, epochs=1, weight_decay=0.0, **options)
    plan: list[str] = []
    mc.train(options.pop("model"), data, tmp_path / "tuned", epochs=2, told=plan.append, **options)
    assert plan[0].startswith(f"{spec}: factory:{place}, 2 epochs of 48 images")
    assert plan[1].endswith("; --epochs and --size change it")
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items()), "it was copied"
    with pytest.raises(ModelError, match=f"--allow-factory {place}"):
        mc.Ensemble.load(tmp_path / "tuned")
    still, tuned = (mc.Ensemble.load(tmp_path / name, allow=place).defenders[0] for name in ("still", "tuned"))
    kept = [each.model.state_dict() for each in (still, tuned)]  # type: ignore[attr-defined]
    last = next(name for name in kept[0] if name.endswith("4.weight"))
    assert torch.allclose(kept[0][last], before["4.weight"], atol=1e-6)
    assert not torch.allclose(kept[1][last], before["4.weight"], atol=1e-4)
    other = getattr(nets, made)()
    nn.init.zeros_(other[4].weight)
    with pytest.raises(ModelError, match="begun_with was"):
        mc.train(data, tmp_path / "tuned", epochs=2, resume=True, **{**options, "model": other})


def test_a_frozen_part_stays_as_it_is(nets: Any, tmp_path: Path) -> None:
    network = nets.small()
    network[0].weight.requires_grad_(False)
    options = {"strategies": ["masks:2/4"], "model": network, "factory": "nets_to_tune:small", **QUICK}
    mc.train(pictures(), tmp_path / "run", epochs=1, weight_decay=0.1, **options)
    kept = mc.Ensemble.load(tmp_path / "run", allow="nets_to_tune:small").defenders[0].model.state_dict()  # type: ignore[attr-defined]
    assert torch.allclose(kept["members.0.0.weight"], network[0].weight, atol=1e-6)
    assert not torch.allclose(kept["members.0.4.weight"], network[4].weight, atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"factory": None}, "factory='package.module:function'"),
        ({"model": lambda views: views}, "torch module"),
        ({"strategies": ["bounds:2"]}, "views or masks"),
        ({"mean": (0.5,), "std": (0.5, 0.5)}, "one number for each channel"),
        ({"mean": (0.5, 0.5)}, "one number for each channel"),
        ({"mean": (0.5,), "std": (0.5,)}, "mean and std are of 3 channels, got 1 numbers"),
        ({"strategies": ["columns:3"]}, "cannot take 5x10x3 views"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(240, 3))}, "3 classes apart, and the images have 2"),
    ],
)
def test_what_cannot_be_trained_is_refused(nets: Any, tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    given = {"strategies": ["masks:2/4"], "model": nets.small(), "factory": "nets_to_tune:small", **wrong}
    with pytest.raises(ModelError, match=said):
        mc.train(pictures(), tmp_path / "run", **QUICK, **given)


@pytest.mark.slow
def test_every_verb_takes_a_network_of_your_own(nets: Any, tmp_path: Path) -> None:
    """From the command line, in the folder where its module is; refused by each verb that is not allowed to call it."""
    data = pictures()
    np.savez(
        tmp_path / "shades.npz",
        images=data.images.permute(0, 2, 3, 1).numpy(),
        labels=data.labels,
        test_images=data.images[:6].permute(0, 2, 3, 1).numpy(),
        test_labels=data.labels[:6],
        class_names=["dark", "light"],
    )
    source = str(Path(mc.__file__).parents[1])

    def run(*words: str, expected: int = 0) -> str:
        code = f"import sys; sys.path.insert(0, {source!r}); from majorcert.__main__ import main; main()"
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == expected, done.stderr
        return done.stdout + done.stderr

    own, allowed = ["--model", "factory:nets_to_tune:small"], ["--allow-factory", "nets_to_tune:small"]
    run("train", "shades.npz", "-o", "run", "--strategy", "masks:2/4", "--epochs", "3", "--batch-size", "16", *own)
    assert "--allow-factory nets_to_tune:small" in run("vote", "run", "shades.npz", expected=2)
    run("vote", "run", "shades.npz", *allowed)
    run("certify", "run/shades.npz-test.zarr", "--patch", "2", "-o", "verdict.jsonl")
    check = ["verify", "verdict.jsonl", "--evidence", "run/shades.npz-test.zarr", "--images", "shades.npz"]
    assert "--allow-factory" in run(*check, "--weights", "run", expected=2)
    run(*check, "--weights", "run", *allowed)
    few = ["--restarts", "1", "--steps", "2", "--placements", "1", "--probed", "1", "--cheap", "2", "--limit", "2"]
    assert "--allow-factory" in run("attack", "run", "shades.npz", "--patch", "2", "-o", "tried", *few, expected=2)
    run("attack", "run", "shades.npz", "--patch", "2", "-o", "tried", *few, *allowed)
    assert json.loads((tmp_path / "run" / "defender.json").read_text())["model"]["name"].startswith("normal:")
