"""`majorcert report`: evidence, and the images if there are any, to one HTML page. Needs torch only for images."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from majorcert.commands.options import DataDir, Patches, SplitSeed
from majorcert.commands.outputs import PAGE, check_output
from majorcert.commands.terminal import patches_of, remark, stderr
from majorcert.core.ballots import Ballots
from majorcert.core.majority import check_together
from majorcert.core.plurality import Ints
from majorcert.core.threat import Patch
from majorcert.core.verdict import Verdict
from majorcert.defences.patchguard import patchguard
from majorcert.defences.scores import Scores
from majorcert.errors import DataError
from majorcert.files.store import Store
from majorcert.files.truth import read_truth, truth_beside
from majorcert.reports.contents import Contents
from majorcert.reports.page import LIMIT, write_report

Truth = Annotated[Path | None, typer.Option(help="True labels, .json or .npy; by default those beside the evidence.")]


def report(
    evidence: Annotated[list[str], typer.Argument(help="Evidence stores that `majorcert vote` wrote.")],
    patch: Patches,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    images: Annotated[
        str | None, typer.Option(help="The data that was voted on, to show it: 'digits', a folder, an .npz, ...")
    ] = None,
    truth: Truth = None,
    title: Annotated[str, typer.Option(help="Stands at the top of the page.")] = "Certified patch robustness",
    limit: Annotated[int, typer.Option(min=1, help="Images in the gallery; the overview counts all.")] = LIMIT,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
) -> None:
    """Write one self-contained page that shows what is certified, what is not, and why.

    Example: majorcert report evidence/*.zarr --images digits --patch 2 --patch 3 -o report.html
    """
    patches = patches_of(patch)
    check_output(out, PAGE)
    with stderr.status("reading the evidence") as shown:
        defenders = [Ballots.load(store) for store in evidence]
        check_together(defenders)
        contents = Contents(
            defenders,
            patches,
            truth=truth_of(truth, evidence[0], defenders[0]),
            pictures=None if images is None else pictures_of(images, defenders[0], data_dir, split_seed),
            verdicts=[verdict for store in evidence for verdict in _masked(store, patches)],
        )
        write_report(out, contents, title=title, limit=limit, progress=shown.update)
    typer.echo(out)


def truth_of(path: Path | None, store: str, evidence: Ballots) -> Ints | None:
    """The true labels from the given file, or from the one beside the evidence; None when there is neither."""
    beside = truth_beside(store, evidence)
    if path is None and not beside.is_file():
        return None
    return read_truth(path or beside, evidence, remark)


def pictures_of(spec: str, evidence: Ballots, data_dir: Path, split_seed: int) -> npt.NDArray[np.uint8]:
    """The images that the evidence is about, refused when they are not the very same."""
    from majorcert.nets.data import load

    origin = evidence.provenance
    kind: dict[str, Any] = {"image_size": evidence.image_size, "seed": split_seed, "skip_bad": True}
    whole = load(spec, origin.get("split", "test"), data_dir, **kind)
    n_voted = int(evidence.images.max(initial=-1)) + 1
    if n_voted > len(whole):
        raise DataError(f"{spec}: has {len(whole)} images, but image {n_voted - 1} was voted on; give the same data")
    expected = origin.get("images_sha256")
    # Evidence of the first images of a split names these alone.
    parts = [whole, *([whole.subset(_first(n_voted))] if n_voted < len(whole) else [])]
    if expected is not None and expected not in (part.sha256() for part in parts):
        raise DataError(f"{spec}: these are other images than those that were voted on; give the same data and split")
    return whole.images.numpy()[evidence.images]


def _first(n: int) -> Any:
    import torch

    return torch.arange(n)


def _masked(store: str, patches: list[Patch]) -> list[Verdict]:
    """PG-DRS, for evidence that has scores."""
    if "scores" not in Store.open(store):
        return []
    scores = Scores.load(store)
    return [patchguard(scores, patch) for patch in patches]
