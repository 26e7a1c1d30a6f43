"""majorcert: proves, image by image, that no adversarial patch of a given size can change a classifier's label.

The public names are imported when they are first asked for: some need torch, and the command line must be able to stop
quietly while NumPy is still being imported.
"""

from importlib import import_module

TYPE_CHECKING = False  # to type checkers it is true; `typing` itself takes longer to import than all of this

if TYPE_CHECKING:
    from majorcert.ballots import ABSTAIN, Ballots
    from majorcert.certify.drs import drs
    from majorcert.certify.largest import largest_patch
    from majorcert.certify.majority import majorcert
    from majorcert.certify.patchguard import MaskedScores, patchguard
    from majorcert.errors import (
        BallotsError,
        DataError,
        EvidenceError,
        MajorcertError,
        ModelError,
        PatchError,
        StoreError,
        StrategyError,
    )
    from majorcert.nets.defender import Defender, Ensemble
    from majorcert.reach import Evidence, Reach
    from majorcert.scores import Scores
    from majorcert.strategies import Blocks, Columns, Rows, Strategy, strategy
    from majorcert.threat import Patch
    from majorcert.verdict import Score, Summary, Verdict, Witness, score, summary

__version__ = "0.1.0"
__all__ = [
    "ABSTAIN",
    "Ballots",
    "BallotsError",
    "Blocks",
    "Columns",
    "DataError",
    "Defender",
    "Ensemble",
    "Evidence",
    "EvidenceError",
    "MajorcertError",
    "MaskedScores",
    "ModelError",
    "Patch",
    "PatchError",
    "Reach",
    "Rows",
    "Score",
    "Scores",
    "StoreError",
    "Strategy",
    "StrategyError",
    "Summary",
    "Verdict",
    "Witness",
    "drs",
    "largest_patch",
    "majorcert",
    "patchguard",
    "score",
    "strategy",
    "summary",
]
HOMES = {
    "ballots": ("ABSTAIN", "Ballots"),
    "certify.drs": ("drs",),
    "certify.largest": ("largest_patch",),
    "certify.majority": ("majorcert",),
    "certify.patchguard": ("MaskedScores", "patchguard"),
    "errors": (
        "BallotsError",
        "DataError",
        "EvidenceError",
        "MajorcertError",
        "ModelError",
        "PatchError",
        "StoreError",
        "StrategyError",
    ),
    "nets.defender": ("Defender", "Ensemble"),
    "reach": ("Evidence", "Reach"),
    "scores": ("Scores",),
    "strategies": ("Blocks", "Columns", "Rows", "Strategy", "strategy"),
    "threat": ("Patch",),
    "verdict": ("Score", "Summary", "Verdict", "Witness", "score", "summary"),
}
"""The module that each public name comes from."""


def __getattr__(name: str) -> object:
    for module, names in HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"majorcert.{module}"), name)
            return found
    raise AttributeError(f"module 'majorcert' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
