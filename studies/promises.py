"""What every promise comes to on the evidence of a case study.

    python studies/promises.py results/cifar10 > results/cifar10/promises.json

For every recipe whose defenders all vote, or all mask, and each patch of the table, in percent of the images: the
strongest promise of each image, alerts on clean images and those that an attacker can raise at will. Of votes, in one
count if there are several defenders, the same by slack; and how many labels stay among the first k.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import majorcert as mc
from majorcert.reports.bound import within
from majorcert.reports.rooms import room_of
from majorcert.reports.study import CaseStudy
from majorcert.reports.study.results import patches_up_to

Row = dict[str, Any]
SLACKS, FIRST = (0, 1 / 12, 1 / 6, 1 / 4, 1 / 3), (1, 2, 3)
"""Slacks are shares of all points."""


def percent(chosen: npt.NDArray[np.bool_]) -> float:
    return round(100 * float(chosen.mean()), 2)


def joint_row(defenders: list[mc.Evidence], patch: mc.Patch, truth: npt.NDArray[np.int64], slack: int = 0) -> Row:
    found = mc.joint(defenders, patch, slack=slack)
    strongest = {name: percent(found.holds == name) for name in ("unwavering", "recovery", "detection", "none")}
    verdicts = {name: getattr(found, name) for name in ("unwavering", "recovery", "detection")}
    return {
        **strongest,
        **{f"{name}_in_all": percent(v.certified) for name, v in verdicts.items()},
        **{f"{name}_and_correct": percent(v.certified & (v.predicted == truth)) for name, v in verdicts.items()},
        "alerts": percent(np.asarray(found.detection.alert)),
        "at_will": percent(found.alertable),
    }


def top_row(voter: mc.Evidence, patch: mc.Patch, truth: npt.NDArray[np.int64], k: int) -> Row:
    ranked = mc.top_k(voter, patch, k)
    scores = mc.score(ranked, truth)
    shares = {"clean": scores.clean, "certified_and_correct": scores.certified}
    found = {name: round(100 * share, 2) for name, share in shares.items()}
    return {"promise": f"top-{k}", "certified": percent(ranked.certified), **found}


def voting_rows(who: str, voter: mc.Evidence, patch: mc.Patch, truth: npt.NDArray[np.int64]) -> Iterator[Row]:
    """One voting defender, or the pool of several: joint promises by slack, and the first k."""
    members, weights = (voter.members, voter.weights) if isinstance(voter, mc.Pool) else ((voter,), (1,))
    points = sum(weight * member.labels.shape[1] for weight, member in zip(weights, members, strict=True))
    for slack in (round(share * points) for share in SLACKS):
        about = {"who": who, "promise": "joint", "slack": slack, "points": points}
        yield {**about, **joint_row([voter], patch, truth, slack)}
    yield from ({"who": who, **top_row(voter, patch, truth, k)} for k in FIRST)


def rows_of(defenders: list[mc.Evidence], patch: mc.Patch, truth: npt.NDArray[np.int64]) -> Iterator[Row]:
    """Every promise that these can give, together."""
    several, voting = len(defenders) > 1, all(room_of(each).votes for each in defenders)
    if several or not voting:
        who = "majority" if several else "masks"
        yield {"who": who, "promise": "joint", **joint_row(defenders, patch, truth)}
    if voting:
        who, voter = ("pool", mc.Pool(defenders)) if several else ("alone", defenders[0])
        yield from voting_rows(who, voter, patch, truth)


def study_rows(study: CaseStudy) -> Iterator[Row]:
    """Of every recipe that votes or masks; alternatives are no ensemble, and each has rows of its own."""
    for recipe in study.recipes:
        for stores in [[store] for store in recipe.defenders] if recipe.alternatives else [recipe.defenders]:
            defenders = [study.evidence(store) for store in stores]
            if not (all(room_of(each).votes for each in defenders) or all(_masks(each) for each in defenders)):
                continue
            truth, size = study.truth[defenders[0].images], defenders[0].image_size
            for patch in patches_up_to(within(defenders, mc.Patch(*size)), size):
                about = {"recipe": recipe.name, "evidence": list(stores), "patch": str(patch), "n": len(truth)}
                yield from ({**about, **row} for row in rows_of(defenders, patch, truth))


def _masks(evidence: mc.Evidence) -> bool:
    return isinstance(evidence, mc.MaskPairs)


def main(folder: str) -> None:
    rows = [json.dumps(row) for row in study_rows(CaseStudy.read(folder))]
    print("[\n " + ",\n ".join(rows) + "\n]")


if __name__ == "__main__":
    main(sys.argv[1])
