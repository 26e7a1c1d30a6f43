"""`majorcert average`: several trained networks to one defender."""

from pathlib import Path
from typing import Annotated, Any

import typer

from majorcert.commands.options import Allow, Json
from majorcert.reports.terminal import remark, say_json


def average(
    runs: Annotated[list[Path], typer.Argument(help="Runs of one strategy, or ensembles of the same strategies.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the new defender or ensemble.")],
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Look at each view left to right as well (not for digits or letters).")
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(help="A score at or over it is a vote; by default as in the first run. Also for one run."),
    ] = None,
    sure: Annotated[
        float | None, typer.Option(help="Of masks: the first network alone decides where it is so sure, as in 0.9.")
    ] = None,
    masks: Annotated[
        str | None, typer.Option(help="Of masks: look through these instead, as in masks:2/4; also for one run.")
    ] = None,
    bits: Annotated[int, typer.Option(help="Of each weight in the file: 32, 16 or 8; also for one run.")] = 32,
    allow: Allow = None,
    json: Json = False,
) -> None:
    """Average the probabilities of several trained networks, so that each ablation casts one, better ballot.

    The result votes for as long as all its networks do, mirrored twice. A folder `bounded` is averaged apart.

    Example: majorcert average runs/seed0 runs/seed1 --mirror -o runs/both
    """
    from majorcert.nets.averaging import averaged

    changes: dict[str, Any] = {"threshold": threshold, "sure": sure, "masks": masks, "bits": bits}
    blueprints = averaged(runs, out, mirrored=mirror, **changes, allow=allow or ())
    what = f"the average of {len(runs)} networks" if len(runs) > 1 else "the network"
    also = ", every view also seen in a mirror" if mirror else ""
    for blueprint in blueprints:
        remark(f"{blueprint.strategy}: {what}{also}, in {out}")
    if json:
        say_json({"out": str(out), "strategies": [str(each.strategy) for each in blueprints], "networks": len(runs)})
