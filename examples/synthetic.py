"""Synthetic ballots to try majorcert without a network: spatially coherent votes with a rival region.

    python examples/synthetic.py

Each image has a true class and a rival class that owns one rectangle of the image. An ablation votes for the class that
covers more of what it shows, and sometimes for a random one. These votes say nothing about any real classifier.
"""

import numpy as np

import majorcert as mc


def synthetic_ballots(
    strategies: list[str],
    *,
    n_images: int = 1_000,
    image_size: tuple[int, int] = (32, 32),
    n_classes: int = 10,
    noise: float = 0.1,
    seed: int = 0,
) -> tuple[list[mc.Ballots], np.ndarray]:
    """Ballots of one defender for each strategy, of the same images, and the true labels."""
    rng = np.random.default_rng(seed)
    height, width = image_size
    truth = rng.integers(n_classes, size=n_images)
    rival = (truth + rng.integers(1, n_classes, size=n_images)) % n_classes
    sides = rng.uniform(0.1, 0.75, size=(n_images, 2)) * (height, width)
    corner = rng.uniform(size=(n_images, 2)) * ((height, width) - sides)
    rows = (np.arange(height) >= corner[:, :1]) & (np.arange(height) < corner[:, :1] + sides[:, :1])
    columns = (np.arange(width) >= corner[:, 1:]) & (np.arange(width) < corner[:, 1:] + sides[:, 1:])
    rival_owns = (rows[:, :, None] & columns[:, None, :]).astype(np.float32)

    defenders = []
    for spec in strategies:
        strategy = mc.strategy(spec)
        row_runs, column_runs = (runs.astype(np.float32) for runs in strategy.visible(image_size))
        share = np.einsum("ih,nhw,jw->nij", row_runs, rival_owns, column_runs, optimize=True).reshape(n_images, -1)
        share /= row_runs[0].sum() * column_runs[0].sum()
        blurred = share + rng.normal(scale=0.05, size=share.shape)
        votes = np.where(blurred > 0.4, rival[:, None], truth[:, None])
        stray = rng.random(votes.shape) < noise
        votes[stray] = rng.integers(-1, n_classes, size=int(stray.sum()))
        made_by = {"source": "examples/synthetic.py", "images_sha256": f"synthetic, seed {seed}"}
        defenders.append(
            mc.Ballots(votes, strategy=strategy, image_size=image_size, n_classes=n_classes, provenance=made_by)
        )
    return defenders, truth


def main() -> None:
    defenders, truth = synthetic_ballots(["rows:4", "columns:4", "blocks:12"])
    print("Synthetic votes of 1,000 images of 32x32: no network, no photographs.\n")
    for patch in (mc.Patch(2), mc.Patch(5)):
        for ballots in defenders:
            margin, local = (mc.score(mc.drs(ballots, patch, bound=bound), truth) for bound in ("margin", "local"))
            print(
                f"{patch}  {ballots.strategy!s:10}  clean {margin.clean:.1%}  "
                f"certified {margin.certified:.1%} (margin)  {local.certified:.1%} (local)"
            )
        verdict = mc.majorcert(defenders, patch)
        ensemble = mc.score(verdict, truth)
        print(f"{patch}  MajorCert   clean {ensemble.clean:.1%}  certified {ensemble.certified:.1%}")
    print(f"\nlargest certified patch: {np.bincount(mc.largest_patch(defenders)).tolist()} images of side 0, 1, 2, ...")


if __name__ == "__main__":
    main()
