"""The story of one image in the terminal: its verdict, the map of its placements, and what each defender can say."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from majorcert.core.reach import Evidence
from majorcert.core.threat import Bools, Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.largest import largest_patch
from majorcert.errors import DataError, EvidenceError, PatchError
from majorcert.errors.checks import parsed
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import cleaned
from majorcert.reports.contents import Contents
from majorcert.reports.drawing import safe_text
from majorcert.reports.png import SAFE, UNSAFE, png
from majorcert.reports.rows import safe_map
from majorcert.reports.story import Scene, Testimony, row_alone, row_sentences, scene, sentence

MAP_SIDE = 512
"""About how many pixels the saved map is wide."""
PATCH = (28, 95, 184)
MOST_TALLIES = 8
MOST_ROWS = 9
"""Masks that are named before the others are counted."""
WIDEST_MAP = 64
"""Placements side by side that a terminal has room for; of larger maps several share a place."""


def position_of(evidence: Evidence, image: int) -> int:
    """Where in the evidence the image with this number in its data set is."""
    found = np.flatnonzero(evidence.images == image)
    if not found.size:
        shown = f", from {evidence.images.min()} to {evidence.images.max()}" if len(evidence) else ""
        raise DataError(f"there is no image {image} in this evidence, which holds {len(evidence)} images{shown}")
    return int(found[0])


def placement_of(text: str) -> tuple[int, int]:
    """The (top, left) that "3,12" means."""
    what = "a placement; write the top and the left pixel, as in '3,12'"
    top, left = parsed(text, r"([0-9]{1,6})\s*,\s*([0-9]{1,6})", what, PatchError)
    return int(str(top)), int(str(left))


def explain(
    contents: Contents, image: int, patch: Patch, placement: tuple[int, int] | None = None
) -> tuple[list[str], Bools, Scene]:
    """Lines of text, the map (placement rows, placement columns) of safe placements, and the scene that is told.

    Args:
        image: its number in the data set.
        placement: (top, left); by default the first unsafe one, or the middle of the image.
    """
    if contents.tolerant and contents.promise.alerts:
        raise EvidenceError("alerts are told of votes as they were recorded; leave the tolerance out")
    position = position_of(contents.defenders[0], image)
    one = [defender[np.array([position])] for defender in contents.defenders]
    verdict, promise = contents.promise.judge(one, patch), contents.promise
    safe, witness = safe_map(verdict)[0], verdict.witness(0)
    middle = (safe.shape[0] // 2, safe.shape[1] // 2)
    at = placement or (middle if witness is None else witness.placement)
    if not (0 <= at[0] < safe.shape[0] and 0 <= at[1] < safe.shape[1]):
        raise DataError(
            f"a {patch} patch has its top-left pixel at 0,0 to {safe.shape[0] - 1},{safe.shape[1] - 1}; got {at}"
        )
    told = scene(contents.defenders, patch, position, at, promise)
    names = [cleaned(name) for name in contents.class_names]
    lines = [
        f"image {image}: {names[told.clean]}" + _truth(contents, position, told.clean, names),
        *(_alert(verdict, safe) if promise.alerts else _verdict(verdict, one)),
        "",
        *safe_text(thinned(safe)),
        "",
        f"patch with its top-left pixel at {at[0]},{at[1]}:",
        sentence(told, names),
    ]
    for testimony in told.testimonies:
        lines += ["", *(_without if promise.alerts else _defender)(testimony, names)]
    return lines, safe, told


def thinned(safe: Bools) -> Bools:
    """A map of at most WIDEST_MAP columns: each place stands for several placements, safe only if all of them are."""
    step = -(-max(safe.shape) // WIDEST_MAP)
    return np.logical_and.reduceat(
        np.logical_and.reduceat(safe, np.arange(0, safe.shape[0], step), axis=0),
        np.arange(0, safe.shape[1], step),
        axis=1,
    )


def save_map(path: Path, contents: Contents, image: int, patch: Patch, safe: Bools, placement: tuple[int, int]) -> None:
    """Write `map_png` of the image with this number, whole or not at all."""
    picture = None if contents.pictures is None else contents.pictures[position_of(contents.defenders[0], image)]
    with replacing(path) as beside:
        beside.write_bytes(map_png(safe, placement, picture, patch))


def map_png(safe: Bools, placement: tuple[int, int], picture: npt.NDArray[np.uint8] | None, patch: Patch) -> bytes:
    """The image (or a blank one), with the centres of unsafe placements in orange and the patch outlined."""
    height, width = safe.shape[0] + patch.height - 1, safe.shape[1] + patch.width - 1
    scale = 2 * max(1, round(MAP_SIDE / 2 / max(height, width)))
    pixels = np.full((height * scale, width * scale, 4), 255, dtype=np.uint8)
    ground = np.full((height, width, 3), SAFE) if picture is None else np.broadcast_to(picture, (height, width, 3))
    pixels[..., :3] = ground.repeat(scale, axis=0).repeat(scale, axis=1)
    # An even scale puts the centre of every patch, odd or even, on whole pixels.
    down, right = (patch.height - 1) * scale // 2, (patch.width - 1) * scale // 2
    unsafe = (~safe).repeat(scale, axis=0).repeat(scale, axis=1)
    inner = pixels[down : down + unsafe.shape[0], right : right + unsafe.shape[1], :3]
    inner[unsafe] = (inner[unsafe] * 0.4 + np.array(UNSAFE) * 0.6).astype(np.uint8)
    top, left = placement[0] * scale, placement[1] * scale
    box = pixels[top : top + patch.height * scale, left : left + patch.width * scale, :3]
    edge = np.ones(box.shape[:2], dtype=bool)
    thick = max(1, scale // 6)
    edge[thick:-thick, thick:-thick] = False
    box[edge] = PATCH
    return png(pixels)


def _truth(contents: Contents, position: int, clean: int, names: Sequence[str]) -> str:
    if contents.truth is None:
        return ""
    truth = int(contents.truth[position])
    return " (correct)" if truth == clean else f" (wrong, it is {names[truth]})"


def _verdict(verdict: Verdict, one: Sequence[Evidence]) -> list[str]:
    largest, patch, safe = int(largest_patch(one)[0]), verdict.patch, safe_map(verdict)
    found = f"not certified against {patch}: {(~safe).sum():,} of {safe.size:,} placements are not proved safe"
    if verdict.certified[0]:
        found = f"certified against {patch} at all {safe.size:,} placements, by theorem {verdict.by[0][-1]}"
    return [found, f"largest certified square: {f'{largest}x{largest}' if largest else 'none'}"]


def _alert(verdict: Verdict, safe: Bools) -> list[str]:
    patch, some = verdict.patch, f"{(~safe).sum():,} of {safe.size:,} placements"
    if verdict.certified[0]:
        return [
            f"no alert, and certified: no {patch} patch changes the label without one, at all {safe.size:,} placements"
        ]
    if not verdict.slack:
        return [f"alert against {patch}: another label is left without {some}"]
    said = "alert" if np.asarray(verdict.alert)[0] else "no alert"
    lead = f"the label has no lead beyond the slack of {verdict.slack}"
    return [f"{said}, and not certified against {patch}: without {some} {lead}"]


def _without(one: Testimony, names: Sequence[str]) -> list[str]:
    left = names[one.can_say[0]] if len(one.can_say) == 1 else "nothing certain"
    lines, told = [f"{one.name} says {names[one.label]}; without what the patch could touch, {left}"], one.told
    if told.rows:
        lines.append(f"  under the first mask that covers the patch, {row_alone(one, names)}")
    if not told.n_ablations:
        return lines
    shown = told.tallies[:MOST_TALLIES]
    widest = max([5, *(len(names[tally.label]) for tally in shown)])
    lines += [
        f"  {told.n_touched} of {told.n_ablations} ablations are left out",
        f"  {'label':{widest}} {told.unit:>6}   left",
    ]
    return [*lines, *(f"  {names[tally.label]:{widest}}  {tally.votes:5}  {tally.kept:5}" for tally in shown)]


def _defender(one: Testimony, names: Sequence[str]) -> list[str]:
    says, told = f"{one.name} says {names[one.label]}", one.told
    if not told.n_ablations:
        lines = [f"{says}; it can be made to say {_others(len(one.can_say) - 1)}"]
        return lines + [f"  {line}" for line in ([told.remark] if told.remark else []) + _rows(one, names)]
    fragile = f", and {told.n_fragile} more are fragile" if told.n_fragile else ""
    lines = [f"{says}; {told.n_touched} of {told.n_ablations} ablations are touched{fragile}"]
    shown = told.tallies[:MOST_TALLIES]
    widest = max([5, *(len(names[tally.label]) for tally in shown)])
    lines.append(f"  {'label':{widest}} {told.unit:>6}   kept  at most")
    for tally in shown:
        can = "  can win" if tally.label in one.can_say else ""
        lines.append(f"  {names[tally.label]:{widest}}  {tally.votes:5}  {tally.kept:5}  {tally.most:7}{can}")
    others = set(one.can_say) - {tally.label for tally in shown}
    return [*lines, f"  and {_others(len(others))} can win"] if others else lines


def _rows(one: Testimony, names: Sequence[str]) -> list[str]:
    """The masks that cover the patch, one a line."""
    lines = row_sentences(one, names)
    more = len(lines) - MOST_ROWS
    return lines[:MOST_ROWS] + ([f"and {more} more mask{'' if more == 1 else 's'}"] if more > 0 else [])


def _others(n: int) -> str:
    return f"{n} other label{'' if n == 1 else 's'}"
