"""The verbs of the command line that need networks, as functions: `mc.train` and `mc.vote`."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from pathlib import Path
from typing import Any

import torch
from torch import nn

from majorcert.files.names import file_names
from majorcert.nets import shards
from majorcert.nets import train as training
from majorcert.nets.data import Dataset, Split, load, load_to_train
from majorcert.nets.device import place_among, usable_device
from majorcert.nets.ensemble import load_defender
from majorcert.nets.ensemble_file import check_resumed, write_members
from majorcert.nets.folders import check_apart, check_begun
from majorcert.nets.hiding import Hiding, read_hiding
from majorcert.nets.interrupt import Interrupt
from majorcert.nets.member import Member
from majorcert.nets.models import check_named
from majorcert.nets.plan import plan, tell_plan
from majorcert.nets.recipes import strategies_of
from majorcert.nets.run_folder import held
from majorcert.nets.stores import keep_truth, store_of, voting_folders
from majorcert.nets.teaching import known_teachers
from majorcert.nets.tuning import Own

Trained = list[training.TrainResult]
SHOWN = 5
"""Files that were skipped of which each is named."""


def network_first(train: Callable[..., Trained]) -> Callable[..., Trained]:
    """Lets a network of the user's own come first: `train(network, data, out)` is `train(data, out, model=network)`."""

    @wraps(train)
    def either(*given: Any, **how: Any) -> Trained:
        if given and isinstance(given[0], nn.Module):
            given, how = given[1:], {**how, "model": given[0]}
        return train(*given, **how)

    return either


def check_asked(
    out: Path,
    data: Any,
    strategies: Sequence[str] | None,
    recipe: str | None,
    model: Any,
    teacher: str | Path | None,
    device: Any,
    *,
    resume: bool,
) -> None:
    """Refuse what can never be trained, before a single image is read."""
    check_begun(out, data, resume=resume)
    for spec in (*strategies_of(recipe or "best"), *(strategies or ())):
        read_hiding(spec)
    if isinstance(model, str):
        check_named(model)
    if teacher is not None:
        known_teachers(Path(teacher))
    usable_device(device)


@network_first
def train(
    data: str | Dataset,
    out: str | Path,
    *,
    strategies: Sequence[str] | None = None,
    recipe: str | None = None,
    patches: Sequence[str] = (),
    validation: Dataset | None = None,
    split: Split = "train",
    device: torch.device | str = "auto",
    resume: bool = False,
    compiled: bool = False,
    checkpoint_every: int = 10,
    progress: Callable[[Hiding, training.Progress], None] | None = None,
    after_epoch: Callable[[Hiding, training.Epoch], None] | None = None,
    told: Callable[[str], None] | None = None,
    view: str | None = None,
    width: int | None = None,
    model: str | nn.Module | None = None,
    factory: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    teacher: str | Path | None = None,
    allow: str | Sequence[str] = (),
    **changes: Any,
) -> Trained:
    """Train one defender for each strategy, and write them to a folder; `mc.Ensemble.load(out)` loads them.

    >>> mc.train("digits", "runs", strategies=["rows:3", "columns:3", "blocks:4"], epochs=20)
    >>> mc.Ensemble.load("runs").certify(images, 2)
    >>> mc.train(network, "photos", "tuned", factory="my_nets:make")  # which is model=network

    Args:
        data: "digits", "cifar10", an image folder, an .npz file, or a data set that is loaded already.
        strategies: specs such as "columns:4" and "masks:5/3"; by default those that the recipe is for.
        recipe: "best", "paper", "masking-best" and so on, as in `nets/recipes.py`; by default as suits the images.
        patches: what a recipe for bounds or masks is to be against: "5", "3x7" or, of the photos, "2%", "75x100px".
        validation: images that are not trained on, by which thresholds are chosen; by default the "val" of `data`.
        split: of `data`, if that is to be loaded; "train" leaves a fifth for "val", "trainval" takes all.
        resume: continue where an interrupted run stopped.
        compiled: compile the networks first.
        checkpoint_every: epochs between checkpoints.
        progress: called now and then with the strategy and how far its run is.
        after_epoch: called with the strategy and what came of each epoch, on validation images too.
        told: called with what a user should know before the work begins: what is trained, and about how long it takes.
        model: the name of a network, or a torch module of your own, which learns on from its own weights, gently.
        factory: the function that makes such a module, "package.module:function"; it is called when it is loaded.
        mean, std: under masks, of the colours that a module of your own was trained on, where they run from 0 to 1.
        teacher: a run, or an ensemble with a member for each strategy, whose probabilities are learned instead of the
            true labels; best the average of several, so that one network says what they say together.
        allow: functions of your own that may be called to make the teacher, as for `mc.Ensemble.load`.
        view, width, changes: what of the recipe is to be otherwise; changes are fields of `TrainConfig`, such
            as epochs, batch_size, lr, threshold and seed.

    Returns:
        What came of each run; the last one was interrupted if it is not finished.
    """
    out = Path(out)
    check_asked(out, data, strategies, recipe, model, teacher, device, resume=resume)
    where, own = usable_device(device), Own.of(model, factory, mean, std)
    if isinstance(data, str):
        data, validation = load_to_train(data, split)
    kind: dict[str, Any] = {"strategies": strategies, "recipe": recipe, "patches": patches, "own": own}
    kind |= {"teacher": teacher, "allow": allow, "told": told or (lambda sentence: None)}
    changes |= {"view": view, "width": width, "model": model if isinstance(model, str) and own is None else None}
    plans = plan(data, where, **kind, **changes)
    names = file_names([str(each.config.strategy) for each in plans]) if len(plans) > 1 else ["."]
    check_begun(out, data, names, resume=resume)
    if resume:
        check_resumed(out, names)
    options: dict[str, Any] = {"compiled": compiled, "checkpoint_every": checkpoint_every, "validation": validation}
    for each in plans:
        training.check(each.config, data, validation)
    if told is not None and place_among()[1] == 1:
        options["before"] = partial(tell_plan, plans, data, validation, where, told)
    results: Trained = []
    # One defender alone has the folder to itself by its own run.
    shared = len(names) > 1 and place_among()[0] == 0
    # Asked to stop when a run is about to end, the next one stops at its first step, and can be resumed.
    with held(out, resume=resume) if shared else nullcontext(), Interrupt() as options["interrupt"]:
        for name, (config, networks) in zip(names, plans, strict=True):
            options["progress"] = None if progress is None else partial(progress, config.strategy)
            options["after_epoch"] = None if after_epoch is None else partial(after_epoch, config.strategy)
            results.append(training.train(config, data, out / name, where, resume=resume, **options, **networks))
            options["before"] = None
            if not results[-1].finished:
                return results
        if shared:
            write_members(out, names)
    return results


def tell_reading(dataset: Dataset, told: Callable[[str], None]) -> None:
    """How images were read, and which files were left out: the first few by name."""
    for note in dataset.notes:
        told(note)
    for skipped in dataset.skipped[:SHOWN]:
        told(f"skipped: {skipped}")
    if len(dataset.skipped) > SHOWN:
        told(f"skipped: {len(dataset.skipped)} files in all")


def vote(
    runs: str | Path | Sequence[str | Path],
    data: str | Dataset,
    *,
    split: Split = "test",
    out: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    split_seed: int = 0,
    scores: bool = False,
    certify_only: bool = False,
    chunk: int | None = None,
    device: torch.device | str = "auto",
    precision: Any = None,
    batch_size: int | None = None,
    compiled: bool = False,
    allow: str | Sequence[str] = (),
    progress: Callable[[Member, shards.Progress], None] | None = None,
    read: Callable[[int, int], None] | None = None,
    told: Callable[[str], None] = lambda sentence: None,
    **reading: Any,
) -> list[str]:
    """Record the votes of trained defenders on a data set; started again, it continues.

    >>> stores = mc.vote("runs", "digits")
    >>> mc.certify([mc.load_evidence(store) for store in stores], 2)

    Args:
        runs: folders that `train` wrote, or names of bundled ensembles.
        data: "digits", "cifar10", an image folder, an .npz file, or a data set that is loaded already.
        split: of `data`, if that is to be loaded.
        out: folder or URL of the stores; by default each run's own folder.
        limit: so many images at most, drawn by lot from `seed` and spread over the classes.
        split_seed: draws the "val" split.
        scores: keep the scores as well, as float16.
        certify_only: under masks, leave out what no label and no certificate depends on.
        chunk: images in one chunk of the store.
        device, precision, batch_size, compiled: as for `mc.Defender`.
        allow: functions of your own that may be called to make networks, as for `mc.Ensemble.load`.
        progress: called after each tile with the defender and how far it is.
        read: called with the files read and those there are.
        told: called with what a user should know: files that were skipped, how many images were drawn.
        reading: how `data` is loaded, as for `majorcert.nets.data.load`.

    Returns:
        The store of each defender.
    """
    rank, size = place_among()
    given = [str(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    how: dict[str, Any] = {"device": device, "precision": precision, "batch_size": batch_size, "compiled": compiled}
    how["allow"] = allow
    place = None if out is None else str(out)
    for where in given if place is None else [place]:
        check_apart(where, data)
    stores, known = [], dict[Any, Dataset]()
    for folder in voting_folders(given, place):
        defender = load_defender(folder, **how)
        kind: dict[str, Any] = {"image_size": defender.image_size, "channels": defender.channels}
        kind |= {"class_names": defender.class_names, "resizing": defender.resizing}
        if (key := tuple(kind.values())) not in known:
            options = {**kind, **reading, "seed": split_seed, "progress": read}
            known = {key: load(data, split, **options) if isinstance(data, str) else data}
            tell_reading(known[key], told)
        whole = known[key]
        images = whole if limit is None else whole.drawn(limit, seed)
        if len(images) < len(whole):
            told(f"{len(images)} of {len(whole)} images, by lot (--seed {seed}), spread over the classes")
        store = store_of(folder, images, place)
        tell = None if progress is None else partial(progress, defender)
        kept: dict[str, Any] = {"scores": scores, "certify_only": certify_only, "chunk": chunk}
        defender.vote(images, store, **kept, progress=tell, rank=rank, world_size=size)
        if rank == 0:
            keep_truth(whole, images, store, folder)
        told(f"voted: {store}")
        stores.append(store)
    return stores
