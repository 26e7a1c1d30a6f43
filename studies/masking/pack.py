"""Put the tables of cascade.py into evidence stores: python studies/masking/pack.py tables/*.npz -o results/cifar10

Writes masking/masks-5-3.zarr for the cascade and masking-one/masks-5-3.zarr for its first network alone.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import majorcert as mc
from majorcert.files.publish import publish
from majorcert.nets.data import Dataset, load

NETWORK = "ResNet-18 (basic blocks 2 2 2 2, 3x3 stem), width 64, 3 channels, weights in float16"
VIEW = "the whole image, colours centred, the pixels of two masks set to 0"


def provenance(images: Dataset, weights: list[str], rule: dict[str, Any]) -> dict[str, Any]:
    """What the labels depend on, as for any other evidence."""
    return {
        "dataset": images.name,
        "split": images.split,
        "images_sha256": images.sha256(),
        "class_names": list(images.class_names),
        "view": "masked",
        "view_description": VIEW,
        "network": NETWORK,
        "weights_sha256": weights[0] if len(weights) == 1 else weights,
        **rule,
        "precision": "float16",
        "device": "cuda",
        "views_per_pass": 4096,
        "software": f"majorcert {mc.__version__}, studies/masking",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the case study")
    given = parser.parse_args()
    for path in given.tables:
        with np.load(path) as table:
            images = load("cifar10", str(table["split"]))
            weights, threshold = table["weights"].tolist(), float(table["threshold"])
            all_of_them = (
                f"the first network's label where its largest probability is {threshold} or more, elsewhere that of "
                "the mean probability of all networks on the view and on its mirror image"
            )
            name = f"masks-{str(table['masks']).removeprefix('masks:').replace('/', '-')}.zarr"
            for recipe, labels, distance, used, rule in (
                ("masking", "labels", "distance", weights, {"rule": all_of_them, "mirror": True}),
                ("masking-one", "alone", "alone_distance", weights[:1], {"mirror": False}),
            ):
                pairs = mc.MaskPairs(
                    table[labels],
                    masks=str(table["masks"]),
                    image_size=images.image_size,
                    n_classes=images.n_classes,
                    provenance=provenance(images, used, rule),
                    distance=table[distance],
                )
                publish(pairs, given.out / recipe / name)
                print(given.out / recipe / name, pairs)


if __name__ == "__main__":
    main()
