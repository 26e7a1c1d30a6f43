"""The record of an attack as it lies on disk: read without torch, and only if its numbers bear each other out."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from majorcert.errors import StoreError
from majorcert.files.attack_rows import read_rows
from majorcert.files.untrusted import read_object, reason

CLASSIFIERS = ("undefended", "defended")
ALERTS = ("n_changed", "n_alerts_clean", "n_alerts", "n_certified_changed", "n_certified_alerted")


def is_attack(raw: dict[str, Any]) -> bool:
    """Whether a JSON object is the summary that `majorcert attack` writes."""
    return isinstance(raw.get("defended"), dict) and "n_flipped" in raw["defended"]


def attack_summary(raw: dict[str, Any], path: Path) -> dict[str, Any]:
    """What an attack came to: an attack.json, whose numbers must agree with each other."""
    try:
        n, about = _count(raw["n"]), raw["defended"]["about"]
        facts: dict[str, Any] = {"is": "the summary of an attack", "images": n, "patch": str(raw["patch"])}
        facts["promise"] = str(raw.get("promise", "recovery"))
        facts |= {key: _count(raw[key]) for key in ("slack",) if key in raw}
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
        if not math.isclose(share(told[key], 1) * n, count, abs_tol=1e-6):
            raise ValueError(f"its {key} is {told[key]}, and {count} of {n} are counted")
    if certified_flipped > min(certified, flipped) or not max(certified, flipped) <= attacked <= n:
        raise ValueError("its counts contradict each other")
    about = told["about"]
    kept = {key: about.get(key) for key in ("strategies", "weights_sha256")}
    alerts = {key: _count(told[key]) for key in ALERTS if key in told}
    if any(count > attacked for count in alerts.values()) or alerts.get("n_changed", flipped) < flipped:
        raise ValueError("its counts of alerts contradict each other")
    return {**{key: told[key] for key in shares}, **counts, **alerts, "broken": len(told["broken"]), **kept}


def attack_folder(folder: Path) -> dict[str, Any]:
    """The same of a folder that `majorcert attack` wrote, whose rows must bear the summary out."""
    paths = {name: folder / ("" if name == "defended" else name) / "attack.jsonl" for name in CLASSIFIERS}
    rows = {name: read_rows(path)[1] for name, path in paths.items() if path.exists()}
    if not (folder / "attack.json").is_file():
        done = {name: len(found) for name, found in rows.items()}
        state = "unfinished, and the same command goes on, unless this is a part of the folder above"
        return {"is": "the rows of an attack", "rows": done, "state": state}
    facts = attack_summary(read_object(folder / "attack.json"), folder / "attack.json")
    for name, found in rows.items():
        if name not in facts:
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


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"expected a count, got {str(value)[:40]}")
    return value


def share(value: Any, one: float) -> float:
    if type(value) not in (int, float) or not 0 <= value <= one:
        raise ValueError(f"expected a number from 0 to {one:g}, got {str(value)[:40]}")
    return float(value)


def attack_table(summary: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The header and the cells of the classifiers that were attacked."""
    lines = [
        [
            f"{name} ({', '.join(told['about']['strategies'])})",
            str(summary["n"]),
            *(f"{100 * told[key]:.1f}" for key in ("clean", "under_attack", "certified")),
        ]
        for name, told in summary.items()
        if isinstance(told, dict)
    ]
    return ["classifier", "images", "clean %", "under attack %", "certified %"], lines


def alerts_told(summary: Mapping[str, Any]) -> list[str]:
    """Under detection: how many labels changed, how many of these silently, and how many images raised an alert."""
    told = summary["defended"]
    if "n_alerts" not in told:
        return []
    return [
        f"images whose label changed: {told['n_changed']}, of these without an alert: {told['n_flipped']}; "
        f"images on which an alert was raised: {told['n_alerts']}, and which raise one as they are: "
        f"{told['n_alerts_clean']}"
    ]
