"""Options that several verbs share."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

INTERRUPTED = 130
"""The exit code after Ctrl-C, as of any command that a signal stopped."""

PATCH = (
    "'5' or '2x7' (HEIGHTxWIDTH) in pixels of the image that the networks see; of the photos '2%' or '75x100px', "
    "converted to all that it can change there."
)


def from_here(named: Any) -> Any:
    """Functions that a user names are also looked for in the current folder."""
    if named and "" not in sys.path:
        sys.path.append("")
    return named


Promise = StrEnum("Promise", {"RECOVERY": "recovery", "DETECTION": "detection"})
Rule = StrEnum("Rule", {"MAJORITY": "majorcert-exact", "POOL": "pool", "MASKED_POOL": "pg-pool"})
"""How one label is made of an ensemble, by the names that `certify` has for it."""
RULE = (
    "'majorcert-exact', the plurality of the members' labels; 'pool', of all their votes; 'pg-pool', the same masked "
    "for the patches asked for (PatchGuard)."
)
Ruled = Annotated[Rule, typer.Option("--method", help=RULE)]
Slack = Annotated[
    int, typer.Option(min=0, help="Of detection by one defender or pool: votes by which another label must lead.")
]
Promised = Annotated[
    Promise,
    typer.Option("--promise", help="'recovery': no patch changes the label; 'detection': not without an alert."),
]
Pooled = Annotated[bool, typer.Option("--pool", help="Add up the votes of all members before the label is taken.")]
Bounded = Annotated[bool, typer.Option("--bound/--no-bound", help="Let those answer who must know --patch, if any.")]
Fit = Annotated[str, typer.Option(help="'squash' photos to the size, 'crop' their middle, or 'pad' them with grey.")]
DataDir = Annotated[Path, typer.Option(help="Where downloaded data sets are kept.")]
SplitSeed = Annotated[int, typer.Option(help="Chooses which fifth of the training images is the split 'val'.")]
SkipBad = Annotated[bool, typer.Option(help="Leave out image files that cannot be read, instead of stopping.")]
Device = Annotated[str, typer.Option(help="'auto', 'cpu', 'cuda' or 'cuda:1'.")]
Patches = Annotated[list[str], typer.Option("--patch", help=f"{PATCH} Repeatable.")]
Stores = Annotated[list[str], typer.Argument(help="Evidence stores that `majorcert vote` wrote.")]
Images = Annotated[str | None, typer.Option(help="The data that was voted on, to show it: 'digits', a folder, ...")]
Truth = Annotated[Path | None, typer.Option(help="True labels, .json or .npy; by default those beside the evidence.")]
Study = Annotated[Path, typer.Argument(help="A case study: recipes.json, truth.npy and evidence stores.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-factory",
        callback=from_here,
        help="package.module:function of yours that may be called to make its network.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
