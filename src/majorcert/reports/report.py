"""`mc.report`: evidence, and the images if there are any, to one HTML page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from majorcert.core.reach import Evidence
from majorcert.core.threat import as_patch
from majorcert.errors.checks import check_together
from majorcert.reports.contents import Contents
from majorcert.reports.page import write_report


def report(defenders: Sequence[Evidence], *patches: Any, path: str | Path = "report.html", **about: Any) -> Path:
    """Write one self-contained page that shows what is certified, what is not, and why; gives its path.

    >>> report([rows, columns], 2, 5, truth=labels, pictures=images)

    Args:
        defenders: evidence of any kinds, of the same images.
        patches: one or more, such as 5, "3x7" or "2%"; the first one is shown first.
        about: `truth`, `pictures`, `class_names`, `promise` ("recovery" or "detection") and its `slack`, as `Contents`
            takes them.
    """
    check_together(defenders)
    contents = Contents(defenders, [as_patch(patch, defenders[0].image_size) for patch in patches], **about)
    write_report(path, contents)
    return Path(path)
