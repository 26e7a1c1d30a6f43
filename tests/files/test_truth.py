"""True labels lie beside the evidence, under a name that never leads elsewhere."""

from pathlib import Path

import numpy as np
import pytest

import majorcert as mc
from majorcert.files.truth import read_truth, truth_beside, write_truth


def evidence_of(dataset: object, split: object) -> mc.Ballots:
    facts = {"dataset": dataset, "split": split, "images_sha256": "ab"}
    return mc.Ballots([[0, 1]] * 3, strategy="columns:1", image_size=(1, 2), n_classes=2, provenance=facts)


def test_names_are_kept_as_they_are(tmp_path: Path) -> None:
    assert truth_beside(tmp_path / "e.zarr", evidence_of("cifar10", "test")) == tmp_path / "cifar10-test.truth.json"
    assert truth_beside(tmp_path / "e.zarr", evidence_of("my photos.npz", "val")).name == "my photos.npz-val.truth.json"


@pytest.mark.parametrize(
    ("dataset", "split"),
    [
        ("../outside/secret", "test"),
        ("{outside}/secret", "test"),
        ("..", "/../../outside/secret-test"),
        ("..\\outside\\secret", "test"),
        ("C:secret", "test"),
        ("a\0b", "test"),
        ("x" * 10_000, "test"),
        ({"a": ["/"]}, None),
    ],
)
def test_names_from_a_file_never_lead_elsewhere(dataset: object, split: object, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "given").mkdir()
    write_truth(tmp_path / "outside" / "secret-test.truth.json", [0, 0, 1], {"images_sha256": "ab"})
    dataset = dataset.format(outside=tmp_path / "outside") if isinstance(dataset, str) else dataset
    found = truth_beside(tmp_path / "given" / "e.zarr", evidence_of(dataset, split))
    assert found.parent == tmp_path / "given"
    assert found.resolve().parent == (tmp_path / "given").resolve()
    assert not found.is_file()
    write_truth(found, [0, 1, 1], {"images_sha256": "ab"})
    assert read_truth(found, evidence_of(dataset, split)).tolist() == [0, 1, 1]
    assert np.array_equal(sorted(path.name for path in (tmp_path / "given").iterdir()), [found.name])
