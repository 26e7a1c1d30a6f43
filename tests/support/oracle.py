"""The literal oracle: every definition of the core in plain Python, one image at a time, slow on purpose.

It shares no code with majorcert and takes no short cut that needs a proof: regions and patches are sets of pixels,
a ballot is a set of labels, an attack is a list of rewritten ballots, and a theorem is a loop over all cases.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

Pixels = frozenset[tuple[int, int]]
Ballot = frozenset[int]
Counts = tuple[int, ...]
Size = tuple[int, int]


@dataclass(frozen=True)
class Defender:
    """One strategy and the ballots that its ablations cast on one clean image; fragile ones may become any other."""

    spec: str
    image_size: Size
    n_classes: int
    ballots: tuple[Ballot, ...]
    fragile: frozenset[int] = frozenset()

    def counts(self) -> Counts:
        return count(self.ballots, self.n_classes)

    def label(self) -> int:
        return plurality(self.counts())

    def touched(self, patch: Size, placement: Size) -> frozenset[int]:
        return touched(self.spec, self.image_size, patch)[placement]

    def rewritable(self, patch: Size, placement: Size) -> frozenset[int]:
        """The ablations whose ballot may become any other one: touched by the patch, or fragile, or both."""
        return self.touched(patch, placement) | self.fragile

    def kept(self, patch: Size, placement: Size) -> Counts:
        """The votes of the ablations that stay as they are."""
        hit = self.rewritable(patch, placement)
        return count((ballot for i, ballot in enumerate(self.ballots) if i not in hit), self.n_classes)

    def rewritten(self, new: dict[int, Ballot]) -> "Defender":
        """The defender after an attack that makes these ablations cast these ballots."""
        ballots = tuple(new.get(i, ballot) for i, ballot in enumerate(self.ballots))
        return Defender(self.spec, self.image_size, self.n_classes, ballots, self.fragile)


# ---- pixels ----


@cache
def regions(spec: str, image_size: Size) -> tuple[Pixels, ...]:
    """The visible pixels of each ablation, in row-major order of (row start, column start)."""
    name, numbers = spec.split(":")
    size, stride = (int(number) for number in (numbers if "/" in numbers else numbers + "/1").split("/"))
    height, width = image_size
    all_rows, all_columns = list(range(height)), list(range(width))
    row_runs = [[(start + i) % height for i in range(size)] for start in range(0, height, stride)]
    column_runs = [[(start + i) % width for i in range(size)] for start in range(0, width, stride)]
    if name == "rows":
        column_runs = [all_columns]
    if name == "columns":
        row_runs = [all_rows]
    return tuple(frozenset(product(rows, columns)) for rows in row_runs for columns in column_runs)


def placements(patch: Size, image_size: Size) -> list[Size]:
    """Every (top, left) at which the whole patch lies in the image."""
    (height, width), (rows, columns) = patch, image_size
    return [
        (top, left) for top in range(rows) for left in range(columns) if top + height <= rows if left + width <= columns
    ]


def patch_pixels(patch: Size, placement: Size) -> Pixels:
    (height, width), (top, left) = patch, placement
    return frozenset((top + i, left + j) for i in range(height) for j in range(width))


@cache
def touched(spec: str, image_size: Size, patch: Size) -> dict[Size, frozenset[int]]:
    """For each placement, the ablations that share a pixel with the patch."""
    return {
        placement: frozenset(i for i, region in enumerate(regions(spec, image_size)) if region & pixels)
        for placement in placements(patch, image_size)
        for pixels in [patch_pixels(patch, placement)]
    }


# ---- votes ----


def count(ballots: Iterable[Ballot], n_classes: int) -> Counts:
    votes = [0] * n_classes
    for ballot in ballots:
        for label in ballot:
            votes[label] += 1
    return tuple(votes)


def plurality(votes: Sequence[int]) -> int:
    """The label with the most votes, the smallest of them where several have as many."""
    most = max(votes)
    return min(label for label, n in enumerate(votes) if n == most)


def majority(labels: Iterable[int], n_classes: int) -> int:
    """The label of an ensemble whose defenders hold these labels."""
    return plurality(count((frozenset([label]) for label in labels), n_classes))


def beats(label: int, votes: int, other: int, other_votes: int) -> bool:
    return votes > other_votes or (votes == other_votes and label < other)


# ---- attacks, enumerated ----


def all_ballots(n_classes: int) -> list[Ballot]:
    """Every set of labels that one ablation can vote for, the empty one and the full one among them."""
    return [frozenset(chosen) for size in range(n_classes + 1) for chosen in combinations(range(n_classes), size)]


@cache
def rewrites(n_touched: int, n_classes: int) -> frozenset[Counts]:
    """Every vector of counts that so many ballots can give together, found by adding one ballot at a time."""
    if n_touched == 0:
        return frozenset([(0,) * n_classes])
    ballots = [count([ballot], n_classes) for ballot in all_ballots(n_classes)]
    fewer = rewrites(n_touched - 1, n_classes)
    return frozenset(tuple(map(int.__add__, votes, ballot)) for votes in fewer for ballot in ballots)


@cache
def reach_by_rewriting(kept: Counts, n_touched: int) -> frozenset[int]:
    """The labels that some rewrite of the touched ballots makes the defender output: all rewrites are tried."""
    return frozenset(plurality(tuple(map(int.__add__, kept, votes))) for votes in rewrites(n_touched, len(kept)))


def flips_by_rewriting(defenders: Sequence[Defender], patch: Size, placement: Size) -> bool:
    """Does any rewrite of the touched and fragile ballots of any defenders change the ensemble's label?

    The ballots of two defenders are rewritten independently, so what they can be made to say is combined freely.
    """
    n_classes = defenders[0].n_classes
    outputs = [
        reach_by_rewriting(one.kept(patch, placement), len(one.rewritable(patch, placement))) for one in defenders
    ]
    return any(majority(said, n_classes) != ensemble_label(defenders) for said in product(*outputs))


def attacked(defenders: Sequence[Defender], patch: Size, placement: Size) -> Iterator[list[Defender]]:
    """The ensemble after each attack at the placement, ballot by ballot: affordable for very few touched ballots."""
    subsets = all_ballots(defenders[0].n_classes)
    hit = [(a, i) for a, one in enumerate(defenders) for i in sorted(one.rewritable(patch, placement))]
    for new in product(subsets, repeat=len(hit)):
        changes: list[dict[int, Ballot]] = [{} for _ in defenders]
        for (a, i), ballot in zip(hit, new, strict=True):
            changes[a][i] = ballot
        yield [one.rewritten(change) for one, change in zip(defenders, changes, strict=True)]


# ---- certificates, by their definitions ----


def ensemble_label(defenders: Sequence[Defender]) -> int:
    return majority([one.label() for one in defenders], defenders[0].n_classes)


def reach_exact(defender: Defender, patch: Size, placement: Size) -> frozenset[int]:
    """c is in reach iff its upper bound beats the lower bound of every other label."""
    lower = defender.kept(patch, placement)
    t = len(defender.rewritable(patch, placement))
    labels = range(defender.n_classes)
    return frozenset(c for c in labels if all(beats(c, lower[c] + t, k, lower[k]) for k in labels if k != c))


def reach_paper(defender: Defender, patch: Size, placement: Size) -> frozenset[int]:
    """Definition 1: the clean label, and every label whose upper bound beats the clean label's lower bound."""
    lower = defender.kept(patch, placement)
    t = len(defender.rewritable(patch, placement))
    g = defender.label()
    malicious = {c for c in range(defender.n_classes) if c != g and lower[g] < lower[c] + t + (g > c)}
    return frozenset(malicious | {g})


REACH = {"exact": reach_exact, "paper": reach_paper}


def margin(defender: Defender, patch: Size) -> bool:
    """Does the margin of solid ballots outlast the most ablations that any placement touches, changed twice over,
    and every fragile ballot given to the rival?"""
    solid = (ballot for i, ballot in enumerate(defender.ballots) if i not in defender.fragile)
    n, g = count(solid, defender.n_classes), defender.label()
    most = max(len(defender.touched(patch, placement)) for placement in placements(patch, defender.image_size))
    handicap = 2 * most + len(defender.fragile)
    return n[g] >= handicap + max(n[c] + (g > c) for c in range(defender.n_classes) if c != g)


def local(defender: Defender, patch: Size) -> bool:
    return all(
        reach_exact(defender, patch, placement) == {defender.label()}
        for placement in placements(patch, defender.image_size)
    )


def theorem1(defenders: Sequence[Defender], patch: Size) -> bool:
    """Do more than half of the defenders hold one label, each of them certified by its margin?"""
    certified = [one.label() for one in defenders if margin(one, patch)]
    return any(2 * certified.count(label) > len(defenders) for label in certified)


def majority_invariant(reaches: Sequence[frozenset[int]], y: int, n_classes: int) -> bool:
    """Theorem 2 at one placement: every pick of one label from each reach has the plurality y."""
    return all(majority(pick, n_classes) == y for pick in product(*reaches))


@dataclass(frozen=True)
class Judged:
    """What MajorCert says of one image."""

    predicted: int
    certified: bool
    by: str
    safe: dict[Size, bool]


def majorcert(defenders: Sequence[Defender], patch: Size, reach: str = "exact") -> Judged:
    """Judge one image by theorem 1 and by theorem 2, with every combination at every placement enumerated."""
    y, n_classes = ensemble_label(defenders), defenders[0].n_classes
    safe = {
        placement: majority_invariant([REACH[reach](one, patch, placement) for one in defenders], y, n_classes)
        for placement in placements(patch, defenders[0].image_size)
    }
    by = "theorem1" if theorem1(defenders, patch) else "theorem2" if all(safe.values()) else ""
    return Judged(predicted=y, certified=by != "", by=by, safe=safe)
