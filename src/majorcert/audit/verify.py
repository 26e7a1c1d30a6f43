"""`mc.verify`: the audit of a verdict, with nothing but its files, or with the images and the networks as well."""

import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from majorcert.audit.check import Check, Difference
from majorcert.audit.checker import third_opinion
from majorcert.audit.judgement import judged_anew
from majorcert.audit.kinds import parts_of, tolerance_of
from majorcert.audit.revote import (
    FLOAT32_MOVES,
    Allowed,
    Network,
    Pictures,
    check_images,
    check_network,
    check_votes,
    comparable,
)
from majorcert.core.reach import Evidence
from majorcert.core.verdict import Verdict
from majorcert.errors import DataError, EvidenceError


@dataclass(frozen=True)
class Audit:
    """What came of it."""

    verdict: Verdict
    checks: tuple[Check, ...]
    rows: tuple[int, ...]  # of the verdict, that were judged anew
    seed: int  # draws the same rows again
    allowed: tuple[Allowed, ...]  # what was let pass as rounding, of each defender that voted anew
    n_split: int | None  # images of the whole split, if they were given

    @property
    def differences(self) -> tuple[Difference, ...]:
        return tuple(difference for check in self.checks for difference in check.differences)

    @property
    def n_changed(self) -> int:
        """Ballots that differ from the new votes, and were let pass as rounding."""
        return sum(each.n_changed for each in self.allowed)

    @property
    def tolerances(self) -> tuple[float, ...]:
        """The tolerances that the verdict claims, ascending."""
        known = {tolerance_of(origin) for origin in self.verdict.defenders}
        return tuple(sorted(each for each in known if each is not None))

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "method": self.verdict.method,
            "patch": str(self.verdict.patch),
            "fragile": [origin.get("fragile") for origin in self.verdict.defenders],
            "equal": not self.differences,
            "sample": [int(self.verdict.images[row]) for row in self.rows],
            "n": len(self.verdict),
            "n_split": self.n_split,
            "checks": [
                {"what": each.what, "n": each.n, "n_differences": len(each.differences)} for each in self.checks
            ],
            "n_changed_by_rounding": self.n_changed if self.allowed else None,
            "near": [each.near for each in self.allowed],
            "excess": [each.excess for each in self.allowed],
            "differences": [vars(difference) for difference in self.differences],
        }

    def remarks(self) -> list[str]:
        """What a reader must know beside the differences."""
        n, found = len(self.verdict), list[str]()
        if len(self.rows) < n:
            by_lot = f"by lot (--seed {self.seed}); --sample all judges every one"
            found.append(f"judged anew: {len(self.rows)} of {n} images, {by_lot}")
        if self.n_split not in (None, n):
            found.append(f"the verdict is about {n} of the {self.n_split} images of the split")
        if (named := self.verdict.defenders[0].get("per_ballot")) is not None:
            found.append(f"taken for granted: a ballot of this defender names {named} labels at most")
        excess = max((each.excess for each in self.allowed), default=0.0)
        if self.tolerances and excess > FLOAT32_MOVES:
            found.append(
                f"a distance on record may be too large by {excess:g} unnoticed; "
                "what is certified with a tolerance is checked for one that is smaller by as much"
            )
        return found

    def counts(self) -> list[list[str]]:
        """Each kind of question: what, how often it was asked, how many answers were wrong."""
        lines = [[check.what, str(check.n), str(len(check.differences))] for check in self.checks]
        return lines + ([["ballots changed by rounding alone", str(self.n_changed), "allowed"]] if self.allowed else [])

    def complaints(self, n_shown: int) -> list[str]:
        """The first differences, and ballots that were let pass."""
        found = [str(difference) for difference in self.differences[:n_shown]]
        if len(self.differences) > n_shown:
            found.append(f"and {len(self.differences) - n_shown} more differences")
        return found + [str(each) for each in self.allowed if each.n_changed]

    def all_clear(self) -> str:
        """What may be said where nothing differs."""
        but = f", but {self.n_changed} ballots that rounding was allowed to change" if self.n_changed else ""
        at = f", with fragile ballots at {', '.join(map(str, self.tolerances))}" if self.tolerances else ""
        return f"no difference found{but}{at}"


def verify(
    verdict: Verdict,
    evidence: Sequence[Evidence],
    *,
    sample: int | None = 20,
    seed: int | None = None,
    images: Pictures | None = None,
    defenders: Sequence[Network] = (),
    near: float | None = None,
    excess: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    checker: str | PathLike[str] | None = None,
) -> Audit:
    """Check a verdict with a second, simple implementation of the definitions.

    >>> mc.verify(mc.Verdict.load("verdict.jsonl"), evidence, sample=None).differences
    ()

    Args:
        evidence: what the verdict was made from, in the same order.
        sample: so many images are judged anew, by lot; all for None.
        seed: of the lot; by default nobody can know which rows will be looked at.
        images: the data set that was voted on, to compare its fingerprint.
        defenders: the networks that voted, one for each evidence (of a pool, for each member), to vote anew on the
            sample.
        near: a vote may differ whose score is this near to the threshold; by default what rounding explains.
        excess: a recorded distance may be larger than the new scores say by so much; the same by default.
        checker: the program that `make proofs` extracts from the proofs, to judge the sample as well.
    """
    if any(isinstance(each, str | PathLike) for each in (verdict, *evidence)):
        raise EvidenceError("an audit is of what files hold, got a path; use mc.Verdict.load and mc.load_evidence")
    if defenders and images is None:
        raise DataError("networks are checked by voting on images anew; give the images too")
    voting = voting_parts(evidence)
    if defenders and len(defenders) != len(voting):
        raise EvidenceError(f"got {len(defenders)} networks and the evidence of {len(voting)}")
    seed = secrets.randbelow(2**31) if seed is None else seed
    rows = sampled(len(verdict), sample, seed)
    checks = judged_anew(verdict, evidence, rows, progress)
    if checker is not None and not any(check.what == "images" and check.differences for check in checks):
        checks.append(third_opinion(checker, verdict, evidence, rows))
    allowed: list[Allowed] = []
    if images is not None:
        checks.append(same_images := check_images(images, voting))
        for place, (network, each) in enumerate(zip(defenders, voting, strict=False), start=1):
            checks.append(check_network(place, network, each))
            if not same_images.differences and comparable(network, each):
                some = [row for row in rows if row < len(each)]
                check, found = check_votes(network, each, images, some, near, excess)
                checks.append(check)
                allowed.append(found)
    n_split = None if images is None else len(images)
    return Audit(verdict, tuple(checks), tuple(rows), seed, tuple(allowed), n_split)


def voting_parts(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The evidence of each network: of a pool, that of its members."""
    return [part for each in evidence for part in parts_of(each, each.provenance)]


def sample_of(text: str) -> int | None:
    """A sample as the command line takes it: a number of images, or "all"."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise EvidenceError(f"--sample is a number of images from 1 on, or 'all'; got {text!r}")
    return int(text)


def sampled(n_images: int, n: int | None, seed: int) -> list[int]:
    """Which rows to look at: `n` by lot, the same for the same seed; all for None."""
    if n is None:
        return list(range(n_images))
    if n < 1:
        raise EvidenceError(f"a sample has 1 image or more, or is None for all of them; got {n}")
    return sorted(random.Random(seed).sample(range(n_images), min(n, n_images)))
