"""majorcert: proves, image by image, that no adversarial patch of a given size can change a classifier's label."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from majorcert.core.ballots import ABSTAIN, Ballots
from majorcert.core.detection import detect
from majorcert.core.majority import drs, majorcert
from majorcert.core.majority import majorcert as certify
from majorcert.core.reach import Evidence, Reach
from majorcert.core.regions import Blocks, Columns, Rows, Strategy, strategy
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict, Witness
from majorcert.defences.bounds import Bounds
from majorcert.defences.clipped import ClippedScores
from majorcert.defences.fields import Fields
from majorcert.defences.joint import Joint, joint
from majorcert.defences.largest import largest_patch
from majorcert.defences.masking import MaskPairs, Masks
from majorcert.defences.patchguard import MaskedPool, MaskedScores, patchguard
from majorcert.defences.pool import Pool
from majorcert.defences.scores import Scores
from majorcert.defences.top_k import top_k
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
from majorcert.reports import shown  # noqa: F401 (gives verdicts and evidence what notebooks show)
from majorcert.reports.score import Score, Summary, score, summary

if TYPE_CHECKING:
    from majorcert.attacks.attack import attack
    from majorcert.audit.verify import verify
    from majorcert.files.evidence import load_evidence
    from majorcert.files.photo import Resizing, patch_from_photo, patch_on_photo
    from majorcert.nets.bounding import BoundsDefender
    from majorcert.nets.defender import Defender
    from majorcert.nets.ensemble import Ensemble
    from majorcert.nets.masking import MaskingDefender
    from majorcert.nets.protect import protect
    from majorcert.nets.verbs import train, vote
    from majorcert.reports.notebook import Bar
    from majorcert.reports.report import report

LATER = {
    "Bar": "majorcert.reports.notebook",
    "BoundsDefender": "majorcert.nets.bounding",
    "Defender": "majorcert.nets.defender",
    "Ensemble": "majorcert.nets.ensemble",
    "MaskingDefender": "majorcert.nets.masking",
    "Resizing": "majorcert.files.photo",
    "attack": "majorcert.attacks.attack",
    "load_evidence": "majorcert.files.evidence",
    "patch_from_photo": "majorcert.files.photo",
    "patch_on_photo": "majorcert.files.photo",
    "protect": "majorcert.nets.protect",
    "report": "majorcert.reports.report",
    "train": "majorcert.nets.verbs",
    "verify": "majorcert.audit.verify",
    "vote": "majorcert.nets.verbs",
}
"""Names that need torch or files: they are imported when they are first asked for."""

__version__ = "0.2.0"
__all__ = [
    "ABSTAIN",
    "Ballots",
    "BallotsError",
    "Bar",
    "Blocks",
    "Bounds",
    "BoundsDefender",
    "ClippedScores",
    "Columns",
    "DataError",
    "Defender",
    "Ensemble",
    "Evidence",
    "EvidenceError",
    "Fields",
    "Joint",
    "MajorcertError",
    "MaskPairs",
    "MaskedPool",
    "MaskedScores",
    "MaskingDefender",
    "Masks",
    "ModelError",
    "Patch",
    "PatchError",
    "Pool",
    "Reach",
    "Resizing",
    "Rows",
    "Score",
    "Scores",
    "StoreError",
    "Strategy",
    "StrategyError",
    "Summary",
    "Verdict",
    "Witness",
    "attack",
    "certify",
    "detect",
    "drs",
    "joint",
    "largest_patch",
    "load_evidence",
    "majorcert",
    "patch_from_photo",
    "patch_on_photo",
    "patchguard",
    "protect",
    "report",
    "score",
    "strategy",
    "summary",
    "top_k",
    "train",
    "verify",
    "vote",
]


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'majorcert' has no attribute {name!r}")
    return getattr(import_module(LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
