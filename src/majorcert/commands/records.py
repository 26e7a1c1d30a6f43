"""What `majorcert info` says of the records of whole experiments: case studies and attacks. Needs no torch."""

import math
from pathlib import Path
from typing import Any

from majorcert.errors import StoreError
from majorcert.files.store import Store
from majorcert.files.untrusted import MAX_JSON_BYTES, parse_json, read_bytes, read_json, reason
from majorcert.reports.casestudy import CaseStudy, Recipe, committed

MAIN_METHOD = "majorcert-exact"
CLASSIFIERS = ("undefended", "defended")
ATTACK = "majorcert-attack"
"""The format of the rows of an attack."""


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        raw = read_json(path)
        if isinstance(raw, dict):
            return raw
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({reason(error)})") from None
    raise StoreError(f"{path}: not an artifact of majorcert")


def case_study(folder: Path) -> dict[str, Any]:
    """What a case study is about, the evidence of each recipe, and the main numbers of its results.json."""
    study = CaseStudy.read(folder)
    accuracies = _accuracies(folder) if (folder / "results.json").exists() else None
    stores = {store: Store.open(folder / store) for recipe in study.recipes for store in recipe.defenders}
    for name, store in stores.items():
        if store.n_images > len(study.truth):
            raise StoreError(f"{folder / name}: is of {store.n_images} images, truth.npy of {len(study.truth)}")
    shared = {
        key: sorted({str(store.attributes.get(key)) for store in stores.values()})
        for key in ("dataset", "split", "images_sha256")
    }
    facts: dict[str, Any] = {
        "is": "a case study",
        "images": len(study.truth),
        **{key: values[0] if len(values) == 1 else values for key, values in shared.items()},
        "accuracies": f"none yet; `majorcert table {folder} --write` makes them"
        if accuracies is None
        else f"as results.json has them, in percent, by {MAIN_METHOD}; `majorcert table {folder} --check` checks them",
    }
    facts["recipes"] = {
        recipe.name: _recipe(recipe, stores, (accuracies or {}).get(recipe.name)) for recipe in study.recipes
    }
    if (folder / "attack.json").exists():
        told = attack(read_object(folder / "attack.json"), folder / "attack.json")
        setting = {"images": told["images"], "patch": told["patch"]}
        facts["attack"] = {name: {**setting, **told[name]} for name in CLASSIFIERS if name in told}
    return facts


def _recipe(recipe: Recipe, stores: dict[str, Store], accuracy: dict[str, Any] | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"strategies": [str(stores[name].attributes.get("strategy")) for name in recipe.defenders]}
    missing = sum(images.stop - images.start for name in recipe.defenders for images in stores[name].missing())
    if missing:
        facts["state"] = f"{missing} votes on images are still to come"
    told = {"command": recipe.command, "epochs": recipe.epochs, "gpu_minutes": recipe.gpu_minutes, "note": recipe.note}
    return {**facts, **(accuracy or {}), **{key: value for key, value in told.items() if value not in (None, "")}}


def _accuracies(folder: Path) -> dict[str, dict[str, Any]]:
    """Of each recipe, the clean accuracy, and the certified one at each patch."""
    found: dict[str, dict[str, Any]] = {}
    try:
        for row in committed(folder)["rows"]:
            recipe, patch = str(row["recipe"]), str(row["patch"])
            clean, certified = _share(row["clean"], 100), _share(row["certified"], 100)
            if row["method"] == MAIN_METHOD:
                found.setdefault(recipe, {"clean": clean, "certified": {}})["certified"][patch] = certified
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{folder}: results.json is damaged ({reason(error)}); `majorcert table {folder} --write` makes it anew"
        ) from None
    return found


def is_attack(raw: dict[str, Any]) -> bool:
    """Whether a JSON object is the summary that `majorcert attack` writes."""
    return isinstance(raw.get("defended"), dict) and "n_flipped" in raw["defended"]


def attack(raw: dict[str, Any], path: Path) -> dict[str, Any]:
    """What an attack came to: an attack.json, whose numbers must agree with each other."""
    try:
        n, about = _count(raw["n"]), raw["defended"]["about"]
        facts: dict[str, Any] = {"is": "the summary of an attack", "images": n, "patch": str(raw["patch"])}
        facts |= {key: about.get(key) for key in ("dataset", "split", "images_sha256")}
        for name in CLASSIFIERS:
            if name in raw or name == "defended":
                facts[name] = _classifier(raw[name], n)
        facts["effort"] = {
            key: about.get(key) for key in ("restarts", "steps", "placements", "probed", "cheap", "seed")
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path}: not the summary of an attack, or damaged ({reason(error)}); `majorcert attack` writes it"
        ) from None
    return facts


def _classifier(told: dict[str, Any], n: int) -> dict[str, Any]:
    counts = {
        key: _count(told[key]) for key in ("n_attacked", "n_flipped", "n_certified_attacked", "n_certified_flipped")
    }
    attacked, flipped, certified, certified_flipped = counts.values()
    shares = {"clean": attacked, "under_attack": attacked - flipped, "certified": certified}
    for key, count in shares.items():
        if not math.isclose(_share(told[key], 1) * n, count, abs_tol=1e-6):
            raise ValueError(f"its {key} is {told[key]}, and {count} of {n} are counted")
    if certified_flipped > min(certified, flipped) or not max(certified, flipped) <= attacked <= n:
        raise ValueError("its counts contradict each other")
    about = told["about"]
    kept = {key: about.get(key) for key in ("strategies", "weights_sha256")}
    return {**{key: told[key] for key in shares}, **counts, "broken": len(told["broken"]), **kept}


def attack_folder(folder: Path) -> dict[str, Any]:
    """The same of a folder that `majorcert attack` wrote, whose rows must bear the summary out."""
    rows = {name: _rows(folder / ("" if name == "defended" else name) / "attack.jsonl") for name in CLASSIFIERS}
    if not (folder / "attack.json").is_file():
        done = {name: len(found) for name, found in rows.items() if found is not None}
        state = "unfinished, and the same command goes on, unless this is a part of the folder above"
        return {"is": "the rows of an attack", "rows": done, "state": state}
    facts = attack(read_object(folder / "attack.json"), folder / "attack.json")
    for name, found in rows.items():
        if found is None or name not in facts:
            continue
        attacked = [row for row in found if row.get("attacked")]
        counted = {
            "n_attacked": len(attacked),
            "n_flipped": sum(bool(row.get("flipped")) for row in attacked),
            "n_certified_attacked": sum(bool(row.get("certified")) for row in attacked),
            "n_certified_flipped": sum(bool(row.get("certified") and row.get("flipped")) for row in attacked),
        }
        if len(found) != facts["images"] or any(facts[name][key] != count for key, count in counted.items()):
            raise StoreError(f"{folder}: damaged, attack.json is not what the rows of {name} give; attack anew")
    painted = folder / "painted"
    facts["painted"] = sum(1 for _ in painted.glob("*.png")) if painted.is_dir() else 0
    return facts


def _rows(path: Path) -> list[dict[str, Any]] | None:
    """The rows of an attack; None if there is no such file."""
    if not path.exists():
        return None
    try:
        header, *rows = (parse_json(line) for line in read_bytes(path, MAX_JSON_BYTES).splitlines() or [b""])
        if (header["format"], header["version"]) != (ATTACK, 1) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is of another format or version")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: not the record of an attack, or damaged ({reason(error)})") from None
    return rows


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"expected a count, got {str(value)[:40]}")
    return value


def _share(value: Any, one: float) -> float:
    if type(value) not in (int, float) or not 0 <= value <= one:
        raise ValueError(f"expected a number from 0 to {one:g}, got {str(value)[:40]}")
    return float(value)
