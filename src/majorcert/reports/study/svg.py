"""Drawing by hand: the few SVG elements that the figures need, as deterministic text."""

from dataclasses import dataclass, field
from math import cos, pi, sin
from xml.sax.saxutils import escape

from majorcert.files.untrusted import cleaned

INK, SOFT, FAINT, CARD = "#1f2328", "#59636e", "#d8dde3", "#fcfcfa"
"""Text, lesser text, grid lines, and a card behind everything, so that the figure reads on light and dark pages."""


def number(value: float) -> str:
    """At most two decimals and no trailing zeros, so that the same data gives the same file everywhere."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


@dataclass
class Drawing:
    """A card of some size that elements are added to."""

    width: float
    height: float
    title: str
    elements: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = FAINT, width: float = 1) -> None:
        place = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
        self.elements.append(f'<line {place} stroke="{colour}" stroke-width="{number(width)}"/>')

    def rectangle(
        self, x: float, y: float, width: float, height: float, fill: str = "none", stroke: str = "none"
    ) -> None:
        place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self.elements.append(f'<rect {place} fill="{fill}" stroke="{stroke}"/>')

    def text(
        self, x: float, y: float, text: str, *, size: float = 12, colour: str = INK, anchor: str = "start",
        bold: bool = False, turned: bool = False,
    ) -> None:  # fmt: skip
        weight = ' font-weight="600"' if bold else ""
        turn = f' transform="rotate(-90 {number(x)} {number(y)})"' if turned else ""
        self.elements.append(
            f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}{turn}>{escape(cleaned(text))}</text>'
        )

    def path(self, data: str, *, stroke: str, width: float, fill: str = "none") -> None:
        self.elements.append(
            f'<path d="{data}" fill="{fill}" stroke="{stroke}" stroke-width="{number(width)}" stroke-linejoin="round"/>'
        )

    def marker(self, shape: str, x: float, y: float, radius: float, colour: str, *, hollow: bool = False) -> None:
        """A "circle", "square", "diamond", "triangle" or "star"; hollow ones are outlines."""
        corners = {"circle": 24, "square": 4, "diamond": 4, "triangle": 3, "star": 10}[shape]
        turn = pi / 4 if shape == "square" else 0
        scale = {"circle": 1.0, "square": 1.25, "diamond": 1.35, "triangle": 1.5, "star": 1.75}[shape]
        points = []
        for i in range(corners):
            reach = radius * scale * (0.45 if shape == "star" and i % 2 else 1)
            angle = turn + 2 * pi * i / corners
            points.append(f"{number(x + reach * sin(angle))} {number(y - reach * cos(angle))}")
        data = "M" + "L".join(points) + "Z"
        if hollow:
            self.path(data, fill=CARD, stroke=colour, width=1.8)
        else:
            self.path(data, fill=colour, stroke=CARD, width=1)

    def svg(self) -> str:
        size = f'width="{number(self.width)}" height="{number(self.height)}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {number(self.width)} {number(self.height)}" '
            f'role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">'
        )
        card = (
            f'<rect x="0.5" y="0.5" width="{number(self.width - 1)}" height="{number(self.height - 1)}" rx="8" '
            f'fill="{CARD}" stroke="{FAINT}"/>'
        )
        return "\n".join([head, f"<title>{escape(self.title)}</title>", card, *self.elements, "</svg>"]) + "\n"
