"""The summary of an attack: the accuracies of each classifier, clean and under attack, and what was certified."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from majorcert.attacks.logbook import Logbook
from majorcert.attacks.run import AttackRun
from majorcert.files.attack_rows import Row


def summarised(runs: Mapping[str, AttackRun], logs: Mapping[str, Logbook]) -> dict[str, Any]:
    """By classifier, counted from the rows; `n` images and `patch` are common to all."""
    common = next(iter(runs.values()))
    return {
        "n": len(common.images),
        "patch": str(common.patch),
        "promise": runs["defended"].promise,
        **({"slack": slack} if (slack := runs["defended"].slack) else {}),
        **{name: _classifier(logs[name], run.kept_as_broken()) for name, run in runs.items()},
    }


def _classifier(log: Logbook, kept_as_broken: set[int]) -> dict[str, Any]:
    rows = log.rows
    attacked = [row for row in rows if row["attacked"]]
    flipped = [row for row in attacked if row["flipped"]]
    certified = [row for row in attacked if row["certified"]]
    return {
        "clean": len(attacked) / len(rows),
        "under_attack": (len(attacked) - len(flipped)) / len(rows),
        "certified": len(certified) / len(rows),
        "n_attacked": len(attacked),
        "n_flipped": len(flipped),
        "n_certified_attacked": len(certified),
        "n_certified_flipped": sum(row["flipped"] for row in certified),
        **(_alerts(attacked) if any("alert" in row for row in rows) else {}),
        "flipped_by": dict(sorted(Counter(row["by"] for row in flipped).items())),
        "n_restarts": sum(row["restarts"] for row in attacked),
        "n_steps": sum(row["steps"] for row in attacked),
        "broken": sorted({row["image"] for row in rows if row["broken"]} | kept_as_broken),
        "seconds": round(log.seconds, 1),
        "about": log.about,
    }


def _alerts(attacked: list[Row]) -> dict[str, int]:
    """Of detection: images whose label changed, alert or not, and those with an alert, before and under the attack."""
    counts = {"n_changed": "changed", "n_alerts_clean": "alert", "n_alerts": "alerted"}
    found = {name: sum(row[key] for row in attacked) for name, key in counts.items()}
    certified = [row for row in attacked if row["certified"]]
    return found | {f"n_certified_{key}": sum(row[key] for row in certified) for key in ("changed", "alerted")}
