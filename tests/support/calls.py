"""The command line as a user calls it, and scripts of the repository as modules."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.testing import CliRunner

from majorcert.commands.app import app

ROOT = Path(__file__).parents[2]
PYTHONS = re.compile(
    r"invalid literal|NoneType|object (is|has|cannot)|object does not|Expecting value|codec can't|indices must be|"
    r"to unpack|magic string|zip file|\[Errno|Traceback|could not convert"
)
"""Words about its own types, which no user should read."""


def asked(*words: Any) -> Any:
    """What came of a command, whether it was done or refused."""
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words: Any) -> str:
    """What a command printed that was done."""
    result = asked(*words)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def told(*words: Any) -> Any:
    """The same as JSON."""
    return json.loads(done(*words, "--json"))


def refused(*words: Any) -> str:
    """What a command said that was refused: one sentence on stderr, in plain words."""
    result = asked(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert not PYTHONS.search(result.stderr), result.stderr
    return str(result.stderr)


def script(path: str) -> ModuleType:
    """The module in a file of the repository, under the name of the file."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where its dataclasses look for annotations
    spec.loader.exec_module(module)
    return module
