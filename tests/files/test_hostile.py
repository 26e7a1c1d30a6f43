"""Every loader, given what a stranger might give it: it reads it, or says in one sentence why not; nothing else."""

import json
import re
from pathlib import Path

import pytest
import torch
from artifacts import ARTIFACTS, make_ensemble, make_study
from calls import ROOT
from hostile import Damage, damages, load_or_refuse
from hypothesis import given, settings

from majorcert.errors import MajorcertError
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.run_folder import Log
from majorcert.nets.sources import cifar10
from majorcert.reports.artifact import describe
from majorcert.reports.study import CaseStudy

torch.set_num_threads(1)
WRITERS = {"evidence", "forged evidence"}
"""Their reader also goes on with a store, which ends in a refusal: the provenance is not the same."""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for name, artifact in ARTIFACTS.items():
        folders[name] = tmp_path_factory.mktemp(name.replace(" ", "-"))
        artifact.make(folders[name])
    return folders


@pytest.fixture(autouse=True)
def _short_cifar_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "N_IMAGES", 4)
    monkeypatch.setattr(cifar10, "N_VALUES", 12)


def test_every_artifact_is_fuzzed() -> None:
    named = (ROOT / "Makefile").read_text(encoding="utf-8").partition("FUZZED := ")[2].partition("\n\n")[0]
    assert re.findall('"(.*?)"', named) == list(ARTIFACTS)


@pytest.mark.parametrize("name", sorted(set(ARTIFACTS) - WRITERS))
def test_the_undamaged_artifact_is_read(pristine: dict[str, Path], name: str) -> None:
    assert load_or_refuse(ARTIFACTS[name], pristine[name], [])


@pytest.mark.parametrize("name", ARTIFACTS)
def test_any_damage_is_read_or_refused_in_one_sentence(pristine: dict[str, Path], name: str) -> None:
    accepted = []

    @settings(max_examples=40)
    @given(changes=damages())
    def attempt(changes: list[Damage]) -> None:
        accepted.append(load_or_refuse(ARTIFACTS[name], pristine[name], changes))

    attempt()
    assert not all(accepted)


@pytest.mark.parametrize("name", ["..", "../outside", "/etc", "a/../../outside", "", ".", 7])
def test_members_and_stores_are_named_within_their_folder(tmp_path: Path, name: object) -> None:
    given, outside = tmp_path / "given", tmp_path / "outside"
    for folder in (given, outside):
        folder.mkdir()
        make_ensemble(folder)
        make_study(folder)
    (given / "ensemble.json").write_text(
        json.dumps({"format": "majorcert-ensemble", "version": 1, "members": ["a", name]})
    )
    (given / "recipes.json").write_text(json.dumps({"best": {"defenders": [name]}}))
    for read in (Ensemble.load, describe, CaseStudy.read):
        if read == CaseStudy.read and name == ".":
            continue  # the folder itself, which is no store
        with pytest.raises(MajorcertError):
            read(given)


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine\nand mine\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").symlink_to(secret)
    log = Log(tmp_path / "run", 0, writes=True)
    log.add(seconds=1.0, images=5, loss=0.5)
    assert secret.read_text() == "mine\nand mine\n"
    assert json.loads((tmp_path / "run" / "log.jsonl").read_text())["loss"] == 0.5
