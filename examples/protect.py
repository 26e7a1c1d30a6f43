"""A classifier of your own behind masks: as it is, and after it has learned on under them. About a minute on two cores.

    python examples/protect.py

The handwritten digits that scikit-learn carries, 8x8 pixels, patches of 2x2. Prints clean and certified accuracy on
test images, which nothing was chosen by.
"""

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

import majorcert as mc
from majorcert.nets.data import load

SIZE, PATCH = (8, 8), 2


def network() -> nn.Module:
    """An ordinary small classifier, with fresh weights; also the function by which it is loaded again."""
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, 10))


def trained() -> nn.Module:
    """The same, after it has learned whole images, as anybody would train it."""
    net, images = network(), load("digits", "trainval")
    assert images.labels is not None
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(20):
        for batch in torch.randperm(len(images)).split(64):
            loss = F.cross_entropy(net(images.images[batch].float() / 255), images.labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net


def main() -> None:
    test, plain = load("digits", "test"), trained()
    assert test.labels is not None
    right = (plain(test.images.float() / 255).argmax(dim=1) == test.labels).float().mean()
    guarded = mc.protect(plain, PATCH, image_size=SIZE, channels=1, class_names=test.class_names)
    print(f"without a defence      clean {100 * right:.1f}")
    print("behind masks as it is ", said(mc.score(guarded.certify(test.images, mc.Patch(PATCH)), test.labels)))
    with tempfile.TemporaryDirectory() as folder:
        own = {"model": plain, "factory": "protect:network", "strategies": [str(guarded.strategy)]}
        mc.train("digits", Path(folder) / "tuned", split="trainval", device="cpu", flip=False, **own)
        tuned = mc.Ensemble.load(Path(folder) / "tuned", allow="protect:network")
    print("ten epochs under masks", said(mc.score(tuned.certify(test.images, mc.Patch(PATCH)), test.labels)))


def said(score: mc.Score) -> str:
    return f"clean {100 * score.clean:.1f}  certified {100 * score.certified:.1f}  of {score.n} images"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
