"""`majorcert vote`: weights and images to evidence."""

from pathlib import Path
from typing import Annotated, Any

import typer

from majorcert.commands.options import INTERRUPTED, Allow, DataDir, Device, Json, SkipBad, SplitSeed
from majorcert.files.evidence import load_evidence
from majorcert.files.store import Store
from majorcert.files.truth import find_truth
from majorcert.reports.abstention import abstentions
from majorcert.reports.advise import SHARE, briefly
from majorcert.reports.asked import patches_of, tell_abstentions
from majorcert.reports.terminal import bar, remark, say_json


def vote(
    run: Annotated[list[str], typer.Argument(help="Run folders or ensembles that `majorcert train` wrote.")],
    data: Annotated[str, typer.Argument(help="'digits', 'cifar10', an image folder, or a .npz file.")],
    split: Annotated[str, typer.Option(help="'test', 'val', 'train' or 'trainval'.")] = "test",
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder or URL of the stores; by default each run's own folder.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Keep the scores as well, as float16.")] = False,
    certify_only: Annotated[bool, typer.Option("--certify-only", help="Leave lost images (of masks) off.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many images, by lot, spread over the classes; by default all.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws the images of --limit.")] = 0,
    device: Device = "auto",
    precision: Annotated[
        str | None, typer.Option(help="'float32', 'bfloat16' or 'float16'; by default bfloat16 on CUDA.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Views in one pass on a GPU; on a CPU it makes no difference.")
    ] = None,
    chunk: Annotated[int | None, typer.Option(min=1, help="Images in one chunk of the store.")] = None,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the network first.")] = False,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
    allow: Allow = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Show the defenders every view of every image and record their votes; started again, it continues.

    Example: majorcert vote runs digits --split test
    """
    from majorcert.nets.device import place_among
    from majorcert.nets.member import Member
    from majorcert.nets.shards import Progress
    from majorcert.nets.verbs import vote as record

    how: dict[str, Any] = {"device": device, "precision": precision, "batch_size": batch_size, "compiled": compiled}
    how["allow"] = allow or ()
    which: dict[str, Any] = {"split": split, "limit": limit, "seed": seed, "split_seed": split_seed}
    reading: dict[str, Any] = {"data_dir": data_dir, "skip_bad": skip_bad}
    kept: dict[str, Any] = {"out": out, "scores": scores, "certify_only": certify_only, "chunk": chunk}
    with bar("voting") as shown:
        reading["read"] = lambda done, total: shown.show(done, total, f"reading {done:,} of {total:,}")

        def show(defender: Member, at: Progress) -> None:
            shown.show(at.done, at.total, f"{defender.strategy}  {at.views_per_second:,.0f} views/s")

        try:
            stores = record(run, data, progress=show, told=remark, **which, **kept, **how, **reading)
        except KeyboardInterrupt:
            remark("stopped; the chunks that are written are kept, and the same command goes on")
            raise typer.Exit(INTERRUPTED) from None
    voted = [] if place_among()[0] else [load_evidence(store) for store in stores if not Store.open(store).missing()]
    for evidence in voted:
        tell_abstentions(abstentions([str(evidence.provenance.get("strategy"))], [evidence]), len(evidence))
    labels = find_truth(None, stores[0], voted[0]) if len(voted) == len(stores) else None
    if labels is not None and len({(each.image_size, each.n_classes) for each in voted}) == 1:
        by = "choose by the split 'val', not by test images; " if split == "test" else ""
        (patch,) = patches_of([SHARE], stores[0], voted)
        remark(f"{briefly(voted, patch, labels)}; {by}`majorcert advise` tells more")
    if json:
        say_json({"evidence": stores})
