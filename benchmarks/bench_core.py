"""How fast the core certifies, as a table of one run: `make bench`, or python benchmarks/bench_core.py.

The literal oracle of the tests (sets, loops, enumeration of label combinations) is timed on a few of the same images.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests" / "support")]

import oracle  # noqa: E402 (found through the path above)

import majorcert as mc  # noqa: E402
from synthetic import synthetic_ballots  # noqa: E402

PAPER = ["rows:4", "columns:4", "blocks:12"]
STORES = ROOT / "results" / "cifar10"
IMAGENET = ["rows:19", "columns:19", "blocks:75/10"]


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The best of a few runs: other work on the machine only ever adds time."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def row(what: str, value: str, bar: str = "") -> None:
    print(f"{what:<78} {value:>12}  {bar}", flush=True)


def plain(defenders: list[mc.Ballots], image: int) -> list[oracle.Defender]:
    """One image's evidence as the oracle takes it: sets of labels."""
    return [
        oracle.Defender(
            str(each.strategy),
            each.image_size,
            each.n_classes,
            tuple(frozenset(ballot[ballot >= 0].tolist()) for ballot in each.labels[image]),
        )
        for each in defenders
    ]


def cifar_sized() -> None:
    defenders, _ = synthetic_ballots(PAPER, n_images=10_000)
    took = seconds(lambda: mc.majorcert(defenders, mc.Patch(5)))
    row("10,000 images of 32x32, 10 classes, three defenders, 5x5, exact, with maps", f"{took:.2f} s", "under 1 s")
    row(
        "  the same with the paper's reach",
        f"{seconds(lambda: mc.majorcert(defenders, mc.Patch(5), reach='paper')):.2f} s",
    )
    row("  DRS margin of blocks:12", f"{seconds(lambda: mc.drs(defenders[2], mc.Patch(5))):.2f} s")
    row("  largest certified patch of every image", f"{seconds(lambda: mc.largest_patch(defenders), 1):.1f} s")
    row("  peak memory so far", f"{peak_gib():.2f} GiB", "at most 1 GiB")

    few = 3
    literal = seconds(lambda: [oracle.majorcert(plain(defenders, image), (5, 5)) for image in range(few)], 1) / few
    row("literal enumeration, seconds an image", f"{literal:.1f} s")
    row("  how many times faster the core is", f"{literal / (took / 10_000):,.0f}x", "over 1,000x")


def stored() -> None:
    """What else is certified and promised, of the evidence of CIFAR-10's 10,000 test images in results/."""
    pairs = mc.MaskPairs.load(STORES / "masking" / "masks-5-3.zarr")
    took = seconds(lambda: mc.majorcert([pairs], mc.Patch(5)))
    row("10,000 stored tables of masks:5/3, 100 masks, 5x5, with maps", f"{took:.2f} s", "under 2 s")
    made = seconds(lambda: mc.MaskPairs(pairs.labels, masks=pairs.masks, image_size=(32, 32), n_classes=10))
    row("  checking the tables before, and finding the rows of one label", f"{made:.2f} s")
    voters = [mc.load_evidence(STORES / "paper" / f"{spec.replace(':', '-')}.zarr") for spec in PAPER]
    took = seconds(lambda: mc.detect(voters, mc.Patch(5)))
    row("10,000 stored images, rows:4 columns:4 blocks:12, 5x5, detection, with maps", f"{took:.2f} s", "under 1.5 s")
    row("  detection by masks:5/3", f"{seconds(lambda: mc.detect([pairs], mc.Patch(5))):.2f} s", "under 1.5 s")
    row("  joint promises of the three", f"{seconds(lambda: mc.joint(voters, mc.Patch(5)), 1):.1f} s")
    row("  joint promises of masks:5/3", f"{seconds(lambda: mc.joint([pairs], mc.Patch(5)), 1):.1f} s")
    pool = mc.Pool(voters)
    row("  top 3 of the pool of the three", f"{seconds(lambda: mc.top_k(pool, mc.Patch(5), 3)):.2f} s")
    row("  peak memory so far", f"{peak_gib():.2f} GiB")


def imagenet_sized() -> None:
    defenders, _ = synthetic_ballots(IMAGENET, n_images=20, image_size=(224, 224), n_classes=1_000)
    took = seconds(lambda: mc.majorcert(defenders, mc.Patch(32))) / 20
    row(
        "224x224, 1,000 classes, rows:19 columns:19 blocks:75/10, 32x32, an image",
        f"{took * 1e3:.0f} ms",
        "at most 60 ms",
    )
    rng = np.random.default_rng(0)
    scattered = [
        mc.Ballots(
            rng.integers(1_000, size=each.labels.shape), strategy=each.strategy, image_size=(224, 224), n_classes=1_000
        )
        for each in defenders
    ]
    took = seconds(lambda: mc.majorcert(scattered, mc.Patch(32))) / 20
    row(
        "  the same where every ballot is random, so that hundreds of labels occur",
        f"{took * 1e3:.0f} ms",
        "at most 60 ms",
    )
    row("  peak memory so far", f"{peak_gib():.2f} GiB", "at most 2 GiB")


def growth() -> None:
    def certify(n_images: int, n_defenders: int, image_size: tuple[int, int]) -> float:
        specs = [f"columns:{size}" for size in range(3, 3 + n_defenders)]
        defenders, _ = synthetic_ballots(specs, n_images=n_images, image_size=image_size)
        return seconds(lambda: mc.majorcert(defenders, mc.Patch(5)))

    cases = {
        "images": [(n, 3, (32, 32)) for n in (2_000, 4_000, 8_000)],
        "placements": [(2_000, 3, (4 + 28 * n, 32)) for n in (1, 2, 4)],
        "defenders": [(2_000, n, (32, 32)) for n in (3, 6, 12)],
    }
    for what, sizes in cases.items():
        times = [certify(*size) for size in sizes]
        row(f"growth with 1x, 2x, 4x {what}", ", ".join(f"{t / times[0]:.1f}x" for t in times), "at most linear")


def import_time() -> None:
    code = "import time; s = time.perf_counter(); import majorcert; print(time.perf_counter() - s)"
    took = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))
    row("import majorcert", f"{took:.2f} s", "under 0.5 s")


if __name__ == "__main__":
    for part in (import_time, cifar_sized, stored, imagenet_sized, growth):
        part()
