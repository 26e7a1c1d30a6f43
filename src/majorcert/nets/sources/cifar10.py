"""CIFAR-10 from its standard folders: `cifar-10-batches-bin` (binary) or `cifar-10-batches-py` (python)."""

import hashlib
import pickletools
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import numpy.typing as npt

from majorcert.errors import DataError
from majorcert.files.atomic import replacing
from majorcert.files.untrusted import read_bytes, reason
from majorcert.nets.folders import make_folder
from majorcert.nets.sources.part import Part, Progress

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
ARCHIVE_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAINING_FILES = tuple(f"data_batch_{number}" for number in range(1, 6))
N_IMAGES, N_VALUES = 10_000, 3 * 32 * 32
"""Of each file; of each image."""


def read(data_dir: Path, *, test: bool, progress: Progress | None = None) -> Part:
    """The 50,000 training or the 10,000 test images; downloaded into `data_dir` if they are not there."""
    names = ("test_batch",) if test else TRAINING_FILES
    binary, python = data_dir / "cifar-10-batches-bin", data_dir / "cifar-10-batches-py"
    if not binary.is_dir() and python.is_dir():
        records = [_read_python(python / name) for name in names]
    else:
        if not binary.is_dir():
            _download(data_dir, progress)
        records = [_read_binary(binary / f"{name}.bin") for name in names]
    images = np.concatenate([images for images, _ in records]).reshape(-1, 3, 32, 32)
    return Part(images, np.concatenate([labels for _, labels in records]).astype(np.int64), CLASS_NAMES)


def _read_binary(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """A record is one label byte and the red, green and blue planes."""
    content = _content(path)
    expected = N_IMAGES * (1 + N_VALUES)
    if len(content) != expected:
        raise DataError(
            f"{path} has {len(content)} bytes, expected {expected}; it is damaged or cut short, fetch it again"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(N_IMAGES, 1 + N_VALUES)
    return records[:, 1:], records[:, 0]


def _read_python(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The values and labels in a batch file of the python version, which is a pickle, without unpickling it.

    A pickle is a program, and loading one runs it. Here it is only listed: the pixels are its one string of
    the right length, the labels are the small integers that follow the string "labels".
    """
    values, labels, key = b"", [], ""
    try:
        for opcode, argument, _ in pickletools.genops(_content(path)):
            if isinstance(argument, str | bytes):
                raw = argument.encode("latin-1", "replace") if isinstance(argument, str) else argument
                if len(raw) == N_IMAGES * N_VALUES:
                    values = raw
                key = raw[:16].decode("latin-1")
            elif opcode.name == "BININT1" and key == "labels":
                labels.append(argument)
                if len(labels) > N_IMAGES:
                    break
    except Exception as error:  # the lister raises errors of many kinds on damaged files
        raise DataError(f"cannot read {path} as a CIFAR-10 batch: {reason(error)}") from None
    if not values or len(labels) != N_IMAGES:
        raise DataError(
            f"{path} is no CIFAR-10 batch: expected {N_IMAGES} images and labels; use the binary version from {URL}"
        )
    return np.frombuffer(values, dtype=np.uint8).reshape(N_IMAGES, N_VALUES), np.array(labels, dtype=np.uint8)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, 2**20 + 2 * N_IMAGES * N_VALUES)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path} ({reason(error)}); the whole folder comes from {URL}") from None


def _download(data_dir: Path, progress: Progress | None) -> None:
    """Fetch the archive, check it, and lay out its files; the folder appears complete or not at all."""
    make_folder(data_dir, "data sets", DataError)
    digest = hashlib.sha256()
    with TemporaryFile(dir=data_dir) as archive:
        try:
            with urllib.request.urlopen(URL, timeout=30) as response:
                total, done = int(response.headers.get("Content-Length", 0)), 0
                while block := response.read(1 << 20):
                    archive.write(block)
                    digest.update(block)
                    done += len(block)
                    if progress is not None:
                        progress(done, total)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise DataError(
                f"CIFAR-10 is not in {data_dir} and it could not be downloaded ({getattr(error, 'reason', error)}); "
                f"fetch {URL} and unpack it there ({data_dir}/cifar-10-batches-bin)"
            ) from None
        if digest.hexdigest() != ARCHIVE_SHA256:
            raise DataError(
                f"what came from {URL} is not the CIFAR-10 archive (SHA-256 {digest.hexdigest()}); try again later"
            )
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar, replacing(data_dir / "cifar-10-batches-bin") as beside:
            beside.mkdir()
            for name in (*TRAINING_FILES, "test_batch"):
                member = tar.extractfile(f"cifar-10-batches-bin/{name}.bin")
                if member is not None:
                    (beside / f"{name}.bin").write_bytes(member.read())
