"""A frame with two axes, and labels that keep out of each other's way."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from majorcert.reports.study.svg import FAINT, INK, SOFT, Drawing, number

Box = tuple[float, float, float, float]


@dataclass
class Plot:
    """A rectangle of a drawing in which data have coordinates; a label finds a free place beside its point."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    taken: list[Box] = field(default_factory=list)

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + self.width * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.top + self.height * (high - value) / (high - low)

    def axes(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_name: str, y_name: str) -> None:
        drawing, bottom = self.drawing, self.top + self.height
        for tick in x_ticks:
            drawing.line(self.x(tick), self.top, self.x(tick), bottom)
            drawing.text(self.x(tick), bottom + 16, number(tick), size=11, colour=SOFT, anchor="middle")
        for tick in y_ticks:
            drawing.line(self.left, self.y(tick), self.left + self.width, self.y(tick))
            drawing.text(self.left - 7, self.y(tick) + 4, number(tick), size=11, colour=SOFT, anchor="end")
        drawing.rectangle(self.left, self.top, self.width, self.height, stroke=FAINT)
        drawing.text(self.left + self.width / 2, bottom + 36, x_name, colour=INK, anchor="middle")
        drawing.text(self.left - 36, self.top + self.height / 2, y_name, colour=INK, anchor="middle", turned=True)

    def occupy(self, x: float, y: float, radius: float) -> None:
        """Keep labels off the marker of a point."""
        self.taken.append((self.x(x) - radius, self.y(y) - radius, self.x(x) + radius, self.y(y) + radius))

    def label(self, x: float, y: float, text: str, colour: str, *, size: float = 10, gap: float = 9) -> None:
        """Write beside a point, where there is most room; further off if it must be, joined to it by a thin line."""
        across, up = self.x(x), self.y(y)
        wide = 0.56 * size * len(text)
        tried: list[tuple[float, Box]] = []
        for away in (gap, gap + 9, gap + 19, gap + 31):
            for dx, dy in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)):
                middle = across + dx * (away + wide / 2)
                centre = up + dy * (away + size / 3) * (1 if dx == 0 else 0.8)
                box = (middle - wide / 2, centre - size * 0.6, middle + wide / 2, centre + size * 0.6)
                tried.append((100 * self._overlap(box) + away, box))
        x1, y1, x2, y2 = best = min(tried, key=lambda each: each[0])[1]
        near_x, near_y = min(max(across, x1), x2), min(max(up, y1), y2)
        if abs(near_x - across) + abs(near_y - up) > 16:
            self.drawing.line(across, up, near_x, near_y, colour=SOFT, width=0.6)
        self.taken.append(best)
        self.drawing.text((x1 + x2) / 2, y2 - size * 0.25, text, size=size, colour=colour, anchor="middle")

    def _overlap(self, box: Box) -> float:
        """How much of the box is already taken or outside of the frame."""
        frame = (self.left, self.top, self.left + self.width, self.top + self.height)
        outside = _area(box) - _shared(box, frame)
        return outside + sum(_shared(box, other) for other in self.taken)


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _shared(a: Box, b: Box) -> float:
    return _area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))
