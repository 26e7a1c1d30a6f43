"""What a file or folder is: what was found in it, and apart from that what it claims of itself. Needs no torch."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from majorcert.core.verdict import Verdict
from majorcert.errors import StoreError
from majorcert.files.evidence import load_evidence
from majorcert.files.store import Store
from majorcert.files.untrusted import cleaned, read_object
from majorcert.reports.abstention import abstentions
from majorcert.reports.attack_record import attack_folder, attack_summary, is_attack
from majorcert.reports.rooms import ROOMS
from majorcert.reports.study.record import case_study

FRAGILE = 1e-3
"""The tolerance at which fragile ballots are counted."""
WIDEST = 300
"""Characters of a line that are shown."""
KNOWN = "a run folder, an ensemble, an evidence store, a verdict, a truth file, a case study or an attack"


@dataclass(frozen=True)
class Artifact:
    """What `majorcert info` tells."""

    kind: str  # "evidence", "an ensemble", ...
    found: dict[str, Any]  # what was computed from the content
    claims: dict[str, Any] = field(default_factory=dict)  # what the file says of itself, which nobody checked
    damage: str = ""  # why it is not what it claims to be, in a sentence; empty if nothing contradicts it


def describe(path: Path) -> Artifact:
    """What the artifact at this path is; what is none is refused."""
    try:
        return _described(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from None


def lines_of(facts: Mapping[str, Any]) -> list[str]:
    """The facts as lines: of several things of one kind, each has its own."""
    lines: list[str] = []
    for name, value in facts.items():
        if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
            lines += lines_of({f"{name}, {which}": json.dumps(each) for which, each in value.items()})
            continue
        shown = value if isinstance(value, str) else json.dumps(value)
        lines.append(f"{cleaned(name)}: {shown if len(shown) <= WIDEST else shown[: WIDEST - 3] + '...'}")
    return lines


def _described(path: Path) -> Artifact:
    if (path / "ensemble.json").is_file():
        return _ensemble(path)
    if (path / "defender.json").is_file():
        return _defender(path)
    if (path / "checkpoint.json").is_file():
        return Artifact("an unfinished training run", {}, _claims(path / "checkpoint.json", "majorcert-checkpoint"))
    if (path / "zarr.json").is_file():
        return _evidence(path)
    if (path / "recipes.json").is_file():
        return _told(case_study(path))
    if any((path / name).is_file() for name in ("attack.json", "attack.jsonl", "undefended/attack.jsonl")):
        return _told(attack_folder(path))
    if path.name == "attack.jsonl" and path.is_file():
        return _told(attack_folder(path.parent))
    if path.suffix == ".jsonl" and path.is_file():
        return _verdict(Verdict.load(path))
    if path.suffix == ".json" and path.is_file():
        raw = read_object(path)
        if is_attack(raw) or path.name == "attack.json":
            return _told(attack_summary(raw, path))
        if raw.get("format") == "majorcert-truth":
            return Artifact(
                "true labels", {"images": len(_list(raw, "labels", path))}, _without(raw, "format", "labels")
            )
    what = "no such file or folder" if not path.exists() else "not an artifact of majorcert"
    raise StoreError(f"{path}: {what}; give {KNOWN}")


def _told(facts: dict[str, Any]) -> Artifact:
    """Of records that were read item by item, so that nothing in them can stand for anything else."""
    return Artifact(facts["is"], _without(facts, "is"))


def _verdict(verdict: Verdict) -> Artifact:
    told = [each for defender in verdict.defenders for each in _members(defender)]
    found = {
        "promise": verdict.promise,
        "method": verdict.method,
        "patch": str(verdict.patch),
        "images": len(verdict),
        "certified": int(verdict.certified.sum()),
        "strategies": [str(each.get("strategy", "?")) for each in told],
        "fragile": [each.get("fragile") for each in told],
    }
    return Artifact("a verdict", found, {"defenders": [dict(defender) for defender in verdict.defenders]})


def _members(defender: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those whose votes a pool added up, as it claims; any other defender is one."""
    members = defender.get("members")
    listed = isinstance(members, list) and all(isinstance(each, Mapping) for each in members)
    return members if listed and members else [defender]


def _ensemble(path: Path) -> Artifact:
    claims = _claims(path / "ensemble.json", "majorcert-ensemble")
    names = _list(claims, "members", path)
    if not names or not all(isinstance(name, str) and Path(name).name == name not in ("", "..") for name in names):
        raise StoreError(f"{path}: not an ensemble, its members are not names of sub-folders")
    members = {name: _defender(path / name) for name in names}
    damaged = [name for name, member in members.items() if member.damage]
    found = {
        "weights": "DAMAGED" if damaged else "as recorded",
        "strategies": [member.claims.get("strategy") for member in members.values()],
    }
    why = f"in {cleaned(', '.join(damaged))}, weights are not the ones that defender.json is about"
    return Artifact("an ensemble", found, claims, why if damaged else "")


def _defender(path: Path) -> Artifact:
    claims, weights = _claims(path / "defender.json", "majorcert-defender"), path / "weights.safetensors"
    found = _sha256(weights) if weights.is_file() else "there are none"
    whole = found == claims.get("weights_sha256")
    return Artifact(
        "a trained defender",
        {"weights": "as recorded" if whole else "DAMAGED", "weights_sha256": found},
        claims,
        "" if whole else "weights are not the ones that defender.json is about",
    )


def _evidence(path: Path) -> Artifact:
    store = Store.open(path)
    n_missing = sum(images.stop - images.start for images in store.missing())
    state = "complete" if not n_missing else f"images that are still to be voted on: {n_missing}"
    found: dict[str, Any] = {"images": store.n_images, "state": state, "scores": "scores" in store}
    if "distance" in store:
        distance, unit = store.read("distance"), ROOMS[store.kind.evidence].fragile_parts
        n_fragile = int((distance <= np.float64(FRAGILE)).sum())
        found["fragile"] = f"{n_fragile} of {distance.size} {unit} could change if every score moved by {FRAGILE}"
    if not n_missing:
        found["images_without_a_vote"] = abstentions([""], [load_evidence(path)])[""]
    return Artifact("evidence", found, dict(store.attributes))


def _claims(path: Path, kind: str) -> dict[str, Any]:
    """What a file of ours says of itself."""
    raw = read_object(path)
    if raw.get("format") != kind:
        raise StoreError(f"{path}: not an artifact of majorcert, its format is {cleaned(raw.get('format'))[:40]!r}")
    return _without(raw, "format")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _list(raw: dict[str, Any], name: str, path: Path) -> list[Any]:
    found = raw.get(name, [])
    if not isinstance(found, list):
        raise StoreError(f"{path}: not an artifact of majorcert, its {name} are no list")
    return found


def _without(raw: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if name not in names}
