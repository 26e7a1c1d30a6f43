"""majorcert: proves, image by image, that no adversarial patch of a given size can change a classifier's label."""

from typing import TYPE_CHECKING, Any

from majorcert.core.ballots import ABSTAIN, Ballots
from majorcert.core.drs import drs
from majorcert.core.largest import largest_patch
from majorcert.core.majority import majorcert
from majorcert.core.reach import Evidence, Reach
from majorcert.core.regions import Blocks, Columns, Rows, Strategy, strategy
from majorcert.core.threat import Patch
from majorcert.core.verdict import Score, Summary, Verdict, Witness, score, summary
from majorcert.defences.patchguard import MaskedScores, patchguard
from majorcert.defences.scores import Scores
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

if TYPE_CHECKING:
    from majorcert.nets.defender import Defender, Ensemble

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


def __getattr__(name: str) -> Any:
    """Defender and Ensemble need torch, so they are imported when they are first asked for."""
    if name not in ("Defender", "Ensemble"):
        raise AttributeError(f"module 'majorcert' has no attribute {name!r}")
    from majorcert.nets import defender

    return getattr(defender, name)
