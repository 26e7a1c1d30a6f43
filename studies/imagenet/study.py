"""An ImageNet classifier behind masks: from a folder of validation images to a case study, in one command.

    python studies/imagenet/study.py ILSVRC2012_img_val_subset --out results/imagenet

The folder has a sub-folder for each class, named by its number: 0 to 999. Killed and started again, it goes on; what is
done so far can be packed at any time with --minutes 0.
"""

import argparse
import hashlib
import time
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np
import torch

import majorcert as mc
from majorcert.core.threat import as_patch
from majorcert.files.evidence import load_as
from majorcert.files.store import Store
from majorcert.nets.data import Dataset
from majorcert.nets.imagenet import RESIZING, class_names
from majorcert.nets.protect import PER_SIDE, masks_for
from majorcert.nets.shards import Progress
from majorcert.nets.sources.decode import read_image
from majorcert.reports.study import CaseStudy, Recipe
from majorcert.reports.study.pack import pack
from majorcert.reports.study.results import compute, write

PATCHES = ("2%", "1%", "3%")
SPLIT = 50_000
"""Validation images of ImageNet in all."""
BLOCK = 250
"""Images whose votes are kept in one store, until they are packed."""
COMMAND = "python studies/imagenet/study.py ILSVRC2012_img_val_subset"

File = tuple[Path, int]
"""An image and its class."""


def listed(folder: Path) -> list[File]:
    """The image files in the order of their names, each with its class."""
    files = [path for path in folder.glob("*/*") if path.parent.name.isdecimal() and path.is_file()]
    return [(path, int(path.parent.name)) for path in sorted(files, key=lambda path: path.name)]


def in_turn(truth: np.ndarray) -> np.ndarray:
    """The numbers of the images in the order in which they are drawn: one of each class by lot, then a second one."""
    lot, turn = np.random.default_rng(0).permutation(len(truth)), np.zeros(len(truth), dtype=int)
    for label in np.unique(truth):
        turn[lot[truth[lot] == label]] = np.arange((truth == label).sum())
    return lot[np.argsort(turn[lot], kind="stable")]


def drawn(folder: Path, limit: int | None) -> list[File]:
    """So many images by lot, all if None."""
    files = listed(folder)
    return [files[number] for number in in_turn(np.array([label for _, label in files]))[:limit]]


def dataset(images: np.ndarray, labels: Sequence[int] | np.ndarray) -> Dataset:
    """(N, 3, side, side) images as a part of ImageNet's validation images."""
    held = torch.from_numpy(images), torch.tensor(labels, dtype=torch.int64)
    return Dataset(*held, class_names(), "imagenet", "val", split_size=SPLIT)


def read(files: Sequence[File], side: int) -> Dataset:
    """These images, brought to the network's size as those of `predict` are."""
    images = [read_image(path, (side, side), 3, RESIZING) for path, _ in files]
    return dataset(np.stack(images), [label for _, label in files])


def blocks(files: Sequence[File]) -> list[Sequence[File]]:
    return [files[start : start + BLOCK] for start in range(0, len(files), BLOCK)]


def fingerprints(files: Sequence[File], side: int) -> tuple[str, list[str]]:
    """Of all these images, and of each block: as `Dataset.sha256` has them, with one block at a time in memory."""
    whole, each = hashlib.sha256(f"{len(files)},3,{side},{side};".encode()), []
    for some in blocks(files):
        images = read(some, side)
        whole.update(images.images.numpy().data)
        each.append(images.sha256())
    return whole.hexdigest(), each


def recipe_of(given: argparse.Namespace) -> str:
    """The network, and how many masks it is behind if not the usual number."""
    return given.model.replace(":", "-") + ("" if given.masks == PER_SIDE else f"-{given.masks}x{given.masks}")


def place(given: argparse.Namespace, patch: str, number: int) -> Path:
    """The store of one block behind masks for one patch."""
    return given.work / recipe_of(given) / patch / f"{number:02}.zarr"


def is_whole(store: Path, n_images: int) -> bool:
    return store.exists() and (held := Store.open(store)).n_images == n_images and not held.missing()


def joined(stores: Sequence[Path], fingerprint: str, of_blocks: Sequence[str]) -> mc.MaskPairs:
    """The evidence of all blocks as one; they must be of these images, and made in one way."""
    parts = [load_as(mc.MaskPairs, store) for store in stores]
    for store, part, expected in zip(stores, parts, of_blocks, strict=True):
        differing = [key for key, value in part.provenance.items() if value != parts[0].provenance.get(key)]
        if differing not in ([], ["images_sha256"]):
            raise SystemExit(f"{store}: made in another way than {stores[0]} (differs in {', '.join(differing)})")
        if part.provenance["images_sha256"] != expected:
            raise SystemExit(f"{store}: its votes are of other images than those that are there now")
    return mc.MaskPairs(
        np.concatenate([part.labels for part in parts]),
        masks=parts[0].masks,
        image_size=parts[0].image_size,
        n_classes=parts[0].n_classes,
        distance=np.concatenate([part.distance for part in parts]),
        provenance={**parts[0].provenance, "images_sha256": fingerprint},
    )


def packed(files: Sequence[File], given: argparse.Namespace, side: int) -> None:
    """Pack as many images as every patch that was begun has votes of."""
    done = {}
    for patch in given.patches:
        stores = [(place(given, patch, k), len(some)) for k, some in enumerate(blocks(files))]
        whole = [store for store, _ in takewhile(lambda each: is_whole(*each), stores)]
        print(f"{patch}: votes of {min(len(whole) * BLOCK, len(files))} of {len(files)} images", flush=True)
        if whole:
            done[patch] = whole
    if not done:
        return
    n_blocks = min(map(len, done.values()))
    files = files[: n_blocks * BLOCK]
    (fingerprint, of_blocks), together = fingerprints(files, side), []
    for patch in sorted(done):
        together.append(given.work / f"{recipe_of(given)}-{patch}.zarr")
        evidence = joined(done[patch][:n_blocks], fingerprint, of_blocks)
        evidence.save(together[-1])
    np.save(given.work / "truth.npy", [label for _, label in files])
    precision = evidence.provenance["precision"]
    note = f"the network as it is, in {precision}, {given.masks}x{given.masks} masks"
    command = COMMAND + (f" --model {given.model}" if given.model != "imagenet" else "") + f" --precision {precision}"
    command += f" --masks {given.masks}" if given.masks != PER_SIDE else ""
    command += f" --limit {given.limit}" if given.limit else ""
    command += "" if given.patches == PATCHES else f" --patches {' '.join(given.patches)}"
    recipe = Recipe(recipe_of(given), (), note=note, command=command, alternatives=True)
    for item in pack(together, given.out, recipe, given.work / "truth.npy"):
        print(f"{item.store}: {item.n_bytes / 1e6:.2f} MB")
    write(compute(CaseStudy.read(given.out)), given.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of images")
    parser.add_argument("--out", type=Path, default=Path("results/imagenet"), help="the case study")
    parser.add_argument("--work", type=Path, default=Path("build/imagenet"), help="where votes are kept until then")
    parser.add_argument("--model", default="imagenet", help="imagenet:lite0, imagenet:lite1 or imagenet:lite2")
    parser.add_argument("--patches", nargs="+", default=PATCHES, help="shares of the image")
    parser.add_argument("--masks", type=int, default=PER_SIDE, help="down and across")
    parser.add_argument("--limit", type=int, help="so many images by lot, as evenly over the classes as can be")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32", help="float16 is twice as fast on a GPU")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--compiled", action="store_true", help="the network by torch.compile")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long; the same command goes on")
    given = parser.parse_args()
    begun = told = time.monotonic()
    how = {name: getattr(given, name) for name in ("device", "precision", "batch_size", "compiled")}
    network = mc.protect(given.model, given.patches[0], **how)
    size, on_cpu = network.image_size, network.masker.scorer.device.type == "cpu"
    files = drawn(given.data, given.limit)

    def tell(at: Progress) -> None:
        nonlocal told
        if time.monotonic() - told > 10 or at.done == at.total:
            told = time.monotonic()
            print(f"{at.done:,} of {at.total:,} views, {at.views_per_second:,.0f}/s", flush=True)
        if time.monotonic() - begun > 60 * given.minutes:
            raise TimeoutError

    try:
        for patch in given.patches:
            guard = network.behind(masks_for(as_patch(patch, size), size, given.masks))
            for number, some in enumerate(blocks(files)):
                store = place(given, patch, number)
                if not is_whole(store, len(some)):
                    print(f"{patch}, block {number + 1} of {len(blocks(files))}", flush=True)
                    store.parent.mkdir(parents=True, exist_ok=True)
                    chunk = min(4 if on_cpu else BLOCK, len(some))
                    guard.vote(read(some, size[0]), store, certify_only=True, chunk=chunk, progress=tell)
    except TimeoutError:
        print("stopped; what is written is kept, and the same command goes on", flush=True)
    packed(files, given, size[0])


if __name__ == "__main__":
    main()
