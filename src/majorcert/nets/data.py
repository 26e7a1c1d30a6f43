"""Data sets: uint8 images, their labels, and a deterministic split."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from majorcert.core.threat import ImageSize
from majorcert.errors import DataError
from majorcert.errors.checks import whole
from majorcert.files.photo import SQUASHED, Photos, Resizing
from majorcert.nets.images import sha256
from majorcert.nets.sources import cifar10, digits, folder, npz
from majorcert.nets.sources.order import shuffled
from majorcert.nets.sources.part import Part, Progress
from majorcert.nets.sources.room import taken

Split = Literal["train", "val", "trainval", "test"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images (N, C, H, W) as uint8, labels (N,) as int64 or None, on the CPU."""

    images: Tensor
    labels: Tensor | None
    class_names: tuple[str, ...]
    name: str
    split: str
    skipped: tuple[str, ...] = ()  # what was wrong with each file that was left out
    numbers: Tensor | None = None  # (N,) the place of each image in its split; None if this is all of it
    split_size: int | None = None  # how many images the split has, if this is a part of it
    notes: tuple[str, ...] = ()  # what a user should know of how it was read
    photo_sizes: Tensor | None = None  # (N, 2) the height and width of the photos that the images were made of
    resizing: Resizing = SQUASHED  # how they were brought to the size of the images
    files: tuple[str, ...] | None = None  # where in its folder each of them is

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            got = f"{self.images.dtype} of shape {tuple(self.images.shape)}"
            raise DataError(f"{self.name}: images are uint8 of shape (N, C, H, W), got {got}")
        if not self.images.numel():
            raise DataError(f"{self.name}: there are no images in the {self.split} split")
        if len(self.class_names) < 2:
            raise DataError(f"{self.name}: a classifier needs at least two classes, got {list(self.class_names)}")
        if self.labels is None:
            return
        if self.labels.dtype != torch.int64 or tuple(self.labels.shape) != (len(self.images),):
            got = f"{self.labels.dtype} of shape {tuple(self.labels.shape)}"
            raise DataError(f"{self.name}: {len(self.images)} images need as many int64 labels, got {got}")
        lowest, highest = int(self.labels.min()), int(self.labels.max())
        if lowest < 0 or highest >= self.n_classes:
            raise DataError(f"{self.name}: labels run from 0 to {self.n_classes - 1}, got {lowest} to {highest}")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def image_size(self) -> ImageSize:
        return self.images.shape[2], self.images.shape[3]

    @property
    def channels(self) -> int:
        return self.images.shape[1]

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def photos(self) -> Photos | None:
        """The sizes of the photos behind the images, if they are known."""
        if self.photo_sizes is None:
            return None
        sizes = [(height, width) for height, width in self.photo_sizes.tolist()]
        return Photos(frozenset(sizes), self.resizing, dict(zip(sizes, self.files or (), strict=False)))

    def sha256(self) -> str:
        """Fingerprint of the images: their shape, then their bytes in order."""
        return sha256(self.images)

    def origin(self) -> dict[str, str]:
        """Which images they are, as it is kept with all that is made of them."""
        return {"dataset": self.name, "split": self.split, "images_sha256": self.sha256()}

    def subset(self, indices: Tensor) -> "Dataset":
        """The images at `indices`, in that order, with their labels; they keep their numbers in the split."""
        return replace(
            self,
            images=taken(self.images, indices),
            labels=None if self.labels is None else self.labels[indices],
            numbers=(torch.arange(len(self)) if self.numbers is None else self.numbers)[indices],
            split_size=self.split_size or len(self),
            photo_sizes=None if self.photo_sizes is None else self.photo_sizes[indices],
            files=self.files and tuple(self.files[index] for index in torch.as_tensor(indices).tolist()),
        )

    def parted(self, seed: int = 0) -> "tuple[Dataset, Dataset | None]":
        """Four fifths of the images to train on, and one fifth, by lot, to choose by; None if that is no image."""
        n_val = len(self) // 5
        order = torch.from_numpy(shuffled(len(self), seed))

        def part(name: str, numbers: Tensor) -> Dataset:
            # Within a split the images keep the order of the source.
            return replace(self.subset(numbers.sort().values), split=name, numbers=None, split_size=None)

        return part("train", order[n_val:]), part("val", order[:n_val]) if n_val else None

    def drawn(self, n: int, seed: int = 0) -> "Dataset":
        """So many images by lot, as evenly over the classes as can be, in the order of the split; at most all."""
        n = whole(n, "the number of images that are drawn", DataError)
        order = shuffled(len(self), seed)
        if self.labels is not None:
            labels = self.labels.numpy()[order]
            turn = np.zeros(len(self), dtype=np.int64)  # how many of its class were drawn before each
            for label in range(self.n_classes):
                turn[labels == label] = np.arange((labels == label).sum())
            order = order[np.argsort(turn, kind="stable")]
        return self if n >= len(self) else self.subset(torch.from_numpy(np.sort(order[:n])))


def load(
    spec: str,
    split: Split,
    data_dir: Path | str = "data",
    *,
    seed: int = 0,
    image_size: ImageSize | None = None,
    channels: int | None = None,
    skip_bad: bool = False,
    resizing: Resizing = SQUASHED,
    class_names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """One split of "digits", "cifar10", an image folder or an `.npz` file.

    "trainval" is the whole training part; "val" is a fifth of it, chosen by `seed`, and "train" the other four.
    `image_size`, `channels`, `skip_bad`, `resizing` and `class_names` (of one without class folders) are for image
    folders, `data_dir` is for CIFAR-10.
    """
    if split not in get_args(Split):
        raise DataError(f"there is no split {split!r}; use one of {', '.join(get_args(Split))}")
    test = split == "test"
    path = Path(spec)
    part: Part | None
    if spec == "digits":
        part = digits.read(test=test)
    elif spec == "cifar10":
        part = cifar10.read(Path(data_dir), test=test, progress=progress)
    elif path.suffix == ".npz" and path.is_file():
        part = npz.read(path, test=test)
    elif path.is_dir():
        kind: dict[str, Any] = {"image_size": image_size, "channels": channels, "class_names": class_names}
        part = folder.read(path, split, **kind, skip_bad=skip_bad, resizing=resizing, progress=progress)
    else:
        what = f"{spec!r} is neither a folder nor an .npz file" if path.exists() else f"cannot find {spec!r}"
        raise DataError(f"{what}; give 'digits', 'cifar10', an image folder or an .npz file")
    if part is None:
        raise DataError(
            f"{spec} has no test part; use the split 'val', or 'trainval' for all of its images if none was trained on"
        )
    labels = None if part.labels is None else torch.from_numpy(part.labels)
    sizes = None if part.photo_sizes is None else torch.from_numpy(part.photo_sizes)
    found = Dataset(
        torch.from_numpy(part.images),
        labels,
        part.class_names,
        path.absolute().name,
        split,
        part.skipped,
        notes=part.notes,
        photo_sizes=sizes,
        resizing=resizing,
        files=part.files,
    )
    if split in ("test", "trainval") or not part.whole:
        return found
    train, val = found.parted(seed)
    if split == "train":
        return train
    if val is None:
        raise DataError(f"{spec}: there are no images in the val split, a fifth of {len(found)}")
    return val


def load_to_train(spec: str, split: Split, *, seed: int = 0, **options: Any) -> tuple[Dataset, Dataset | None]:
    """The images of a split to train on, and those of "val" to choose by, if they are not among them.

    Args:
        options: as for `load`.
    """
    if split != "train":
        return load(spec, split, seed=seed, **options), None
    if not folder.own_validation(Path(spec)):
        return load(spec, "trainval", seed=seed, **options).parted(seed)
    images = load(spec, "train", seed=seed, **options)
    kind = {**options, "image_size": images.image_size, "channels": images.channels}
    return images, load(spec, "val", seed=seed, **kind)
