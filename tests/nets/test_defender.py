"""Defender and Ensemble: what they say is what the certificate is about, and files that are not theirs are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import majorcert as mc
from majorcert.errors import DataError, ModelError
from majorcert.files.names import file_names
from majorcert.nets.data import Dataset
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.images import sha256
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.views import View, in_channels

torch.set_num_threads(1)
SIZE = (8, 10)
NAMES = ("ant", "bee", "cat", "dog")


def defender(
    spec: str = "columns:3", view: View = "crop", seed: int = 0, channels: int = 3, **options: Any
) -> Defender:
    torch.manual_seed(seed)
    config = ModelConfig("small", in_channels(view, channels), len(NAMES), width=8)
    network = build(config)
    with torch.no_grad():
        centred = network[-1].weight - network[-1].weight.mean(dim=1, keepdim=True)  # type: ignore[index, operator]
        network[-1].weight.copy_(40 * centred)  # type: ignore[index, operator] # opinions strong enough to vote
    about: dict[str, Any] = {"image_size": SIZE, "channels": channels, "class_names": NAMES, "config": config}
    return Defender(network, spec, view, 0.3, **{**about, **options})


def three() -> list[Defender]:
    return [defender("rows:3", seed=2), defender("columns:3", "canvas", seed=1), defender("blocks:4", seed=5)]


def pictures(n: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    colour = torch.rand(n, 3, 1, 1, generator=generator)
    return (200 * colour + 55 * torch.rand(n, 3, *SIZE, generator=generator)).to(torch.uint8)


def test_a_defender_predicts_what_it_certifies() -> None:
    found, images = defender("blocks:3", seed=4), pictures(40)
    ballots = found.ballots(images)
    np.testing.assert_array_equal(found.predict(images), ballots.label)
    for bound in ("margin", "local"):
        verdict = found.certify(images, mc.Patch(1), bound=bound)  # type: ignore[arg-type]
        np.testing.assert_array_equal(verdict.predicted, found.predict(images))
        np.testing.assert_array_equal(verdict.certified, mc.drs(ballots, mc.Patch(1), bound=bound).certified)  # type: ignore[arg-type]
    assert 0 < verdict.certified.sum() < len(images)


def test_an_ensemble_predicts_what_it_certifies() -> None:
    ensemble, images = Ensemble(three()), pictures(40)
    labels = np.stack([each.predict(images) for each in ensemble.defenders], axis=1)
    assert (labels.min(axis=1) != labels.max(axis=1)).any(), "the defenders should not always agree"
    for reach in ("exact", "paper"):
        verdict = ensemble.certify(images, mc.Patch(1), reach=reach)  # type: ignore[arg-type]
        np.testing.assert_array_equal(verdict.predicted, ensemble.predict(images))
    largest = ensemble.largest_patch(images)
    np.testing.assert_array_equal(largest >= 1, ensemble.certify(images, mc.Patch(1)).certified)


def test_ballots_are_the_scores_at_the_threshold() -> None:
    found, images = defender(), pictures()
    scores = found.scores(images)
    assert scores.shape == (12, 10, 4)
    assert scores.dtype == np.float32
    expected = mc.Ballots.from_scores(scores, threshold=0.3, strategy="columns:3", image_size=SIZE)
    np.testing.assert_array_equal(found.ballots(images).counts(), expected.counts())
    assert found.ballots(images).provenance["images_sha256"] == sha256(images)


def test_a_threshold_may_be_numpys(tmp_path: Path) -> None:
    defender = Defender(_mean, "columns:3", threshold=np.float32(0.3), image_size=SIZE)
    defender.evidence(np.zeros((2, *SIZE, 3), np.uint8)).save(tmp_path / "evidence")
    assert mc.load_evidence(tmp_path / "evidence").provenance["threshold"] == pytest.approx(0.3)


@pytest.mark.parametrize("threshold", [None, 0.3])
def test_ballots_carry_their_distances_from_the_same_pass(threshold: float | None) -> None:
    passes: list[int] = []

    def network(views: torch.Tensor) -> torch.Tensor:
        passes.append(len(views))
        return 5 * views.mean(dim=(2, 3))

    found = Defender(network, "columns:3", "crop", threshold, image_size=SIZE)
    passes.clear()
    scores, n_passes = found.scores(pictures()), len(passes)
    ballots = found.ballots(pictures())
    expected = mc.Ballots.from_scores(scores, threshold=threshold, strategy="columns:3", image_size=SIZE)
    np.testing.assert_array_equal(ballots.distance, expected.distance)
    assert len(passes) - n_passes == n_passes - 1, "one pass was to see whether the network looks at its batch"
    none = found.ballots(pictures()[:0])
    assert none.distance is not None
    assert none.tolerating(0.1).fragile is not None
    assert len(none) == 0
    tolerant = ballots.tolerating(0.05)
    assert 0 < tolerant.fragile.sum() < tolerant.fragile.size  # type: ignore[union-attr]


def test_images_may_come_in_any_of_the_ways_that_are_promised() -> None:
    found, images = defender(), pictures()
    expected = found.ballots(images).labels
    arrays = images.numpy().transpose(0, 2, 3, 1)
    for same in (arrays, images.float() / 255, images.double() / 255, arrays.astype(np.float32) / 255):
        np.testing.assert_array_equal(found.ballots(same).labels, expected)
    grey = defender(channels=1)
    np.testing.assert_array_equal(grey.ballots(arrays[..., 0]).labels, grey.ballots(images[:, :1]).labels)
    assert len(found.predict(images[:0])) == 0
    assert found.scores(images[:0]).shape == (0, 10, 4)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(3, 8, 10), r"one image needs a first axis, images\[None\]"),
        (torch.zeros(2, 3, 10, 8), r"expected a tensor of shape \(N, 3, 8, 10\), got shape \(2, 3, 10, 8\)"),
        (np.zeros((2, 3, 8, 10), np.uint8), r"expected an array of shape \(N, 8, 10, 3\), got shape \(2, 3, 8, 10\)"),
        (torch.full((1, 3, 8, 10), 255.0), "run from 0 to 1; divide by 255"),
        (torch.full((1, 3, 8, 10), float("nan")), "look for NaN"),
        (torch.zeros(1, 3, 8, 10, dtype=torch.int64), r"uint8 \(0 to 255\) or floating point"),
        (np.zeros((1, 8, 10, 3), np.int32), r"uint8 \(0 to 255\) or floating point"),
        ([[0]], "tensors, arrays or PIL images, got"),
    ],
)
def test_images_of_another_kind_are_refused(images: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        defender().predict(images)


def test_a_users_own_network_needs_no_more_than_to_be_callable() -> None:
    def brightest_channel(views: torch.Tensor) -> torch.Tensor:
        return 20 * views[:, :3].mean(dim=(2, 3))

    found = Defender(brightest_channel, "blocks:4", "crop", None, image_size=SIZE)
    images = pictures(4) // 4
    for k in range(3):
        images[k, k] += 150
    np.testing.assert_array_equal(found.predict(images[:3]), [0, 1, 2])
    assert found.certify(images[:3], mc.Patch(1)).certified.all()
    assert found.class_names == ("0", "1", "2")
    assert found.ballots(images).provenance["weights_sha256"] is None
    with pytest.raises(ModelError, match="saved with the ModelConfig"):
        found.save("anywhere")


def test_a_users_own_module_is_used_in_eval_mode_and_left_alone() -> None:
    network = nn.Sequential(nn.Conv2d(5, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    found = Defender(network, "columns:3", image_size=SIZE)
    images = pictures(6)
    alone = np.concatenate([found.scores(image[None]) for image in images])
    np.testing.assert_array_equal(found.scores(images), alone)
    assert network.training
    assert network[1].num_batches_tracked == 0


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            lambda views: views.mean(dim=(2, 3)) - views.mean(dim=(0, 2, 3)) * 9,
            "changes with the other views of the batch",
        ),
        (lambda views: views, r"logits of shape \(32, classes\), got \(32, 5, 8, 3\)"),
        (lambda views: "cat", r"got str"),
        (nn.Conv2d(6, 3, 3), "the network cannot take 5x8x3 views"),
    ],
)
def test_networks_that_cannot_be_certified_are_refused(network: Callable[..., Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Defender(network, "columns:3", image_size=SIZE)


def test_class_names_must_fit_the_network() -> None:
    with pytest.raises(ModelError, match="tells 5 classes apart, got 2 class names"):
        Defender(lambda views: views.mean(dim=(2, 3)), "columns:3", image_size=SIZE, class_names=["a", "b"])
    config = ModelConfig("small", 5, 4, width=8)
    with pytest.raises(ModelError, match="6 input channels"):
        Defender(build(config), "columns:3", "canvas", image_size=SIZE, config=config)


def test_a_saved_defender_comes_back_the_same(tmp_path: Path) -> None:
    found, images = defender(), pictures()
    found.save(tmp_path / "d")
    again = Defender.load(tmp_path / "d")
    np.testing.assert_array_equal(again.scores(images), found.scores(images))
    assert again.weights_sha256 == found.weights_sha256
    assert (again.strategy, again.view, again.threshold, again.class_names) == (mc.Columns(3), "crop", 0.3, NAMES)
    assert repr(again) == "Defender(columns:3, crop, 4 classes, images of 8x10)"


def _truncate(folder: Path) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _flip_a_bit(folder: Path) -> None:
    path = folder / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _edit(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "defender.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


def _weights_of_another_strategy(folder: Path) -> None:
    defender("rows:3", seed=9).save(folder.parent / "other")
    (folder / "weights.safetensors").write_bytes((folder.parent / "other" / "weights.safetensors").read_bytes())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncate, "SHA-256 differs"),
        (_flip_a_bit, "SHA-256 differs"),
        (_weights_of_another_strategy, "SHA-256 differs"),
        (_edit(class_names=["ant", "bee"]), "classes needs a network of 5 input channels and 2 classes, got 5 and 4"),
        (_edit(strategy="columns:99"), "columns:99 does not fit in a 8x10 image"),
        (_edit(strategy="stars:3"), "cannot read 'stars:3' as a strategy"),
        (_edit(format="other"), "format 'other' version 1 is not 'majorcert-defender' version 1"),
        (_edit(version=2), "version 2 is not 'majorcert-defender' version 1"),
        (lambda folder: (folder / "defender.json").write_text("{"), "cannot read .*defender.json as a defender"),
        (lambda folder: (folder / "defender.json").unlink(), "holds no trained defender"),
        (lambda folder: (folder / "weights.safetensors").unlink(), "cannot read .*weights.safetensors"),
    ],
)
def test_damaged_and_foreign_files_are_refused(tmp_path: Path, damage: Callable[[Path], Any], message: str) -> None:
    defender().save(tmp_path / "d")
    damage(tmp_path / "d")
    with pytest.raises(ModelError, match=message):
        Defender.load(tmp_path / "d")


def test_a_saved_ensemble_comes_back_the_same(tmp_path: Path) -> None:
    ensemble, images = Ensemble(three()), pictures()
    ensemble.save(tmp_path / "e")
    again = Ensemble.load(tmp_path / "e")
    assert [str(each.strategy) for each in again.defenders] == ["rows:3", "columns:3", "blocks:4"]
    np.testing.assert_array_equal(again.predict(images), ensemble.predict(images))
    assert len(Ensemble.load(tmp_path / "e" / "rows-3").defenders) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot read .*ensemble.json as an ensemble"),
        ('{"format": "majorcert-ensemble", "version": 2}', "version 2 is not 'majorcert-ensemble' version 1"),
        ('{"format": "majorcert-ensemble", "version": 1, "members": []}', "members are names of sub-folders"),
        ('{"format": "majorcert-ensemble", "version": 1, "members": ["../x"]}', "members are names of sub-folders"),
        ('{"format": "majorcert-ensemble", "version": 1, "members": ["x"]}', "x holds no trained defender"),
    ],
)
def test_damaged_ensembles_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "ensemble.json").write_text(content)
    with pytest.raises(ModelError, match=message):
        Ensemble.load(tmp_path)


def test_ensembles_of_nothing_or_of_different_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="got none"):
        Ensemble([])
    with pytest.raises(ModelError, match="defenders 1 and 2 are for different images or classes"):
        Ensemble([defender(), defender(channels=1)])
    with pytest.raises(ModelError, match="neither an ensemble"):
        Ensemble.load(tmp_path)
    with pytest.raises(ModelError, match=r"there is no folder 'nowhere'.* cifar10, .*and `predict` knows imagenet"):
        Ensemble.load("nowhere")


@pytest.mark.parametrize(
    ("build_it", "error", "message"),
    [
        (lambda: Defender(_mean, "columns:3", image_size=32), mc.StrategyError, r"\(height, width\).*got 32"),  # type: ignore[arg-type]
        (lambda: Defender(_mean, "columns:3", threshold=30, image_size=SIZE), mc.BallotsError, r"got 30\.0; .*is 0.3"),
        (lambda: Ensemble([nn.Linear(3, 4)]), ModelError, r"list of defenders, got Linear; .*mc.Defender\(network"),  # type: ignore[list-item]
        (lambda: Defender(_softmax, "columns:3", image_size=SIZE), ModelError, "probabilities.* should return logits"),
        (lambda: Defender(_nan, "columns:3", image_size=SIZE), ModelError, "not finite"),
    ],
    ids=["one number for the size", "percent", "a network for a defender", "softmax", "not a number"],
)
def test_common_mistakes_are_told_in_the_users_words(
    build_it: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build_it()


def _mean(views: torch.Tensor) -> torch.Tensor:
    return 5 * views.mean(dim=(2, 3))


def _softmax(views: torch.Tensor) -> torch.Tensor:
    return _mean(views).softmax(dim=1)


def _nan(views: torch.Tensor) -> torch.Tensor:
    return _mean(views) * float("nan")


def test_vote_once_and_ask_many_questions() -> None:
    passes: list[int] = []

    def network(views: torch.Tensor) -> torch.Tensor:
        passes.append(len(views))
        return _mean(views)

    ensemble = Ensemble([Defender(network, spec, "crop", 0.3, image_size=SIZE) for spec in ("columns:3", "rows:3")])
    images = pictures()
    evidence = ensemble.evidence(images)
    passes.clear()
    verdicts = [mc.certify(evidence, patch) for patch in (1, (1, 2), "2x1")]
    largest = mc.largest_patch(evidence)
    assert not passes
    np.testing.assert_array_equal(verdicts[0].predicted, ensemble.predict(images))
    np.testing.assert_array_equal(verdicts[0].certified, ensemble.certify(images, mc.Patch(1)).certified)
    np.testing.assert_array_equal(largest, ensemble.largest_patch(images))


def test_defenders_move_to_another_device(tmp_path: Path) -> None:
    first = defender(precision="bfloat16")
    moved = first.to("cpu")
    assert moved.voter is not first.voter
    assert moved.voter.scorer.precision == "bfloat16"
    np.testing.assert_array_equal(moved.ballots(pictures()).labels, first.ballots(pictures()).labels)
    first.save(tmp_path / "d", bits=16)
    loaded = Defender.load(tmp_path / "d")
    assert loaded.to("cpu").fingerprints() == loaded.fingerprints()
    ensemble = Ensemble(three())
    np.testing.assert_array_equal(ensemble.to("cpu").predict(pictures()), ensemble.predict(pictures()))
    with pytest.raises(ModelError, match="no device 'gpu'"):
        ensemble.to("gpu")


def test_members_of_the_same_strategy_have_folders_of_their_own() -> None:
    strategies = [mc.Columns(19, stride=5), mc.Rows(4), mc.Rows(4), mc.Rows(4)]
    assert file_names(list(map(str, strategies))) == ["columns-19-5", "rows-4", "rows-4-no2", "rows-4-no3"]


def test_voting_on_other_classes_is_refused(tmp_path: Path) -> None:
    data = Dataset(pictures(), None, ("ant", "bee", "cat", "eel"), "zoo", "test")
    with pytest.raises(DataError, match="zoo has the classes ant, bee, cat and 1 more"):
        defender().vote(data, tmp_path / "e.zarr")


def test_voting_on_images_of_another_kind_is_refused(tmp_path: Path) -> None:
    for images, message in (
        (pictures()[:, :1], "takes images of 3 channels, 8x10; got 1 channels, 8x10"),
        (pictures()[:, :, 1:], "got 3 channels, 7x10"),
    ):
        with pytest.raises(DataError, match=message):
            defender().vote(Dataset(images, None, NAMES, "zoo", "test"), tmp_path / "e.zarr")


def test_recorded_ballots_are_those_of_the_api(tmp_path: Path) -> None:
    data, found = Dataset(pictures(), None, NAMES, "zoo", "test"), defender()
    found.vote(data, tmp_path / "e.zarr", chunk=5)
    recorded, direct = mc.Ballots.load(tmp_path / "e.zarr"), found.ballots(data.images)
    np.testing.assert_array_equal(recorded.labels, direct.labels)
    assert {**direct.provenance, "dataset": "zoo", "split": "test", "split_size": 12} == recorded.provenance
