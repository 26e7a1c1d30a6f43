"""The command line: one verb for each arrow from images to a verdict, each in its own file of `commands`."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from majorcert import __version__
from majorcert.commands.advise import advise
from majorcert.commands.attack import attack
from majorcert.commands.average import average
from majorcert.commands.certify import certify
from majorcert.commands.demo import demo
from majorcert.commands.explain import explain
from majorcert.commands.export import export
from majorcert.commands.figures import figures
from majorcert.commands.info import info
from majorcert.commands.pack import pack
from majorcert.commands.predict import predict
from majorcert.commands.report import report
from majorcert.commands.table import table
from majorcert.commands.train import train
from majorcert.commands.verify import SeveralValues, verify
from majorcert.commands.vote import vote
from majorcert.errors import MajorcertError
from majorcert.reports.terminal import MISUSE, complain, misused

OPTIONAL = {"torch", "safetensors", "PIL", "sklearn"}
"""What the extra `majorcert[nets]` brings."""


class Verbs(TyperGroup):
    """Turns what a user can cause and mend into one sentence and the exit code 2."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            sys.exit(super().main(*args, **{**extra, "standalone_mode": False}))
        except MajorcertError as error:
            complain(str(error))
        except MISUSE as error:
            if error.format_message():  # without any words the help was shown
                complain(misused(error))
        except MemoryError:
            complain("there is not enough memory for this; take fewer images at a time, or a machine with more")
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            complain(f"this needs {error.name}, which is not installed; pip install 'majorcert[nets]' brings it")
        sys.exit(2)


app = typer.Typer(
    cls=Verbs,
    name="majorcert",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
DAILY = (train, average, vote, certify, advise, predict, report, explain, demo, attack)
RECORDS = (info, pack, table, figures, export)
for verb in (*DAILY, *RECORDS):
    app.command()(verb)
app.command(cls=SeveralValues)(verify)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"majorcert {__version__}")
        raise typer.Exit


@app.callback()
def majorcert(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and stop.")
    ] = False,
) -> None:
    """Prove, image by image, that no adversarial patch of a given size can change a classifier's label."""
