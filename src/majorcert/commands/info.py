"""`majorcert info`: what is this artifact, and where does it come from? Needs no torch."""

import hashlib
import json as reader
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from majorcert.commands.options import Json
from majorcert.commands.records import attack, attack_folder, case_study, is_attack, read_object
from majorcert.commands.terminal import complain, say_json
from majorcert.core.verdict import Verdict
from majorcert.errors import StoreError
from majorcert.files.store import Store

FRAGILE = 1e-3
"""The tolerance at which fragile ballots are counted."""
KNOWN = "a run folder, an ensemble, an evidence store, a verdict, a truth file, a case study or an attack"


def info(
    file: Annotated[
        Path, typer.Argument(help="A run, ensemble, evidence store, verdict, truth file, case study or attack.")
    ],
    json: Json = False,
) -> None:
    """Say what an artifact is and where it comes from; exit code 1 if it is not what it claims to be.

    Example: majorcert info runs/columns-3
    """
    facts = describe(file)
    if json:
        say_json(facts)
    else:
        for name, value in _lines(facts).items():
            shown = value if isinstance(value, str) else reader.dumps(value)
            typer.echo(f"{name}: {shown if len(shown) <= 300 else shown[:297] + '...'}")
    if facts.get("weights") == "DAMAGED":
        complain(f"{file}: weights are not the ones that defender.json is about")
        raise typer.Exit(1)


def _lines(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts as lines: of several things of one kind, each has its own."""
    lines: dict[str, Any] = {}
    for name, value in facts.items():
        several = isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values())
        lines |= {f"{name}, {which}": each for which, each in value.items()} if several else {name: value}
    return lines


def describe(path: Path) -> dict[str, Any]:
    """The facts about an artifact, by name."""
    if (path / "ensemble.json").is_file():
        return _ensemble(path)
    if (path / "defender.json").is_file():
        return _defender(path)
    if (path / "checkpoint.json").is_file():
        return {"is": "an unfinished training run", **_claimed(path / "checkpoint.json", "majorcert-checkpoint")}
    if (path / "zarr.json").is_file():
        return _evidence(path)
    if (path / "recipes.json").is_file():
        return case_study(path)
    if any((path / name).is_file() for name in ("attack.json", "attack.jsonl", "undefended/attack.jsonl")):
        return attack_folder(path)
    if path.name == "attack.jsonl" and path.is_file():
        return attack_folder(path.parent)
    if path.suffix == ".jsonl" and path.is_file():
        verdict = Verdict.load(path)
        return {
            "is": "a verdict",
            "method": verdict.method,
            "patch": str(verdict.patch),
            "images": len(verdict),
            "certified": int(verdict.certified.sum()),
            "strategies": [str(defender.get("strategy", "?")) for defender in verdict.defenders],
            "fragile": [defender.get("fragile") for defender in verdict.defenders],
            "defenders": [dict(defender) for defender in verdict.defenders],
        }
    if path.suffix == ".json" and path.is_file():
        raw = read_object(path)
        if is_attack(raw) or path.name == "attack.json":
            return attack(raw, path)
        if raw.get("format") == "majorcert-truth":
            return {"is": "true labels", **_without(raw, "format", "labels"), "images": len(_list(raw, "labels", path))}
    what = "no such file or folder" if not path.exists() else "not an artifact of majorcert"
    raise StoreError(f"{path}: {what}; give {KNOWN}")


def _ensemble(path: Path) -> dict[str, Any]:
    facts = _claimed(path / "ensemble.json", "majorcert-ensemble")
    names = _list(facts, "members", path)
    if not names or not all(isinstance(name, str) and Path(name).name == name and name != ".." for name in names):
        raise StoreError(f"{path}: not an ensemble, its members are not names of sub-folders")
    members = {name: _defender(path / name) for name in names}
    whole = all(member["weights"] == "as recorded" for member in members.values())
    strategies = [member.get("strategy") for member in members.values()]
    return {"is": "an ensemble", "weights": "as recorded" if whole else "DAMAGED", **facts, "strategies": strategies}


def _defender(path: Path) -> dict[str, Any]:
    card = _claimed(path / "defender.json", "majorcert-defender")
    weights = path / "weights.safetensors"
    whole = weights.is_file() and _sha256(weights) == card.get("weights_sha256")
    return {"is": "a trained defender", "weights": "as recorded" if whole else "DAMAGED", **card}


def _evidence(path: Path) -> dict[str, Any]:
    store = Store.open(path)
    n_missing = sum(images.stop - images.start for images in store.missing())
    state = "complete" if not n_missing else f"{n_missing} images are still to be voted on"
    facts = {"is": "evidence", "images": store.n_images, "state": state, "scores": "scores" in store}
    if "distance" in store:
        distance = store.read("distance", slice(None), kind="f", n_axes=2)
        n_fragile = int((distance <= np.float64(FRAGILE)).sum())
        facts["fragile"] = f"{n_fragile} of {distance.size} ballots could change if every score moved by {FRAGILE}"
    return {**facts, **store.attributes}


def _claimed(path: Path, kind: str) -> dict[str, Any]:
    """What a file of ours says of itself."""
    raw = read_object(path)
    if raw.get("format") != kind:
        raise StoreError(f"{path}: not an artifact of majorcert, its format is {str(raw.get('format'))[:40]!r}")
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
