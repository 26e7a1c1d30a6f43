"""What users read when they err: one sentence of our own, never Python's words about its own types."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import asked, refused

import majorcert as mc
from majorcert.files.untrusted import reason

CONTENTS: dict[str, bytes] = {
    "text": b"hello world\n",
    "empty": b"",
    "list": b"[1, 2]",
    "null": b"null",
    "nothing": b"{}",
    "number": b"3",
    "bytes": bytes(range(256)),
}
READERS: dict[str, tuple[str, Callable[[Path], list[Any]]]] = {
    "image": ("x.png", lambda path: ["predict", path]),
    "npz": ("x.npz", lambda path: ["vote", "cifar10", path, "-o", path.parent / "out"]),
    "labels": ("x.npy", lambda path: ["certify", path.parent / "s.zarr", "--patch", 2, "--truth", path]),
    "truth": ("x.truth.json", lambda path: ["certify", path.parent / "s.zarr", "--patch", 2, "--truth", path]),
    "verdict": ("x.jsonl", lambda path: ["verify", path, "--evidence", path.parent / "s.zarr"]),
    "evidence": ("x.zarr", lambda path: ["certify", path, "--patch", 2]),
    "evidence's metadata": ("x.zarr/zarr.json", lambda path: ["certify", path.parent, "--patch", 2]),
    "defender": ("defender.json", lambda path: ["vote", path.parent, "digits"]),
    "ensemble": ("ensemble.json", lambda path: ["vote", path.parent, "digits"]),
    "recipes": ("recipes.json", lambda path: ["table", path.parent]),
    "case study's truth": ("truth.npy", lambda path: ["table", path.parent]),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Everything that the readers need beside the one file that is wrong."""
    mc.Ballots(np.zeros((4, 4), int), strategy="rows:2", image_size=(4, 4), n_classes=3).save(tmp_path / "s.zarr")
    np.save(tmp_path / "truth.npy", np.zeros(4, int))
    (tmp_path / "recipes.json").write_text('{"a": {"defenders": ["s.zarr"]}}')
    return tmp_path


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("reader", READERS)
def test_files_of_another_kind_are_refused_in_plain_words(reader: str, content: str, folder: Path) -> None:
    name, words = READERS[reader]
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(CONTENTS[content])
    said = refused(*words(folder / name))
    assert str(folder) in said
    assert name.split("/")[0] in said


@pytest.mark.parametrize("reader", ["image", "labels", "truth", "verdict", "evidence"])
def test_folders_instead_of_files_are_refused_in_plain_words(reader: str, folder: Path) -> None:
    name, words = READERS[reader]
    (folder / name).mkdir()
    assert name in refused(*words(folder / name))


def test_files_instead_of_folders_are_refused_in_plain_words(folder: Path) -> None:
    (folder / "file").write_text("hello")
    train = ("train", "digits", "--strategy", "rows:2", "--device", "cpu", "-o")
    assert "cannot be the folder of a run, it is a file" in refused(*train, folder / "file")
    vote = ("vote", "cifar10", "cifar10", "-o", folder / "out", "--data-dir")
    assert "cannot be the folder of data sets, it is a file" in refused(*vote, folder / "file")
    assert "file is a file, not a folder" in refused("vote", folder / "file", "digits")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RANK", "first", "RANK is a whole number of 0 or more, as torchrun sets it, got 'first'"),
        ("RANK", "-1", "RANK is a whole number of 0 or more, as torchrun sets it, got '-1'"),
        ("RANK", "1", "RANK is 1 and WORLD_SIZE 1, so this process has nothing to do"),
        ("WORLD_SIZE", "", "WORLD_SIZE is a whole number"),
        ("WORLD_SIZE", "0", "RANK is 0 and WORLD_SIZE 0"),
    ],
)
def test_a_place_among_processes_that_makes_no_sense_is_refused(
    name: str, value: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert message in refused("vote", "cifar10", "digits", "-o", folder / "out")
    if name == "RANK":
        assert message in refused("train", "digits", "--strategy", "rows:2", "--device", "cpu", "-o", folder / "run")


@pytest.mark.parametrize(("option", "value"), [("--width", "0"), ("--lr", "nan"), ("--lr", "inf"), ("--lr", "-1")])
def test_training_with_numbers_that_make_no_sense_is_refused(option: str, value: str, folder: Path) -> None:
    train = ("train", "digits", "--strategy", "rows:2", "--epochs", "1", "--device", "cpu", "-o", folder / "run")
    assert "got" in refused(*train, option, value)
    assert not (folder / "run" / "defender.json").exists()


def test_a_case_study_without_recipes_is_refused(folder: Path) -> None:
    (folder / "recipes.json").write_text("{}")
    assert "recipes.json names no recipe; `majorcert pack` adds one" in refused("table", folder)


def test_what_python_says_of_its_own_types_is_not_passed_on() -> None:
    said = []
    for wrong in (lambda: int("x"), lambda: float("x"), lambda: len(3), lambda: [][1], lambda: (3).x):  # type: ignore[arg-type, attr-defined]
        with pytest.raises((ValueError, TypeError, IndexError, AttributeError)) as caught:
            wrong()
        said.append(reason(caught.value))
    assert set(said) == {"a part of it is missing or of another kind than expected"}
    assert reason(KeyError("format")) == "it has no 'format'"
    assert reason(FileNotFoundError(2, "No such file or directory")) == "No such file or directory"
    assert reason(ValueError("its own\n words")) == "its own words"
    assert reason(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("words", "said"),
    {
        "certify": "majorcert certify: missing argument 'evidence' (Evidence stores",
        "certify s.zarr": "missing option '--patch' ('5' or '2x7'",
        "certify s.zarr --patch": "'--patch' requires an argument",
        "certify s.zarr --patch 2 --slack x": "valid integer, got 'x'",
        "certify s.zarr --patch 2 --slack -1": "equal to 0, got '-1'",
        "certify s.zarr --patch 2 --method best": "'best' is not one of 'majorcert-exact'",
        "certify s.zarr --patch 2 --pach 3": "no such option: --pach (Possible options: --patch",
        "info a b": "majorcert info: got unexpected extra argument",
        "certified": "majorcert: no such command 'certified', did you mean 'certify'",
        "--nope": "majorcert: no such option: --nope",
    }.items(),
)
def test_words_that_a_command_does_not_know_cost_one_sentence(words: str, said: str) -> None:
    assert said in refused(*words.split())


def test_without_words_the_help_is_shown() -> None:
    result = asked()
    assert result.exit_code == 2
    assert "certify" in result.stdout
    assert result.stderr == ""
