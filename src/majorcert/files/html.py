"""Tables as HTML, for notebooks; whatever strings from files hold is written out."""

from collections.abc import Sequence
from html import escape

from majorcert.files.untrusted import cleaned

LONGEST = 2000
"""A cell says what each of several defenders says of classes whose names are long."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A line of text and a table below it."""
    lines = [_line("th", header), *(_line("td", row) for row in rows)]
    return Markup(f"<p>{_cell(title)}</p><table>{''.join(lines)}</table>")


def _line(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="text-align:left">{_cell(cell)}</{tag}>' for cell in cells) + "</tr>"


def _cell(text: str) -> str:
    return text if isinstance(text, Markup) else escape(cleaned(text, LONGEST))
