"""In a notebook: verdicts and evidence as tables, one image with its map, and a bar for long work."""

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.reach import Evidence
from majorcert.core.threat import Bools, Patch
from majorcert.core.verdict import Verdict
from majorcert.errors import DataError
from majorcert.files.html import Markup, table
from majorcert.files.untrusted import cleaned
from majorcert.reports.png import SAFE, UNSAFE, address
from majorcert.reports.rooms import room_of

SHOWN = 20
"""Images of which each has a line."""
MAP_SIDE = 56
"""Pixels of a small map."""


def class_names(provenance: Sequence[Any], n_classes: int) -> list[str]:
    """The names on record, or the numbers where there are none."""
    names = provenance[0].get("class_names") if provenance else None
    known = isinstance(names, list | tuple) and len(names) >= n_classes
    return [cleaned(str(name)) for name in names] if known and names else [str(label) for label in range(n_classes)]


def named(verdict: Verdict) -> list[str]:
    """(images,) the label of each image by the name of its class."""
    names = class_names(verdict.defenders, _n_classes(verdict))
    return [names[label] for label in verdict.predicted]


def tell(verdict: Verdict, i: int) -> str:
    """What is proved of the i-th image, in a sentence with the names of the classes."""
    names, patch = class_names(verdict.defenders, _n_classes(verdict)), verdict.patch
    label, witness = names[verdict.predicted[i]], verdict.witness(i)
    alert = "" if verdict.alert is None else ", with an alert" if verdict.alert[i] else ", without an alert"
    if verdict.certified[i]:
        return f"{label}{alert}, certified: no {patch} patch, wherever it is, {_prevented(verdict)}"
    if witness is None:
        return f"{label}{alert}, not certified against {patch} patches"
    top, left = witness.placement
    where = f"{label}{alert}, not certified: with a {patch} patch at row {top}, column {left}"
    if verdict.promise == "top-k":
        return f"{where}, these may stand ahead of it: {', '.join(names[each] for each in witness.forced)}"
    who = [str(each.get("strategy", f"defender {at}")) for at, each in enumerate(verdict.defenders, start=1)]
    said = ", ".join(f"{cleaned(one)} says {names[to]}" for one, to in zip(who, witness.forced, strict=False))
    return f"{where}, it may be that {said}"


def _prevented(verdict: Verdict) -> str:
    """What no patch does to a certified label, by the promise."""
    if verdict.promise == "top-k":
        return f"drives it out of the first {cleaned(verdict.method.removeprefix('top-'))} labels"
    more = {"detection": " without an alert", "unwavering": ", or raises an alert"}
    return "changes it" + more.get(verdict.promise, "")


def verdict_html(verdict: Verdict) -> str:
    """A line for each of the first images, with the map of where a patch could change the label."""
    labels, rows = named(verdict), []
    for i in range(min(len(verdict), SHOWN)):
        drawn = "" if verdict.safe is None else _map(verdict.safe[i])
        state = f"yes ({verdict.by[i]})" if verdict.certified[i] else "no"
        rows.append([str(verdict.images[i]), labels[i], state, drawn, "" if verdict.certified[i] else tell(verdict, i)])
    more = f"; the first {SHOWN} of them" if len(verdict) > SHOWN else ""
    title = f"{verdict.certified.sum()} of {len(verdict)} images certified against {verdict.patch} patches"
    alerts = "" if verdict.alert is None else f", {verdict.alert.sum()} with an alert"
    header = ["image", "label", "certified", "where it could change", "why not"]
    return table(f"{title} ({verdict.promise}, {verdict.method}){alerts}{more}", header, rows)


def evidence_html(evidence: Evidence) -> str:
    """What it is, and what it says of the first images."""
    names = class_names([evidence.provenance], evidence.n_classes)
    rows = [
        [str(image), names[label]] for image, label in zip(evidence.images[:SHOWN], evidence.label[:SHOWN], strict=True)
    ]
    title = f"{room_of(evidence).title(evidence)}: {evidence!r}"
    return table(title, ["image", "label"], rows)


def plot(verdict: Verdict, i: int, image: npt.ArrayLike | None = None, ax: Any = None) -> Any:
    """Draw the i-th image, and on it where the middle of a patch could change the label; gives the axes.

    Args:
        image: (height, width), (height, width, 3) or (3, height, width), as the networks saw it.
        ax: of matplotlib; by default new ones.
    """
    if verdict.safe is None:
        raise DataError("a margin looks at no placement, so there is no map; certify with bound='local'")
    if ax is None:
        try:
            from matplotlib import pyplot as plt
        except ImportError:
            raise DataError("plots are drawn by matplotlib; pip install 'majorcert[notebook]' brings it") from None
        ax = plt.subplots()[1]
    unsafe, patch = ~verdict.safe[i], verdict.patch
    if image is not None:
        ax.imshow(_picture(np.asarray(image), unsafe.shape, patch), cmap="grey")
    colour = np.zeros((*unsafe.shape, 4))
    colour[unsafe] = (*(value / 255 for value in UNSAFE), 0.6)
    # A placement is drawn where the middle of its patch lies.
    top, left = (patch.height - 1) / 2 - 0.5, (patch.width - 1) / 2 - 0.5
    ax.imshow(colour, extent=(left, left + unsafe.shape[1], top + unsafe.shape[0], top))
    ax.set_xlim(-0.5, unsafe.shape[1] + patch.width - 1.5)
    ax.set_ylim(unsafe.shape[0] + patch.height - 1.5, -0.5)
    ax.set_title(tell(verdict, i), wrap=True, fontsize="small")
    return ax


def _picture(image: npt.NDArray[Any], n_placements: tuple[int, ...], patch: Patch) -> npt.NDArray[Any]:
    """The image with its channels last, if it is of the size that the map is of."""
    expected = n_placements[0] + patch.height - 1, n_placements[1] + patch.width - 1
    shown = image[0] if image.ndim == 3 and len(image) == 1 else image
    if shown.ndim == 3 and shown.shape[2] not in (1, 3):
        shown = np.moveaxis(shown, 0, 2)
    if shown.shape[:2] != expected:
        raise DataError(f"the map is of an image of {expected[0]}x{expected[1]} pixels, got shape {image.shape}")
    return shown


class Bar:
    """A bar for `progress=` of `mc.train`, `mc.vote`, `mc.attack` and `mc.verify`: in a notebook, else on stderr.

    >>> mc.vote("runs", "digits", progress=mc.Bar())
    """

    def __init__(self) -> None:
        self.display: Any = None
        self.told = 0.0

    def __call__(self, *said: Any) -> None:
        """Any progress: the last words are an object that knows how far it is, or two numbers."""
        done, total = _far(said)
        if time.monotonic() - self.told < 0.2 and done < total:
            return
        self.told, percent = time.monotonic(), 100 * done / max(total, 1)
        if "ipykernel" not in sys.modules:
            sys.stderr.write(f"\r{percent:5.1f}%" + ("\n" if done >= total else ""))
            return
        from IPython.display import HTML, display

        shown = HTML(f'<progress value="{done}" max="{total}"></progress> {percent:.1f}%')
        if self.display is None:
            self.display = display(shown, display_id=True)
        else:
            self.display.update(shown)


def _far(said: tuple[Any, ...]) -> tuple[float, float]:
    """How much is done, and of how much, by any of the ways in which progress is told."""
    at = said[-1]
    if isinstance(at, int | float):
        return float(said[-2]), float(at)
    known = vars(at)
    if "epoch" in known:
        return known["epoch"] * known["n_steps"] + known["step"], known["n_epochs"] * known["n_steps"]
    return (known["done"], known["total"]) if "done" in known else (known["steps"], known["n_steps"])


def _map(safe: Bools) -> Markup:
    """A small picture of the placements; empty if all are safe."""
    if safe.all():
        return Markup("")
    pixels = np.where(safe[:, :, None], (*SAFE, 255), (*UNSAFE, 255)).astype(np.uint8)
    style = f"width:{MAP_SIDE}px;image-rendering:pixelated"
    return Markup(f'<img alt="unsafe placements" style="{style}" src="{address(pixels)}">')


def _n_classes(verdict: Verdict) -> int:
    forced = [max(each.forced, default=0) for each in verdict.witnesses if each is not None]
    return 1 + max([int(verdict.predicted.max(initial=0)), *forced])
