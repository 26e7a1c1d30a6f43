"""`majorcert verify`: a verdict and its evidence to an audit. Needs torch only for images and weights."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from majorcert.audit.verify import Audit, sample_of, voting_parts
from majorcert.audit.verify import verify as audited
from majorcert.commands.options import Allow, DataDir, Device, Json, SkipBad, SplitSeed
from majorcert.core.verdict import Verdict
from majorcert.errors import DataError
from majorcert.files.evidence import load_recorded
from majorcert.reports.terminal import bar, complain, remark, say_json, say_table

SHOWN = 20
"""So many differences are written out; the table counts them all."""
SEVERAL = ("--evidence", "--weights")


class SeveralValues(TyperCommand):
    """Lets an option take all words up to the next option, so that `--evidence runs/*.zarr` means what it says."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words: list[str] = []
        option = ""
        for word, before in zip(args, ["", *args], strict=False):
            if word.startswith("-"):
                option = word if word in SEVERAL else ""
            elif option and before != option:
                words.append(option)
            words.append(word)
        return super().parse_args(ctx, words)


def verify(
    verdict: Annotated[Path, typer.Argument(help="A verdict that `majorcert certify` wrote.")],
    evidence: Annotated[list[str], typer.Option(help="The stores that it was made from, in the same order.")],
    sample: Annotated[str, typer.Option(help="How many images to judge anew, by lot, or 'all'.")] = "20",
    seed: Annotated[
        int | None, typer.Option(help="Draws the same images again; by default other ones each time.")
    ] = None,
    images: Annotated[
        str | None, typer.Option(help="Hash these images: 'digits', 'cifar10', an image folder or an .npz file.")
    ] = None,
    weights: Annotated[
        list[str] | None, typer.Option(help="Run folders or ensembles: hash them and vote anew; needs --images.")
    ] = None,
    near: Annotated[
        float | None,
        typer.Option(min=0, help="Votes whose score is this near to the threshold may differ; in float32 2e-5."),
    ] = None,
    excess: Annotated[
        float | None,
        typer.Option(min=0, help="How much too large a recorded distance may be; in float32 2e-5, else as --near."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of the images; by default the one on record.")] = None,
    device: Device = "auto",
    precision: Annotated[str | None, typer.Option(help="'float32', 'bfloat16', ...; by default as on record.")] = None,
    checker: Annotated[Path | None, typer.Option("--with", help="The checker from the proofs: ask it too.")] = None,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
    allow: Allow = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Check a verdict with a second, simple implementation of the definitions; exit code 1 on any difference.

    Example: majorcert verify verdict.jsonl --evidence runs/*/digits-test.zarr --images digits --weights runs
    """
    n_wanted = sample_of(sample)
    if weights and images is None:
        raise DataError("weights are checked by voting on images anew; give the images too, with --images")
    judged = Verdict.load(verdict)
    stores = load_recorded(judged.defenders, evidence)
    given: dict[str, Any] = {"near": near, "excess": excess}
    if images is not None:
        from majorcert.nets.recorded import recorded_defenders, recorded_images

        voting = voting_parts(stores)
        how: dict[str, Any] = {"device": device, "precision": precision, "allow": allow or ()}
        networks = recorded_defenders(weights, voting, **how) if weights else []
        channels = networks[0].channels if networks else None
        how = {"data_dir": data_dir, "seed": split_seed, "skip_bad": skip_bad, "channels": channels}
        given |= {"images": recorded_images(images, voting[0], split=split, **how), "defenders": networks}
    with bar("judging anew") as shown:
        given |= {"progress": lambda done, total: shown.show(done, total, "images"), "checker": checker}
        audit = audited(judged, stores, sample=n_wanted, seed=seed, **given)
    _say(audit, json)
    if audit.differences:
        raise typer.Exit(1)


def _say(audit: Audit, json: bool) -> None:
    if json:
        say_json(audit.as_json())
    else:
        say_table(["what", "how many", "differences"], audit.counts())
    for line in audit.remarks():
        remark(line)
    for line in audit.complaints(SHOWN):
        complain(line)
    if not audit.differences:
        remark(audit.all_clear())
