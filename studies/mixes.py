"""Every mix of recorded defenders: which one to train? python studies/mixes.py STORE... --patch 2 --patch 5

The stores are evidence of one split, best of the validation split: networks that mask, networks that vote, maps, and
averages of any (`majorcert average`) as members of their own. Those images are used that all of them have. Prints a
line for each mix, by majority and with the voters in one pool: clean accuracy, certified at each patch, and under the
promise of detection; the best at the last patch first. `--say 3` tries pools in which some voters have up to three
times the say of others; `--masked` tries PatchGuard's robust masking on the points of each pool.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import majorcert as mc
from majorcert.errors import EvidenceError
from majorcert.errors.frozen import filled
from majorcert.files.truth import find_truth
from majorcert.reports.terminal import remark, say_table

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Mix:
    """Members and a rule, and the defenders that it makes of them; of a masked pool those that vote."""

    names: str
    rule: str
    defenders: list[mc.Evidence]
    masked: bool = False

    def measured(self, patches: Sequence[mc.Patch], truth: Numbers) -> list[float]:
        """Clean accuracy, then certified recovery at each patch, then certified detection at each patch."""
        if self.masked:
            found = [mc.score(mc.patchguard(mc.Pool(self.defenders), patch), truth) for patch in patches]
            return [found[-1].clean, *(each.certified for each in found), *[float("nan")] * len(patches)]
        recovered = [mc.score(mc.certify(self.defenders, patch), truth) for patch in patches]
        detected = [mc.score(mc.detect(self.defenders, patch), truth) for patch in patches]
        return [recovered[0].clean, *(each.certified for each in (*recovered, *detected))]


def mixes(members: dict[str, mc.Evidence], most: int, say: int, *, masked: bool) -> Iterator[Mix]:
    """Up to so many members together, by every rule."""
    for size in range(1, most + 1):
        for chosen in combinations(members, size):
            names, found = " + ".join(chosen), [members[name] for name in chosen]
            voters = [each for each in found if isinstance(each, mc.Ballots)]
            others = [each for each in found if not isinstance(each, mc.Ballots)]
            yield Mix(names, "majority" if size > 1 else "alone", found)
            if len(voters) > 1:
                yield Mix(names, "voters pooled, then majority" if others else "pool", [*others, mc.Pool(voters)])
            if voters and not others:
                yield from pools(names, voters, say, masked=masked)


def pools(names: str, voters: list[mc.Ballots], say: int, *, masked: bool) -> Iterator[Mix]:
    """Those in which the voters do not all have the same say, and those whose points are masked."""
    equal = mc.Pool(voters)
    if masked:
        yield Mix(names, "masked", list[mc.Evidence](voters), masked=True)
    for says in product(range(1, say + 1), repeat=len(voters)):
        if gcd(*says) == 1 and max(says) > 1:
            weights = [points * more for points, more in zip(equal.weights, says, strict=True)]
            yield Mix(names, "pool " + ":".join(map(str, says)), [mc.Pool(voters, weights=weights)])


def in_common(members: dict[str, mc.Evidence]) -> dict[str, mc.Evidence]:
    """The members, of the images that all of them have."""
    splits = {(each.provenance.get("dataset"), each.provenance.get("split")) for each in members.values()}
    if len(splits) > 1:
        raise EvidenceError(f"evidence of one split is compared, got {len(splits)}: {splits}")
    shared = reduce(np.intersect1d, [each.images for each in members.values()])
    if all(len(each) == len(shared) for each in members.values()):
        return members
    some = {name: each[np.flatnonzero(np.isin(each.images, shared))] for name, each in members.items()}
    for each in some.values():  # the SHA-256 was of all the images that were voted on
        filled(each, provenance={key: value for key, value in each.provenance.items() if key != "images_sha256"})
    return some


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="+", type=Path)
    parser.add_argument("--patch", action="append", required=True, help="repeatable; the last one orders the lines")
    parser.add_argument("--truth", type=Path, help="true labels; by default those beside the first store")
    parser.add_argument("--most", type=int, default=5, help="members of a mix at most")
    parser.add_argument("--say", type=int, default=1, help="how much more say a voter may have than another")
    parser.add_argument("--masked", action="store_true", help="try robust masking of the pools, too")
    given = parser.parse_args()
    recorded = {f"{store.parent.name}/{store.stem}": mc.load_evidence(store) for store in given.stores}
    members, first = in_common(recorded), next(iter(recorded))
    truth = find_truth(given.truth, given.stores[0], recorded[first], remark)
    if truth is None:
        parser.error("the true labels are not known; give them with --truth")
    truth = truth[np.isin(recorded[first].images, members[first].images)]
    patches = [mc.Patch.parse(each) for each in given.patch]
    tried = mixes(members, min(given.most, len(members)), given.say, masked=given.masked)
    found = [(mix.names, mix.rule, mix.measured(patches, truth)) for mix in tried]
    found.sort(key=lambda line: -line[2][len(patches)])
    header = ["members", "rule", "clean", *map(str, patches), *(f"detection {patch}" for patch in patches)]
    say_table(header, [[name, rule, *(f"{100 * share:.2f}" for share in figures)] for name, rule, figures in found])


if __name__ == "__main__":
    main()
