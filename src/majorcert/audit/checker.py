"""A third opinion: the program that is extracted from the proofs (`make proofs`), asked about exported evidence."""

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from majorcert.audit.check import Check, Difference
from majorcert.audit.export import FIRST_LINE, exported
from majorcert.core.reach import Evidence
from majorcert.core.verdict import Verdict
from majorcert.errors import EvidenceError

CLAIM_OF = {
    "majorcert-exact": "exact",
    "majorcert-paper": "paper",
    "drs-local": "exact",
    "drs-margin": "margin",
    "pg-drs": "exact",
    "detection": "detect",
}


@dataclass(frozen=True)
class Answer:
    """What the checker says of one image."""

    image: int
    label: int
    certified: bool
    alert: bool | None  # only of detection


def answers(checker: str | os.PathLike[str], lines: Iterable[str]) -> list[Answer]:
    """Let the checker judge exported questions; one answer for each image, in their order."""
    with TemporaryFile("w+", encoding="ascii") as text:
        text.write(f"{FIRST_LINE}\n")
        text.writelines(f"{line}\n" for line in lines)
        text.seek(0)
        try:
            found = subprocess.run([Path(checker).resolve()], stdin=text, capture_output=True, text=True, check=False)
        except OSError as error:
            raise EvidenceError(
                f"{checker} does not run ({error.strerror}); `make proofs` builds the checker"
            ) from error
    if found.returncode:
        raise EvidenceError(f"the checker refused the evidence: {found.stderr.strip() or found.returncode}")
    return [_answer(line) for line in found.stdout.splitlines()]


def _answer(line: str) -> Answer:
    image, label, says, *alert = line.split()
    return Answer(int(image), int(label), says == "yes", alert == ["alert"] if alert else None)


def third_opinion(
    checker: str | os.PathLike[str], verdict: Verdict, evidence: Sequence[Evidence], rows: Sequence[int]
) -> Check:
    """Compare rows of a verdict with what the checker says of their evidence."""
    claim = CLAIM_OF.get(verdict.method)
    if claim is None:
        raise EvidenceError(f"the checker does not know the method {verdict.method!r}; it knows {', '.join(CLAIM_OF)}")
    patch = verdict.patch.height, verdict.patch.width
    said = answers(
        checker, exported(evidence, patch, claim=claim, slack=verdict.slack, rows=rows, origins=verdict.defenders)
    )
    if len(said) != len(rows):
        raise EvidenceError(f"the checker was asked about {len(rows)} images and answered {len(said)}; is it this one?")
    differences = []
    for row, answer in zip(rows, said, strict=True):
        facts = {
            "label": (answer.label, int(verdict.predicted[row])),
            "certified": (answer.certified, bool(verdict.certified[row])),
            "alert": (answer.alert, None if verdict.alert is None else bool(verdict.alert[row])),
        }
        differences += [
            Difference(f"{name}, by the checker", *pair, answer.image)
            for name, pair in facts.items()
            if pair[0] != pair[1]
        ]
    return Check("the proofs' checker", len(said), tuple(differences))
