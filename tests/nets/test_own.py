"""Networks of the user's own behind masks: they get the colours they know, and are made only when that is allowed."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import majorcert as mc
from majorcert.errors import ModelError
from majorcert.nets import imagenet
from majorcert.nets.averaging import averaged
from majorcert.nets.efficientnet import SIDES, Same, efficientnet
from majorcert.nets.folded import folded
from majorcert.nets.masked import COLOURS
from majorcert.nets.masker import _Look
from majorcert.nets.models import ModelConfig, build, n_weights
from majorcert.nets.protect import guarded, masks_for

torch.set_num_threads(1)
SIZE, MEAN, STD = (12, 10), (0.3, 0.5, 0.7), (0.2, 0.25, 0.5)
MODULE = "my_nets_of_this_test"
SOURCE = """
import torch
calls = []
def make():
    calls.append(1)
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(360, 3))
def views():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(180, 3))
def number():
    return 5
def broken():
    raise KeyError("weights")
"""


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return f"{MODULE}:make"


def pictures(n: int = 4) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, size=(n, *SIZE, 3), dtype=np.uint8)


def classifier() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(360, 3))


def protected(model: nn.Module, **more: Any) -> mc.MaskingDefender:
    return mc.protect(model, (2, 3), image_size=SIZE, mean=MEAN, std=STD, masks=3, **more)


@pytest.mark.parametrize(("patch", "size", "n"), [(32, (224, 224), 6), ((5, 40), (60, 90), 4), (3, (3, 3), 6)])
def test_masks_are_the_smallest_that_cover_every_placement(patch: Any, size: tuple[int, int], n: int) -> None:
    patch = mc.Patch(*patch) if isinstance(patch, tuple) else mc.Patch(patch)
    masks = masks_for(patch, size, n)
    assert masks.covering(patch, size).any(axis=2).all()
    assert masks.n_masks(size) <= n**2
    if masks.stride > 1:
        smaller = mc.Masks(patch.height, patch.width, stride=masks.stride - 1)
        down, across = smaller.hidden(size).any(axis=2), smaller.hidden(size).any(axis=1)
        assert max(len(np.unique(each, axis=0)) for each in (down, across)) > n


def test_the_network_gets_the_colours_that_it_was_trained_on() -> None:
    seen: list[Tensor] = []

    class Spy(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(images)
            return images.flatten(1)[:, :3]

    image = pictures(1)
    guarded = protected(Spy())
    seen.clear()
    guarded.predict(image)
    mean, std = (torch.tensor(each)[:, None, None] for each in (MEAN, STD))
    expected = (torch.from_numpy(image[0]).permute(2, 0, 1) / 255 - mean) / std
    hidden = torch.from_numpy(guarded.strategy.hidden(SIZE))
    grey = ((torch.tensor(COLOURS[0])[:, None, None] - mean) / std).expand(3, *SIZE)
    for view, mask in zip(seen[0][: len(hidden)], hidden, strict=True):
        assert torch.allclose(view, torch.where(mask, grey, expected), atol=1e-5)


def test_what_is_certified_of_a_protected_network_holds() -> None:
    guarded, rng, tried = protected(classifier()), np.random.default_rng(1), 0
    images = np.concatenate([pictures(20), np.full((3, *SIZE, 3), 90, np.uint8)])
    verdict = guarded.certify(images, (2, 3))
    assert verdict.safe is not None
    assert len(set(verdict.certified)) == 2
    for k in np.flatnonzero(verdict.safe.any(axis=(1, 2))):
        for top, left in rng.permutation(np.argwhere(verdict.safe[k]))[:6]:
            painted = images[[k]].copy()
            painted[:, top : top + 2, left : left + 3] = rng.choice([0, 255], size=(1, 2, 3, 3))
            assert guarded.predict(painted)[0] == verdict.predicted[k]
            tried += 1
    assert tried > 50


def test_a_function_is_called_only_if_the_user_allows_it(factory: str, tmp_path: Path) -> None:
    images = pictures()
    guarded = protected(classifier(), factory=factory, class_names=("a", "b", "c"))
    guarded.save(tmp_path / "guarded")
    for allowed in ((), "os:getcwd", ("other:make", f"{MODULE}:number")):
        with pytest.raises(ModelError, match=f"--allow-factory {factory}"):
            mc.Ensemble.load(tmp_path / "guarded", allow=allowed)
    assert MODULE not in sys.modules
    again = mc.Ensemble.load(tmp_path / "guarded", allow=factory).defenders[0]
    assert sys.modules[MODULE].calls == [1]
    assert again.class_names == ("a", "b", "c")
    assert np.array_equal(again.pairs(images).labels, guarded.pairs(images).labels)
    assert again.fingerprints() == guarded.fingerprints()


@pytest.mark.parametrize("masked", [True, False])
def test_any_defender_is_kept_with_its_factory(factory: str, tmp_path: Path, masked: bool) -> None:
    torch.manual_seed(3)
    about: dict[str, Any] = {"image_size": SIZE, "factory": f"{MODULE}:{'make' if masked else 'views'}"}
    if masked:
        own: mc.Defender | mc.MaskingDefender = mc.MaskingDefender(classifier(), "masks:3/4", **about)
    else:
        own = mc.Defender(nn.Sequential(nn.Flatten(), nn.Linear(5 * 12 * 3, 3)), "columns:3", **about)
    with pytest.raises(ModelError, match="factory="):
        mc.MaskingDefender(classifier(), "masks:3/4", image_size=SIZE).save(tmp_path / "none")
    own.save(tmp_path / "own")
    again = mc.Ensemble.load(tmp_path / "own", allow=about["factory"]).defenders[0]
    assert np.array_equal(again.evidence(pictures()).labels, own.evidence(pictures()).labels)  # type: ignore[attr-defined]


def test_networks_of_your_own_are_averaged_where_that_is_allowed(factory: str, tmp_path: Path) -> None:
    other = classifier()
    nn.init.normal_(other[1].weight, generator=torch.Generator().manual_seed(5))  # type: ignore[index, union-attr, arg-type]
    for name, network in (("one", classifier()), ("two", other)):
        protected(network, factory=factory).save(tmp_path / name)
    runs = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(ModelError, match="--allow-factory"):
        averaged(runs, tmp_path / "refused")
    averaged(runs, tmp_path / "both", mirrored=True, sure=0.9, allow=factory)
    both = mc.Ensemble.load(tmp_path / "both", allow=factory)
    assert both.predict(pictures()).shape == (4,)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"factory:{MODULE}:number", "torch.nn.Module, got int"),
        (f"factory:{MODULE}:broken", "KeyError"),
        (f"factory:{MODULE}:none", "AttributeError"),
        ("factory:not_there_at_all:make", "ModuleNotFoundError"),
        ("factory:os.system", "package.module:function"),
        ("factory:a:b(c)", "package.module:function"),
    ],
)
def test_what_makes_no_network_is_refused(factory: str, name: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build(ModelConfig(name, 3, 3), [name.removeprefix("factory:")])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mean": (0.5, 0.5)}, "one number for each channel"),
        ({"std": (0.2, 0.2, 0)}, "above 0"),
        ({"mean": (0.5,), "std": (0.5,)}, "3 channels, got 1"),
        ({"image_size": None}, "image_size"),
        ({"factory": "nothing"}, "package.module:function"),
        ({"masks": 0}, "masks down and across"),
        ({"class_names": ("a",)}, "3 classes apart, got 1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    given = {"image_size": SIZE, "mean": MEAN, "std": STD, "masks": 3, **wrong}
    with pytest.raises(mc.MajorcertError, match=said):
        mc.protect(classifier(), 2, **given)


def test_a_network_that_looks_at_its_batch_is_refused() -> None:
    with pytest.raises(ModelError, match="batch"):
        protected(nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), classifier()))


@pytest.mark.parametrize(("side", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (8, 5, 2), (9, 5, 2), (10, 3, 3)])
def test_padding_gives_every_nth_place(side: int, kernel: int, stride: int) -> None:
    """As "same" padding of whole numbers: so many outputs as places, and the odd zero on the right."""
    padded = Same(kernel, stride)(torch.ones(1, 1, side, side))
    n_out = -(-side // stride)
    assert (padded.shape[3] - kernel) // stride + 1 == n_out
    assert padded.shape[3] == max(side, (n_out - 1) * stride + kernel)
    left = int(padded[0, 0, side // 2].argmax())
    assert left == (padded.shape[3] - side) // 2


def test_efficientnets_have_the_published_sizes_and_fold() -> None:
    """4.65, 5.42 and 6.09 million weights; folded for voting, the same function."""
    counts = [n_weights(ModelConfig(f"efficientnet-{name}", 3, 1000)) for name in SIDES]
    assert [round(count / 1e6, 2) for count in counts] == [4.65, 5.42, 6.09]
    torch.manual_seed(0)
    network = efficientnet("lite0", 3, 5).eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr, operator]
    views = torch.rand(2, 3, 65, 64)
    with torch.inference_mode():
        assert torch.allclose(network(views), folded(network)(views), atol=1e-4)


def test_weights_come_from_the_very_file_and_nothing_in_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / "lite0.pth"
    network = build(ModelConfig("efficientnet-lite0", 3, 1000))
    torch.save({f"other.{name}": tensor for name, tensor in network.state_dict().items()}, file)
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(imagenet.util, "find_spec", lambda name: found if "lite0" in name else None)
    with pytest.raises(ModelError, match=r"SHA-256 is 5793"):
        imagenet.pretrained()
    monkeypatch.setitem(imagenet.WEIGHTS, "lite0", hashlib.sha256(file.read_bytes()).hexdigest())
    loaded = imagenet.pretrained("imagenet")
    got = loaded.network.members[0].state_dict()  # type: ignore[union-attr, operator]
    assert all(torch.equal(got[name], tensor) for name, tensor in network.state_dict().items())
    assert (loaded.side, len(set(loaded.class_names))) == (224, 1000)
    with pytest.raises(ModelError, match=r"pip install 'majorcert\[imagenet\]' brings it"):
        imagenet.pretrained("imagenet:lite1")
    with pytest.raises(ModelError, match="lite0, lite1, lite2"):
        imagenet.pretrained("imagenet:huge")
    with pytest.raises(ModelError, match=r"known by name are 'imagenet' .* got 'resnet50'"):
        mc.protect("resnet50", "2%")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small network in place of ImageNet's, so that nothing need be downloaded."""
    config = ModelConfig("small", 3, 4, width=4)
    torch.manual_seed(0)
    network: Any = build(config).eval()
    with torch.no_grad():  # so that it says every class now and then
        network[-1].weight *= 2 / network(views := torch.randn(64, 3, 24, 24)).std(dim=0)[:, None]
        network[-1].bias -= network(views).mean(dim=0)
    known = {"photos": {"fit": "crop", "filter": "bicubic", "channels": 3}}
    found = imagenet.Pretrained(network, config, 24, ("cat", "dog", "emu", "fly"), known)
    monkeypatch.setattr("majorcert.nets.protect.pretrained", lambda name: found)


def test_any_photo_is_predicted_with_its_certificate(stand_in: None, tmp_path: Path) -> None:
    from PIL import Image
    from typer.testing import CliRunner

    from majorcert.commands.app import app

    rng = np.random.default_rng(2)
    Image.fromarray(rng.integers(0, 256, size=(30, 200, 3), dtype=np.uint8)).save(tmp_path / "0.png")
    Image.new("RGB", (50, 50), "grey").save(tmp_path / "1.png")
    files = [str(tmp_path / f"{k}.png") for k in range(2)]
    done = CliRunner().invoke(app, ["predict", *files, "--ensemble", "imagenet", "--patch", "2%", "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    labels = [row["label"] for row in rows]
    # Each photo has masks of its own, as its size needs; the label is told first, and is the one that is certified.
    assert [f"{file}: {label}" in done.stderr for file, label in zip(files, labels, strict=True)] == [True] * 2
    meant = [row["network_pixels"]["2%"] for row in rows]
    assert len({next(iter(row["defenders"])) for row in rows}) == len(set(meant)) > 1
    verdict = mc.protect("imagenet", meant[0]).certify(Image.open(files[0]), mc.Patch.parse(meant[0]))
    assert (labels[0], rows[0]["certified"]["2%"]) == (verdict.named()[0], bool(verdict.certified[0]))  # type: ignore[attr-defined]
    assert rows[1]["certified"]["2%"]


@pytest.mark.parametrize("promise", ["recovery", "detection"])
def test_no_view_of_a_photo_is_looked_at_twice(promise: Any, stand_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The label is told on the way: the views that it takes are the first of those for the certificate."""
    seen: list[tuple[int, ...]] = []
    at: dict[str, int] = {}
    views: Callable[..., Any] = _Look.views

    def spied(self: _Look, *place: torch.Tensor) -> Any:
        seen.extend(zip(*(each.tolist() for each in place), strict=True))
        return views(self, *place)

    photo = torch.randint(0, 256, (1, 3, 24, 24), generator=torch.Generator().manual_seed(7)).to(torch.uint8)
    guard = mc.protect("imagenet", 2)
    whole = guard.pairs(photo)
    monkeypatch.setattr(_Look, "views", spied)
    said = guard.class_names[guard.predict(photo)[0]]
    n_label, seen[:] = len(seen), []

    def told(label: str) -> None:
        at[label] = len(seen)

    ensemble = mc.Ensemble([mc.protect("imagenet", 1)])
    (found,) = guarded(ensemble, photo, [mc.Patch(2)], promise=promise, told=told, progress=lambda *_: None)
    assert len(seen) == len(set(seen))
    assert at == {said: n_label}
    assert 36 < n_label < 666
    assert (n_label == len(seen)) == (promise == "detection")
    for patch in (mc.Patch(1), mc.Patch(2)):
        judge: Any = {"recovery": mc.certify, "detection": mc.detect}[promise]
        assert np.array_equal(judge([found], patch).safe, judge([whole], patch).safe)


def test_a_classifier_that_is_known_by_name_brings_its_own_facts(stand_in: None) -> None:
    for given in ({"image_size": (32, 32)}, {"channels": 1}, {"class_names": ["a", "b"]}, {"mean": (0.5, 0.5, 0.5)}):
        with pytest.raises(mc.ModelError, match="'imagenet' has its own image size, classes and colours"):
            mc.protect("imagenet", 2, **given)  # type: ignore[arg-type]


def test_other_masks_and_pairs_left_out_change_nothing_that_is_proved(stand_in: None) -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(3, 24, 24, 3), dtype=np.uint8)
    wide = mc.protect("imagenet", 5)
    small = wide.behind(masks_for(mc.Patch(2), (24, 24)))
    assert small.facts() == mc.protect("imagenet", 2).facts()
    whole, some = small.pairs(images), small.pairs(images, promise="recovery")
    assert (some.labels == -1).any()
    assert np.array_equal(whole.label, some.label)
    for side in (1, 2):
        assert np.array_equal(mc.certify([whole], side).safe, mc.certify([some], side).safe)


def test_a_classifier_without_masks_is_no_ensemble_yet() -> None:
    with pytest.raises(ModelError, match=r'mc.protect\("imagenet:lite2", "2%"\)'):
        mc.Ensemble.load("imagenet:lite2")
