"""Compare networks and their averages on held-out images: python studies/masking/compare.py runs/*.safetensors ...

Prints clean and certified accuracy and certified detection for each network, and for each average of `--average`
(names joined by +). With --mirror every network also looks at mirror images. With --threshold an average is asked only
where its first network, unmirrored, is less sure than that.
"""

import argparse
from pathlib import Path

import numpy as np
import pictures
import torch
from members import Member, Views, best_two, lean, read
from torch import Tensor

import majorcert as mc
from majorcert.nets.masked import centred

N_TOGETHER = 100


def labels_of(scores: dict[str, list[Tensor]], names: list[str], threshold: float) -> Tensor:
    """The labels by the mean of these networks' probabilities, or by the first one's where it is sure."""
    first, top, _ = best_two(scores[names[0]][0])
    mean = torch.stack([each for name in names for each in scores[name]]).mean(dim=0)
    return torch.where(top < threshold, best_two(mean)[0], first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", nargs="+", type=Path)
    parser.add_argument("--masks", default="masks:5/4", help="several are separated by commas")
    parser.add_argument("--average", nargs="*", default=[], help="such as memory+sharp")
    parser.add_argument("--threshold", type=float, default=2.0, help="2: always")
    parser.add_argument("--mirror", action="store_true")
    parser.add_argument("--images", type=int, default=1200)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    networks = {path.stem: lean(read(path), given.device) for path in given.weights}
    sides = (False, True) if given.mirror else (False,)
    members = {name: [Member(network, side) for side in sides] for name, network in networks.items()}
    images, truth = (each[: given.images] for each in pictures.load("holdout"))
    wanted = [*networks, *given.average]
    for spec in given.masks.split(","):
        masks = mc.Masks.parse(spec)
        found: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
        for part in images.split(N_TOGETHER):
            views = Views(centred(part.to(given.device)), masks)
            with torch.inference_mode():
                scores = {
                    name: [torch.cat([p for _, p in views.scored(views.every(), each)]) for each in voices]
                    for name, voices in members.items()
                }
                for name in wanted:
                    labels = labels_of(scores, name.split("+"), given.threshold)
                    found[name].append(labels.view(len(part), -1).to(torch.int8).cpu().numpy())
        for name, parts in found.items():
            pairs = mc.MaskPairs(np.concatenate(parts), masks=masks, image_size=(32, 32), n_classes=10)
            score = mc.score(mc.certify([pairs], masks.patch), truth.numpy())
            detection = mc.score(mc.detect([pairs], masks.patch), truth.numpy())
            print(f"{masks} {name}: {score.clean:.1%} {score.certified:.1%}, detection {detection.certified:.1%}")


if __name__ == "__main__":
    main()
