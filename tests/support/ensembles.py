"""Ensembles for Hypothesis: any strategies, votes and patch on a small image, with both verdicts about as often.

About half of them have fragile ballots.
"""

import oracle
from cases import Case
from hypothesis import strategies as st

IMAGE_SIZES = [(1, 9), (8, 1), (4, 5), (5, 3), (6, 6)]


@st.composite
def specs(draw: st.DrawFn, image_size: tuple[int, int]) -> str:
    """Mostly narrow bands close together, which have the most votes for the patch to leave alone."""
    kind = draw(st.sampled_from(["rows", "columns", "blocks"]))
    side = {"rows": image_size[0], "columns": image_size[1], "blocks": min(image_size)}[kind]
    size = draw(st.sampled_from([1, 1, 1, min(2, side), min(2, side), side]))
    stride = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return f"{kind}:{size}/{stride}" if stride > 1 else f"{kind}:{size}"


@st.composite
def votes_of(draw: st.DrawFn, n_ablations: int, favourite: int, labels: list[int]) -> tuple[oracle.Ballot, ...]:
    """A favourite label, a run of another one, and anything in a few places: no label, one or several."""
    votes = [frozenset([favourite])] * n_ablations
    start, length = draw(st.integers(0, n_ablations - 1)), draw(st.integers(0, n_ablations // 2))
    rival = draw(st.sampled_from([favourite, *labels]))
    for i in range(start, start + length):
        votes[i % n_ablations] = frozenset([rival])
    places, ballots = st.integers(0, n_ablations - 1), st.frozensets(st.sampled_from(labels))
    odd = draw(st.dictionaries(places, ballots, max_size=n_ablations // 4))
    return tuple(odd.get(i, ballot) for i, ballot in enumerate(votes))


@st.composite
def ensembles(draw: st.DrawFn, max_defenders: int = 4, max_images: int = 3) -> Case:
    """Any ensemble on a small image, with a patch that fits; only some of the classes may occur in the votes."""
    image_size = draw(st.sampled_from(IMAGE_SIZES))
    n_classes = draw(st.integers(2, 6))
    occurring = sorted(draw(st.sets(st.integers(0, n_classes - 1), min_size=1, max_size=4)))
    chosen = tuple(draw(st.lists(specs(image_size), min_size=1, max_size=max_defenders)))
    n_images = draw(st.integers(1, max_images))
    favourites = [draw(st.sampled_from(occurring)) for _ in range(n_images)]
    votes = []
    for spec in chosen:
        n_ablations = len(oracle.regions(spec, image_size))
        held = [draw(st.sampled_from([favourite] * 5 + occurring)) for favourite in favourites]
        votes.append(tuple(draw(votes_of(n_ablations, label, occurring)) for label in held))
    sides = st.sampled_from([1, 1, 1, 2, 2, 3])
    patch = min(draw(sides), image_size[0]), min(draw(sides), image_size[1])
    case = Case(chosen, image_size, n_classes, tuple(votes), patch)
    return draw(st.sampled_from([case, case.shaken(draw(st.integers(0, 9)))]))
