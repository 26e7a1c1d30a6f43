"""Masking defenders with real pixels: what is proved holds against patches of any content, and files keep them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from calls import done, told
from PIL import Image
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)
from typer.testing import CliRunner

import majorcert as mc
from majorcert.commands.app import app
from majorcert.core.reach import NO_LABEL
from majorcert.errors import EvidenceError, ModelError, StoreError
from majorcert.files.evidence import load_evidence
from majorcert.files.store import Store
from majorcert.nets import masked, masker
from majorcert.nets.averaging import averaged
from majorcert.nets.boxes import N_NUMBERS, Boxes, under
from majorcert.nets.data import Dataset
from majorcert.nets.ensemble import Ensemble, load_defender
from majorcert.nets.ensemble_file import BOUNDED, write_members
from majorcert.nets.learner import Learner
from majorcert.nets.masked import MaskCutter, centred
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.processes import Processes
from majorcert.nets.recipes import recipe
from majorcert.nets.shards import Progress
from majorcert.nets.train import train

torch.set_num_threads(1)
SIZE, NAMES = (6, 6), ("left", "right", "even")
MASKS = mc.Masks(2, stride=2)
PATCH = mc.Patch(2)


def drawn(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise that is brighter on the left, on the right, or nowhere."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(0, 3, (n,), generator=generator)
    slope = torch.linspace(-0.3, 0.3, SIZE[1]) * torch.tensor([-1.0, 1.0, 0.0])[truth, None, None, None]
    noise = torch.rand(n, 1, *SIZE, generator=generator) * 0.6 - 0.3
    return (0.5 + slope + noise).clamp(0, 1), truth


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    """A small network that learned those images under boxes."""
    torch.manual_seed(0)
    net, boxes = build(CONFIG).train(), Boxes(sides=(2, 3))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    for step in range(80):
        images, truth = drawn(64, step)
        views = under(images, boxes.drawn(torch.rand(64, N_NUMBERS), SIZE))
        loss = F.cross_entropy(net(views), truth)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    return net.eval()


CONFIG = ModelConfig("small", 1, 3, width=4)


def defender(net: torch.nn.Module, masks: mc.Masks | str = MASKS, **options: Any) -> mc.MaskingDefender:
    known: dict[str, Any] = {"image_size": SIZE, "channels": 1, "class_names": NAMES, "config": CONFIG}
    return mc.MaskingDefender(net, masks, **known, **options)


class Outcome(NamedTuple):
    n_safe: int
    """patches tried where the map says safe"""
    n_broken: int
    """of these, those that changed the label"""
    n_open: int
    n_flipped: int


def attacked(of: mc.MaskingDefender, images: torch.Tensor, n_random: int = 20, n_steps: int = 6) -> Outcome:
    """Every placement with contents by lot, and with contents that follow the gradient."""
    verdict, counts = of.certify(images, PATCH), np.zeros(4, dtype=int)
    rows, columns = PATCH.n_placements(SIZE)
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
    boxes = torch.cat([places, torch.tensor([[PATCH.height, PATCH.width]]).expand(len(places), 2)], dim=1)
    inside = ~masked.outside(boxes[:, None], SIZE)[:, None]
    safe = verdict.safe.reshape(len(images), -1)  # type: ignore[union-attr]
    generator = torch.Generator().manual_seed(1)
    for k, image in enumerate(images):
        tries = [torch.rand(n_random, len(places), 1, *SIZE, generator=generator).round(decimals=1)]
        tries += [_steepest(of, image, int(verdict.predicted[k]), inside, tries[0][n], n_steps)[None] for n in range(3)]
        painted = torch.where(inside, torch.cat(tries), image)
        changed = of.predict(painted.flatten(0, 1)).reshape(len(painted), -1) != verdict.predicted[k]
        for place, where in ((0, safe[k]), (2, ~safe[k])):
            counts[place : place + 2] += [len(painted) * where.sum(), changed[:, where].sum()]
    return Outcome(*counts.tolist())


def _steepest(
    of: mc.MaskingDefender, image: torch.Tensor, label: int, inside: torch.Tensor, start: torch.Tensor, n_steps: int
) -> torch.Tensor:
    """Contents that make the network say anything but the label, under every mask that leaves some of the patch."""
    visible = torch.from_numpy(~MASKS.hidden(SIZE))
    content = start.clone()
    for _ in range(n_steps):
        content.requires_grad_(True)
        sheet = centred(torch.where(inside, content, image))
        views = masked.shown(sheet.repeat_interleave(len(visible), dim=0), visible.repeat(len(sheet), 1, 1))
        logits = of.model(views)
        others = logits.clone()
        others[:, label] = -1e9
        (gradient,) = torch.autograd.grad((others.logsumexp(1) - logits[:, label]).sum(), content)
        content = (content.detach() + 0.3 * gradient.sign()).clamp(0, 1)
    return content.detach()


def test_no_patch_changes_a_label_where_the_map_says_safe(network: torch.nn.Module) -> None:
    images, truth = drawn(12, 1000)
    found = defender(network)
    assert (found.predict(images) == truth.numpy()).mean() > 0.7
    outcome = attacked(found, images)
    assert outcome.n_broken == 0
    assert outcome.n_safe > 2000, "nothing to break"
    assert outcome.n_open > 500
    assert outcome.n_flipped > 50, "the attack could not break anything"


def _partly_covering(self: mc.Masks, patch: mc.Patch, image_size: tuple[int, int]) -> Any:
    """A mask counts that hides one pixel of the patch; every placement is a cell of its own."""
    hidden = self.hidden(image_size)
    rows, columns = patch.n_placements(image_size)
    touched = [
        hidden[:, top : top + patch.height, left : left + patch.width].any(axis=(1, 2))
        for top in range(rows)
        for left in range(columns)
    ]
    return np.stack(touched).reshape(rows, columns, -1), np.arange(rows), np.arange(columns)


def _leaking(sheet: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """Hidden pixels are only dimmed."""
    return torch.where(visible[..., None], sheet, sheet / 2).view(len(sheet), 1, *SIZE)


def _other_order(labels: torch.Tensor) -> torch.Tensor:
    """Masks are taken column by column."""
    side = round(labels.shape[1] ** 0.5)
    order = torch.arange(side * side).view(side, side).T.flatten()
    return labels[:, order][:, :, order]


def test_a_mask_that_hides_only_part_of_the_patch_is_caught(
    network: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mc.Masks, "cells", _partly_covering)
    assert attacked(defender(network), drawn(6, 1000)[0], n_random=8).n_broken


def test_a_view_that_sees_hidden_pixels_is_caught(network: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked, "shown", _leaking)
    assert attacked(defender(network), drawn(6, 1000)[0], n_random=8).n_broken


def test_pairs_in_another_order_are_caught(network: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Callable[..., masker.Table] = masker._Look.table
    monkeypatch.setattr(
        masker._Look,
        "table",
        lambda self: (lambda table: table._replace(labels=_other_order(table.labels)))(looked(self)),
    )
    assert attacked(defender(network), drawn(6, 1000)[0], n_random=8).n_broken


def voting(net_seed: int = 0) -> mc.Defender:
    torch.manual_seed(net_seed)
    config = ModelConfig("small", 3, 3, width=4)
    known: dict[str, Any] = {"image_size": SIZE, "channels": 1, "class_names": NAMES, "config": config}
    return mc.Defender(build(config), "columns:2", **known)


def pictures(n: int = 11) -> Dataset:
    images, truth = drawn(n, 2000)
    return Dataset((images * 255).to(torch.uint8), truth, NAMES, "slopes", "test")


def test_a_masking_defender_joins_an_ensemble_of_voters(network: torch.nn.Module, tmp_path: Path) -> None:
    members = [defender(network), voting(), defender(network, "masks:2/1")]
    together, images = Ensemble(members), drawn(9, 3000)[0]
    labels = np.stack([each.predict(images) for each in members])
    assert together.predict(images).tolist() == [np.bincount(row, minlength=3).argmax() for row in labels.T]
    verdict = together.certify(images, PATCH)
    assert verdict.predicted.tolist() == together.predict(images).tolist()
    assert np.array_equal(verdict.certified, mc.majorcert(together.evidence(images), PATCH).certified)
    assert (together.largest_patch(images)[verdict.certified] >= 2).all()
    together.save(tmp_path / "all")
    again = Ensemble.load(tmp_path / "all")
    assert [str(each.strategy) for each in again.defenders] == ["masks:2/2", "columns:2", "masks:2/1"]
    assert again.predict(images).tolist() == together.predict(images).tolist()
    with pytest.raises(ModelError, match="defenders that vote, got masks:2/2, columns:2"):
        together.ballots(images)


def bounded(net: torch.nn.Module, folder: Path) -> Path:
    """An ensemble of voters with a masking defender that takes their place where no patch is larger than 2x2."""
    Ensemble([voting(), voting(1)]).save(folder)
    defender(net).save(folder / BOUNDED)
    return folder


@pytest.mark.parametrize(
    ("bound", "strategies"),
    [
        (None, ["columns:2", "columns:2"]),
        (2, ["masks:2/2"]),
        ((1, 2), ["masks:2/2"]),
        ("3x1", ["columns:2", "columns:2"]),
        ((1, 3), ["columns:2", "columns:2"]),
    ],
)
def test_where_a_bound_is_known_masks_take_the_place_of_voters(
    bound: Any, strategies: list[str], network: torch.nn.Module, tmp_path: Path
) -> None:
    place = bounded(network, tmp_path / "all")
    assert [str(each.strategy) for each in Ensemble.load(place, bound=bound).defenders] == strategies
    voting().save(place / BOUNDED / "x")
    defender(network).save(place / BOUNDED / "y")
    write_members(place / BOUNDED, ["x", "y"])
    mixed = Ensemble.load(place, bound=bound).defenders
    assert {str(each.strategy) for each in mixed} == {"columns:2"}, "voters that know no bound are no bounded ensemble"


@pytest.mark.parametrize(
    ("patches", "masked"),
    [
        ([], False),
        (["2"], True),
        (["1", "2x1"], True),
        (["2x1", "1x3"], False),
        (["3%"], False),
    ],
)
def test_predict_takes_patches_of_the_networks_image_for_a_bound(
    patches: list[str], masked: bool, network: torch.nn.Module, tmp_path: Path
) -> None:
    place = bounded(network, tmp_path / "all")
    Image.fromarray((drawn(1, 0)[0][0, 0] * 255).byte().numpy()).resize((12, 12)).save(tmp_path / "photo.png")
    asked = [word for patch in patches for word in ("--patch", patch)]
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "photo.png"), "--ensemble", str(place), "--json", *asked])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert ["masks" in name for name in row["defenders"]] == ([True] if masked else [False] * 2)
    assert row["presumed"] == ({"masks:2/2": "2x2"} if masked else {})
    assert ("masks:2/2 takes for granted that no patch is larger than 2x2" in done.stderr) == masked


@pytest.mark.parametrize(
    ("words", "strategies"),
    [
        ("--patch 2", ["masks:2/2"]),
        ("--patch 1x2", ["masks:2/2"]),
        ("--patch 2 --no-bound", ["columns:2", "columns:2"]),
        ("--patch 2 --pool", ["columns:2", "columns:2"]),
        ("--patch 3x1", ["columns:2", "columns:2"]),
        ("--patch 3%", ["columns:2", "columns:2"]),
    ],
)
def test_who_answers_predict_is_attacked(
    words: str, strategies: list[str], network: torch.nn.Module, tmp_path: Path
) -> None:
    place, data = bounded(network, tmp_path / "all"), pictures(3)
    np.savez(tmp_path / "data.npz", images=data.images[:, 0], labels=data.labels, class_names=NAMES)
    Image.fromarray(data.images[0, 0].numpy()).save(tmp_path / "photo.png")
    least = [f"--{option}=1" for option in ("restarts", "steps", "placements", "probed", "cheap")]
    attack = ("attack", place, tmp_path / "data.npz", "--split", "trainval", *least, "-o", tmp_path / "out")
    (row,) = told("predict", tmp_path / "photo.png", "--ensemble", place, *words.split())
    assert any("masks" in name for name in row["defenders"]) == (strategies == ["masks:2/2"])
    assert told(*attack, *words.split())["defended"]["about"]["strategies"] == strategies
    assert f"defended ({', '.join(strategies)})" in done(*attack, *words.split())


def test_votes_are_pooled_even_where_a_bound_is_known(network: torch.nn.Module, tmp_path: Path) -> None:
    place = bounded(network, tmp_path / "all")
    Image.new("L", (6, 6)).save(tmp_path / "photo.png")
    how = ["--ensemble", str(place), "--patch", "2", "--method", "pg-pool", "--json"]
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "photo.png"), *how])
    assert done.exit_code == 0, done.output
    assert list(json.loads(done.stdout)[0]["presumed"].values()) == ["2x2"]
    assert "1:masked pool" in next(iter(json.loads(done.stdout)[0]["defenders"]))


def test_a_saved_defender_is_the_same_and_of_its_own_kind(network: torch.nn.Module, tmp_path: Path) -> None:
    found, images = defender(network, training={"epochs": 3}), drawn(9, 3000)[0]
    found.save(tmp_path / "a")
    again = load_defender(tmp_path / "a")
    assert isinstance(again, mc.MaskingDefender)
    assert repr(again) == "MaskingDefender(masks:2/2, 3 classes, images of 6x6)"
    assert again.facts() == found.facts()
    assert np.array_equal(again.pairs(images).labels, found.pairs(images).labels)
    assert np.array_equal(again.largest_patch(images), mc.largest_patch([found.evidence(images)]))
    assert found.to("cpu").facts() == found.facts()
    with pytest.raises(mc.StrategyError, match="masks:2/2"):
        mc.Defender.load(tmp_path / "a")
    empty = found.pairs(images[:0])
    assert (len(empty), found.predict(images[:0]).shape) == (0, (0,))


@pytest.mark.parametrize("spec", ["masks:1/1", "masks:1x5/2", "blocks:1"])
def test_a_file_that_claims_more_regions_than_memory_is_refused(spec: str, tmp_path: Path) -> None:
    (voting() if spec == "blocks:1" else defender(restless())).save(tmp_path)
    known = json.loads((tmp_path / "defender.json").read_text())
    (tmp_path / "defender.json").write_text(json.dumps({**known, "strategy": spec, "image_size": [4096, 4096]}))
    with pytest.raises(ModelError, match=f"the regions of {spec} on 4096x4096 images would take"):
        load_defender(tmp_path)


def test_masks_and_views_of_other_kinds_do_not_mix(network: torch.nn.Module) -> None:
    with pytest.raises(ModelError, match="needs a network of 1 input channels and 3 classes, got 2"):
        mc.MaskingDefender(build(two := replace(CONFIG, in_channels=2)), MASKS, image_size=SIZE, channels=1, config=two)
    with pytest.raises(ModelError, match="a view is 'masked', got 'crop'"):
        replace(recipe("digits", "masks:2/2", 1, 3), view="crop")
    with pytest.raises(ModelError, match=r"'canvas' or 'crop'.* got 'masked' for columns:2"):
        replace(recipe("digits", "columns:2", 1, 3), view="masked")
    with pytest.raises(ModelError, match="boxes hide images under masks"):
        replace(recipe("digits", "masks:2/2", 1, 3), boxes=Boxes())
    with pytest.raises(ModelError, match="for masks, such as 'masks:5/3', got columns:4"):
        recipe("masking", "columns:4", 3, 10)


@pytest.mark.parametrize("certify_only", [False, True])
def test_recorded_tables_are_those_of_the_api(tmp_path: Path, certify_only: bool) -> None:
    """Whether one process writes them or several; and every view is counted."""
    found, data, seen = defender(restless()), pictures(), list[Progress]()
    found.vote(data, tmp_path / "1.zarr", chunk=4, certify_only=certify_only, progress=seen.append)
    for rank in (1, 0):
        found.vote(data, tmp_path / "2.zarr", chunk=4, certify_only=certify_only, rank=rank, world_size=2)
    assert _files(tmp_path / "1.zarr") == _files(tmp_path / "2.zarr")
    assert (seen[-1].done, seen[-1].total) == (11 * 45, 11 * 45)
    recorded, direct = load_evidence(tmp_path / "1.zarr"), found.pairs(data.images)
    assert isinstance(recorded, mc.MaskPairs)
    origin = {"dataset": "slopes", "split": "test", "split_size": 11} | ({"certify_only": True} if certify_only else {})
    assert recorded.provenance == {**direct.provenance, **origin}
    known = recorded.labels != NO_LABEL
    assert known.all() != certify_only
    assert np.array_equal(recorded.labels[known], direct.labels[known])
    assert np.array_equal(recorded.label, direct.label)
    assert np.array_equal(mc.certify([recorded], PATCH).safe, mc.certify([direct], PATCH).safe)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="certify_only"):
        found.vote(data, tmp_path / "1.zarr", chunk=4, certify_only=not certify_only)


def test_a_store_that_is_not_finished_is_refused_and_goes_on(network: torch.nn.Module, tmp_path: Path) -> None:
    found, data = defender(network), pictures()
    found.vote(data, tmp_path / "e.zarr", chunk=4, rank=1, world_size=2)
    with pytest.raises(StoreError, match="incomplete"):
        load_evidence(tmp_path / "e.zarr")
    assert [images.start for images in Store.open(tmp_path / "e.zarr").missing()] == [0, 8]
    found.vote(data, tmp_path / "e.zarr", chunk=4)
    assert len(load_evidence(tmp_path / "e.zarr")) == 11


def test_what_a_kind_cannot_keep_is_refused(network: torch.nn.Module, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="no scores"):
        defender(network).vote(pictures(), tmp_path / "e.zarr", scores=True)
    with pytest.raises(EvidenceError, match="certify-only is for masks"):
        voting().vote(pictures(), tmp_path / "e.zarr", certify_only=True)


def restless() -> torch.nn.Module:
    """A network whose label changes from view to view."""
    torch.manual_seed(3)
    net = build(CONFIG).eval()
    with torch.no_grad():
        net[-1].weight *= 50  # type: ignore[index]
        net[-1].bias -= net(torch.randn(99, 1, *SIZE)).mean(dim=0)  # type: ignore[index]
    return net


def _files(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def test_averages_and_mirror_images_are_masking_defenders(network: torch.nn.Module, tmp_path: Path) -> None:
    torch.manual_seed(1)
    for name, net in (("a", network), ("b", build(CONFIG))):
        defender(net).save(tmp_path / name)
    (made,) = averaged([tmp_path / "a", tmp_path / "b"], tmp_path / "both", mirrored=True)
    assert (str(made.strategy), made.model.name) == ("masks:2/2", "mirror:masked")
    both, images = load_defender(tmp_path / "both"), drawn(5, 4000)[0]
    assert isinstance(both, mc.MaskingDefender)
    view = MaskCutter.of(MASKS, SIZE).take(centred(images), *torch.tensor([[0], [1], [5]]))
    members = [load_defender(tmp_path / name).model for name in "ab"]
    with torch.inference_mode():
        expected = [net(seen).softmax(1) for net in members for seen in (view, view.flip(3))]
        assert torch.allclose(both.model(view).softmax(1), torch.stack(expected).mean(0), atol=1e-6)
    assert len(np.unique(both.pairs(images).labels)) > 1
    (fast,) = averaged([tmp_path / "a", tmp_path / "b"], tmp_path / "fast", mirrored=True, sure=0.9)
    assert fast.model.name == "cascade:0.9"
    assert load_defender(tmp_path / "fast").facts()["network_sha256"] != both.facts()["network_sha256"]
    for wrong in (0.0, 1.5):
        with pytest.raises(ModelError, match=f"above 0 and at most 1, as in 'cascade:0.9', got 'cascade:{wrong:g}'"):
            averaged([tmp_path / "a", tmp_path / "b"], tmp_path / "wrong", sure=wrong)
    (other,) = averaged([tmp_path / "a"], tmp_path / "finer", masks="masks:2/1")
    finer = load_defender(tmp_path / "finer")
    assert (str(other.strategy), str(finer.strategy)) == ("masks:2/1", "masks:2/1")
    assert np.array_equal(finer.evidence(images).label, defender(network, "masks:2/1").predict(images))
    voting().save(tmp_path / "voting")
    with pytest.raises(ModelError, match="a view is 'masked', got 'crop'"):
        averaged([tmp_path / "voting"], tmp_path / "wrong", masks="masks:2/1")
    with pytest.raises(ModelError, match=r"threshold is None there, got 0.3"):
        averaged([tmp_path / "a", tmp_path / "b"], tmp_path / "wrong", threshold=0.3)


def test_training_under_masks_learns_and_resumes_to_the_same_weights(tmp_path: Path) -> None:
    images, truth = drawn(512, 5)
    data = Dataset((images * 255).to(torch.uint8), truth, NAMES, "slopes", "train")
    config = replace(recipe("digits", "masks:2/2", 1, 3), model=CONFIG, epochs=4, warmup=0.0)
    train(config, data, tmp_path / "whole")
    early = {"checkpoint_every": 1, "progress": _stop_in(2)}
    with pytest.raises(KeyboardInterrupt):
        train(config, data, tmp_path / "parts", **early)  # type: ignore[arg-type]
    assert train(config, data, tmp_path / "parts", resume=True).finished
    whole, parts = (load_defender(tmp_path / name) for name in ("whole", "parts"))
    assert whole.weights_sha256 == parts.weights_sha256
    test = pictures(60)
    assert (whole.predict(test.images) == test.labels.numpy()).mean() > 0.6  # type: ignore[union-attr]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a CUDA device")
@pytest.mark.parametrize("greedy", [False, True])
def test_recorded_steps_on_cuda_are_the_steps_themselves(greedy: bool) -> None:
    """Also when the worst pairs are searched and learned from, uphill and from a teacher: it is recorded anew."""
    images, truth = drawn(64, 5)
    data = Dataset((images * 255).to(torch.uint8), truth, NAMES, "slopes", "train")
    config = replace(recipe("digits", "masks:2/2", 1, 3), model=CONFIG, precision="float32", epochs=4, sharp=0.1)
    config = replace(config, boxes=replace(config.boxes, worst_of=3, greedy=greedy))
    teacher = {"teacher": build(CONFIG)} if greedy else {}
    plain, recorded = (Learner(config, data, Processes("cuda"), **teacher) for _ in range(2))
    for epoch in (0, 3):
        assert plain.begin(epoch)
        assert recorded.begin(epoch)
        advance = recorded.recorded()
        for learner, step in ((plain, plain.step), (recorded, advance)):
            learner.prepare(torch.arange(64, device="cuda"), epoch, 1)
            step()
        for name, tensor in plain.state().items():
            torch.testing.assert_close(recorded.state()[name], tensor, rtol=1e-2, atol=1e-3, msg=name)


def _stop_in(epoch: int) -> Callable[[Any], None]:
    def stop(at: Any) -> None:
        if at.epoch == epoch:
            raise KeyboardInterrupt

    return stop
