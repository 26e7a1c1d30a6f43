"""What every promise comes to on the shipped evidence.

    python studies/promises.py results/cifar10 > results/cifar10/promises.json

For each recipe that votes, in percent of its images: the strongest promise of each image, alerts on clean images and
those that an attacker can raise at will; the same of the pooled votes by slack; and how many labels stay among the
first k of the pooled votes.
"""

import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import majorcert as mc

RECIPES, PATCHES, SLACKS, FIRST = ("best", "small"), (2, 5), (0, 8, 16, 24, 32), (1, 2, 3)


def percent(chosen: npt.NDArray[np.bool_]) -> float:
    return round(100 * float(chosen.mean()), 2)


def joint_row(
    defenders: list[mc.Evidence], patch: int, truth: npt.NDArray[np.int64], slack: int = 0
) -> dict[str, float]:
    found = mc.joint(defenders, patch, slack=slack)
    strongest = {name: percent(found.holds == name) for name in ("unwavering", "recovery", "detection", "none")}
    verdicts = {name: getattr(found, name) for name in ("unwavering", "recovery", "detection")}
    correct = {f"{name}_and_correct": percent(v.certified & (v.predicted == truth)) for name, v in verdicts.items()}
    alerts = {"alerts": percent(np.asarray(found.detection.alert)), "at_will": percent(found.alertable)}
    return {
        **strongest,
        **{f"{name}_in_all": percent(v.certified) for name, v in verdicts.items()},
        **correct,
        **alerts,
    }


def main(study: Path) -> None:
    truth = np.load(study / "truth.npy")
    rows = []
    for recipe in RECIPES:
        defenders = [mc.load_evidence(path) for path in sorted((study / recipe).glob("*.zarr"))]
        pool = mc.Pool(defenders)
        for patch in PATCHES:
            about = {"recipe": recipe, "patch": f"{patch}x{patch}", "n": len(pool)}
            rows.append({**about, "who": "majority", "promise": "joint", **joint_row(defenders, patch, truth)})
            for slack in SLACKS:
                found = joint_row([pool], patch, truth, slack)
                rows.append({**about, "who": "pool", "promise": "joint", "slack": slack, **found})
            for k in FIRST:
                ranked = mc.top_k(pool, patch, k)
                scores = mc.score(ranked, truth)
                shares = {"clean": scores.clean, "certified_and_correct": scores.certified}
                found = {name: round(100 * share, 2) for name, share in shares.items()}
                rows.append(
                    {**about, "who": "pool", "promise": f"top-{k}", "certified": percent(ranked.certified), **found}
                )
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
