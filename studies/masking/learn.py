"""Train one network for double masking: python studies/masking/learn.py OUT.safetensors --seconds 620 --seed 1 ...

Two boxes are hidden in every training view. Half of the images get the pair of boxes that they failed worst under so
far (`boxes.Memory`). Towards the end each step is taken with the gradient at a nearby point where the loss is worse
(sharpness-aware minimisation). What is saved, in float16, is the average of the weights over the last thousand steps.
"""

import argparse
import copy
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import boxes
import pictures
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.nets.masked import centred
from majorcert.nets.resnet import resnet

WARM_UP = 0.03
"""Of the whole schedule."""
N_SETTLING = 60
"""Batches from which the averaged weights get the statistics of their normalisations."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("out", type=Path, help="weights; a log goes beside it")
    add("--split", default="rest", choices=("rest", "trainval"), help="45,000 or all 50,000 training images")
    add("--seconds", type=float, help="length of the schedule by the clock, compiling not counted")
    add("--steps", type=int, help="or by the number of batches")
    add("--boxes", default="7,9,11", help="sides of the hidden boxes, each box by lot")
    add("--memory-from", type=float, default=1.0, help="share of the schedule after which boxes are remembered")
    add("--sharp-from", type=float, default=1.0, help="share after which the steps are sharpness-aware")
    add("--sharp", type=float, default=0.1, help="how far away the gradient is taken")
    add("--cutmix", type=float, default=0.0, help="share of the images that get a box of another image")
    add("--width", type=int, default=64)
    add("--batch", type=int, default=512)
    add("--rate", type=float, default=0.2, help="largest learning rate")
    add("--decay", type=float, default=5e-4)
    add("--average", type=float, default=0.999)
    add("--seed", type=int, default=0)
    add("--device", default="cuda")
    add("--images", type=int, default=50_000, help="the first so many alone, to try it out")
    given = parser.parse_args()
    if (given.seconds is None) == (given.steps is None):
        parser.error("give --seconds or --steps")
    return given


def mixed(crops: boxes.Crops, share: float) -> tuple[boxes.Crops, Tensor]:
    """Some crops with a box of the image before them, and how much of each crop that is."""
    pixels, device, n = crops.pixels, crops.pixels.device, len(crops.pixels)
    line = torch.arange(boxes.SIDE, device=device)
    side = (torch.rand(n, device=device) * 16 + 8).long()
    corner = (torch.rand(n, 2, device=device) * (boxes.SIDE + 1 - side)[:, None]).long()
    rows, columns = (
        (corner[:, axis, None] <= line) & (corner[:, axis, None] + side[:, None] > line) for axis in (0, 1)
    )
    chosen = torch.rand(n, device=device) < share
    box = rows[:, :, None] & columns[:, None] & chosen[:, None, None]
    return crops._replace(pixels=torch.where(box.unsqueeze(-1), pixels.roll(1, 0), pixels)), box.float().mean((1, 2))


class Learner:
    """A network, its averaged twin, and one step of training."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.device = given, given.device
        images, labels = pictures.load(given.split)
        sheet = boxes.padded(centred(images[: given.images].to(self.device)))
        self.images = sheet.bfloat16() if self.device == "cuda" else sheet
        self.labels = labels[: given.images].to(self.device)
        self.sizes = torch.tensor([int(side) for side in given.boxes.split(",")], device=self.device)
        self.network = resnet(3, 10, given.width).to(self.device, memory_format=torch.channels_last)
        self.run = torch.compile(self.network, dynamic=False) if self.device == "cuda" else self.network
        self.begin()

    def begin(self) -> None:
        """Forget all but the network: no momentum, no memory, its average is itself."""
        self.weights = list(self.network.parameters())
        self.memory = boxes.Memory(len(self.images), self.device)
        self.mean = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.optimiser = torch.optim.SGD(
            self.weights, momentum=0.9, nesterov=True, weight_decay=self.given.decay, fused=self.device == "cuda"
        )

    def losses(self, views: Tensor, labels: Tensor, share: Tensor | None) -> tuple[Tensor, Tensor]:
        """Of each view, with the part of another image counted for that image's label; and the logits."""
        with torch.autocast(self.device, torch.bfloat16):
            logits = self.run(views)
        logits = logits.float()
        loss = F.cross_entropy(logits, labels, reduction="none")
        if share is not None:
            loss = (1 - share) * loss + share * F.cross_entropy(logits, labels.roll(1), reduction="none")
        return loss, logits.detach()

    def step(self, which: Tensor, done: float, rate: float) -> Tensor:
        """Learn from a batch; `done` is the share of the schedule that lies behind. Gives its mean loss."""
        crops, share, labels = boxes.cut(self.images, which), None, self.labels[which]
        if self.given.cutmix:
            crops, share = mixed(crops, self.given.cutmix)
        hard = boxes.drawn(len(which), self.sizes)
        if done >= self.given.memory_from:
            hard = self.memory.recalled(which, crops, hard)
        views = boxes.hidden(crops, hard)
        loss, logits = self.losses(views, labels, share)
        loss.mean().backward()
        if done >= self.given.sharp_from:
            uphill = self.climb()
            self.losses(views, labels, share)[0].mean().backward()
            with torch.no_grad():
                torch._foreach_sub_(self.weights, uphill)
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.given.memory_from < 1:
            self.memory.keep(which, crops, hard, F.cross_entropy(logits, labels, reduction="none"))
        return loss.detach().mean()

    def climb(self) -> list[Tensor]:
        """Move the weights along their gradient to where the loss is worse, and say by how much."""
        slope = [weight.grad for weight in self.weights]
        length = torch.stack(torch._foreach_norm(slope)).norm() + 1e-12
        uphill = torch._foreach_mul(slope, self.given.sharp / length)
        with torch.no_grad():
            torch._foreach_add_(self.weights, uphill)
        self.optimiser.zero_grad(set_to_none=True)
        return list(uphill)

    @torch.no_grad()
    def average(self, n_steps: int) -> None:
        """Draw the average towards the network."""
        pull = 1 - min(self.given.average, (1 + n_steps) / (10 + n_steps))
        for kept, new in ((self.mean.parameters(), self.weights), (_floats(self.mean), _floats(self.network))):
            torch._foreach_lerp_(list(kept), list(new), pull)

    @torch.no_grad()
    def settle(self) -> None:
        """Give the averaged weights statistics of their own, from training views."""
        for module in self.mean.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_running_stats()
                module.momentum = None
        self.mean.train()
        for _ in range(N_SETTLING):
            crops = boxes.cut(self.images, torch.randint(0, len(self.images), (self.given.batch,), device=self.device))
            with torch.autocast(self.device, torch.bfloat16):
                self.mean(boxes.hidden(crops, boxes.drawn(self.given.batch, self.sizes)))
        self.mean.eval()


def _floats(network: nn.Module) -> list[Tensor]:
    return [buffer for buffer in network.buffers() if buffer.is_floating_point()]


def batches(n_images: int, size: int, device: str) -> Iterator[Tensor]:
    """Numbers of images, each once in every epoch but those left over at its end."""
    while True:
        order = torch.randperm(n_images, device=device)
        yield from order[: n_images - n_images % size].split(size)


def warm(learner: Learner) -> None:
    """Let the compiler and cuDNN choose their kernels before the clock starts."""
    fresh = copy.deepcopy(learner.network.state_dict())
    for _ in range(3):
        learner.step(torch.arange(learner.given.batch, device=learner.device), 1.0, 1e-6)
    learner.network.load_state_dict(fresh)
    learner.begin()


def train(learner: Learner, log: Path) -> None:
    given, start, shown, total = learner.given, time.time(), time.time(), 0.0
    for n_steps, which in enumerate(batches(len(learner.images), given.batch, learner.device)):
        done = n_steps / given.steps if given.steps else (time.time() - start) / given.seconds
        if done >= 1:
            break
        rate = given.rate * min(1, done / WARM_UP + 1e-3) * 0.5 * (1 + math.cos(math.pi * done))
        total += learner.step(which, done, rate)
        learner.average(n_steps + 1)
        if learner.device == "cuda" and n_steps % 10 == 0:
            torch.cuda.synchronize()  # the clock, not the queue, lays out the schedule
        if time.time() - shown > 20:
            facts = {"done": round(done, 3), "steps": n_steps, "loss_sum": round(float(total), 2)}
            log.open("a").write(json.dumps(facts) + "\n")
            shown = time.time()
    facts = {"steps": n_steps, "epochs": n_steps * given.batch / len(learner.images), "seconds": time.time() - start}
    log.open("a").write(json.dumps(facts) + "\n")


def main() -> None:
    given = options()
    torch.manual_seed(given.seed)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    log = given.out.with_suffix(".jsonl")
    log.write_text(json.dumps({key: str(value) for key, value in vars(given).items()}) + "\n")
    learner = Learner(given)
    warm(learner)
    train(learner, log)
    learner.settle()
    state = {
        name: each.half() if each.is_floating_point() else each for name, each in learner.mean.state_dict().items()
    }
    save_file({name: each.contiguous().cpu() for name, each in state.items()}, given.out)


if __name__ == "__main__":
    main()
