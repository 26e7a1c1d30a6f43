"""Label images under every pair of masks by one network, and by all of them where it is unsure.

    python studies/masking/cascade.py runs/A.safetensors runs/B.safetensors --masks masks:5/3 -o tables/five.npz

The defender: the first network's label where its largest probability is at least the threshold; elsewhere that of the
mean of all networks' probabilities for the view and for its mirror image. Labels of the first network alone are kept
beside it. With every row of a table goes how far all probabilities may move before a label of that row can change.
"""

import argparse
import hashlib
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pictures
import torch
from members import Member, Views, best_two, lean, read
from torch import Tensor

import majorcert as mc
from majorcert.files.scoring import rounded_down
from majorcert.nets.masked import centred

N_TOGETHER = 100
"""Images whose views are numbered together."""
BAND = 0.01
"""All networks are asked so far past the threshold: where both stages agree, it does not matter which one speaks."""


class Labels(NamedTuple):
    """Of some views, and how far every probability may move before the label can change."""

    label: Tensor
    distance: Tensor


def labelled(views: Views, members: list[Member], threshold: float) -> tuple[Labels, Labels, int]:
    """By the first member alone, by the cascade, and for how many views all members were asked."""
    every = views.every()
    probabilities = torch.cat([each for _, each in views.scored(every, members[0])])
    label, top, lead = best_two(probabilities)
    alone, gap = Labels(label, lead / 2), (top - threshold).abs()
    asked = every[top < threshold + BAND]
    both = Labels(label.clone(), torch.minimum(alone.distance, gap))

    def all_others(shown: Tensor) -> Tensor:
        return torch.stack([member(shown) for member in members[1:]]).sum(dim=0)

    for part, others in views.scored(asked, all_others):
        some = asked[part]
        mean, _, lead = best_two((others + probabilities[some]) / len(members))
        first, unsure = label[some], top[some] < threshold
        own = torch.where(unsure, lead / 2, alone.distance[some])
        other = torch.where(unsure, alone.distance[some], lead / 2)
        # The label stays while this stage says it and speaks, or while the other stage says it as well.
        stays = torch.where(mean == first, torch.maximum(gap[some], other), gap[some])
        both.label[some], both.distance[some] = torch.where(unsure, mean, first), torch.minimum(own, stays)
    return alone, both, len(asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", nargs="+", type=Path, help="two networks or more; the first one is asked first")
    parser.add_argument("--masks", default="masks:5/3")
    parser.add_argument("--threshold", type=float, default=0.9)
    parser.add_argument("--split", default="test", choices=pictures.SPLITS)
    parser.add_argument("--images", type=int, default=50_000, help="the first so many alone")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    masks = mc.Masks.parse(given.masks)
    networks = [lean(read(path), given.device) for path in given.weights]
    members = [Member(network, mirrored) for network in networks for mirrored in (False, True)]
    images, truth = (each[: given.images] for each in pictures.load(given.split))
    found: dict[str, list[np.ndarray]] = {"alone": [], "alone_distance": [], "labels": [], "distance": []}
    start, n_asked = time.time(), 0
    with torch.inference_mode():
        for part in images.split(N_TOGETHER):
            views = Views(centred(part.to(given.device)), masks)
            alone, both, n = labelled(views, members, given.threshold)
            n_asked += n
            for name, each in (("alone", alone), ("labels", both)):
                found[name].append(each.label.view(len(part), -1).to(torch.int8).cpu().numpy())
                distance = "distance" if each is both else "alone_distance"
                found[distance].append(rounded_down(views.least(each.distance).cpu().numpy()))
    arrays = {name: np.concatenate(parts) for name, parts in found.items()}
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in given.weights]
    facts = {"masks": str(masks), "threshold": given.threshold, "split": given.split, "weights": hashes}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(given.out, **arrays, **{name: np.array(value) for name, value in facts.items()})
    share = n_asked / arrays["labels"].size
    print(f"{time.time() - start:.0f} s; all networks were asked for {share:.1%} of {arrays['labels'].size:,} views")
    for name in ("alone", "labels"):
        pairs = mc.MaskPairs(arrays[name], masks=masks, image_size=(32, 32), n_classes=10)
        score = mc.score(mc.certify([pairs], masks.patch), truth.numpy())
        print(f"{name}: clean {score.clean:.2%}, certified against {masks.patch} {score.certified:.2%}")


if __name__ == "__main__":
    main()
