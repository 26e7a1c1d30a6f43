"""How verdicts and evidence are shown, given to their types from outside: the trusted core need not know of pages."""

from typing import Any

from majorcert.core.reach import Evidence
from majorcert.core.verdict import Verdict

HOW = {
    Verdict: {"_repr_html_": "verdict_html", "named": "named", "plot": "plot", "tell": "tell"},
    Evidence: {"_repr_html_": "evidence_html"},
}
"""The methods that each type is given, and the functions of `reports/notebook.py` that they call."""


def _method(function: str) -> Any:
    def shown(self: Any, *args: Any, **options: Any) -> Any:
        from majorcert.reports import notebook

        return getattr(notebook, function)(self, *args, **options)

    return shown


for owner, methods in HOW.items():
    for name, function in methods.items():
        setattr(owner, name, _method(function))
