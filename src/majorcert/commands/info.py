"""`majorcert info`: what is this artifact, and where does it come from? Needs no torch."""

import hashlib
import json as reader
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from majorcert.commands.options import Json
from majorcert.commands.terminal import complain, say_json
from majorcert.errors import StoreError
from majorcert.intake import read_json, reason
from majorcert.store import Store
from majorcert.verdict import Verdict

FRAGILE = 1e-3
"""The tolerance at which fragile ballots are counted."""


def info(
    file: Annotated[Path, typer.Argument(help="A run folder, ensemble, evidence store, verdict or truth file.")],
    json: Json = False,
) -> None:
    """Say what an artifact is and where it comes from; exit code 1 if it is not what it claims to be.

    Example: majorcert info runs/columns-3
    """
    facts = describe(file)
    if json:
        say_json(facts)
    else:
        for name, value in facts.items():
            shown = value if isinstance(value, str) else reader.dumps(value)
            typer.echo(f"{name}: {shown if len(shown) <= 300 else shown[:297] + '...'}")
    if facts.get("weights") == "DAMAGED":
        complain(f"{file}: weights are not the ones that defender.json is about")
        raise typer.Exit(1)


def describe(path: Path) -> dict[str, Any]:
    """The facts about an artifact, by name."""
    if (path / "ensemble.json").is_file():
        return _ensemble(path)
    if (path / "defender.json").is_file():
        return _defender(path)
    if (path / "checkpoint.json").is_file():
        return {"is": "an unfinished training run", **_without(_read(path / "checkpoint.json"), "format")}
    if (path / "zarr.json").is_file():
        return _evidence(path)
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
        raw = _read(path)
        if raw.get("format") == "majorcert-truth":
            return {"is": "true labels", **_without(raw, "format", "labels"), "images": len(_list(raw, "labels", path))}
    what = "no such file or folder" if not path.exists() else "not an artifact of majorcert"
    raise StoreError(f"{path}: {what}; give a run folder, an ensemble, an evidence store, a verdict or a truth file")


def _ensemble(path: Path) -> dict[str, Any]:
    facts = _without(_read(path / "ensemble.json"), "format")
    names = _list(facts, "members", path)
    if not all(isinstance(name, str) and Path(name).name == name and name != ".." for name in names):
        raise StoreError(f"{path}: not an ensemble, its members are not names of sub-folders")
    members = {name: _defender(path / name) for name in names}
    whole = all(member["weights"] == "as recorded" for member in members.values())
    strategies = [member.get("strategy") for member in members.values()]
    return {"is": "an ensemble", "weights": "as recorded" if whole else "DAMAGED", **facts, "strategies": strategies}


def _defender(path: Path) -> dict[str, Any]:
    card = _without(_read(path / "defender.json"), "format")
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


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = read_json(path)
        if isinstance(raw, dict):
            return raw
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({reason(error)})") from None
    raise StoreError(f"{path}: not an artifact of majorcert")


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
