"""Training and voting as functions of the library: what they write is what the command line would."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import majorcert as mc
from majorcert.errors import DataError, ModelError
from majorcert.files.truth import read_truth, truth_name
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.data import Dataset, load, load_to_train
from majorcert.nets.hiding import Hiding
from majorcert.nets.train import Epoch, Progress
from majorcert.nets.verbs import train, vote

torch.set_num_threads(1)


def shapes(n: int = 60) -> Dataset:
    """Three classes: which third of the rows is bright."""
    labels = torch.arange(n) % 3
    images = torch.randint(0, 60, (n, 1, 6, 6), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    for k, label in enumerate(labels.tolist()):
        images[k, :, 2 * label : 2 * label + 2] += 150
    return Dataset(images, labels, ("top", "middle", "bottom"), "shapes", "train")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("verbs") / "runs"
    seen: set[str] = set()
    images, validation = shapes().parted()
    done = train(
        images,
        out,
        strategies=["columns:2", "columns:3"],
        recipe="digits",
        validation=validation,
        device="cpu",
        epochs=12,
        batch_size=16,
        progress=lambda cut, at: seen.add(f"{cut} {at.n_epochs}"),
    )
    assert [one.finished for one in done] == [True, True]
    assert seen == {"columns:2 12", "columns:3 12"}
    return out


def test_trained_and_voted_from_python(runs: Path, tmp_path: Path) -> None:
    ensemble = mc.Ensemble.load(runs)
    assert [str(each.strategy) for each in ensemble.defenders] == ["columns:2", "columns:3"]
    images = replace(shapes(30), split="test")
    stores = vote(runs, images, out=tmp_path, device="cpu")
    recorded = [mc.Ballots.load(store) for store in stores]
    assert read_truth(tmp_path / truth_name("shapes", "test"), recorded[0]).tolist() == shapes(30).labels.tolist()  # type: ignore[union-attr]
    direct = ensemble.evidence(images.images)
    for one, other in zip(recorded, direct, strict=True):
        np.testing.assert_array_equal(one.label, other.label)
    assert (mc.certify(recorded, 1).predicted == shapes(30).labels.numpy()).mean() > 0.8  # type: ignore[union-attr]


def test_thresholds_are_chosen_by_the_part_that_is_not_trained_on(runs: Path) -> None:
    for name in ("columns-2", "columns-3"):
        training = Blueprint.read(runs / name).training
        assert training["threshold_chosen_by"]["split"] == "val"
        assert training["n_images"] == 48


def test_some_images_by_lot(runs: Path, tmp_path: Path) -> None:
    told: list[str] = []
    (store, _) = vote([runs], shapes(), out=tmp_path, limit=9, seed=5, device="cpu", told=told.append)
    found = mc.Ballots.load(store)
    assert len(found) == 9
    assert sorted(shapes().labels.numpy()[found.images].tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]  # type: ignore[union-attr]
    assert any("9 of 60 images, by lot" in sentence for sentence in told)


def test_images_taken_out_of_a_split_keep_their_true_labels(runs: Path, tmp_path: Path) -> None:
    """In another order, and then some of these by lot."""
    some = replace(shapes(30), split="test").subset(torch.tensor([7, 1, 3, 5, 26, 0]))
    for n in (None, 4):
        (store, _) = vote(runs, some, out=tmp_path / str(n), limit=n, device="cpu")
        recorded = mc.Ballots.load(store)
        found = read_truth(tmp_path / str(n) / truth_name("shapes", "test"), recorded)
        assert len(recorded) == (n or 6)
        assert found.tolist() == [int(number) % 3 for number in recorded.images]


def test_an_audit_knows_images_that_voted_in_another_order(runs: Path, tmp_path: Path) -> None:
    """By their fingerprint; of other images it says so."""
    whole, order = replace(shapes(30), split="test"), torch.tensor([7, 1, 26])
    stores = vote([runs], whole.subset(order), out=tmp_path, device="cpu")
    evidence = [mc.load_evidence(store) for store in stores]
    verdict, networks = mc.certify(evidence, 2), mc.Ensemble.load(runs, device="cpu").voting
    assert mc.verify(verdict, evidence, images=whole, defenders=networks).differences == ()
    (store,) = vote([runs / "columns-2"], whole.subset(order.sort().values), out=tmp_path / "sorted", device="cpu")
    backwards = mc.load_evidence(store)[np.array([2, 1, 0])]
    assert mc.verify(mc.certify([backwards], 2), [backwards], images=whole).differences == ()
    turned = whole.images.clone()
    turned[1] = 255 - turned[1]
    assert mc.verify(verdict, evidence, images=replace(whole, images=turned)).differences


def test_one_folder_is_for_one_ensemble(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="already holds"):
        train(shapes(), runs, strategies=["rows:2", "rows:3"], recipe="digits", device="cpu", epochs=1)
    refused: list[bool] = []

    def meanwhile(cut: Hiding, at: Progress) -> None:
        with pytest.raises(ModelError, match="another run is being trained there"):
            train(shapes(), tmp_path / "new", strategies=["columns:2", "columns:3"], recipe="digits", epochs=1)
        refused.append(True)

    train(shapes(), tmp_path / "new", strategies=["rows:2", "rows:3"], recipe="digits", epochs=1, progress=meanwhile)
    assert refused
    assert [str(each.strategy) for each in mc.Ensemble.load(tmp_path / "new").defenders] == ["rows:2", "rows:3"]


def test_a_request_to_stop_after_the_last_step_of_a_run_is_granted_in_the_next_one(tmp_path: Path) -> None:
    def stop(cut: Hiding, at: Epoch) -> None:
        if str(cut) == "rows:2" and at.epoch == at.n_epochs:
            os.kill(os.getpid(), signal.SIGTERM)

    kind: dict[str, Any] = {"strategies": ["rows:2", "columns:2"], "recipe": "digits", "device": "cpu", "epochs": 1}
    results = train(shapes(), tmp_path / "runs", **kind, after_epoch=stop)
    assert [result.finished for result in results] == [True, False]
    results = train(shapes(), tmp_path / "runs", **kind, resume=True)
    assert [result.finished for result in results] == [True, True]


def test_another_ensemble_is_not_replaced_by_going_on_with_it(tmp_path: Path) -> None:
    """Nor is a run made one; a further member may join."""

    def go_on(folder: Path, *strategies: str) -> None:
        train(shapes(), folder, strategies=strategies, recipe="digits", device="cpu", epochs=1, resume=True)

    train(shapes(), tmp_path / "two", strategies=["rows:2", "rows:3"], recipe="digits", device="cpu", epochs=1)
    before = sorted(tmp_path.rglob("*"))
    for others in (["columns:2", "columns:3"], ["rows:2", "columns:2"], ["rows:2"]):
        with pytest.raises(ModelError, match="two already holds an ensemble of rows-2, rows-3; go on with the same"):
            go_on(tmp_path / "two", *others)
    with pytest.raises(ModelError, match="rows-2 already holds a run; go on with the same"):
        go_on(tmp_path / "two" / "rows-2", "columns:2", "columns:3")
    assert sorted(tmp_path.rglob("*")) == before
    go_on(tmp_path / "two", "rows:2", "rows:3", "columns:2")
    assert len(mc.Ensemble.load(tmp_path / "two").defenders) == 3


def test_what_cannot_be_trained_leaves_no_folder(tmp_path: Path) -> None:
    some = ["rows:2", "columns:2"]
    with pytest.raises(ModelError, match="no model 'vgg'"):
        train(shapes(), tmp_path / "new", strategies=some, recipe="digits", model="vgg")
    with pytest.raises(DataError, match="labelled images"):
        train(replace(shapes(), labels=None), tmp_path / "new", strategies=some, recipe="digits")
    assert not (tmp_path / "new").exists()


def test_the_parts_are_those_of_load(tmp_path: Path) -> None:
    train_part, val = load_to_train("digits", "train", seed=3)
    assert val is not None
    assert train_part.sha256() == load("digits", "train", seed=3).sha256()
    assert val.sha256() == load("digits", "val", seed=3).sha256()
    assert (train_part.split, val.split) == ("train", "val")
    assert load_to_train("digits", "trainval")[1] is None
    assert shapes(4).parted()[1] is None
    np.savez(tmp_path / "few.npz", images=shapes(4).images.numpy()[:, 0], labels=np.arange(4) % 3)
    with pytest.raises(DataError, match="no images in the val split"):
        load(str(tmp_path / "few.npz"), "val")


def test_a_missing_extra_is_told_in_one_sentence() -> None:
    code = "import sys; sys.modules['torch'] = None; import majorcert; majorcert.Defender"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = found.stderr.strip().splitlines()[-1]
    assert "networks need torch, which is not installed; pip install 'majorcert[nets]'" in last
