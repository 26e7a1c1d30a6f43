"""Coverage-guided fuzzing of the loaders: `make fuzz`, or python fuzz/loaders.py verdict -max_total_time=60.

The first byte of an input says which file of a valid artifact it takes the place of, the rest is that file. Whatever
the loader raises, other than our own error on one line, is a find: libFuzzer keeps the input as crash-... and stops.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support")]

with atheris.instrument_imports(include=["majorcert", "numpy.lib", "zipfile", "pickletools", "zarr.core.metadata"]):
    from artifacts import ARTIFACTS

    from majorcert.errors import MajorcertError
    from majorcert.nets.sources import cifar10

NAMES = sorted(ARTIFACTS)


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        raise SystemExit(f"python fuzz/loaders.py ARTIFACT [libFuzzer options]; an artifact is one of {NAMES}")
    artifact = ARTIFACTS[sys.argv.pop(1)]
    cifar10.N_IMAGES, cifar10.N_VALUES = 4, 12
    with tempfile.TemporaryDirectory() as name:
        pristine, given, corpus = (Path(name) / part for part in ("pristine", "given", "corpus"))
        pristine.mkdir()
        corpus.mkdir()
        artifact.make(pristine)
        files = sorted(path.relative_to(pristine) for path in pristine.rglob("*") if path.is_file())
        for place, file in enumerate(files):
            (corpus / str(place)).write_bytes(bytes([place]) + (pristine / file).read_bytes())

        def attempt(data: bytes) -> None:
            shutil.rmtree(given, ignore_errors=True)
            shutil.copytree(pristine, given)
            (given / files[data[0] % len(files) if data else 0]).write_bytes(data[1:])
            artifact.reseal(given)
            try:
                artifact.load(given)
            except MajorcertError as error:
                if "\n" in str(error):
                    raise RuntimeError("an error of several lines") from error

        atheris.Setup([*sys.argv, str(corpus)], attempt)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
