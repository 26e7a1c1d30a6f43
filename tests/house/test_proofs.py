"""The proofs in proofs/ are whole: nothing is admitted, nothing is assumed. (`make proofs` checks them.)"""

import re
from pathlib import Path

import pytest
from calls import script

import majorcert as mc

PROOFS = Path(__file__).parents[2] / "proofs"
SOURCE = PROOFS.parent / "src" / "majorcert"
SHORTCUTS = (
    "Admitted|admit|Abort|Axioms?|Parameters?|Conjectures?|Hypothes[ie]s|Variables?|Context|Unset|Declare|bypass_check"
    "|Guard Checking|Positivity Checking|Universe Checking|functional_extensionality|Classical|native_compute"
    "|Extract (?:Constant|Inductive|Inlined)"
)
FILES = sorted(PROOFS.glob("*.v"))


def without_comments(text: str) -> str:
    return re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_shortcut_is_taken(file: Path) -> None:
    code = without_comments(file.read_text(encoding="utf-8"))
    assert re.findall(rf"\b(?:{SHORTCUTS})\b", code) == []
    statements = len(re.findall(r"^(?:Theorem|Lemma)\b", code, flags=re.MULTILINE))
    assert len(re.findall(r"\bQed\.", code)) == statements


def test_every_file_is_checked_and_every_theorem_has_its_assumptions_printed() -> None:
    recipe = (PROOFS / "Makefile").read_text(encoding="utf-8")
    listed = re.search(r"^FILES := (.*)$", recipe, flags=re.MULTILINE)
    assert listed is not None
    assert sorted([*listed[1].split(), "Extract"]) == [file.stem for file in FILES]
    for name in ("check_is_sound", "check_is_complete"):
        assert f"Theorem {name} :" in (PROOFS / "Theorems.v").read_text(encoding="utf-8")


def test_the_theorems_that_the_page_names_are_there() -> None:
    page = (PROOFS.parent / "docs" / "soundness.md").read_text(encoding="utf-8")
    named = {name for line in re.findall(r"^\*Coq:\*.*?\*Python:\*", page, flags=re.MULTILINE) for name in quoted(line)}
    stated = {name for file in FILES for name in re.findall(r"^Theorem (\w+)", file.read_text(), flags=re.MULTILINE)}
    assert named <= stated
    assert len(named) > 40


def test_the_python_that_the_page_names_is_there() -> None:
    """Functions and methods that rely on a theorem, by the names that they have."""
    page = (PROOFS.parent / "docs" / "soundness.md").read_text(encoding="utf-8")
    source = "\n".join(path.read_text() for room in ("core", "defences") for path in (SOURCE / room).glob("*.py"))
    lines = re.findall(r"^\*Coq:\*.*?\*Python:\*(.*)$", page, flags=re.MULTILINE)
    assert len(lines) > 15
    for name in {name for line in lines for name in quoted(line.partition(" In Coq")[0])}:
        if "=" not in name and name != "slack":
            assert re.search(rf"def {name.rpartition('.')[2]}\(", source), name


def test_the_comparison_asks_about_every_recipe_of_a_kind_that_the_checker_knows() -> None:
    found = list(script("proofs/compare.py").study_questions(PROOFS.parent / "results" / "cifar10", 1))
    asked = {question.name.partition(" ")[0] for question, lines in found if isinstance(lines, list)}
    left_out = {question.name.partition(" ")[0]: lines for question, lines in found if isinstance(lines, str)}
    assert {"best", "masking", "mixed", "paper", "smoothed-vit"} <= asked
    assert all(re.search("the checker (?:knows|does not know)", why) for why in left_out.values())
    assert {"bagcert", "ibp"} <= left_out.keys()
    judged = {question.name: [type(each) for each in question.defenders] for question, _ in found}
    assert judged["masking masks:2/4 at 2x2"] == judged["masking masks:5/3 at 5x5"] == [mc.MaskPairs]
    assert "masking masks:2/4 at 5x5" not in judged
    assert judged["mixed at 5x5"] == [mc.MaskPairs, mc.MaskPairs, mc.Pool]


def quoted(line: str) -> list[str]:
    return re.findall(r"`([^`]+)`", line)
