"""`majorcert figures`: the numbers of a case study, to look at."""

from pathlib import Path
from typing import Annotated

import typer

from majorcert.commands.options import Study
from majorcert.reports.study.figures import draw
from majorcert.reports.study.results import committed


def figures(
    folder: Study, out: Annotated[Path, typer.Option("--out", "-o", help="Where to write.")] = Path("docs/figures")
) -> None:
    """Draw the figures of a case study from its results.json, as SVG.

    Example: majorcert figures results/cifar10 -o docs/figures
    """
    for path in draw(committed(folder), out):
        typer.echo(path)
