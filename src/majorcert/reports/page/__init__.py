"""The report: one HTML file that needs nothing else, a pure function of what it is made from."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

import majorcert
from majorcert.core.plurality import Ints
from majorcert.core.threat import Patch
from majorcert.errors import DataError
from majorcert.files.atomic import replacing
from majorcert.reports.abstention import abstentions
from majorcert.reports.abstention import sentence as abstention
from majorcert.reports.bound import presumed, presumption
from majorcert.reports.contents import Contents
from majorcert.reports.page.charts import curve_chart, heat_map, largest_chart
from majorcert.reports.page.overview import Findings, Overview, Progress, overview
from majorcert.reports.page.palette import PALETTE
from majorcert.reports.page.sprite import Sprites, spaced, sprites
from majorcert.reports.payload import Block, script_json
from majorcert.reports.rooms import room_of

TITLE = "Certified patch robustness"
LIMIT = 10_000
"""Images that the gallery and the explorer hold unless told otherwise."""
SCRIPTS = (
    "payload",
    "majority",
    "reach",
    "ballots",
    "pairs",
    "rows",
    "story",
    "drawing",
    "gallery",
    "explorer",
    "page",
)
IMAGES_PER_BLOCK = 256
"""The page unpacks one block at a time, when an image of it is looked at."""
BY = ("", "theorem1", "theorem2", "detection")
MOST_CONFUSION_CLASSES = 12
"""Up to so many classes the confusion is a square; beyond that, a list of the most frequent mistakes."""
MOST_SQUARES = 12
"""The explorer offers squares up to this side, beside the patches of the report."""


@dataclass(frozen=True)
class Outcome:
    """A part of all images, for the bar that adds up to all of them."""

    key: str
    text: str
    n: int


def write_report(
    path: str | Path,
    contents: Contents,
    *,
    title: str = TITLE,
    limit: int = LIMIT,
    progress: Progress = lambda step: None,
) -> None:
    """Write the page, whole or not at all. The overview counts every image, whatever the limit."""
    text = page(contents, overview(contents, progress), title=title, limit=limit, progress=progress)
    progress("writing the page")
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def page(
    contents: Contents,
    numbers: Overview,
    *,
    title: str = TITLE,
    limit: int = LIMIT,
    progress: Progress = lambda step: None,
) -> str:
    """The page as text.

    Args:
        limit: how many images the gallery and the explorer hold, evenly spaced over the evidence.
    """
    if limit < 1:
        raise DataError(f"the page shows at least one image, got a limit of {limit}")
    progress("packing the evidence")
    shown = spaced(len(contents), limit)
    pictures = None if contents.pictures is None else sprites(contents.pictures[shown])
    facts = _facts(contents, numbers)
    rows = np.stack([row[shown] for row in facts.values()]).astype(np.int32)  # one for each fact
    blocks = [Block.of("facts", rows), *_evidence_blocks(contents, shown)]
    blocks += pictures.blocks if pictures else ()
    template = _environment().get_template("report.html")
    return template.render(
        title=title,
        version=majorcert.__version__,
        contents=contents,
        numbers=numbers,
        n_shown=len(shown),
        pictures=pictures,
        outcomes={str(found.patch): _outcomes(contents, found) for found in numbers.findings},
        curves=curve_chart(numbers.curves) if numbers.curves else None,
        largest=None if numbers.largest is None else largest_chart(numbers.largest),
        confusion=partial(_confusion, contents),
        mistaken=lambda found: [pair for pair in found.confused if pair.truth != pair.predicted],
        heat_map=heat_map,
        ballots_ratio=_ballots_ratio(contents),
        rooms=list(map(room_of, contents.defenders)),
        presumed=[presumption(name, bound) for name, bound in presumed(contents.defenders).items()],
        abstained=_abstained(contents),
        on_photos=_on_photos(contents),
        explorer_patches=_explorer_patches(contents),
        blocks=blocks,
        manifest=script_json(_manifest(contents, list(facts), shown, blocks, pictures)),
    )


def _environment() -> Environment:
    loader, plain = PackageLoader("majorcert.reports.page"), select_autoescape(["html"])
    made: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=loader, autoescape=plain, **made)
    environment.globals["scripts"] = [loader.get_source(environment, f"{name}.js")[0] for name in SCRIPTS]
    environment.globals["style"] = loader.get_source(environment, "report.css")[0]
    environment.filters["percent"] = lambda part, whole: f"{part / max(whole, 1):.1%}"
    return environment


def _facts(contents: Contents, numbers: Overview) -> dict[str, Ints]:
    """(images,) each: what the gallery knows of every image."""
    facts = {"image": contents.images, "predicted": numbers.findings[0].verdict.predicted}
    facts["largest"] = np.zeros(len(contents), dtype=np.int64) if numbers.largest is None else numbers.largest
    facts["truth"] = np.full(len(contents), -1) if contents.truth is None else contents.truth
    facts |= {f"label{place}": defender.label for place, defender in enumerate(contents.defenders)}
    for found in numbers.findings:
        facts[f"by {found.patch}"] = np.array([BY.index(by) for by in found.verdict.by.tolist()])
        facts[f"unsafe {found.patch}"] = found.n_unsafe
        if found.verdict.alert is not None:
            facts[f"alert {found.patch}"] = found.verdict.alert.astype(np.int64)
    return facts


def _evidence_blocks(contents: Contents, shown: Ints) -> Iterator[Block]:
    """What the room of each defender shows of the images."""
    for place, defender in enumerate(contents.defenders):
        room = room_of(defender)
        yield from room.blocks(place, defender)
        for number, start in enumerate(range(0, len(shown), IMAGES_PER_BLOCK)):
            some = defender[shown[start : start + IMAGES_PER_BLOCK]]
            yield from room.images(f"{place}.{number}", some, contents.patches, contents.promise.sets)


def _any_patch(contents: Contents) -> bool:
    return all(room_of(defender).any_patch for defender in contents.defenders)


def _manifest(
    contents: Contents, fact_names: list[str], shown: Ints, blocks: list[Block], pictures: Sprites | None
) -> dict[str, Any]:
    """What the script needs beside the blocks."""
    return {
        "imageSize": contents.image_size,
        "classNames": contents.class_names,
        "patches": [(patch.height, patch.width) for patch in contents.patches],
        "by": BY,
        "promise": contents.promise.name,
        "slack": contents.promise.slack,
        "palette": PALETTE,
        "hasTruth": contents.truth is not None,
        "nShown": len(shown),
        "imagesPerBlock": IMAGES_PER_BLOCK,
        "factRows": fact_names,
        "anyPatch": _any_patch(contents),
        "ballotsRatio": _ballots_ratio(contents),
        "defenders": [
            {"name": name, "room": room_of(defender).name, **room_of(defender).facts(defender)}
            for name, defender in zip(contents.names, contents.defenders, strict=True)
        ],
        "blocks": {block.name: block.type for block in blocks},
        "pictures": None
        if pictures is None
        else {
            "places": None if len(pictures.places) == len(shown) else pictures.places,
            "perSheet": pictures.per_sheet,
            "columns": pictures.columns,
        },
    }


def _outcomes(contents: Contents, found: Findings) -> list[Outcome]:
    certified = found.verdict.certified
    n_certified = int(certified.sum())
    # Without slack and tolerance there is an alert just where nothing is certified.
    same = contents.promise.alerts and not contents.promise.slack
    sure, doubtful = ("no alert", "alert") if same else ("certified", "not certified")
    if contents.truth is None:
        return [Outcome("proved", sure, n_certified), Outcome("open", doubtful, len(contents) - n_certified)]
    correct = found.verdict.predicted == contents.truth
    kinds = (
        ("proved", f"{sure} and correct", certified & correct),
        ("danger", f"{sure} and wrong", certified & ~correct),
        ("open", f"correct, {doubtful}", ~certified & correct),
        ("wrong", f"wrong, {doubtful}", ~certified & ~correct),
    )
    return [Outcome(key, text, int(chosen.sum())) for key, text, chosen in kinds]


def _confusion(contents: Contents, found: Findings) -> tuple[list[int], dict[tuple[int, int], Any]] | None:
    """The labels that occur and a look-up of their pairs; None when they are too many for a square."""
    if contents.truth is None:
        return None
    labels = np.union1d(contents.truth, found.verdict.predicted).tolist()
    if len(labels) > MOST_CONFUSION_CLASSES:
        return None
    return labels, {(pair.truth, pair.predicted): pair for pair in found.confused}


def _abstained(contents: Contents) -> list[str]:
    """A sentence for each defender that has images without a vote, and says the first class there."""
    found = abstentions(contents.names, contents.defenders)
    return [abstention(name, n, len(contents)) for name, n in found.items() if n]


def _on_photos(contents: Contents) -> list[str]:
    """What certificates for the patches say of the photos that the images were made of, in sentences."""
    if (photos := contents.photos) is None:
        return []
    size = contents.image_size
    found = [(patch, photos.covered(patch, size)) for patch in contents.patches]
    told = [
        f"{patch} covers patches of up to {height}x{width} pixels" if height and width else f"{patch} covers none"
        for patch, (height, width) in found
    ]
    return [
        f"certificates are about the decoded photos after they were resized to {size[0]}x{size[1]}; of the pixels of "
        f"every photo, {', '.join(told)}; what was painted before a JPEG was compressed is not covered"
    ]


def _explorer_patches(contents: Contents) -> list[Patch]:
    """Those of the report; ballots answer for any other patch too, so small squares follow."""
    if not _any_patch(contents):
        return list(contents.patches)
    squares = [Patch(side) for side in range(1, 1 + min(*contents.image_size, MOST_SQUARES))]
    return list(dict.fromkeys([*contents.patches, *squares]))


def _ballots_ratio(contents: Contents) -> float:
    """Width over height of the picture of ballots: that of the images, within reason."""
    height, width = contents.image_size
    return round(1 / min(max(height / width, 0.4), 2.5), 4)
