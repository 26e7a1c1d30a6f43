"""`majorcert train`: images to weights."""

from pathlib import Path
from typing import Annotated, Any

import typer

from majorcert.commands.options import INTERRUPTED, DataDir, Device, Json, SkipBad, SplitSeed
from majorcert.commands.terminal import bar, remark, say_json


def train(
    data: Annotated[str, typer.Argument(help="'digits', 'cifar10', an image folder root/class/*.png, or a .npz file.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The run folder; with several strategies, of their folders.")
    ],
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="rows:4, columns:19/5, blocks:12, masks:5/3; repeatable; by default as the recipe says."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="best, small, paper, digits, masking, masking-best or undefended; by default what suits."),
    ] = None,
    split: Annotated[str, typer.Option(help="'train' leaves a fifth for 'val'; 'trainval' takes all.")] = "train",
    epochs: Annotated[int | None, typer.Option(help="Passes over the images.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images in one step, of all processes together.")] = None,
    lr: Annotated[float | None, typer.Option(help="The largest learning rate.")] = None,
    view: Annotated[str | None, typer.Option(help="'crop' or 'canvas'.")] = None,
    width: Annotated[int | None, typer.Option(help="Channels of the network's first stage.")] = None,
    model: Annotated[str | None, typer.Option(help="'resnet', 'small' or 'timm:<name>'.")] = None,
    threshold: Annotated[float | None, typer.Option(help="A score at or over it is a vote.")] = None,
    seed: Annotated[int, typer.Option(help="Of the weights, the order and the ablations.")] = 0,
    size: Annotated[str | None, typer.Option(help="Resize the images of a folder, '32' or '48x64'.")] = None,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option(help="Continue from the checkpoint, if there is one.")] = False,
    checkpoint_every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 10,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the network first.")] = False,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Train one defender for each strategy; several strategies make an ensemble.

    Example: majorcert train digits --strategy rows:3 --strategy columns:3 --strategy blocks:4 --out runs
    """
    from majorcert.nets.data import load
    from majorcert.nets.device import usable_device
    from majorcert.nets.ensemble_file import member_names, write_members
    from majorcert.nets.folders import check_free
    from majorcert.nets.images import parse_size
    from majorcert.nets.recipes import adapted, recipe_for, strategies_of
    from majorcert.nets.recipes import recipe as named
    from majorcert.nets.train import Progress
    from majorcert.nets.train import train as fit

    place = usable_device(device)
    reading: dict[str, Any] = {
        "split": split,
        "image_size": None if size is None else parse_size(size),
        "skip_bad": skip_bad,
    }
    images = load(data, data_dir=data_dir, seed=split_seed, **reading)
    for skipped in images.skipped:
        remark(f"skipped: {skipped}")
    given = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "threshold": threshold, "seed": seed}
    chosen = recipe or recipe_for(strategy or [], images.image_size)
    configs = [
        adapted(named(chosen, spec, images.channels, images.n_classes), images.channels, view, width, model, **given)
        for spec in strategy or strategies_of(chosen)
    ]
    names = member_names([config.strategy for config in configs]) if len(configs) > 1 else ["."]
    if not resume:
        for folder in (out, *(out / name for name in names)):
            check_free(folder)
    if split == "test":
        remark("these are the test images: what the networks reach on them afterwards will say nothing")
    for name, config in zip(names, configs, strict=True):
        with bar(f"training {config.strategy}") as shown:

            def show(at: Progress) -> None:
                done = at.epoch * at.n_steps + at.step
                text = f"loss {at.loss:.3f}  accuracy {at.accuracy:.3f}  {at.images_per_second:,.0f} images/s"
                shown.show(done, at.n_epochs * at.n_steps, text)

            options: dict[str, Any] = {"compile": compiled, "checkpoint_every": checkpoint_every, "progress": show}
            result = fit(config, images, out / name, place, resume=resume, **options)
        if not result.finished:
            again = "" if resume else " with --resume"
            remark(f"stopped after {result.epochs} epochs; the same command{again} continues")
            raise typer.Exit(INTERRUPTED)
        remark(f"trained {config.strategy}: {out / name}")
    if len(names) > 1:
        write_members(out, names)
    if json:
        say_json({"runs": [str(out / name) for name in names], "epochs": [config.epochs for config in configs]})
