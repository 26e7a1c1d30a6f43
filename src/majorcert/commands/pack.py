"""`majorcert pack`: evidence as it was voted to a case study that can be kept."""

from pathlib import Path
from typing import Annotated

import typer

from majorcert.reports.study import Recipe
from majorcert.reports.study.pack import pack as pack_stores
from majorcert.reports.terminal import stderr


def pack(
    stores: Annotated[list[Path], typer.Argument(help="Evidence stores of one recipe, in the order to show them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The case study.")],
    recipe: Annotated[str, typer.Option(help="Name of the recipe; its earlier entry is replaced.")],
    truth: Annotated[
        Path | None, typer.Option(help="True labels, .npy or .truth.json; by default the file beside the stores.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="How long each network was trained.")] = None,
    gpu_minutes: Annotated[float | None, typer.Option(help="What the whole recipe cost.")] = None,
    command: Annotated[str, typer.Option(help="What anyone would type to do it again.")] = "",
    note: Annotated[str, typer.Option(help="Anything else to say of it.")] = "",
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="The stores are no ensemble: one is used.")
    ] = False,
) -> None:
    """Bring the evidence of one recipe into a case study, in few small files; then `majorcert table OUT --write`.

    Scores are kept, if they were recorded, to 255 steps (15 where there are over 256 ablations).
    Distances are kept if they were recorded (up to 1/16 where there are over 256 ablations).

    Example: majorcert pack evidence/best/*.zarr -o results/cifar10 --recipe best --gpu-minutes 30
    """
    facts = Recipe(recipe, (), epochs, gpu_minutes, command, note, alternatives)
    with stderr.status("packing"):
        packed = pack_stores(stores, out, facts, truth)
    for item in packed:
        typer.echo(f"{item.source} -> {out / item.store}: {item.n_bytes / 1e6:.2f} MB, scores {item.scores}")
