"""`majorcert attack`: an ensemble and images to what survives of its accuracy under real patches."""

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from majorcert.commands.options import INTERRUPTED, DataDir, Device, Json, SkipBad, SplitSeed
from majorcert.commands.terminal import Bar, bar, complain, remark, say_json, say_table
from majorcert.core.threat import Patch
from majorcert.errors import DataError, ModelError, StoreError

if TYPE_CHECKING:
    from majorcert.attacks.logbook import Logbook
    from majorcert.attacks.trial import Trial
    from majorcert.nets.data import Dataset
    from majorcert.nets.defender import Ensemble

ROWS = "attack.jsonl"
SUMMARY = "attack.json"
PRECISIONS = (None, "float32", "bfloat16")


def attack(
    ensemble: Annotated[str, typer.Argument(help="An ensemble or run folder, or the name of a bundled one.")],
    data: Annotated[str, typer.Argument(help="'digits', 'cifar10', an image folder root/class/*.png, or a .npz file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the rows, the summary and the painted images.")],
    patch: Annotated[str, typer.Option(help="Side of a square or HEIGHTxWIDTH, in pixels.")] = "5",
    undefended: Annotated[
        str | None, typer.Option(help="Attack this run too: a network trained with one view of everything.")
    ] = None,
    split: Annotated[str, typer.Option(help="'test', 'val', 'train' or 'trainval'.")] = "test",
    images: Annotated[int | None, typer.Option(min=1, help="How many images, by lot; by default all.")] = None,
    restarts: Annotated[int, typer.Option(min=1, help="Gradient searches at each placement.")] = 20,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each search.")] = 40,
    placements: Annotated[int, typer.Option(min=1, help="Placements of each image at which gradients are used.")] = 4,
    probed: Annotated[int, typer.Option(min=1, help="Placements of each image at which cheap patches are tried.")] = 16,
    cheap: Annotated[int, typer.Option(min=1, help="Cheap patches (solid, noise, transplanted) at each.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Draws the images and everything random.")] = 0,
    device: Device = "auto",
    precision: Annotated[
        str | None, typer.Option(help="Of the search: 'float32' or 'bfloat16', the default on CUDA; judged in float32.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Candidates at once; by default as many as suit.")
    ] = None,
    data_dir: DataDir = Path("data"),
    split_seed: SplitSeed = 0,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Attack every image that is classified correctly, certified ones too; exit code 1 if a certified label changes.

    Example: majorcert attack runs digits --patch 2 --images 100 --out attacked

    Killed and started again with the same settings, it continues.
    """
    import torch

    from majorcert.attacks.campaign import Effort
    from majorcert.attacks.logbook import Logbook
    from majorcert.attacks.paint import Pool
    from majorcert.attacks.trial import Trial
    from majorcert.nets.checkpoint import write_json
    from majorcert.nets.data import load
    from majorcert.nets.defender import Ensemble
    from majorcert.nets.sources.order import shuffled
    from majorcert.nets.undefended import load_undefended

    if precision not in PRECISIONS:
        raise ModelError(f"the precision is 'float32' or 'bfloat16', got {precision!r}")
    if undefended is None and (out / "undefended" / ROWS).exists():
        raise StoreError(f"{out}: the record of an attack with --undefended; give that again, or another folder")
    effort, rectangle = Effort(restarts, steps, placements, probed, cheap, seed), Patch.parse(patch)
    where: dict[str, Any] = {"device": device, "precision": "float32"}
    loaded = {"defended": Ensemble.load(ensemble, **where)}
    if undefended is not None:
        loaded = {"undefended": Ensemble([load_undefended(undefended, **where)]), **loaded}
    kind: dict[str, Any] = {"image_size": loaded["defended"].image_size, "channels": loaded["defended"].channels}
    whole = load(data, split, data_dir, seed=split_seed, skip_bad=skip_bad, **kind)  # type: ignore[arg-type]
    for skipped in whole.skipped:
        remark(f"skipped: {skipped}")
    if whole.labels is None:
        raise DataError(f"{data} has no labels; an attack needs them, to know which images are classified correctly")
    numbers = np.sort(shuffled(len(whole), seed)[:images])
    sample = whole.subset(torch.from_numpy(numbers))
    truth = whole.labels.numpy()[numbers]
    pool = Pool(whole.images, whole.labels)
    trials: dict[str, Trial] = {}
    for name, each in loaded.items():
        _check_fit(each, whole)
        folder = out if name == "defended" else out / name
        how: Any = (effort, precision, batch_size, folder)
        trials[name] = Trial.of(each, sample, truth, numbers, pool, rectangle, *how)
    # Both are opened before any work is done, so that settings which do not fit are refused at once.
    logs = {name: Logbook(trial.folder / ROWS, trial.about()) for name, trial in trials.items()}
    complaints = []
    for name, trial in trials.items():
        with bar(f"attacking {name}") as shown:
            try:
                trial.run(logs[name], _Clock(shown, effort.candidate_steps(len(sample))).advance)
            except KeyboardInterrupt:
                remark(
                    f"stopped after {len(logs[name].rows)} of {len(sample)} images ({name}); the same command goes on"
                )
                raise typer.Exit(INTERRUPTED) from None
        complaints += [
            f"image {number}: the saved file is missing, or not predicted as it was when it was found"
            for number in trial.painted_as_recorded(logs[name])
        ]
    summary = summarise(trials, logs)
    write_json(out / SUMMARY, summary)
    _say(summary, complaints, out, json)


class _Clock:
    """Counts candidates x steps and shows how fast they go."""

    def __init__(self, shown: Bar, total: int) -> None:
        self.shown, self.total, self.done, self.begun = shown, total, 0, time.perf_counter()

    def advance(self, done: int) -> None:
        self.done += done
        speed = self.done / max(time.perf_counter() - self.begun, 1e-9)
        self.shown.show(self.done, self.total, f"{speed:,.0f} candidate steps/s")


def _check_fit(ensemble: "Ensemble", images: "Dataset") -> None:
    if ensemble.class_names != images.class_names:
        raise DataError(
            f"{images.name} has other classes than the ensemble was made for: {list(images.class_names)[:3]}... "
            f"and {list(ensemble.class_names)[:3]}..."
        )
    if (ensemble.channels, *ensemble.image_size) != (images.channels, *images.image_size):
        raise DataError(
            f"the ensemble takes images of {ensemble.channels} channels and {ensemble.image_size} pixels, "
            f"{images.name} has {images.channels} channels and {images.image_size} pixels"
        )
    if images.channels not in (1, 3):
        raise DataError(f"painted images are saved as PNG, of 1 or 3 channels; these have {images.channels}")


def summarise(trials: "dict[str, Trial]", logs: "dict[str, Logbook]") -> dict[str, Any]:
    """The accuracies of each classifier, clean and under the attack, and what was certified of it."""
    found: dict[str, Any] = {"n": len(trials["defended"].images), "patch": str(trials["defended"].patch)}
    for name, log in logs.items():
        rows = log.rows
        attacked = [row for row in rows if row["attacked"]]
        flipped = [row for row in attacked if row["flipped"]]
        certified = [row for row in attacked if row["certified"]]
        found[name] = {
            "clean": len(attacked) / len(rows),
            "under_attack": (len(attacked) - len(flipped)) / len(rows),
            "certified": len(certified) / len(rows),
            "n_attacked": len(attacked),
            "n_flipped": len(flipped),
            "n_certified_attacked": len(certified),
            "n_certified_flipped": sum(row["flipped"] for row in certified),
            "flipped_by": dict(sorted(Counter(row["by"] for row in flipped).items())),
            "n_restarts": sum(row["restarts"] for row in attacked),
            "n_steps": sum(row["steps"] for row in attacked),
            "broken": sorted({row["image"] for row in rows if row["broken"]} | trials[name].kept_as_broken()),
            "seconds": round(log.seconds, 1),
            "about": log.about,
        }
    return found


def _say(summary: dict[str, Any], complaints: list[str], out: Path, json: bool) -> None:
    kinds = [name for name in ("undefended", "defended") if name in summary]
    if json:
        say_json(summary)
    else:
        lines = [
            [
                name,
                str(summary["n"]),
                *(f"{100 * summary[name][key]:.1f}" for key in ("clean", "under_attack", "certified")),
            ]
            for name in kinds
        ]
        say_table(["classifier", "images", "clean %", "under attack %", "certified %"], lines)
        remark(f"rows, summary and painted images: {out}")
    for name in kinds:
        folder = out if name == "defended" else out / name
        if summary[name]["broken"]:
            complaints.append(
                f"a promise was broken on {len(summary[name]['broken'])} images ({name}): either a certified label "
                f"changed or a view voted otherwise that no patch touched; this is a fault of majorcert: please report "
                f"it with the folder {folder / 'broken'}"
            )
    for complaint in complaints:
        complain(complaint)
    if complaints:
        raise typer.Exit(1)
