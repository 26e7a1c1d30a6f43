"""`majorcert info`: what is this artifact, and where does it come from? Needs no torch."""

import json as writer
from pathlib import Path
from typing import Annotated, Any

import typer

from majorcert.commands.options import Json
from majorcert.files.untrusted import cleaned
from majorcert.reports.artifact import describe
from majorcert.reports.terminal import complain, say, say_json

WIDEST = 300
"""Characters of a line that are shown."""


def info(
    file: Annotated[
        Path, typer.Argument(help="A run, ensemble, evidence store, verdict, truth file, case study or attack.")
    ],
    json: Json = False,
) -> None:
    """Say what an artifact is and where it comes from; exit code 1 if it is not what it claims to be.

    What was found in it comes first; what it claims of itself, which nobody checked, stands apart.

    Example: majorcert info runs/columns-3
    """
    artifact = describe(file)
    if json:
        say_json({"is": artifact.kind, **artifact.found, "claims": artifact.claims})
    else:
        say(f"is: {artifact.kind}", *_lines(artifact.found))
        if artifact.claims:
            say("it claims, and nobody checked:", *(f"  {line}" for line in _lines(artifact.claims)))
    if artifact.damage:
        complain(f"{file}: {artifact.damage}")
        raise typer.Exit(1)


def _lines(facts: dict[str, Any]) -> list[str]:
    """The facts as lines: of several things of one kind, each has its own."""
    lines: list[str] = []
    for name, value in facts.items():
        if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
            lines += _lines({f"{name}, {which}": writer.dumps(each) for which, each in value.items()})
            continue
        shown = value if isinstance(value, str) else writer.dumps(value)
        lines.append(f"{cleaned(name)}: {shown if len(shown) <= WIDEST else shown[: WIDEST - 3] + '...'}")
    return lines
