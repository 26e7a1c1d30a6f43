"""MajorCert: an ensemble of defenders, certified by the majority invariant (Theorems 1 and 2); and DRS, of one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from majorcert.core.plurality import Ints, plurality_of_labels, standing
from majorcert.core.reach import NO_LABEL, Evidence, Reach, list_labels, offered, smallest_unlisted
from majorcert.core.threat import Bools, Patch, as_patch
from majorcert.core.verdict import Verdict, Witness
from majorcert.errors.checks import check_read, check_together, one_of

ReachKind = Literal["exact", "paper"]
DrsBound = Literal["margin", "local"]
Sets = Callable[[Evidence], Reach]
Witnesses = tuple[Witness | None, ...]
CHUNK_BYTES = 2**22  # about what one array of a chunk of images takes; results do not depend on it


def majorcert(defenders: Sequence[Evidence], patch: Patch, *, reach: ReachKind = "exact") -> Verdict:
    """Certify an ensemble against every placement of `patch`.

    Sound because at each placement every defender says some label of its reach: an image is certified iff, at every
    placement, no choice of one label from each reach has another plurality than the clean one (Theorem 2). Where most
    defenders are certified alone (Theorem 1) that is so at every placement, and none need be looked at.

    Args:
        defenders: evidence of any kinds, of the same images; one alone is an ensemble too.
        patch: the attacker's rectangle: `Patch(5)`, 5, (3, 7), "3x7" or "2%".
        reach: "exact" takes for ballots the smallest true reach, "paper" the larger one of the paper's Definition 1.
    """
    check_together(defenders)
    patch = as_patch(patch, defenders[0].image_size)
    one_of(reach, "reach", get_args(ReachKind))
    firm = most_certified_alone(defenders, patch)
    sets = {"exact": "reach", "paper": "paper_reach"}[reach]
    safe, witnesses = survey(defenders, lambda each: offered(each, sets)(patch), patch, ~firm)
    by = np.where(firm, "theorem1", "theorem2")
    return verdict_of(defenders, patch, f"majorcert-{reach}", by, safe, witnesses)


def drs(ballots: Evidence, patch: Patch, *, bound: DrsBound = "margin") -> Verdict:
    """Certify one defender against every placement of `patch`, by derandomized smoothing.

    Sound because only touched ablations can change their ballot: the worst an attacker can do is take them all from the
    winner and give them all to one rival, and every rival is checked. "margin" assumes at once, for every rival, the
    most ablations that any placement touches; "local" looks at each placement, and is never weaker.
    """
    check_read(ballots, "mc.load_evidence")
    patch = as_patch(patch, ballots.image_size)
    one_of(bound, "bound", get_args(DrsBound))
    if bound == "local":  # Theorem 2 for an ensemble of one: its reach is its label alone, at every placement
        verdict = majorcert([ballots], patch)
        return replace(verdict, by=np.where(verdict.certified, "local", ""), method="drs-local")
    certified = offered(ballots, "margin_certified")(patch)
    by, none, origin = np.where(certified, "margin", ""), (None,) * len(ballots), (ballots.provenance,)
    return Verdict(ballots.label, certified, by, None, none, ballots.images, patch, "drs-margin", origin)


def clean_label(defenders: Sequence[Evidence]) -> Ints:
    """(images,) what the ensemble says of the clean image: the plurality of its defenders' labels."""
    return plurality_of_labels(np.stack([each.label for each in defenders], axis=1), defenders[0].n_classes)


def most_certified_alone(defenders: Sequence[Evidence], *asked: Any, by: str = "certified_alone") -> Bools:
    """(images,) Theorem 1: more than half of the defenders say the clean label and are each certified alone."""
    clean = clean_label(defenders)
    firm = [offered(defender, by)(*asked) & (defender.label == clean) for defender in defenders]
    return 2 * np.sum(firm, axis=0) > len(defenders)


def verdict_of(
    defenders: Sequence[Evidence], patch: Patch, method: str, by: Any, safe: Bools, witnesses: Witnesses, **more: Any
) -> Verdict:
    """The verdict on an ensemble: an image is certified, by that argument, iff it is safe at every placement."""
    certified, label, images = np.asarray(safe.all(axis=(1, 2))), clean_label(defenders), defenders[0].images
    by, origin = np.where(certified, by, ""), tuple(defender.provenance for defender in defenders)
    return Verdict(label, certified, by, safe, witnesses, images, patch, method, origin, **more)


def survey(defenders: Sequence[Evidence], sets: Sets, patch: Patch, doubtful: Bools) -> tuple[Bools, Witnesses]:
    """(images, placement rows, placement columns) where the clean label is safe, and witnesses of where it is not.

    Only doubtful images are looked at, a few at a time. Who cannot say such sets is asked, and refuses, if none is.
    """
    n_rows, n_columns = patch.n_placements(defenders[0].image_size)
    safe = np.ones((len(doubtful), n_rows, n_columns), dtype=bool)
    witnesses: list[Witness | None] = [None] * len(doubtful)
    step = max(1, CHUNK_BYTES // (4 * n_rows * n_columns * min(defenders[0].n_classes, 64)))
    for start in range(0, max(1, int(doubtful.sum())), step):
        images = np.flatnonzero(doubtful)[start : start + step]
        some = [defender[images] for defender in defenders]
        contest = Contest.of(some, lambda each: sets(each).everywhere(patch, each.image_size))
        safe[images] = contest.safe()
        for image, witness in zip(images, contest.witnesses(safe[images]), strict=True):
            witnesses[image] = witness
    return safe, tuple(witnesses)


@dataclass(frozen=True, eq=False)
class Contest:
    """The clean label of each image against every rival, where each defender says some label of its set."""

    clean: Ints  # (images,) the ensemble's label: the plurality of its defenders' labels
    rivals: Ints  # (images, rivals) labels enough to decide, the clean one among them; NO_LABEL fills the rest
    sets: tuple[Reach, ...]
    n_classes: int

    @classmethod
    def of(cls, defenders: Sequence[Evidence], sets: Sets) -> "Contest":
        n_classes, found = defenders[0].n_classes, tuple(sets(defender) for defender in defenders)
        labels = np.stack([defender.label for defender in defenders], axis=1)
        return cls(clean_label(defenders), _rivals(labels, found, n_classes), found, n_classes)

    def safe(self) -> Bools:
        """(images, placement rows, placement columns) Theorem 2 in closed form.

        A rival is said by at most those who have it in their set, the clean label by at least those who have nothing
        else; one choice does both. So the clean label wins every choice iff it beats each rival at these counts.
        """
        counter: type[np.signedinteger[Any]] = np.int16 if (len(self.sets) + 1) * self.n_classes < 2**15 else np.int64
        unmoved = np.asarray(sum(each.spread(each.only(self.clean)).astype(counter) for each in self.sets))
        firm = standing(unmoved, self.clean.astype(counter)[:, None, None], self.n_classes)
        safe = np.ones((len(self.clean), len(self.sets[0].rows), len(self.sets[0].columns)), dtype=bool)
        for labels in self.rivals.T:
            images = np.flatnonzero((labels != self.clean) & (labels != NO_LABEL) & safe.any(axis=(1, 2)))
            if images.size:
                rival = labels[images].astype(counter)
                said = np.asarray(sum(each.spread(each.has(rival, images)).astype(counter) for each in self.sets))
                safe[images] &= standing(said, rival[:, None, None], self.n_classes) < firm[images]
        return safe

    def witnesses(self, safe: Bools) -> list[Witness | None]:
        """For each image None, or its first unsafe placement and the choice of labels there that breaks the majority.

        All who can say the strongest rival do; of the others, all who can avoid the clean label do.
        """
        found: list[Witness | None] = [None] * len(self.clean)
        images, grid = np.flatnonzero(~safe.all(axis=(1, 2))), safe.shape[1:]
        top, left = np.unravel_index(safe[images].reshape(len(images), math.prod(grid)).argmin(axis=1), grid)
        clean, rivals = self.clean[images], self.rivals[images]
        contested = (rivals != clean[:, None]) & (rivals != NO_LABEL)
        says = np.stack([each.at(images, top, left, rivals) for each in self.sets], axis=1)
        strength = np.where(contested, standing(says.sum(axis=1), rivals, self.n_classes), -1)
        every, strongest, can_say = np.arange(len(images)), strength.argmax(axis=1), says & contested[:, None]
        choice = np.where(can_say[every, :, strongest], strongest[:, None], can_say.argmax(axis=2))
        forced = np.where(can_say.any(axis=2), rivals[every[:, None], choice], clean[:, None])
        columns = (images, top, left, rivals[every, strongest], forced)
        for image, row, column, rival, said in zip(*(each.tolist() for each in columns), strict=True):
            found[image] = Witness((row, column), rival, tuple(said))
        return found


def _rivals(labels: Ints, sets: Sequence[Reach], n_classes: int) -> Ints:
    """(images, rivals) labels enough to decide: all that any defender lists, and the smallest that none lists.

    Labels that nobody lists are in the same sets whenever they are smaller, and win more ties the smaller they
    are, so where any of them breaks the majority the smallest one does.
    """
    present = np.zeros((len(labels), n_classes + 1), dtype=bool)  # NO_LABEL, -1, has the last place
    for listed in (labels, *(each.listed for each in sets)):
        present[np.arange(len(labels))[:, None], listed] = True
    present[np.arange(len(labels)), smallest_unlisted(present[:, :-1])] = True
    return list_labels(present[:, :-1])
