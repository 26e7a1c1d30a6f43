"""Compare the checker that is extracted from the proofs with the core and with the audit's literal definitions.

    python proofs/compare.py proofs/build/checker --tables 20000 --images 1000 --study results/cifar10

Random tables of every kind: small images with few classes, so that ties, abstentions, wrap-around and corners abound.
Then the stored evidence of a study. Exit code 1 on any difference, and also if one of the verdicts never came up.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

import majorcert as mc
from majorcert.audit.checker import Answer, answers
from majorcert.audit.ensemble import alert_of, opinion_of
from majorcert.audit.export import exported
from majorcert.audit.kinds import testimony
from majorcert.files.evidence import load_evidence
from majorcert.reports.bound import within
from majorcert.reports.contents import defender_names
from majorcert.reports.study import CaseStudy
from majorcert.reports.study.results import patches_up_to, together

PER_QUESTION = 50
AUDITED = 5
"""So many tables of each question are judged by the audit too."""
METHODS = {"exact": "majorcert-exact", "paper": "majorcert-paper", "margin": "drs-margin", "detect": "detection"}


class Question:
    """Some evidence, a patch and a claim; what the core says of it, and what the checker is told."""

    def __init__(self, name: str, defenders: list[mc.Evidence], patch: mc.Patch, claim: str, slack: int = 0) -> None:
        self.name, self.defenders, self.patch, self.claim, self.slack = name, defenders, patch, claim, slack

    def verdict(self) -> mc.Verdict:
        if self.claim == "detect":
            return mc.detect(self.defenders, self.patch, slack=self.slack)
        if self.claim == "margin":
            return mc.drs(self.defenders[0], self.patch, bound="margin")
        return mc.majorcert(self.defenders, self.patch, reach=self.claim)

    def lines(self) -> Iterator[str]:
        patch = self.patch.height, self.patch.width
        return exported(self.defenders, patch, claim=self.claim, slack=self.slack)

    def differences(self, said: list[Answer]) -> int:
        verdict = self.verdict()
        alert = [None] * len(said) if verdict.alert is None else verdict.alert.tolist()
        expected = list(zip(verdict.predicted.tolist(), verdict.certified.tolist(), alert, strict=True))
        found = [(answer.label, answer.certified, answer.alert) for answer in said]
        wrong = [row for row, (ours, theirs) in enumerate(zip(expected, found, strict=True)) if ours != theirs]
        for row in wrong[:3]:
            print(f"{self.name}, {self.patch}, {self.claim}: row {row}: core {expected[row]}, checker {found[row]}")
        return len(wrong)


class Tables:
    """Random evidence of all kinds on one small image size."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self.rng, self.n = rng, n
        self.size = (int(rng.integers(3, 10)), int(rng.integers(3, 10)))
        self.n_classes = int(rng.integers(2, 6))
        self.clear = float(rng.choice([0.3, 0.8, 1.0]))
        """how much the views agree"""
        self.leader = rng.integers(0, self.n_classes, size=n)

    def patch(self) -> mc.Patch:
        return mc.Patch(*(min(side, int(self.rng.choice([1, 1, 1, 2, 3]))) for side in self.size))

    def _labels(self, *shape: int) -> np.ndarray:
        """Random labels that agree with the image's leader more or less often."""
        labels = self.rng.integers(0, self.n_classes, size=(self.n, *shape))
        leader = self.leader.reshape(-1, *[1] * len(shape))
        return np.where(self.rng.random(labels.shape) < self.clear, leader, labels)

    def _strategy(self) -> mc.Strategy:
        kind = self.rng.choice(["rows", "columns", "blocks"])
        longest = {"rows": self.size[0], "columns": self.size[1], "blocks": min(self.size)}[str(kind)]
        length, stride = min(longest, int(self.rng.choice([1, 1, 2, 3, 5]))), int(self.rng.choice([1, 1, 1, 2, 3]))
        return mc.strategy(f"{kind}:{length}/{stride}")

    def ballots(self, *, fragile: bool = False) -> mc.Ballots:
        strategy = self._strategy()
        first = self._labels(strategy.n_ablations(self.size))
        second = self.rng.integers(0, self.n_classes, size=first.shape)
        second = np.where((second == first) | (self.rng.random(first.shape) < 0.7), mc.ABSTAIN, second)
        labels = np.stack([first, second], axis=2)
        labels[self.rng.random(first.shape) < 0.1] = mc.ABSTAIN
        distance = self.rng.choice([0.0, 0.5], p=[0.15, 0.85], size=first.shape)
        made = mc.Ballots(labels, strategy=strategy, image_size=self.size, n_classes=self.n_classes, distance=distance)
        return made.tolerating(0.1) if fragile else made

    def pool(self, *, fragile: bool = False) -> mc.Pool:
        members = [self.ballots(fragile=fragile) for _ in range(self.rng.integers(1, 4))]
        return mc.Pool(members, weights=[int(self.rng.integers(1, 5)) for _ in members])

    def pairs(self, *, fragile: bool = False) -> mc.MaskPairs:
        height, width = (int(self.rng.integers(1, side + 1)) for side in self.size)
        masks = mc.Masks(height, width, stride=int(self.rng.integers(2, 5)))
        n = masks.n_masks(self.size)
        labels = np.where(self.rng.random((self.n, 1)) < 0.5, self.leader[:, None], self._labels(n * (n + 1) // 2))
        flips = self.rng.random(labels.shape) < 0.5 / n
        labels = np.where(flips, self.rng.integers(0, self.n_classes, size=labels.shape), labels)
        distance = self.rng.choice([0.0, 0.5], p=[0.2, 0.8], size=(self.n, n))
        made = mc.MaskPairs(
            np.stack([self._with_holes(image, n) for image in labels]),
            masks=masks,
            image_size=self.size,
            n_classes=self.n_classes,
            distance=distance,
            provenance={"certify_only": True},
        )
        return made.tolerating(0.1) if fragile else made

    def _with_holes(self, labels: np.ndarray, n: int) -> np.ndarray:
        """The table without some entries, all of them in rows that are known to be mixed without them."""
        upper = np.triu_indices(n)
        table = np.zeros((n, n), dtype=labels.dtype)
        table[upper] = table.T[upper] = labels
        single = table.diagonal()[:, None].copy()
        for i, j in self.rng.integers(0, n, size=(n if self.rng.random() < 0.3 else 0, 2)):
            tried = table.copy()
            tried[i, j] = tried[j, i] = mc.ABSTAIN
            mixed = ((tried != single) & (tried != mc.ABSTAIN)).any(axis=1)
            if i != j and mixed[i] and mixed[j]:
                table = tried
        return table[upper]

    def scores(self) -> mc.MaskedScores:
        strategy = self._strategy()
        n = strategy.n_ablations(self.size)
        points = self.rng.integers(0, 4, size=(self.n, n, self.n_classes))
        points[np.arange(self.n), :, self.leader] += 3 * (self.rng.random((self.n, n)) < self.clear)
        scores = mc.Scores(points, one=7, strategy=strategy, image_size=self.size)
        return mc.MaskedScores(scores, self.patch(), threshold=float(self.rng.choice([0, 0, 0.25, 0.5, 0.7])))

    def some(self, fragile: bool) -> list[mc.Evidence]:
        makers = (self.ballots, self.pool, self.pairs)
        return [makers[self.rng.integers(3)](fragile=fragile) for _ in range(self.rng.integers(1, 5))]


def random_question(rng: np.random.Generator, n: int) -> Question:
    """One of all kinds of questions, by lot."""
    tables, fragile = Tables(rng, n), bool(rng.random() < 0.3)
    votes: Callable[[], mc.Ballots] = lambda: tables.ballots(fragile=fragile)  # noqa: E731
    several = range(int(rng.integers(1, 6)))
    kinds: dict[str, Callable[[], tuple[list[mc.Evidence], str, int]]] = {
        "ballots": lambda: ([votes() for _ in several], "exact", 0),
        "ballots, the paper's reach": lambda: ([votes() for _ in several], "paper", 0),
        "ballots, margin": lambda: ([votes()], "margin", 0),
        "pool": lambda: ([tables.pool(fragile=fragile)], "exact", 0),
        "mask pairs": lambda: ([tables.pairs(fragile=fragile)], "exact", 0),
        "masked scores": lambda: ([tables.scores()], "exact", 0),
        "mixed": lambda: ([*tables.some(fragile), tables.scores()], "exact", 0),
        "detection": lambda: (tables.some(fragile), "detect", 0),
        "detection with slack": lambda: (
            [tables.pool(fragile=fragile) if rng.random() < 0.5 else votes()],
            "detect",
            int(rng.integers(1, 6)),
        ),
    }
    name = str(rng.choice(list(kinds)))
    defenders, claim, slack = kinds[name]()
    return Question(name, defenders, tables.patch(), claim, slack)


def audited(question: Question, said: list[Answer]) -> tuple[int, int]:
    """How many of the first answers the audit's definitions judged as well, and how many differ."""
    patch, wrong = (question.patch.height, question.patch.width), 0
    for row, answer in enumerate(said[:AUDITED]):
        told = [testimony(each, each.provenance, row, patch) for each in question.defenders]
        opinion = opinion_of(METHODS[question.claim], told, question.slack)
        recorded = [
            testimony(each.as_recorded(), each.as_recorded().provenance, row, patch) for each in question.defenders
        ]
        alert = alert_of(recorded, question.slack) if question.claim == "detect" else None
        expected, found = (opinion.predicted, opinion.certified, alert), (answer.label, answer.certified, answer.alert)
        if expected != found:
            print(f"{question.name}, {question.patch}, {question.claim}: row {row}: audit {expected}, checker {found}")
            wrong += 1
    return min(AUDITED, len(said)), wrong


def compare_random(checker: str, n_tables: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    questions = [random_question(rng, PER_QUESTION) for _ in range(-(-n_tables // PER_QUESTION))]
    said = answers(checker, chain.from_iterable(question.lines() for question in questions))
    n_of, certified_of, wrong, n_audited = Counter(), Counter(), 0, 0
    for place, question in enumerate(questions):
        part = said[place * PER_QUESTION : (place + 1) * PER_QUESTION]
        wrong += question.differences(part)
        n, differ = audited(question, part)
        n_audited, wrong = n_audited + n, wrong + differ
        n_of[question.name] += len(part)
        certified_of[question.name] += sum(answer.certified for answer in part)
    for name in sorted(n_of):
        print(f"  {name}: {n_of[name]} tables, {certified_of[name]} certified")
        wrong += not 0 < certified_of[name] < n_of[name]
    print(f"{len(said)} random tables against the core, {n_audited} of them against the audit: {wrong} differences")
    return wrong


def study_questions(study: Path, n_images: int) -> Iterator[tuple[Question, list[str] | str]]:
    """Each ensemble of the table at each patch, and its lines; or why the checker cannot be asked about it."""
    for recipe in CaseStudy.read(study).recipes:
        members = [load_evidence(study / store, slice(n_images)) for store in recipe.defenders]
        size = members[0].image_size
        for defenders in [[each] for each in members] if recipe.alternatives else [together(members)]:
            who = f"{recipe.name} {defender_names(defenders)[0]}" if recipe.alternatives else recipe.name
            for patch in patches_up_to(within(defenders, mc.Patch(*size)), size):
                question = Question(f"{who} at {patch}", defenders, patch, "exact")
                try:
                    yield question, list(question.lines())
                except mc.EvidenceError as error:
                    yield question, f"left out, {error}"


def compare_study(checker: str, study: Path, n_images: int) -> int:
    wrong, n_certified = 0, 0
    for question, lines in study_questions(study, n_images):
        if isinstance(lines, str):
            print(f"{question.name}: {lines}")
            continue
        began = time.perf_counter()
        said = answers(checker, lines)
        differ, certified = question.differences(said), sum(answer.certified for answer in said)
        wrong, n_certified = wrong + differ, n_certified + certified
        told = f"{len(said)} images, {certified} certified, {differ} differences"
        print(f"{question.name}: {told}, {time.perf_counter() - began:.1f} s")
    return wrong + (n_certified == 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checker")
    parser.add_argument("--tables", type=int, default=20_000)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--study", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong = compare_random(given.checker, given.tables, given.seed)
    if given.study:
        wrong += compare_study(given.checker, given.study, given.images)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
