"""`majorcert certify`: evidence to a verdict. Needs neither torch nor the network."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from majorcert.commands.options import Json, Patches, Slack, Stores, Truth
from majorcert.core.threat import as_patch
from majorcert.errors.checks import check_alerting
from majorcert.files.outputs import VERDICT, check_output
from majorcert.files.truth import find_truth
from majorcert.files.verdicts import save_all
from majorcert.reports.asked import defenders_of, patches_of
from majorcert.reports.methods import METHODS, as_table, check_masking, counted, fragility, judged, remarks, used_by
from majorcert.reports.terminal import remark, say_json, say_table

Method = StrEnum("Method", {name: name for name in METHODS})  # type: ignore[misc]
PROMISE = (
    "'recovery': the label stays; 'detection': or there is an alert; 'unwavering': and there is none; 'joint': each."
)
Promised = StrEnum("Promised", ["recovery", "detection", "unwavering", "joint"])


def certify(
    evidence: Stores,
    patch: Patches,
    method: Annotated[list[Method] | None, typer.Option(help="By default majorcert-exact; repeatable.")] = None,
    promise: Annotated[Promised, typer.Option(help=PROMISE)] = Promised.recovery,
    top: Annotated[list[int] | None, typer.Option(min=1, help="The label stays among so many; repeatable.")] = None,
    truth: Truth = None,
    fragile: Annotated[float | None, typer.Option(help="Even if every score moves by up to this: 1e-3.")] = None,
    mask: Annotated[str | None, typer.Option(help="Of pg-drs, pg-pool: the patch to mask; by default --patch.")] = None,
    mask_threshold: Annotated[float, typer.Option(help="Of the same: a share over which a window is masked.")] = 0.0,
    slack: Slack = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Verdict file; of several, a folder.")] = None,
    json: Json = False,
) -> None:
    """Certify recorded votes against every placement of a patch.

    Methods for all the evidence together: majorcert-exact, majorcert-paper, pool (their votes are added up), detection
    (no patch changes the label without an alert), pg-pool (the pool, masked). For each defender alone: drs-margin,
    drs-local, pg-drs (PatchGuard). Without --method the table shows, below the ensemble, drs-local of each member too.

    Example: majorcert certify runs/*/digits-test.zarr --patch 1 --patch 2x3 --promise detection -o verdicts
    """
    check_output(out, VERDICT)
    check_alerting(promise != "recovery" or "detection" in (method or []), slack)
    check_masking(method or [], mask, mask_threshold)
    defenders = defenders_of(evidence)
    patches = patches_of(patch, evidence[0], defenders)
    guarded = None if mask is None else as_patch(mask, defenders[0].image_size)
    labels = find_truth(truth, evidence[0], defenders[0], remark)
    if fragile is not None:
        defenders = [each.tolerating(fragile) for each in defenders]
        for sentence in fragility(defenders):
            remark(sentence)
    results = []
    for chosen in [*(method or []), *(f"top-{k}" for k in top or [])] or ["majorcert-exact"]:
        for each in patches:
            used = used_by(chosen, evidence, defenders, each, guarded, mask_threshold)
            if fragile is not None:
                used = [defender.tolerating(fragile) for defender in used]
            results += judged(chosen, used, each, slack, promise)
    if out is not None:
        save_all([each.verdict for each in results], out)
    lines = [counted(each, labels) for each in results]
    if json:
        say_json(lines)
        return
    if len(defenders) > 1 and not method and not top and promise != "joint":
        alone = [each for size in patches for each in judged("drs-local", defenders, size, 0, promise)]
        lines += [counted(each, labels) for each in alone]
    for sentence in remarks(lines):
        remark(sentence)
    say_table(*as_table(lines))
