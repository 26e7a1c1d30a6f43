"""New votes beside recorded ones: are these the images and the networks on record, and do they still vote so?

Networks and images come as they are; nothing here imports them.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from majorcert.audit.check import Check, Difference
from majorcert.audit.kinds import ballots_of, kind_of
from majorcert.core.reach import Evidence

FLOAT32_MOVES = 2e-5
"""How far scores may move if both votes were computed in float32.

Between CPU, GPU, compiler and batch sizes, scores in float32 moved by 4.2e-6 at most
(benchmarks/results/numerics-*.json); this is five times that.
"""
BFLOAT16_MOVES = 0.01, 0.07
"""The same for bfloat16 on the same kind of device (0.0092 was measured), and otherwise (0.063 was)."""
HALF_STEP = 2**-12
"""How far a score up to 1 may be from the half float that it is kept as."""
UNSEEN = -1
"""A pair of masks that nobody looked at."""
OF_RULES = ("scores_one", "mask", "mask_threshold")
"""What a network says that makes no votes of its scores; of others it is said by whoever asks."""
RECENT = ("network_sha256",)
"""What older evidence does not say."""


class Pictures(Protocol):
    """A data set: images with their fingerprint."""

    @property
    def images(self) -> Any: ...

    @property
    def image_size(self) -> tuple[int, int]: ...

    def __len__(self) -> int: ...

    def sha256(self) -> str: ...

    def subset(self, indices: Any) -> "Pictures": ...


class Network(Protocol):
    """A defender; one that votes has `scores` of images as well, and one that masks their `evidence`."""

    @property
    def strategy(self) -> Any: ...

    @property
    def threshold(self) -> float | None: ...

    @property
    def image_size(self) -> tuple[int, int]: ...

    @property
    def class_names(self) -> tuple[str, ...]: ...

    def facts(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Allowed:
    """What was let pass as rounding in the new votes of one defender."""

    who: str
    near: float  # a label may differ whose score is this near to the threshold
    excess: float  # a distance on record may be larger than the new scores say by so much
    n_changed: int  # ballots that differ, all of them within `near`
    n_ballots: int

    def __str__(self) -> str:
        return (
            f"{self.who}: {self.n_changed} of {self.n_ballots} ballots on record are not what the network votes now; "
            f"they were allowed, since rounding may move scores that are within {self.near:g} of the threshold"
        )


def check_images(pictures: Pictures, evidence: Sequence[Evidence]) -> Check:
    """Are these the images that were voted on?"""
    voted = list(dict.fromkeys(int(image) for each in evidence for image in each.images))
    strange = sorted(image for image in voted if not 0 <= image < len(pictures))
    # Evidence of a part of a split names the images of that part alone, in the order in which they voted.
    orders = dict.fromkeys(map(tuple, (sorted(voted), voted))) if voted and not strange else {}
    hashes = [*(pictures.subset(list(order)).sha256() for order in orders), pictures.sha256()]
    differences = [
        Difference(f"images_sha256 of evidence {place}", hashes[0], each.provenance.get("images_sha256"))
        for place, each in enumerate(evidence, start=1)
        if each.provenance.get("images_sha256") not in hashes
    ]
    if strange:
        what = f"image that was voted on (and {len(strange) - 1} more)"
        differences.append(Difference(what, f"one of {len(pictures)}, from 0 on", strange[0]))
    if pictures.image_size != evidence[0].image_size:
        differences.append(Difference("size of the images", evidence[0].image_size, pictures.image_size))
    return Check("hash of the images", len(evidence), tuple(differences))


def check_network(place: int, network: Network, evidence: Evidence) -> Check:
    """Are the weights and the settings of the network those on record?"""
    found = network.facts()
    keys = ("weights_sha256", "network_sha256", "strategy", "view", "threshold", "image_size", "n_classes")
    differences = [
        Difference(f"{key} of evidence {place}, as of its network", found.get(key), evidence.provenance.get(key))
        for key in (*keys, "class_names", *(key for key in OF_RULES if key in found), "rule")
        if evidence.provenance.get(key, found[key] if key in RECENT else None) != found.get(key)
    ]
    return Check(f"weights of {evidence.provenance.get('strategy')}", len(keys) + 1, tuple(differences))


def comparable(network: Network, evidence: Evidence) -> bool:
    """Can the network's votes be laid beside the recorded ones?"""
    ours = str(network.strategy), network.image_size, len(network.class_names)
    return ours == (evidence.provenance.get("strategy"), evidence.image_size, evidence.n_classes)


def rounding(network: Network, evidence: Evidence) -> float:
    """How far rounding explains that scores moved: by the precision and the device on record and of the new votes."""
    now, then = network.facts(), evidence.provenance
    if now["precision"] == "float64":
        return 0.0
    if now["precision"] == then.get("precision") == "float32":
        return FLOAT32_MOVES
    same = all(now[key] == then.get(key) for key in ("precision", "device", "compiled"))
    return BFLOAT16_MOVES[0 if same else 1]


def check_votes(
    network: Any, evidence: Evidence, pictures: Pictures, rows: Sequence[int], near: float | None, excess: float | None
) -> tuple[Check, Allowed]:
    """Vote anew on the images in these rows of the evidence, and compare.

    Args:
        near, excess: as in `Allowed`; None for what rounding explains; in float32 never more of `excess` than that.
    """
    expected = rounding(network, evidence)
    near = expected if near is None else near
    if excess is None:
        excess = min(near, expected) if expected == FLOAT32_MOVES else near
    kind, shown = kind_of(evidence.provenance), pictures.images[evidence.images[rows]]
    if kind == "bounds":
        check, n_changed = check_bounds(evidence, rows, network.evidence(shown)), 0
    elif kind == "mask-pairs":
        check, n_changed = check_pairs(evidence, rows, network.evidence(shown), near, excess)
    elif kind in ("scores", "clipped"):
        check, n_changed = check_points(evidence, rows, network.scores(shown), near)
    else:
        # Scores are float32, and were compared with the threshold as float32.
        edge = None if network.threshold is None else struct.unpack("f", struct.pack("f", network.threshold))[0]
        check, n_changed = check_ballots(evidence, rows, network.scores(shown), edge, near, excess)
    return check, Allowed(str(evidence.provenance["strategy"]), near, excess, n_changed, check.n)


def check_bounds(evidence: Any, rows: Sequence[int], anew: Any) -> Check:
    """Compare recorded labels and bounds with new ones: the record excludes no more than the network does now."""
    differences, n = [], 0
    for place, row in enumerate(rows):
        number = int(evidence.images[row])
        if evidence.label[row] != anew.label[place]:
            differences.append(Difference("the label", int(anew.label[place]), int(evidence.label[row]), number))
        for where, (was, now) in enumerate(zip(evidence.words[row].tolist(), anew.words[place].tolist(), strict=True)):
            n += 1
            if any(new & ~old for old, new in zip(was, now, strict=True)):
                differences.append(Difference(f"what bounds exclude at placement number {where}", now, was, number))
    return Check(f"bounds of {evidence.provenance['strategy']}", n, tuple(differences))


def check_pairs(evidence: Any, rows: Sequence[int], anew: Any, near: float, excess: float) -> tuple[Check, int]:
    """Compare recorded labels under pairs of masks with a new table; also how many differ by rounding alone.

    No entry is nearer to a change than the least of its row, nor than that of its column: one that rounding changed has
    a score within `near` in both. What nobody looked at claims nothing. A recorded distance may be larger than the new
    one by no more than `excess` and one of the steps that both are rounded down to.
    """
    differences, n_changed, n = [], 0, 0
    for place, row in enumerate(rows):
        far, wrong = anew.distance[place].tolist(), list[tuple[str, Any, Any]]()
        pairs = [(i, j) for i in range(len(far)) for j in range(i, len(far))]
        for (i, j), was, now in zip(pairs, evidence.labels[row].tolist(), anew.labels[place].tolist(), strict=True):
            n += 1
            if was in (now, UNSEEN):
                continue
            n_changed += (rounded := max(far[i], far[j]) <= near)
            wrong += [] if rounded else [(f"the label under masks {i} and {j}", now, was)]
        for i, claimed in enumerate([] if evidence.distance is None else evidence.distance[row].tolist()):
            if claimed > (most := far[i] + step_after(far[i]) + excess):
                wrong.append((f"the distance of mask {i}", f"at most {most:.4g}", claimed))
        differences += _first(wrong, evidence, row)
    return Check(f"labels of {evidence.provenance['strategy']}", n, tuple(differences)), n_changed


def _first(wrong: Sequence[tuple[str, Any, Any]], evidence: Evidence, row: int) -> list[Difference]:
    """The first of what is wrong with an image, and how many more there are."""
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    of = f"{more} of {evidence.provenance['strategy']}"
    return [Difference(what + of, expected, found, int(evidence.images[row])) for what, expected, found in wrong[:1]]


def step_after(distance: float) -> float:
    """How far the next larger distance on record is: they have three bits after the leading one, and start at 2^-14."""
    return math.ldexp(1, math.frexp(distance)[1] - 4) if distance else 2**-14


def check_points(evidence: Any, rows: Sequence[int], scores: Any, near: float) -> tuple[Check, int]:
    """Compare recorded points with (rows, ablations, classes) scores; also how many ablations differ by rounding alone.

    Points are the nearest to a score, or to the half float that it is kept as where the network's own rule is to vote.
    """
    one, by_rule, differences, n_changed, n = evidence.scores.one, "rule" in evidence.provenance, [], 0, 0
    most = near + 0.5 / one + (0 if by_rule else HALF_STEP)
    for row, views in zip(rows, scores.tolist(), strict=True):
        wrong: list[tuple[str, Any, Any]] = []
        for number, (kept, view) in enumerate(zip(evidence.scores.points[row].tolist(), views, strict=True)):
            off = [label for label, score in enumerate(view) if abs(kept[label] / one - score) > most]
            wrong += [
                (f"the score of label {label} in ablation {number}", view[label], kept[label] / one) for label in off
            ]
            n_changed += not off and kept != [round((score if by_rule else half(score)) * one) for score in view]
        n += len(views)
        differences += _first(wrong, evidence, row)
    return Check(f"scores of {evidence.provenance['strategy']}", n, tuple(differences)), n_changed


def half(score: float) -> float:
    """The nearest half float."""
    return float(struct.unpack("e", struct.pack("e", score))[0])


def distance_of(scores: Sequence[float], threshold: float | None) -> float:
    """How far all scores of a view may move before its ballot can change: any to the threshold, or the best two."""
    if threshold is None:
        second, best = sorted(scores)[-2:]
        return (best - second) / 2
    return min(abs(score - threshold) for score in scores)


def check_ballots(
    evidence: Any, rows: Sequence[int], scores: Any, threshold: float | None, near: float, excess: float
) -> tuple[Check, int]:
    """Compare recorded ballots with (rows, ablations, classes) scores; also how many differ by rounding alone.

    That is so where all labels in question are within `near` of the threshold, or of the top score where that decides;
    there a ballot has one label. The threshold is the number that the scores were compared with. A recorded distance
    may be more than the scores say by no more than `excess`, and that of a ballot that differs no more than `excess` in
    all; less is no fault, it only makes more ballots fragile.
    """
    differences, n_near, n_ballots = [], 0, 0
    for row, views in zip(rows, scores.tolist(), strict=True):
        wrong: list[tuple[str, Any, Any]] = []
        kept = [0.0] * len(views) if evidence.distance is None else evidence.distance[row].tolist()
        for number, (recorded, far, view) in enumerate(zip(ballots_of(evidence, row), kept, views, strict=True)):
            edge = max(view) if threshold is None else threshold
            said = frozenset(label for label, score in enumerate(view) if score >= edge)
            said = frozenset([min(said)]) if threshold is None else said
            most = excess + (distance_of(view, threshold) if said == recorded else 0.0)
            n_ballots += 1
            unfit = threshold is None and len(recorded) != 1  # the top label alone is one label, whatever the scores
            if unfit or not all(abs(view[label] - edge) <= near for label in said ^ recorded):
                wrong.append((f"the ballot of ablation {number}", sorted(said), sorted(recorded)))
            elif far > most:
                wrong.append((f"the distance of ablation {number}", f"at most {most:.4g}", far))
            else:
                n_near += said != recorded
        differences += _first(wrong, evidence, row)
    return Check(f"ballots of {evidence.provenance['strategy']}", n_ballots, tuple(differences)), n_near
