"""A verdict judged anew: what it says against its evidence, and against the definitions of every kind.

Nothing is shared with the code that certifies, except the readers of the two files.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from majorcert.audit.check import Check, Difference
from majorcert.audit.covered import check_covered, first_labels
from majorcert.audit.ensemble import (
    Opinion,
    Testimony,
    alert_of,
    beats,
    opinion_of,
    strongest,
    top_opinion,
    winner,
)
from majorcert.audit.kinds import (
    POOLED,
    ballots_of,
    kind_of,
    labels_per_ballot,
    members_of,
    parts_of,
    testimony,
    tolerance_of,
)
from majorcert.core.reach import Evidence
from majorcert.core.verdict import Verdict
from majorcert.errors import EvidenceError

PROMISES = ("detection", "unwavering")
"""Methods that are called as what they prove; others prove recovery, but for those that show the first k."""
NOT_OF_VOTES = {"scores_one", "fragile", "per_ballot"}
"""What evidence says of the scores beside its votes, and what a verdict says of how it was made."""
SHARED = ("images_sha256", "class_names")
"""What the evidence of all defenders says alike, where it says it."""
NOT_THERE = "not on record"


def judged_anew(
    verdict: Verdict,
    evidence: Sequence[Evidence],
    rows: Sequence[int],
    progress: Callable[[int, int], None] | None = None,
) -> list[Check]:
    """Check a verdict against its evidence: where it says it comes from, every row in itself, and `rows` anew.

    When the verdict is about other images than the evidence, nothing is derived anew.
    """
    check_covered(verdict, evidence)
    checks = [_promise(verdict), _provenance(verdict, evidence), _images(verdict, evidence)]
    if checks[-1].differences:
        return checks
    height, width = evidence[0].image_size
    n_tops, n_lefts = height - verdict.patch.height + 1, width - verdict.patch.width + 1
    checks += [_placements(verdict, n_tops, n_lefts), _rows_in_themselves(verdict)]
    names = ["label", "certified", "by", "safe map", "witness"]
    names += ["alert"] * (verdict.method == "detection") + ["holds"] * (verdict.holds is not None)
    found: dict[str, list[Difference]] = {name: [] for name in names}
    patch = verdict.patch.height, verdict.patch.width
    for n_judged, row in enumerate(rows, start=1):
        told = [testimony(each, origin, row, patch) for each, origin in zip(evidence, verdict.defenders, strict=True)]
        opinion = _opinion(verdict, told, evidence, row)
        for name, differences in _compared(verdict, row, opinion).items():
            found[name] += differences
        if "alert" in found:
            found["alert"] += _alert_faults(verdict, row, evidence, patch)
        if "holds" in found:
            found["holds"] += _holds_faults(verdict, row, strongest(told, opinion.certified, verdict.slack))
        if progress is not None:
            progress(n_judged, len(rows))
    return checks + [Check(name, len(rows), tuple(differences)) for name, differences in found.items()]


def _opinion(verdict: Verdict, told: Sequence[Testimony], evidence: Sequence[Evidence], row: int) -> Opinion:
    if (shown := first_labels(verdict.method)) is None:
        return opinion_of(verdict.method, told, verdict.slack)
    most = labels_per_ballot(verdict.defenders[0])
    opinion = top_opinion(told[0], shown, most)  # refuses what does not vote
    for each in parts_of(evidence[0], verdict.defenders[0]):
        if any(len(ballot) > most for ballot in ballots_of(each, row)):
            raise EvidenceError(f"the verdict takes ballots to name {most} labels at most; one of row {row} names more")
    return opinion


def _promise(verdict: Verdict) -> Check:
    """Does the verdict promise what its method proves?"""
    ranked = first_labels(verdict.method) is not None
    proved = "top-k" if ranked else verdict.method if verdict.method in PROMISES else "recovery"
    wrong = [] if verdict.promise == proved else [Difference("promise", proved, verdict.promise)]
    if verdict.slack and verdict.method not in PROMISES:
        wrong.append(Difference("slack, which is of detection", 0, verdict.slack))
    return Check("promise", 1, tuple(wrong))


def _provenance(verdict: Verdict, evidence: Sequence[Evidence]) -> Check:
    """Does the verdict say of each defender what its evidence says, and were all shown the same images and classes?

    What is null is not what is not there: of a threshold the first says that a ballot names one label.
    """
    differences = []
    for place, (origin, each) in enumerate(zip(verdict.defenders, evidence, strict=True), start=1):
        claimed, recorded = _listed(_of_votes(origin)), _listed(_of_votes(each.provenance))
        for key in sorted({*claimed, *recorded}):
            expected, found = recorded.get(key, NOT_THERE), claimed.get(key, NOT_THERE)
            if expected != found or (key in recorded) != (key in claimed):
                differences.append(Difference(f"{key} of defender {place}", expected, found))
        pooled = kind_of(origin) == "pool" and "fragile" in origin
        if pooled and origin["fragile"] != (least := _least_tolerance(origin)):
            differences.append(Difference(f"fragile of defender {place}, as of its members", least, origin["fragile"]))
        for key in SHARED:
            others = [other.provenance.get(key) for other in evidence[:place]]
            known = [each for each in others if each is not None]
            if others[-1] is not None and others[-1] != known[0]:
                differences.append(Difference(f"{key} of evidence {place}, as of those before", known[0], others[-1]))
    return Check("provenance", len(evidence), tuple(differences))


def _of_votes(origin: Mapping[str, Any]) -> dict[str, Any]:
    """A record without what does not concern the votes, of a pool also those of its members."""
    plain = {key: value for key, value in origin.items() if key not in NOT_OF_VOTES}
    return plain | ({"members": [_of_votes(each) for each in members_of(origin)]} if kind_of(origin) in POOLED else {})


def _listed(value: Any) -> Any:
    """The same with lists for tuples, as a file has them."""
    if isinstance(value, Mapping):
        return {key: _listed(each) for key, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value


def _least_tolerance(origin: Mapping[str, Any]) -> float | None:
    """What all members of a pool tolerate, by their own records."""
    known = [tolerance_of(each) for each in members_of(origin)]
    return None if None in known else min(each for each in known if each is not None)


def _images(verdict: Verdict, evidence: Sequence[Evidence]) -> Check:
    """Is the verdict about just the images that each store holds votes on?"""
    differences = []
    claimed = verdict.images.tolist()
    for place, each in enumerate(evidence, start=1):
        voted = each.images.tolist()
        if len(voted) != len(claimed):
            differences.append(Difference(f"number of images of evidence {place}", len(voted), len(claimed)))
        elif voted != claimed:
            row = next(row for row, (a, b) in enumerate(zip(voted, claimed, strict=True)) if a != b)
            differences.append(Difference(f"image in row {row}, as in evidence {place}", voted[row], claimed[row]))
    return Check("images", len(claimed), tuple(differences))


def _placements(verdict: Verdict, n_tops: int, n_lefts: int) -> Check:
    """Does the safe map have every placement of the patch, and no other?"""
    expected = None if verdict.method in ("drs-margin", "unwavering") else (n_tops, n_lefts)
    found = None if verdict.safe is None else verdict.safe.shape[1:]
    wrong = () if found == expected else (Difference("rows and columns of placements", expected, found),)
    return Check("placements", 0 if expected is None else n_tops * n_lefts, wrong)


def _rows_in_themselves(verdict: Verdict) -> Check:
    """Is each image certified iff it is safe everywhere, by some argument, and else with a witness?"""
    differences = []
    for row in range(len(verdict)):
        certified, image = bool(verdict.certified[row]), int(verdict.images[row])
        if bool(verdict.by[row]) != certified:
            expected = "an argument" if certified else "none, as it is not certified"
            differences.append(Difference("by", expected, repr(str(verdict.by[row])), image))
        if verdict.holds is not None and (verdict.holds[row] == "unwavering") != certified:
            differences.append(Difference("holds", "unwavering" if certified else "less", verdict.holds[row], image))
        if verdict.safe is None:
            continue
        if all(map(all, verdict.safe[row].tolist())) != certified:
            differences.append(Difference("certified, by its own safe map", not certified, certified, image))
        if (verdict.witness(row) is None) != certified:
            expected, found = ("none", "a witness") if certified else ("a witness", "none")
            differences.append(Difference("witness", expected, found, image))
    return Check("rows in themselves", len(verdict), tuple(differences))


def _compared(verdict: Verdict, row: int, opinion: Opinion) -> dict[str, list[Difference]]:
    """What the verdict says otherwise of one image."""
    image = int(verdict.images[row])
    facts = {
        "label": (opinion.predicted, int(verdict.predicted[row])),
        "certified": (opinion.certified, bool(verdict.certified[row])),
        "by": (opinion.by, str(verdict.by[row])),
    }
    found = {name: [Difference(name, *pair, image)] for name, pair in facts.items() if pair[0] != pair[1]}
    if verdict.safe is not None and opinion.safe:
        n_tops, n_lefts = verdict.safe.shape[1:]
        claimed = {(top, left): bool(verdict.safe[row, top, left]) for top in range(n_tops) for left in range(n_lefts)}
        wrong = [where for where, safe in opinion.safe.items() if claimed.get(where) != safe]
        if wrong:
            what = "safe" + (f" (and at {len(wrong) - 1} more placements)" if len(wrong) > 1 else "")
            said = claimed.get(wrong[0], "no such placement")
            found["safe map"] = [Difference(what, opinion.safe[wrong[0]], said, image, wrong[0])]
        found["witness"] = _witness_faults(verdict, row, opinion)
    return found


def _alert_faults(verdict: Verdict, row: int, evidence: Sequence[Evidence], patch: tuple[int, int]) -> list[Difference]:
    """Is there an alert on the clean image itself just where it says another label without some part, as recorded?"""
    told = [testimony(each, each.provenance, row, patch) for each in (given.as_recorded() for given in evidence)]
    expected, found = alert_of(told, verdict.slack), None if verdict.alert is None else bool(verdict.alert[row])
    return [] if expected == found else [Difference("alert", expected, found, int(verdict.images[row]))]


def _holds_faults(verdict: Verdict, row: int, expected: str) -> list[Difference]:
    """Is what is said to hold the strongest promise that does?"""
    found = None if verdict.holds is None else str(verdict.holds[row])
    return [] if expected == found else [Difference("holds", expected, found, int(verdict.images[row]))]


def _witness_faults(verdict: Verdict, row: int, opinion: Opinion) -> list[Difference]:
    """Is the witness true: the first unsafe placement, labels in reach there, whose plurality is another label?"""
    witness, image = verdict.witness(row), int(verdict.images[row])
    first = next((where for where, safe in opinion.safe.items() if not safe), None)
    if witness is None or first is None:
        same = witness is None and first is None
        return [] if same else [Difference("placement of the witness", first, witness and witness.placement, image)]
    where, forced = witness.placement, witness.forced
    if where != first:
        return [Difference("placement of the witness", first, where, image)]
    reaches = opinion.sets[where]
    if len(forced) != len(reaches) or not all(isinstance(label, int) for label in forced):
        return [Difference("forced labels", f"a label of each of {len(reaches)} defenders", forced, image, where)]
    faults = [
        Difference(f"label forced on defender {place}", f"one of {sorted(reach)}", label, image, where)
        for place, (label, reach) in enumerate(zip(forced, reaches, strict=True), start=1)
        if label not in reach
    ]
    votes = Counter(forced)
    if winner(votes) == opinion.predicted:
        faults.append(Difference("plurality of the forced labels", "another label", opinion.predicted, image, where))
    clean, rival = opinion.predicted, witness.rival
    named = forced[:1] if first_labels(verdict.method) else forced
    if rival not in named or rival == clean or not beats(rival, votes[rival], clean, votes[clean]):
        faults.append(Difference("rival", f"a label that beats {clean} among {list(forced)}", rival, image, where))
    return faults
