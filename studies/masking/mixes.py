"""Every mix of recorded defenders, by majority and with the voters pooled: mixes.py STORE... --patch 5

The stores are evidence of the same images, best of the validation split: networks that mask, networks that vote, and
averages of either (`majorcert average`) as members of their own. Prints a line for each mix: clean and certified
accuracy at each patch, and under the promise of detection; the best certified first.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import majorcert as mc
from majorcert.files.truth import find_truth
from majorcert.reports.terminal import remark, say_table


def mixes(members: dict[str, mc.Evidence], most: int) -> Iterator[tuple[str, str, list[mc.Evidence]]]:
    """Up to so many members together: their names, the rule, and the defenders that it makes of them."""
    for size in range(1, most + 1):
        for names in combinations(members, size):
            chosen = [members[name] for name in names]
            yield " + ".join(names), "majority" if size > 1 else "alone", chosen
            voters = [each for each in chosen if isinstance(each, mc.Ballots)]
            if len(voters) > 1:
                others = [each for each in chosen if not isinstance(each, mc.Ballots)]
                rule = "voters pooled, then majority" if others else "pool"
                yield " + ".join(names), rule, [*others, mc.Pool(voters)]


def measured(defenders: Sequence[mc.Evidence], patches: Sequence[mc.Patch], truth: object) -> list[float]:
    """Clean accuracy, then certified recovery at each patch, then certified detection at each patch."""
    recovered = [mc.score(mc.certify(defenders, patch), truth) for patch in patches]
    detected = [mc.score(mc.detect(defenders, patch), truth) for patch in patches]
    return [recovered[0].clean, *(each.certified for each in (*recovered, *detected))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="+", type=Path)
    parser.add_argument("--patch", action="append", required=True, help="repeatable; the last one orders the lines")
    parser.add_argument("--truth", type=Path, help="true labels; by default those beside the first store")
    parser.add_argument("--most", type=int, default=5, help="members of a mix at most")
    given = parser.parse_args()
    members = {f"{store.parent.name}/{store.stem}": mc.load_evidence(store) for store in given.stores}
    truth = find_truth(given.truth, given.stores[0], next(iter(members.values())), remark)
    if truth is None:
        parser.error("the true labels are not known; give them with --truth")
    patches = [mc.Patch.parse(each) for each in given.patch]
    found = [(name, rule, measured(each, patches, truth)) for name, rule, each in mixes(members, given.most)]
    found.sort(key=lambda line: -line[2][len(patches)])
    header = ["members", "rule", "clean", *map(str, patches), *(f"detection {patch}" for patch in patches)]
    say_table(header, [[name, rule, *(f"{100 * share:.2f}" for share in figures)] for name, rule, figures in found])


if __name__ == "__main__":
    main()
