"""How fast images become evidence: `make bench`, or python benchmarks/bench_nets.py [--cuda].

On a CPU, with the ResNet-18 shape and random weights: `ballots` (as for a prediction) and `vote` (into a store) against
the bare network on views that were cut beforehand, in batches of 64; against ART's derandomized smoothing if it is
installed; and ten patch sizes from the stored evidence. Ours run the network with its normalisations folded away, so
that network is timed as well. All see the same views: those of some ablations, evenly spaced, or of all with --full.
With --cuda: voting and training on a GPU, from end to end.
"""

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

import majorcert as mc
from majorcert.nets.augment import Augment
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.train import train
from majorcert.nets.views import VIEWS, View, in_channels
from majorcert.nets.voter import Voter

SIZE = (32, 32)
N_CLASSES = 10
ART_KINDS = {"columns:4": ("column", 4), "blocks:12": ("block", 12)}
CASES = (("columns:4", 1, 1), ("columns:4", 64, 4), ("blocks:12", 1, 2), ("blocks:12", 64, 8))
"""Strategy, images, and which ablations: every so-manieth."""
STEADY_VIEWS = 512
"""Work on fewer views than this is repeated more often: it is short, and its best time takes longer to show."""


def pictures(n: int) -> Dataset:
    images = torch.randint(0, 256, (n, 3, *SIZE), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    return Dataset(images, torch.arange(n) % N_CLASSES, tuple(map(str, range(N_CLASSES))), "random", "test")


def network(view: View, width: int) -> tuple[torch.nn.Module, ModelConfig]:
    torch.manual_seed(0)
    config = ModelConfig("resnet", in_channels(view, 3), N_CLASSES, width=width)
    return build(config).eval(), config


def voter(spec: str, view: View, width: int, **options: Any) -> Voter:
    model, config = network(view, width)
    return Voter.of(model, mc.strategy(spec), view, 0.3, image_size=SIZE, channels=3, config=config, **options)


def best(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The best time of each, in turns: other work on the machine only ever adds time."""
    times = {name: float("inf") for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            times[name] = min(times[name], time.perf_counter() - begun)
    return times


def voted(found: Voter, data: Dataset, folder: str) -> None:
    """Into a fresh store, which stays until the end: to delete it is not a part of voting."""
    found.recording().write(data, Path(tempfile.mkdtemp(dir=folder)) / "e.zarr")


def bare(model: Callable[[torch.Tensor], torch.Tensor], batches: list[torch.Tensor]) -> None:
    with torch.inference_mode():
        for batch in batches:
            model(batch)


def prebuilt(found: Voter, data: Dataset) -> list[torch.Tensor]:
    cutter, pair = found.cutter, torch.arange(len(data) * found.cutter.n_views)
    views = cutter.take(cutter.sheet(data.images.float() / 255), pair // cutter.n_views, pair % cutter.n_views)
    return list(views.contiguous().split(64))  # type: ignore[no-untyped-call]


def art_classifier(spec: str, width: int) -> Any:
    """ART's smoothed classifier of the same strategy and network shape; None if ART is not installed."""
    try:
        from art.estimators.certification.derandomized_smoothing import PyTorchDeRandomizedSmoothing
    except (ImportError, RuntimeError):
        return None
    kind, size = ART_KINDS[spec]
    return PyTorchDeRandomizedSmoothing(
        model=network("canvas", width)[0],
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=(3, *SIZE),
        nb_classes=N_CLASSES,
        ablation_size=size,
        ablation_type=kind,
        algorithm="levine2020",
        threshold=0.3,
        logits=True,
        clip_values=(0, 1),
        device_type="cpu",
        verbose=False,
    )


def art_counts(art: Any, images: np.ndarray, stride: int) -> Any:
    """What ART's own `predict` does, in the same loop, for every `stride`-th ablation."""
    starts = range(0, SIZE[0], stride)
    if art.ablation_type == "column":
        places = [{"column_pos": start} for start in starts]
    else:
        places = [{"row_pos": top, "column_pos": left} for top, left in product(starts, starts)]
    return sum(
        art._predict_classifier(art.ablator.forward(np.copy(images), **place), len(images), training_mode=False)
        for place in places
    )


def on_cpu(cases: Sequence[tuple[str, int, int]], repeats: int, width: int, folder: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for spec, n_images, stride in cases:
        data = pictures(n_images)
        some = f"{spec}/{stride}" if stride > 1 else spec
        n_views = n_images * mc.strategy(some).n_ablations(SIZE)
        works: dict[str, Callable[[], object]] = {}
        for view in VIEWS:
            found = voter(some, view, width)
            found = replace(found, scorer=replace(found.scorer, tile=voter(spec, view, width).scorer.tile))
            model, batches = network(view, width)[0], prebuilt(found, data)
            works |= {
                f"bare {view}": partial(bare, model, batches),
                f"bare folded {view}": partial(bare, found.network, batches),
                f"ballots {view}": partial(found.vote, data.images),
                f"vote {view}": partial(voted, found, data, folder),
            }
        art = art_classifier(spec, width)
        if art is not None:
            works["ART"] = partial(art_counts, art, data.images.numpy().astype(np.float32) / 255, stride)
        times = best(works, repeats * max(1, STEADY_VIEWS // n_views))
        line: dict[str, float] = {f"{name} views/s": round(n_views / took) for name, took in times.items()}
        for view, ours in product(VIEWS, ("ballots", "vote")):
            for bottom in ("bare", "bare folded"):
                ratio = times[f"{ours} {view}"] / times[f"{bottom} {view}"]
                line[f"{ours} {view}, overhead over {bottom}"] = round(ratio - 1, 3)
            if art is not None:
                line[f"{ours} {view}, times as fast as ART"] = round(times["ART"] / times[f"{ours} {view}"], 2)
        results[f"{spec}, {n_images} images"] = line
        print(f"{spec}, {n_images} images, {n_views:,} views")
        for name, value in line.items():
            print(f"  {name:<48} {value:>10,}", flush=True)
    if art is None:
        print("ART is not installed; pip install 'majorcert[bench]' in a throw-away environment compares with it")
    return results


def ten_patch_sizes(width: int) -> dict[str, Any]:
    """What ART needs all its forward passes for, from the store."""
    data, found = pictures(64), voter("columns:4", "crop", width)
    with tempfile.TemporaryDirectory() as folder:
        found.recording().write(data, Path(folder) / "e.zarr")
        mc.Ballots.load(Path(folder) / "e.zarr")  # imports Zarr
        begun = time.perf_counter()
        ballots = mc.Ballots.load(Path(folder) / "e.zarr")
        for side in range(1, 11):
            mc.drs(ballots, mc.Patch(side), bound="local")
        took = time.perf_counter() - begun
    print(f"ten patch sizes for 64 images from stored evidence, columns:4: {1000 * took:.0f} ms")
    return {"ten patch sizes, 64 images, ms": round(1000 * took)}


def on_device(device: str, n_images: int, width: int, folder: str) -> dict[str, Any]:
    results: dict[str, Any] = {"device": torch.cuda.get_device_name() if device == "cuda" else device}
    data = pictures(n_images)
    for spec in ("blocks:12", "columns:4"):
        found = voter(spec, "crop", width, device=device)
        voted(found, pictures(min(n_images, 256)), folder)  # warms up, and waits until the device is done
        begun = time.perf_counter()
        voted(found, data, folder)
        speed = round(n_images * found.cutter.n_ablations / (time.perf_counter() - begun))
        name = f"voting {spec} crop, {n_images} images"
        results[f"{name}, views/s"] = speed
        print(f"{name:<48} {speed:>12,} views/s into the store", flush=True)
    results |= company(device, min(n_images, 48), width)
    for spec, batch_size in product(("blocks:12", "columns:4"), (512, 2048)):
        speed = training_speed(device, spec, batch_size, 5 * n_images, width)
        name = f"training {spec} crop, batch {batch_size}"
        results[f"{name}, images/s"] = speed
        print(f"{name:<48} {speed:>12,} images/s", flush=True)
    return results


def company(device: str, n_images: int, width: int) -> dict[str, Any]:
    """Does a ballot depend on its batch mates there? The same images alone, together and in another order."""
    found, images = voter("blocks:12", "crop", width, device=device), pictures(n_images).images
    together = found.vote(images, keep_scores=True).scores
    alone = torch.cat([found.vote(image[None], keep_scores=True).scores for image in images])  # type: ignore[misc]
    order = torch.arange(n_images).flip(0)
    shuffled = found.vote(images[order], keep_scores=True).scores
    assert together is not None
    assert shuffled is not None
    equal = {"alone": torch.equal(alone, together), "in another order": torch.equal(shuffled, together[order])}
    print(f"scores bitwise equal to those in the batch: {equal}", flush=True)
    return {"bitwise equal scores": equal}


def training_speed(device: str, spec: str, batch_size: int, n_images: int, width: int) -> int:
    """Images per second in the last epoch of a short run, as the run's own log has it."""
    config = TrainConfig(
        mc.strategy(spec),
        "crop",
        network("crop", width)[1],
        epochs=4,
        batch_size=batch_size,
        augment=Augment(shift=4, flip=True),
    )
    with tempfile.TemporaryDirectory() as folder:
        train(config, pictures(n_images), folder, device, checkpoint_every=100)
        last = (Path(folder) / "log.jsonl").read_text().splitlines()[-1]
    return int(json.loads(last)["images_per_second"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true", help="voting and training on a GPU instead")
    parser.add_argument("--images", type=int, default=10_000, help="images to vote on with --cuda")
    parser.add_argument("--full", action="store_true", help="all ablations: hours on two cores")
    parser.add_argument("--width", type=int, default=64, help="channels of the network's first stage")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the numbers to this JSON file")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(asked.threads)
    with tempfile.TemporaryDirectory() as folder:
        if asked.cuda:
            results = on_device("cuda", asked.images, asked.width, folder)
        else:
            cases = [(spec, n_images, 1 if asked.full else stride) for spec, n_images, stride in CASES]
            results = {
                "threads": asked.threads,
                **on_cpu(cases, asked.repeats, asked.width, folder),
                **ten_patch_sizes(asked.width),
            }
    if asked.out:
        about = {"torch": torch.__version__, "machine": platform.machine(), "majorcert": mc.__version__}
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps({**about, **results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
