"""The command line as a user calls it, and scripts of the repository as modules."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.testing import CliRunner

from majorcert.commands.app import app

ROOT = Path(__file__).parents[2]


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


def script(path: str) -> ModuleType:
    """The module in a file of the repository, under the name of the file."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where its dataclasses look for annotations
    spec.loader.exec_module(module)
    return module
