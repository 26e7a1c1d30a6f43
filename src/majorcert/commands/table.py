"""`majorcert table`: every number of a case study, from its evidence."""

import os
from typing import Annotated

import typer

from majorcert.commands.options import Study
from majorcert.reports.study import CaseStudy
from majorcert.reports.study.results import as_json, committed, compute, write
from majorcert.reports.table import study_text
from majorcert.reports.terminal import complain, remark, say_json, stderr


def table(
    folder: Study,
    json: Annotated[bool, typer.Option("--json", help="Print the rows as a JSON list.")] = False,
    save: Annotated[bool, typer.Option("--write", help="Write results.json into the folder.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if results.json says otherwise.")] = False,
) -> None:
    """Recompute the whole table of a case study from its evidence, with the paper's numbers beside it.

    Example: majorcert table results/cifar10
    """
    study = CaseStudy.read(folder)
    with stderr.status("certifying"):
        results = compute(study, workers=os.cpu_count() or 1)
    if save:
        write(results, folder)
    if json:
        say_json(results["rows"])
    else:
        typer.echo(study_text(study, results), nl=False)
    if check and as_json(results) != as_json(committed(folder)):
        complain(f"{folder / 'results.json'}: is not what the evidence gives")
        raise typer.Exit(1)
    if check:
        remark(f"{folder / 'results.json'}: is what the evidence gives")
