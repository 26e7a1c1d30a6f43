"""`majorcert certify`: evidence to a verdict. Needs neither torch nor the network."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from majorcert.commands.options import Json, Patches, Stores, Truth
from majorcert.commands.terminal import patches_of, remark, say_json, say_table
from majorcert.core.ballots import Ballots
from majorcert.core.drs import drs
from majorcert.core.majority import check_together, majorcert
from majorcert.core.plurality import Ints
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.errors import StoreError
from majorcert.files.outputs import VERDICT, check_output
from majorcert.files.truth import find_truth
from majorcert.reports.score import summary


class Method(StrEnum):
    """How to certify: all the evidence together, or each defender alone."""

    EXACT = "majorcert-exact"
    PAPER = "majorcert-paper"
    MARGIN = "drs-margin"
    LOCAL = "drs-local"


def certify(
    evidence: Stores,
    patch: Patches,
    method: Annotated[list[Method] | None, typer.Option(help="By default majorcert-exact; repeatable.")] = None,
    truth: Truth = None,
    fragile: Annotated[
        float | None,
        typer.Option(help="Certify even if every score moves by up to this, as on another device: 1e-3."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Verdict file, JSON lines; of several verdicts, a folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Certify recorded votes against every placement of a patch.

    Example: majorcert certify runs/*/digits-test.zarr --patch 1 --patch 2x3 -o verdicts
    """
    patches = patches_of(patch)
    check_output(out, VERDICT)
    defenders = [Ballots.load(store) for store in evidence]
    if fragile is not None:
        defenders = [ballots.tolerating(fragile) for ballots in defenders]
    check_together(defenders)
    labels = find_truth(truth, evidence[0], defenders[0], remark)
    if fragile is not None:
        _say_fragile(defenders)
    results: list[tuple[str, Verdict]] = []
    for chosen in method or [Method.EXACT]:
        for each in patches:
            results += _verdicts(chosen, defenders, each)
    if out is not None:
        _save(results, out)
    lines = [_line(who, verdict, labels) for who, verdict in results]
    if json:
        say_json(lines)
        return
    if labels is None:
        remark("true labels are not known: 'certified' counts all images, right or wrong (give them with --truth)")
    header = [
        "defenders",
        "method",
        "patch",
        "certified",
        *(["clean", "certified and correct"] if labels is not None else []),
        "n",
    ]
    say_table(header, [_cells(line) for line in lines])


def _say_fragile(defenders: list[Ballots]) -> None:
    for ballots in defenders:
        if ballots.fragile is not None:
            share = 100 * ballots.fragile.mean() if ballots.fragile.size else 0.0
            n_fragile = int(ballots.fragile.sum())
            said = f"{ballots.strategy}: {n_fragile:,} of {ballots.fragile.size:,} ballots are fragile ({share:.2f}%)"
            if ballots.fragile.size and ballots.fragile.all():
                said += "; no distance over the tolerance is on record"
            remark(said)


def _verdicts(method: Method, defenders: list[Ballots], patch: Patch) -> list[tuple[str, Verdict]]:
    """One verdict of all together, or one for each."""
    names = [str(ballots.strategy) for ballots in defenders]
    if method in (Method.EXACT, Method.PAPER):
        reach: Any = method.value.removeprefix("majorcert-")
        return [(" + ".join(names), majorcert(defenders, patch, reach=reach))]
    bound: Any = method.value.removeprefix("drs-")
    return [(name, drs(ballots, patch, bound=bound)) for name, ballots in zip(names, defenders, strict=True)]


def _save(results: list[tuple[str, Verdict]], out: Path) -> None:
    if len(results) == 1:
        results[0][1].save(out)
        return
    if out.is_file():
        raise StoreError(f"{out}: there are {len(results)} verdicts to write, so it must be a folder, not a file")
    for number, (_, verdict) in enumerate(results, start=1):
        verdict.save(out / f"{number:02d}-{verdict.method}-{verdict.patch}.jsonl")


def _line(who: str, verdict: Verdict, truth: Ints | None) -> dict[str, Any]:
    line: dict[str, Any] = {
        "defenders": who,
        "method": verdict.method,
        "patch": str(verdict.patch),
        **({"fragile": fragile} if (fragile := verdict.defenders[0].get("fragile")) is not None else {}),
        "n": len(verdict),
        "n_certified": int(verdict.certified.sum()),
    }
    if truth is not None:
        counts = summary(verdict, truth)
        line |= {
            "n_correct": counts.n_correct,
            "n_certified_and_correct": counts.n_certified_and_correct,
            "clean": counts.n_correct / max(counts.n, 1),
            "certified": counts.n_certified_and_correct / max(counts.n, 1),
            "by_and_correct": counts.by_and_correct,
        }
    return line


def _cells(line: dict[str, Any]) -> list[str]:
    share = [f"{100 * line['n_certified'] / max(line['n'], 1):.2f}%"]
    known = [f"{100 * line[key]:.2f}%" for key in ("clean", "certified") if key in line]
    method = f"{line['method']}, fragile {line['fragile']:g}" if "fragile" in line else line["method"]
    return [line["defenders"], method, line["patch"], *share, *known, str(line["n"])]
