"""A folder of 100,000 photos in bounded memory: python benchmarks/bench_photos.py [N] prints what it measured.

The photos are JPEG files of several sizes. They are read by `load` (as `train` and `vote` do) and by `read_photos` (as
`predict` does) in a process that may take 1 GiB of memory of its own, by the kernel's limit, and that is told so. The
decoded pixels are more than a quarter of that, so they go to a file; what is told is the memory that is not of a file.
"""

import hashlib
import io
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from majorcert.nets.data import load_to_train
from majorcert.nets.sources import room
from majorcert.nets.sources.photo import photo_files, read_photos

ALLOWED = 2**30
SIDE = 64
SIZES = [(60, 80), (80, 60), (96, 96), (72, 128), (48, 48)]


def write_photos(folder: Path, n: int, n_classes: int = 10) -> None:
    """JPEG files of 200 different contents, in the sizes above."""
    rng, contents = np.random.default_rng(0), []
    for k in range(200):
        coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        memory = io.BytesIO()
        coarse.resize(SIZES[k % len(SIZES)][::-1], Image.Resampling.BICUBIC).save(memory, "JPEG", quality=85)
        contents.append(memory.getvalue())
    for label in range(n_classes):
        (folder / f"class-{label}").mkdir(parents=True)
    for k in range(n):
        (folder / f"class-{k % n_classes}" / f"{k:06d}.jpg").write_bytes(contents[k % len(contents)])


def own_memory() -> int:
    """Bytes of this process that no file backs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def watched(work: Callable[[], str]) -> tuple[str, float, int]:
    """What the work says, how many seconds it took, and how much its memory grew at most."""
    begun, before, most, done = time.perf_counter(), own_memory(), own_memory(), threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.05):
            most = max(most, own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    said = work()
    done.set()
    watcher.join()
    return said, time.perf_counter() - begun, most - before


def main(n: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "photos"
        write_photos(folder, n)
        limit = own_memory() + ALLOWED
        resource.setrlimit(
            resource.RLIMIT_DATA, (limit + 2**30, limit + 2**30)
        )  # what is mapped and not used counts here
        room.memory = lambda: ALLOWED  # type: ignore[assignment]

        def loaded() -> str:
            images, validation = load_to_train(str(folder), "train", image_size=(SIDE, SIDE), channels=3)
            assert validation is not None
            return f"{len(images):,} and {len(validation):,} images of {SIDE}x{SIDE}, SHA-256 {images.sha256()[:12]}"

        def streamed() -> str:
            digest, count = hashlib.sha256(), 0
            for photos in read_photos(photo_files([folder]), (SIDE, SIDE), 3):
                count += len(photos)
                digest.update(b"".join(photo.pixels.tobytes() for photo in photos))
            return f"{count:,} photos, some at a time, SHA-256 {digest.hexdigest()[:12]}"

        print(f"{n:,} JPEG files; decoded {n * 3 * SIDE * SIDE / 2**20:,.0f} MiB; {ALLOWED >> 20} MiB allowed")
        for name, work in (("load", loaded), ("read_photos", streamed)):
            said, seconds, grown = watched(work)
            print(
                f"{name:<12} {seconds:7.1f} s  {n / seconds:8,.0f} files/s  {grown / 2**20:6.0f} MiB of memory  {said}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
