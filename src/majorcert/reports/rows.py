"""The rows of every table: who was certified, by which method, against which patch, and how many images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.core.detection import detect
from majorcert.core.majority import drs, majorcert
from majorcert.core.reach import Evidence
from majorcert.core.threat import Bools, Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.pool import Pool
from majorcert.reports.rooms import room_of
from majorcert.reports.score import summary

WORDS = {
    "drs-margin": "DRS margin",
    "drs-local": "DRS local",
    "pg-drs": "PG-DRS",
    "bagcert": "BagCert-style",
    "cbn": "clipped BagNet",
    "pg-bn": "PG-BN",
    "pool": "pooled votes",
    "pg-pool": "pooled votes, masked",
    "double-masking": "double masking",
    "ibp": "interval bounds",
    "smoothed-vit": "Smoothed ViT",
    "vip": "ViP",
    "majorcert-theorem1": "MajorCert, theorem 1 alone",
    "majorcert-paper": "MajorCert, paper's reach",
    "majorcert-exact": "MajorCert, exact reach",
}
"""How people call the methods, in the order of the tables."""


@dataclass(frozen=True)
class Row:
    """One number of a table and what it is made of."""

    who: str
    method: str
    patch: str
    n: int
    n_certified: int
    n_correct: int | None  # images predicted correctly; None when the truth is not known, as for the next
    n_certified_and_correct: int | None
    n_alerts: int | None = None  # images that raise an alert as they are; of detection

    @property
    def clean(self) -> float:
        """percent predicted correctly"""
        return 100 * (self.n_correct or 0) / max(self.n, 1)

    @property
    def certified(self) -> float:
        """percent predicted correctly and certified"""
        return 100 * (self.n_certified_and_correct or 0) / max(self.n, 1)

    @classmethod
    def of(cls, who: str, verdict: Verdict, truth: npt.ArrayLike | None) -> "Row":
        counts = summary(verdict, verdict.predicted if truth is None else truth)
        correct, proved = (None, None) if truth is None else (counts.n_correct, counts.n_certified_and_correct)
        method = WORDS.get(verdict.method, verdict.method)
        n_alerts = None if verdict.alert is None else int(verdict.alert.sum())
        return cls(who, method, str(verdict.patch), counts.n, counts.n_certified, correct, proved, n_alerts)


def alone(defender: Evidence, patch: Patch) -> Iterator[Verdict]:
    """One defender by every method for its kind."""
    for method, bound in room_of(defender).alone.items():
        verdict = _by_itself(defender, patch) if bound is None else drs(defender, patch, bound=bound)
        yield replace(verdict, method=method)


def _by_itself(defender: Evidence, patch: Patch) -> Verdict:
    """What a defender that does not vote certifies of itself, which is what its reach certifies, without the maps."""
    certified = defender.certified_alone(patch)
    by, none, origin = np.where(certified, "local", ""), (None,) * len(defender), (defender.provenance,)
    return Verdict(defender.label, certified, by, None, none, defender.images, patch, "drs-local", origin)


def detected(defenders: Sequence[Evidence], patch: Patch, method: str) -> Verdict:
    """What certified detection promises of the label that this method makes."""
    return replace(detect(defenders, patch), method=method)


def by_theorem1(exact: Verdict) -> Verdict:
    """What Theorem 1 alone certifies."""
    return replace(exact, certified=exact.by == "theorem1", method="majorcert-theorem1")


def by_papers_reach(defenders: Sequence[Evidence], exact: Verdict) -> tuple[Verdict, Bools]:
    """What `majorcert` certifies by the paper's reach, and (images,) what the paper's released code would report.

    That code leaves out the last row and column of placements. The paper's reach is nowhere smaller than the exact one,
    so it is asked only of images that the exact one finds safe there, and not of those that Theorem 1 settles.
    """
    inner = safe_map(exact)[:, :-1, :-1].all(axis=(1, 2))
    images = np.flatnonzero(inner & (exact.by != "theorem1"))
    found = majorcert([defender[images] for defender in defenders], exact.patch, reach="paper")
    certified = exact.by == "theorem1"
    as_released = certified.copy()
    certified[images] = found.certified
    as_released[images] = safe_map(found)[:, :-1, :-1].all(axis=(1, 2))
    return replace(exact, certified=certified, method=found.method), as_released


def safe_map(verdict: Verdict) -> Bools:
    """(images, placement rows, placement columns) where each image is safe."""
    assert verdict.safe is not None, "only a margin does not look at placements"
    return verdict.safe


def rows(defenders: Mapping[str, Ballots], truth: npt.ArrayLike, patches: Sequence[Patch]) -> list[Row]:
    """DRS for each defender, MajorCert for all of them together and the pool of their votes, for every patch."""
    found = [
        Row.of(name, verdict, truth)
        for name, ballots in defenders.items()
        for patch in patches
        for verdict in alone(ballots, patch)
    ]
    together, everyone = " + ".join(defenders), list(defenders.values())
    for patch in patches:
        exact = majorcert(everyone, patch)
        pooled = replace(majorcert([Pool(everyone)], patch), method="pool")
        verdicts = (by_theorem1(exact), by_papers_reach(everyone, exact)[0], exact, pooled)
        found += [Row.of(together, verdict, truth) for verdict in verdicts]
    return found
