"""majorcert: proves, image by image, that no adversarial patch of a given size can change a classifier's label."""

from majorcert.ballots import ABSTAIN, Ballots
from majorcert.certify.drs import drs
from majorcert.certify.largest import largest_patch
from majorcert.certify.majority import majorcert
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
from majorcert.reach import Evidence, Reach
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
    "Evidence",
    "EvidenceError",
    "MajorcertError",
    "ModelError",
    "Patch",
    "PatchError",
    "Reach",
    "Rows",
    "Score",
    "StoreError",
    "Strategy",
    "StrategyError",
    "Summary",
    "Verdict",
    "Witness",
    "drs",
    "largest_patch",
    "majorcert",
    "score",
    "strategy",
    "summary",
]
