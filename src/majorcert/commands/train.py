"""`majorcert train`: images to weights."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from majorcert.commands.options import INTERRUPTED, Allow, DataDir, Device, Fit, Json, SkipBad, SplitSeed, from_here
from majorcert.files.photo import Resizing
from majorcert.reports.advise import briefly
from majorcert.reports.terminal import bar, remark, say_json


def train(
    data: Annotated[str, typer.Argument(help="'digits', 'cifar10', an image folder root/class/*.jpg, or a .npz file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder; of several, where each has one.")],
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="rows:4, columns:19/5, blocks:12, fields:32x5, masks:5/3; repeatable; by default the recipe's."
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="best, paper, masking-best, bagcert, ibp, smoothed-vit, ...; by default what suits."),
    ] = None,
    patch: Annotated[
        list[str] | None, typer.Option(help="What masks or bounds are to be against: 5, 3x7, 2% or 75x100px.")
    ] = None,
    split: Annotated[str, typer.Option(help="'train' leaves a fifth for 'val'; 'trainval' takes all.")] = "train",
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the images.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Images in one step, of all processes.")] = None,
    lr: Annotated[float | None, typer.Option(min=0, help="The largest learning rate.")] = None,
    view: Annotated[str | None, typer.Option(help="'crop' or 'canvas'.")] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Channels of the network's first stage.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            callback=from_here,
            help="'resnet', 'small', 'timm:<name>', or 'factory:<module>:<function>' for one of your own.",
        ),
    ] = None,
    boxes: Annotated[str | None, typer.Option(help="Sides of what hides images under masks: 7,9,11.")] = None,
    worst_of: Annotated[int | None, typer.Option(min=1, help="Under masks: learn from the worst of so many.")] = None,
    greedy: Annotated[bool | None, typer.Option("--greedy", help="The worst first box, then the worst second.")] = None,
    teacher: Annotated[Path | None, typer.Option(help="A run whose probabilities are learned, not the labels.")] = None,
    cutmix: Annotated[float | None, typer.Option(help="Share of the images with a square of another one.")] = None,
    threshold: Annotated[float | None, typer.Option(help="A score at or over it is a vote.")] = None,
    seed: Annotated[int, typer.Option(help="Of the weights, the order and the ablations.")] = 0,
    size: Annotated[
        str | None,
        typer.Option(help="Resize the images of a folder, '32' or '48x64'; by default their median, at most 224."),
    ] = None,
    fit: Fit = "squash",
    flip: Annotated[
        bool | None, typer.Option("--flip/--no-flip", help="Mirror every second image; not for signs or letters.")
    ] = None,
    device: Device = "auto",
    allow: Allow = None,
    resume: Annotated[
        bool, typer.Option(help="Continue from the checkpoint, if there is one; --epochs may be raised.")
    ] = False,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Epochs between checkpoints.")] = 10,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the network first.")] = False,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Train one defender for each strategy; several strategies make an ensemble.

    Example: majorcert train digits --strategy rows:3 --strategy columns:3 --strategy blocks:4 --out runs
    """
    from majorcert.nets.data import load_to_train
    from majorcert.nets.hiding import Hiding
    from majorcert.nets.images import parse_size
    from majorcert.nets.train import Epoch, Progress
    from majorcert.nets.validation import tried
    from majorcert.nets.verbs import check_asked, tell_reading
    from majorcert.nets.verbs import train as train_defenders

    check_asked(out, data, strategy, recipe, model, teacher, device, resume=resume)
    reading: dict[str, Any] = {"split": split, "data_dir": data_dir, "seed": split_seed, "skip_bad": skip_bad}
    reading |= {"image_size": None if size is None else parse_size(size), "resizing": Resizing(cast(Any, fit))}
    with bar("reading") as shown:
        reading["progress"] = lambda done, total: shown.show(done, total, f"{done:,} of {total:,}")
        images, validation = load_to_train(data, **reading)
    tell_reading(images, remark)
    if split == "test":
        remark("these are the test images: what the networks reach on them afterwards will say nothing")
    given: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "threshold": threshold, "seed": seed}
    given |= {"boxes": boxes, "worst_of": worst_of, "greedy": greedy, "cutmix": cutmix, "flip": flip}
    kind: dict[str, Any] = {"strategies": strategy, "recipe": recipe, "view": view, "width": width, "model": model}
    kind |= {"teacher": teacher, "allow": allow or (), "patches": patch or ()}
    how: dict[str, Any] = {"device": device, "compiled": compiled, "checkpoint_every": checkpoint_every}
    with bar("training") as shown:

        def show(cut: Hiding, at: Progress) -> None:
            done = at.epoch * at.n_steps + at.step
            text = f"{cut}  loss {at.loss:.3f}  accuracy {at.accuracy:.3f}  {at.images_per_second:,.0f} images/s"
            shown.show(done, at.n_epochs * at.n_steps, text)

        def tell(cut: Hiding, at: Epoch) -> None:
            seen = "" if at.checked is None else f"; {at.checked}"
            line = f"{cut}: epoch {at.epoch} of {at.n_epochs}, loss {at.loss:.3f}, {at.seconds:.1f} s{seen}"
            shown.tell(line, after=0 if at.epoch == at.n_epochs else 2)

        how |= {"progress": show, "after_epoch": tell, "told": remark}
        results = train_defenders(images, out, validation=validation, resume=resume, **kind, **given, **how)
    for result in results:
        if not result.finished:
            again = "" if resume else " with --resume"
            remark(f"stopped, whole epochs so far: {result.epochs}; the same command{again} continues")
            raise typer.Exit(INTERRUPTED)
        remark(f"trained: {result}")
    if found := tried([one.run_dir for one in results], validation, device):
        remark(f"{briefly(*found)}; `majorcert advise` tells more")
    elif len(results) > 1:
        remark(f"which suits: majorcert vote {out} {data} --split val, then majorcert advise with the evidence")
    if json:
        say_json({"runs": [str(one.run_dir) for one in results], "epochs": [one.epochs for one in results]})
