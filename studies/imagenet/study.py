"""An ImageNet classifier behind masks: from a folder of validation images to a case study, in one command.

    python studies/imagenet/study.py ILSVRC2012_img_val_subset --out results/imagenet

The folder has a sub-folder for each class, named by its number: 0 to 999. Killed and started again, it goes on.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import majorcert as mc
from majorcert.nets.data import Dataset
from majorcert.nets.imagenet import RESIZING, class_names
from majorcert.nets.shards import Progress
from majorcert.nets.sources.decode import read_image
from majorcert.reports.study import CaseStudy, Recipe
from majorcert.reports.study.pack import pack
from majorcert.reports.study.results import compute, write

PATCHES = ("2%", "1%", "3%")
SPLIT = 50_000
"""Validation images of ImageNet in all."""


def listed(folder: Path) -> list[tuple[Path, int]]:
    """The image files in the order of their names, each with its class."""
    files = [path for path in folder.glob("*/*") if path.parent.name.isdecimal() and path.is_file()]
    return [(path, int(path.parent.name)) for path in sorted(files, key=lambda path: path.name)]


def turns(truth: np.ndarray) -> np.ndarray:
    """(images,) how many of its class are drawn before each, by lot."""
    order, turn = np.random.default_rng(0).permutation(len(truth)), np.zeros(len(truth), dtype=int)
    for label in np.unique(truth):
        turn[order[truth[order] == label]] = np.arange((truth == label).sum())
    return turn


def drawn(folder: Path, n_each: int | None, side: int) -> Dataset:
    """So many images of each class by lot, all if None."""
    files = listed(folder)
    truth = np.array([label for _, label in files])
    numbers = np.flatnonzero(turns(truth) < (n_each or len(files)))
    images = np.stack([read_image(files[number][0], (side, side), 3, RESIZING) for number in numbers])
    return dataset(images, truth[numbers])


def dataset(images: np.ndarray, labels: np.ndarray) -> Dataset:
    """(N, 3, side, side) images as a part of ImageNet's validation images."""
    held = torch.from_numpy(images), torch.from_numpy(labels)
    return Dataset(*held, class_names(), "imagenet", "val", split_size=SPLIT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of images, or an .npz file of `images` and `labels`")
    parser.add_argument("--out", type=Path, default=Path("results/imagenet"), help="the case study")
    parser.add_argument("--work", type=Path, default=Path("build/imagenet"), help="where votes are kept until then")
    parser.add_argument("--model", default="imagenet", help="imagenet:lite0, imagenet:lite1 or imagenet:lite2")
    parser.add_argument("--patches", nargs="+", default=PATCHES, help="shares of the image")
    parser.add_argument("--masks", type=int, default=6, help="down and across")
    parser.add_argument("--each", type=int, help="images of each class, by lot")
    parser.add_argument("--limit", type=int, help="of those, so many by lot")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long; the same command goes on")
    given = parser.parse_args()
    begun = told = time.monotonic()
    guards = {}
    for patch in given.patches:
        how = {"device": given.device, "precision": "float32", "batch_size": given.batch_size}
        guards[patch] = mc.protect(given.model, patch, masks=given.masks, **how)
    side = next(iter(guards.values())).image_size[0]
    images = drawn(given.data, given.each, side) if given.data.is_dir() else dataset(**np.load(given.data))
    if given.limit is not None:
        some = images.drawn(given.limit)
        images = dataset(some.images.numpy(), some.labels.numpy())
    print(f"{len(images)} images, {images.sha256()}", flush=True)
    given.work.mkdir(parents=True, exist_ok=True)
    np.save(given.work / "truth.npy", images.labels.numpy())
    stores = []
    for patch, guard in guards.items():
        store = given.work / f"{given.model.replace(':', '-')}-{patch.rstrip('%')}.zarr"

        def tell(at: Progress, patch: str = patch) -> None:
            nonlocal told
            if time.monotonic() - told > 10 or at.done == at.total:
                told = time.monotonic()
                print(f"{patch}: {at.done:,} of {at.total:,} views, {at.views_per_second:,.0f}/s", flush=True)
            if time.monotonic() - begun > 60 * given.minutes:
                raise TimeoutError

        try:
            chunk = 4 if guard.masker.scorer.device.type == "cpu" else 100
            guard.vote(images, store, certify_only=True, chunk=min(chunk, len(images)), progress=tell)
        except TimeoutError:
            print("stopped; the chunks that are written are kept, and the same command goes on", flush=True)
            break
        stores.append(store)
    if stores:
        note = f"the network as it is, {given.masks}x{given.masks} masks"
        recipe = Recipe(given.model.replace(":", "-"), (), note=note, command=COMMAND, alternatives=True)
        for item in pack(stores, given.out, recipe, given.work / "truth.npy"):
            print(f"{item.store}: {item.n_bytes / 1e6:.2f} MB")
        write(compute(CaseStudy.read(given.out)), given.out)


COMMAND = "python studies/imagenet/study.py ILSVRC2012_img_val_subset"

if __name__ == "__main__":
    main()
