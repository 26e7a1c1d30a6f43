"""What is written to the terminal: results to stdout, progress and complaints to stderr."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from majorcert.files.untrusted import cleaned, visible

SECONDS_BETWEEN_LINES = 30
stderr = Console(stderr=True, highlight=False)
MISUSE: Any = typer.BadParameter.__base__
"""What typer raises of words that it cannot use; it has no public name."""


def complain(message: str) -> None:
    """One red sentence on stderr."""
    stderr.print(f"[red]{escape(visible(' '.join(message.split())))}[/red]", soft_wrap=True)


def misused(error: Any) -> str:
    """What is wrong with the words of a command: what was expected, what came, and where to look."""
    said = error.format_message().rstrip(".?").replace("Value error, ", "").replace(". Did", ", did")
    came = [each["input"] for each in getattr(error.__cause__, "errors", list)()]
    if came and repr(came[0]) not in said:
        said = f"{said.split(', unable')[0]}, got {came[0]!r}"
    elif missing := said.startswith("Missing") and error.param:
        said = f"{said} ({missing.help.rstrip('.')})"
    verb = error.ctx.command_path if error.ctx else "majorcert"
    return f"{verb}: {said[0].lower()}{said[1:]}; --help tells more"


def remark(message: str) -> None:
    """A line on stderr, by the first process alone."""
    if os.environ.get("RANK", "0") == "0":
        stderr.print(escape(visible(message)), soft_wrap=True)


def say(*lines: str) -> None:
    """Lines on stdout; what strings from files hold of line breaks and escape codes is written out."""
    for line in lines:
        typer.echo(visible(line))


def say_json(content: Any) -> None:
    """JSON on stdout, for programs."""
    typer.echo(json.dumps(content, indent=2))


def say_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """A table on stdout: drawn on a terminal, tab-separated in a file or a pipe; every cell is cleaned."""
    console = Console(highlight=False)
    header, *lines = ([cleaned(cell) for cell in line] for line in (header, *lines))
    if not console.is_terminal:
        for line in (header, *lines):
            typer.echo("\t".join(line))
        return
    table = Table()
    for k, name in enumerate(header):
        table.add_column(name, justify="left" if k < 2 else "right")
    for line in lines:
        table.add_row(*(escape(cell) for cell in line))
    console.print(table)


class Bar:
    """A progress bar that others feed; without a terminal, a line now and then."""

    def __init__(self, title: str, progress: Progress, task: TaskID) -> None:
        self._title, self._progress, self._task, self._told = title, progress, task, time.monotonic()

    def show(self, done: float, total: float, text: str) -> None:
        self._progress.update(self._task, completed=done, total=total, text=text)
        if self._progress.disable:
            seconds = self._progress.tasks[0].time_remaining
            left = "" if seconds is None else f"  {timedelta(seconds=round(seconds))} left"
            self.tell(f"{self._title}: {100 * done / max(total, 1):.0f}%  {text}{left}", SECONDS_BETWEEN_LINES)

    def tell(self, line: str, after: float) -> None:
        """Write a line, unless another one was written less than so many seconds ago."""
        if time.monotonic() - self._told >= after:
            remark(line)
            self._told = time.monotonic()


@contextmanager
def bar(title: str) -> Iterator[Bar]:
    """A progress bar on stderr, or lines where that is no terminal, for the first process alone."""
    shown = stderr.is_terminal and os.environ.get("RANK", "0") == "0"
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeRemainingColumn())
    with Progress(*columns, console=stderr, disable=not shown) as progress:
        yield Bar(title, progress, progress.add_task(title, total=None, text=""))
