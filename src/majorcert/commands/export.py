"""`majorcert export`: evidence to plain text, for the checker that is extracted from the proofs."""

from itertools import chain
from typing import Annotated

import typer

from majorcert.audit.export import FIRST_LINE, exported
from majorcert.commands.options import Patches, Stores
from majorcert.defences.pool import Pool
from majorcert.errors.checks import check_alerting, checked_slack
from majorcert.reports.asked import defenders_of, patches_of


def export(
    evidence: Stores,
    patch: Patches,
    claim: Annotated[str, typer.Option(help="'exact', 'paper', 'margin' or 'detect'.")] = "exact",
    slack: Annotated[int, typer.Option(min=0, help="Of detection, as `certify` takes it.")] = 0,
    pool: Annotated[bool, typer.Option("--pool", help="Add the votes up first, as one defender.")] = False,
) -> None:
    """Print evidence as plain text, for the checker that `make proofs` extracts from the proofs.

    Example: majorcert export results/cifar10/best/*.zarr --patch 5 | proofs/build/checker
    """
    defenders = defenders_of(evidence)
    judged = [Pool(defenders)] if pool else defenders
    check_alerting(claim == "detect", checked_slack(slack, len(judged)))
    sizes = [(each.height, each.width) for each in patches_of(patch, evidence[0], defenders)]
    for line in chain([FIRST_LINE], *[exported(judged, size, claim=claim, slack=slack) for size in sizes]):
        typer.echo(line)
