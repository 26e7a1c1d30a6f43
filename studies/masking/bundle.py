"""Put a trained masking defender beside the bundled voters, in half precision: python studies/masking/bundle.py RUN

`majorcert predict --patch 5` and `mc.Ensemble.load("cifar10", bound=5)` use it from then on. RUN is a folder of
`majorcert train cifar10 --recipe masking-small --split trainval`.
"""

import sys
from pathlib import Path

import majorcert as mc
from majorcert.nets.ensemble_file import BOUNDED

MOST_BYTES = 12_000_000


def main() -> None:
    run, place = Path(sys.argv[1]), Path(mc.__file__).parent / "bundled" / "cifar10" / BOUNDED
    mc.MaskingDefender.load(run).save(place, bits=16)
    size = sum(file.stat().st_size for file in place.iterdir())
    if size > MOST_BYTES:
        sys.exit(f"{place} has {size:,} bytes, more than {MOST_BYTES:,}; train a smaller one")
    print(place, f"{size:,} bytes", mc.Ensemble.load("cifar10", bound=5).defenders)


if __name__ == "__main__":
    main()
