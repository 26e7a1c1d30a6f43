"""Runs the code cells of a notebook and keeps what they show: python examples/execute.py examples/tour.ipynb"""

import ast
import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def shown(value: Any) -> dict[str, Any]:
    """What a notebook keeps of the last value of a cell."""
    found: dict[str, Any] = {"text/plain": repr(value)}
    if hasattr(value, "_repr_html_"):
        found["text/html"] = value._repr_html_()
    if hasattr(value, "figure"):
        held = io.BytesIO()
        value.figure.savefig(held, format="png", dpi=60)
        found = {"text/plain": "<Axes>", "image/png": base64.b64encode(held.getvalue()).decode()}
    return found


def run(source: str, known: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell: what it printed, and its last expression."""
    tree, outputs, printed = ast.parse(source), [], io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), known)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), known)
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if value is not None:
        outputs.append({"output_type": "display_data", "data": shown(value), "metadata": {}})
    return outputs


def execute(notebook: dict[str, Any], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The notebook with fresh outputs; cells that need one of `without` are left as they are."""
    known: dict[str, Any] = {}
    cells = []
    for cell in notebook["cells"]:
        needed = cell["metadata"].get("needs")
        if cell["cell_type"] == "code" and needed not in without:
            cell = {**cell, "outputs": run("".join(cell["source"]), known)}
        cells.append(cell)
    return {**notebook, "cells": cells}


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        done = execute(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
