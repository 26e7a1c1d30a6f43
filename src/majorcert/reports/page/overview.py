"""The numbers of the overview: what holds over all images, for each patch size and each method."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.largest import largest_patch
from majorcert.errors import EvidenceError
from majorcert.reports.contents import Contents
from majorcert.reports.rooms import pooled
from majorcert.reports.rows import Row, alone, by_theorem1, safe_map

Progress = Callable[[str], None]
"""Called with what is being worked out now."""


@dataclass(frozen=True)
class ClassRow:
    """The images of one true class, or, where the truth is not known, of one predicted class."""

    label: int
    n: int
    n_correct: int
    n_certified_and_correct: int
    n_certified_and_wrong: int


@dataclass(frozen=True)
class Confused:
    """The images of one true class that were given one label."""

    truth: int
    predicted: int
    n: int
    n_certified: int


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that depends on the patch."""

    patch: Patch
    verdict: Verdict
    methods: tuple[Row, ...]
    classes: tuple[ClassRow, ...]
    confused: tuple[Confused, ...]
    """every pair of labels that occurs, the most frequent first; empty when the truth is not known"""
    n_unsafe: Ints
    """(images,) placements at which the image is not safe"""
    unsafe_share: npt.NDArray[np.float64]
    """(placement rows, placement columns) the share of images that are not safe there"""


@dataclass(frozen=True, eq=False)
class Curve:
    """The share of images that are certified (and correct, when the truth is known) against squares of each side."""

    name: str
    shares: tuple[float, ...]  # at side 0, that is with no patch, 1, 2, ...


@dataclass(frozen=True, eq=False)
class Overview:
    """What the first part of the page shows."""

    findings: tuple[Findings, ...]
    largest: Ints | None
    """(images,) side of the largest certified square; detection, which must know the patch, has none"""
    curves: tuple[Curve, ...]
    """of the ensemble, then of each defender alone"""


def overview(contents: Contents, progress: Progress = lambda step: None) -> Overview:
    """Certify everything that the page states, by the methods of the core alone."""
    if contents.tolerant:
        raise EvidenceError("a report shows votes as they were recorded; give the ballots without a tolerance")
    findings = []
    for patch in contents.patches:
        progress(f"certifying against {patch}")
        findings.append(_findings(contents, patch))
    if contents.promise.alerts:
        return Overview(tuple(findings), None, ())
    progress("finding the largest certified patches")
    largest = largest_patch(contents.defenders)
    curves = [_curve(contents, "ensemble", largest, findings[0].verdict.predicted)]
    if len(contents.defenders) > 1:
        for name, defender in zip(contents.names, contents.defenders, strict=True):
            progress(f"finding the largest certified patches of {name} alone")
            curves.append(_curve(contents, name, largest_patch([defender]), defender.label))
    else:
        curves = [Curve(contents.names[0], curves[0].shares)]
    return Overview(tuple(findings), largest, tuple(curves))


def _findings(contents: Contents, patch: Patch) -> Findings:
    verdict = contents.promise.judge(contents.defenders, patch)
    safe = safe_map(verdict)
    return Findings(
        patch=patch,
        verdict=verdict,
        methods=_methods(contents, patch, verdict),
        classes=_classes(contents, verdict),
        confused=() if contents.truth is None else _confused(contents.truth, verdict),
        n_unsafe=(~safe).sum(axis=(1, 2)),
        unsafe_share=1 - safe.mean(axis=0),
    )


def _methods(contents: Contents, patch: Patch, ensemble: Verdict) -> tuple[Row, ...]:
    promise, verdicts = contents.promise, list[tuple[str, Verdict]]()
    for name, defender in zip(contents.names, contents.defenders, strict=True):
        by_itself = [promise.judge([defender], patch)] if promise.alerts else alone(defender, patch)
        verdicts += [(name, verdict) for verdict in by_itself]
    if len(contents.defenders) > 1:
        together = [ensemble] if promise.alerts else [by_theorem1(ensemble), ensemble]
        verdicts += [("ensemble", verdict) for verdict in together]
    for pool in pooled(contents.defenders):
        verdict = promise.judge([pool], patch)
        verdicts.append(("pool", verdict if promise.alerts else replace(verdict, method="pool")))
    for other in contents.verdicts:
        if other.patch == patch:
            who = ", ".join(str(origin.get("strategy", origin.get("name", "?"))) for origin in other.defenders)
            verdicts.append((who, other))
    return tuple(Row.of(who, verdict, contents.truth) for who, verdict in verdicts)


def _classes(contents: Contents, verdict: Verdict) -> tuple[ClassRow, ...]:
    groups = verdict.predicted if contents.truth is None else contents.truth
    correct = verdict.predicted == groups
    tallies = [
        np.bincount(groups[chosen], minlength=contents.n_classes)
        for chosen in (correct | ~correct, correct, verdict.certified & correct, verdict.certified & ~correct)
    ]
    return tuple(
        ClassRow(int(label), *(int(tally[label]) for tally in tallies)) for label in np.flatnonzero(tallies[0])
    )


def _confused(truth: Ints, verdict: Verdict) -> tuple[Confused, ...]:
    pairs, place = np.unique(np.stack([truth, verdict.predicted]), axis=1, return_inverse=True)
    n = np.bincount(place.ravel())
    n_certified = np.bincount(place.ravel()[verdict.certified], minlength=len(n))
    every = [Confused(*map(int, values)) for values in zip(*pairs, n, n_certified, strict=True)]
    return tuple(sorted(every, key=lambda pair: (-pair.n, pair.truth, pair.predicted)))


def _curve(contents: Contents, name: str, largest: Ints, predicted: Ints) -> Curve:
    counted = np.ones(len(largest), dtype=bool) if contents.truth is None else predicted == contents.truth
    sides = range(int(largest.max()) + 2)
    return Curve(name, tuple(float((counted & (largest >= side)).mean()) for side in sides))
