"""`majorcert info`: what is this artifact, and where does it come from? Needs no torch."""

from pathlib import Path
from typing import Annotated

import typer

from majorcert.commands.options import Json
from majorcert.reports.artifact import describe, lines_of
from majorcert.reports.terminal import complain, say, say_json


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
        say(f"is: {artifact.kind}", *lines_of(artifact.found))
        if artifact.claims:
            say("it claims, and nobody checked:", *(f"  {line}" for line in lines_of(artifact.claims)))
    if artifact.damage:
        complain(f"{file}: {artifact.damage}")
        raise typer.Exit(1)
