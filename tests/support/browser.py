"""What the tests of the page in a browser share."""

from collections.abc import Callable
from typing import Any

from majorcert.reports.mask_rows import MaskRow
from majorcert.reports.rooms import Told
from majorcert.reports.story import Scene, Testimony

Open = Callable[..., Any]
"""Opens the page at a path, with a fragment of its address, and gives it once it is ready."""
ASK = """async ([number, patch, placements]) => [
    await majorcert.unsafe(number, patch),
    await Promise.all(placements.map((at) => majorcert.scene(number, patch, ...at))),
    await Promise.all(placements.map((at) => majorcert.sentence(number, patch, ...at))),
]"""


def until(page: Any, expression: str) -> None:
    """Wait for it to hold. (Playwright's own waiting evaluates text, which the page's security policy forbids.)"""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"it never came true: {expression}")


def told_by_core(told: Scene) -> dict[str, Any]:
    """A scene as the page gives it."""
    return {
        "placement": list(told.placement),
        "clean": told.clean,
        "safe": told.safe,
        "alert": told.alert,
        "rival": told.rival,
        "nClean": told.n_clean,
        "nRival": told.n_rival,
        "forced": list(told.forced),
        "testimonies": [_testimony(one) for one in told.testimonies],
    }


def _testimony(one: Testimony) -> dict[str, Any]:
    """Points are counted in the terminal; the page counts votes alone."""
    told = one.told if one.told.unit == "votes" else Told()
    return {
        "name": one.name,
        "label": one.label,
        "canSay": list(one.can_say),
        "tallies": [
            {"label": tally.label, "votes": tally.votes, "kept": tally.kept, "most": tally.most}
            for tally in told.tallies
        ],
        "nTouched": told.n_touched,
        "nAblations": told.n_ablations,
        "remark": told.remark,
        "rows": [_row(row) for row in told.rows],
    }


def _row(row: MaskRow) -> dict[str, Any]:
    return {
        "mask": list(row.mask),
        "alone": row.alone,
        "nSeconds": row.n_seconds,
        "dissent": [{"second": list(each.second), "label": each.label} for each in row.dissent],
        "nUnseen": row.n_unseen,
    }
