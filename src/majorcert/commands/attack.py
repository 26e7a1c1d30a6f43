"""`majorcert attack`: an ensemble and images to what survives of its accuracy under real patches."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorcert.commands.options import (
    INTERRUPTED,
    PATCH,
    Allow,
    Bounded,
    DataDir,
    Device,
    Json,
    Pooled,
    Promise,
    Promised,
    SkipBad,
    Slack,
    SplitSeed,
)
from majorcert.files.asked_patches import blamed, is_of_photo, known_bound, read_patches
from majorcert.reports.attack_record import alerts_told, attack_table
from majorcert.reports.terminal import bar, complain, remark, say_json, say_table

if TYPE_CHECKING:
    from majorcert.attacks.attack import Progress


def attack(
    ensemble: Annotated[str, typer.Argument(help="An ensemble or run folder, or the name of a bundled one.")],
    data: Annotated[str, typer.Argument(help="'digits', 'cifar10', an image folder root/class/*.png, or a .npz file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the rows, the summary and the painted images.")],
    patch: Annotated[str, typer.Option(help=PATCH)] = "5",
    promise: Promised = Promise.RECOVERY,
    slack: Slack = 0,
    pool: Pooled = False,
    bounded: Bounded = True,
    undefended: Annotated[
        str | None, typer.Option(help="Attack this run too: a network trained with one view of everything.")
    ] = None,
    split: Annotated[str, typer.Option(help="'test', 'val', 'train' or 'trainval'.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many images, by lot; by default all.")] = None,
    images_limit: Annotated[int | None, typer.Option("--images", min=1, hidden=True, help="Now --limit.")] = None,
    restarts: Annotated[int, typer.Option(min=1, help="Gradient searches at each placement.")] = 20,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each search.")] = 40,
    placements: Annotated[int, typer.Option(min=1, help="Placements of each image at which gradients are used.")] = 4,
    probed: Annotated[int, typer.Option(min=1, help="Placements of each image at which cheap patches are tried.")] = 16,
    cheap: Annotated[int, typer.Option(min=1, help="Cheap patches (solid, noise, transplanted) at each.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Draws the images and everything random.")] = 0,
    device: Device = "auto",
    precision: Annotated[str | None, typer.Option(help="Of the search, as `vote` takes it; judged in float32.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Candidates at once; by default as many as suit.")
    ] = None,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
    allow: Allow = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Attack every image that is classified correctly, certified ones too; exit code 1 if a certified label changes.

    Under --promise detection an attack succeeds only if the label changes and no alert is raised.

    Example: majorcert attack runs digits --patch 2 --limit 100 --out attacked

    Who answers `predict` is attacked. Killed and started again with the same settings, it continues.
    """
    from majorcert.attacks.attack import attack as attack_images
    from majorcert.attacks.effort import Effort
    from majorcert.nets.data import load
    from majorcert.nets.ensemble import Ensemble
    from majorcert.nets.folders import check_apart
    from majorcert.nets.undefended import load_undefended
    from majorcert.nets.verbs import tell_reading

    check_apart(out, data)
    where: dict[str, Any] = {"device": device, "precision": "float32", "allow": allow or ()}
    bound = known_bound([patch]) if bounded and not pool else None
    defended = Ensemble.load(ensemble, pooled=pool or None, bound=bound, **where)
    how: dict[str, Any] = {
        "undefended": None if undefended is None else load_undefended(undefended, **where),
        "promise": promise.value,
        "slack": slack,
        "effort": Effort(restarts, steps, placements, probed, cheap, seed),
        "precision": precision,
        "batch_size": batch_size,
    }
    kind: dict[str, Any] = {"split": split, "image_size": defended.image_size, "channels": defended.channels}
    images = load(data, data_dir=data_dir, seed=split_seed, skip_bad=skip_bad, resizing=defended.resizing, **kind)
    tell_reading(images, remark)
    (size,) = read_patches([patch], defended.image_size, images.photos)
    if is_of_photo(patch):
        why = blamed(patch, defended.image_size, images.photos)
        remark(f"{patch} is at most {size} of what the networks see, which is painted there{why}")
    with bar("attacking") as shown:
        at = ""

        def show(now: "Progress") -> None:
            nonlocal at
            at = f"{now.images} of {now.n_images} images ({now.classifier})"
            shown.show(now.steps, now.n_steps, f"{now.classifier}  {now.steps_per_second:,.0f} candidate steps/s")

        try:
            done = attack_images(defended, images, size, out, n_images=limit or images_limit, progress=show, **how)
        except KeyboardInterrupt:
            remark(f"stopped after {at}; the same command goes on" if at else "stopped")
            raise typer.Exit(INTERRUPTED) from None
    if json:
        say_json(done.summary)
    else:
        say_table(*attack_table(done.summary))
        for told in alerts_told(done.summary):
            remark(told)
        remark(f"rows, summary and painted images: {out}")
    for complaint in done.complaints:
        complain(complaint)
    if done.complaints:
        raise typer.Exit(1)
