"""The true labels of a split, kept in a file of their own beside the evidence: certificates are made without them.

`<dataset>-<split>.truth.json` serves every evidence store of that split in the same folder, and names the images it
is about by their SHA-256, so that the labels of other images are refused. A plain .npy array names no images: that it
has labels for all is checked; that it has more is told and allowed, as the evidence may be of the first images alone.
"""

import re
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.errors import StoreError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import MAX_JSON_BYTES, decoded, read_bytes, read_npy, reason


class Truth(msgspec.Struct, tag_field="format", tag="majorcert-truth"):
    """A truth file; what else it says, such as the names of the classes, is for people."""

    version: Literal[1]
    images_sha256: str | None
    labels: list[int]


def write_truth(path: str | PathLike[str], labels: npt.ArrayLike, origin: dict[str, Any]) -> None:
    """Write the true labels of the images that `origin` (dataset, split, images_sha256, class_names) describes."""
    content = {"format": "majorcert-truth", "version": 1, **origin, "labels": np.asarray(labels).tolist()}
    with replacing(path) as beside:
        beside.write_bytes(msgspec.json.encode(content) + b"\n")


def truth_beside(store: str | PathLike[str], evidence: Evidence) -> Path:
    """Where the true labels of the images of this evidence are kept; there need be no file."""
    dataset, split = (str(evidence.provenance.get(key, "unknown")) for key in ("dataset", "split"))
    return Path(store).parent / truth_name(dataset, split)


def truth_name(dataset: str, split: str) -> str:
    """The name of a file, whatever the data set is called: it may be a stranger who says so."""
    plain = (re.sub(r"[^\w .+=@-]", "_", str(name))[:100] for name in (dataset, split))
    return f"{'-'.join(plain)}.truth.json"


def split_size(provenance: Mapping[str, Any], n_known: int) -> int:
    """How many images the whole split has: as was recorded when voting, and no fewer than are known of otherwise."""
    recorded = provenance.get("split_size")
    return max(n_known, recorded) if type(recorded) is int else n_known


def find_truth(
    path: str | PathLike[str] | None,
    store: str | PathLike[str],
    evidence: Evidence,
    doubt: Callable[[str], None] | None = None,
) -> Ints | None:
    """The true labels from the given file, or else from the one beside the store; None when there is neither."""
    beside = truth_beside(store, evidence)
    return None if path is None and not beside.is_file() else read_truth(path or beside, evidence, doubt)


def read_truth(path: str | PathLike[str], evidence: Evidence, doubt: Callable[[str], None] | None = None) -> Ints:
    """(images,) the true label of each image of the evidence, from a truth file or a plain .npy array.

    Args:
        doubt: told, in a sentence, of more labels than the images need: they may belong to another data set.
    """
    try:
        same_images = False
        if Path(path).suffix == ".npy":
            labels = read_npy(path)
        else:
            truth = decoded(read_bytes(path, MAX_JSON_BYTES), Truth)
            voted_on = evidence.provenance.get("images_sha256")
            same_images = voted_on == truth.images_sha256
            if voted_on is not None and not same_images:
                raise StoreError(f"{path}: holds the true labels of other images than those that were voted on")
            labels = np.asarray(truth.labels)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise StoreError(f"{path}: expected one whole number for each image, got {labels.dtype} {labels.shape}")
        last = int(evidence.images.max(initial=-1))
        if len(labels) <= last:
            raise StoreError(f"{path}: has {len(labels)} labels, the evidence is of images up to number {last}")
        if len(labels) > last + 1 and not same_images and doubt is not None:
            doubt(
                f"{path} has {len(labels)} labels, and the evidence is of {len(evidence)} images up to number {last}; "
                "see that the labels are of the same data set and split"
            )
        chosen: Ints = labels[evidence.images].astype(np.int64)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= evidence.n_classes):
            raise StoreError(f"{path}: labels are 0 to {evidence.n_classes - 1}, got {chosen.min()} to {chosen.max()}")
    except (OSError, ValueError, OverflowError) as error:
        raise StoreError(
            f"{path}: cannot be read as the true labels of {len(evidence)} images ({reason(error)})"
        ) from None
    return chosen
