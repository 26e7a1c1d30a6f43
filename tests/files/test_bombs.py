"""Files that claim to be huge: refused by what they declare, before the memory is taken."""

import base64
import hashlib
import json
import os
import shutil
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import torch
from numcodecs import Zstd
from PIL import Image

import majorcert as mc
from majorcert.errors import MajorcertError
from majorcert.files import untrusted as intake
from majorcert.files.evidence import load_evidence
from majorcert.files.store import Store
from majorcert.files.truth import read_truth
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.checkpoint import Checkpoint
from majorcert.nets.data import load as load_data
from majorcert.nets.defender import Defender
from majorcert.nets.ensemble_file import member_folders
from majorcert.nets.models import ModelConfig, build, n_weights
from majorcert.nets.sources import room
from majorcert.reports.study import CaseStudy

CEILING = 2**25
"""Bytes that a refusal may take; every bomb here asks for more than twice that."""
BALLOTS = mc.Ballots(np.zeros((3, 4), int), strategy="columns:1", image_size=(4, 4), n_classes=3)


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On a machine of 64 MiB; and no test takes half of that, whatever it is refused by."""
    monkeypatch.setattr(intake, "memory", lambda: 2 * CEILING)
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < CEILING, f"{peak:,} bytes"


def rewritten(path: Path, **change: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


def declared(store: Path, shape: list[int], chunk: list[int]) -> None:
    """As a forger would: labels of that shape, and no fingerprint of the layout."""
    grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
    rewritten(store / "labels" / "zarr.json", shape=shape, chunk_grid=grid, attributes={})


@pytest.mark.parametrize(
    ("shape", "chunk", "message"),
    [
        ([10**9, 10**6, 1], [1000, 10**6, 1], "declares 1000000000 images in 1000000 chunks"),
        ([10**7, 4, 1], [1, 4, 1], "declares 10000000 images in 10000000 chunks"),
        ([10**4, 10**4, 1], [10**3, 10**4, 1], "would take 400,000,000 bytes"),
        ([10**4, 10**12, 1], [10**3, 10**12, 1], "declares chunks of over"),
        ([10**30, 4, 1], [10**3, 4, 1], "declares 1" + "0" * 30 + " images"),
        ([10, 4, 1], [0, 4, 1], "cannot read the evidence store"),
    ],
)
def test_evidence_of_a_huge_shape(tmp_path: Path, shape: list[int], chunk: list[int], message: str) -> None:
    BALLOTS.save(tmp_path / "e")
    declared(tmp_path / "e", shape, chunk)
    with pytest.raises(mc.StoreError, match=message):
        mc.Ballots.load(tmp_path / "e")


def test_evidence_of_imagenet_is_within_the_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """50,000 images and 1,024 ablations with three votes each, 300 MB: only its chunks are missing here."""
    monkeypatch.setattr(intake, "memory", lambda: 2**33)
    BALLOTS.save(tmp_path / "e")
    shutil.rmtree(tmp_path / "e" / "labels" / "c")
    declared(tmp_path / "e", [50_000, 1024, 3], [64, 1024, 3])
    store = Store.open(tmp_path / "e")
    assert store.n_images == 50_000
    assert (store.read("labels", slice(0, 64)) == -2).all()


def test_a_chunk_that_unpacks_to_more_than_declared(tmp_path: Path) -> None:
    BALLOTS.save(tmp_path / "e")
    chunk = tmp_path / "e" / "labels" / "c" / "0" / "0" / "0"
    packed = Zstd(level=1).encode(bytes(2**20))
    head = bytearray(packed)
    at = 5 + (0 if head[4] >> 5 & 1 else 1)
    head[at : at + 4] = struct.pack("<I", 2**31 - 1)
    for content in (packed, bytes(head), packed[:4] + b"\x00" + packed[5:], b""):
        chunk.write_bytes(content + google_crc32c.value(content).to_bytes(4, "little"))
        with pytest.raises(mc.StoreError, match=r"the chunk is damaged, it unpacks to .* and not to 12"):
            mc.Ballots.load(tmp_path / "e")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_size": [10**6, 10**6]}, "expected a whole number <= 16384, in image_size"),
        ({"image_size": [4, 10**12], "strategy": "rows:1"}, "16384, in image_size"),
        ({"image_size": [4, 2**14]}, "what patches touch in images of 4x16384 would take"),
        ({"n_classes": 10**12}, "the counts of 1000000000000 classes would take"),
        ({"n_classes": float("inf")}, "it is not JSON"),
    ],
)
def test_evidence_of_huge_images_or_classes(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    BALLOTS.save(tmp_path / "e")
    attributes = json.loads((tmp_path / "e" / "zarr.json").read_text())["attributes"]
    attributes.pop("seal")
    rewritten(tmp_path / "e" / "zarr.json", attributes={**attributes, **change})
    with pytest.raises(mc.StoreError, match=message):
        mc.Ballots.load(tmp_path / "e")


def test_evidence_that_is_small_on_disk_and_large_when_it_is_read(tmp_path: Path) -> None:
    """20 MB of zeros in a few hundred bytes: it would fit as it is, but not while it is decoded, copied and checked."""
    BALLOTS.save(tmp_path / "e")
    declared(tmp_path / "e", [5 * 10**6, 4, 1], [5 * 10**6, 4, 1])
    packed = Zstd(level=9).encode(bytes(20 * 10**6))
    chunk = tmp_path / "e" / "labels" / "c" / "0" / "0" / "0"
    chunk.write_bytes(packed + google_crc32c.value(packed).to_bytes(4, "little"))
    tracemalloc.reset_peak()
    with pytest.raises(mc.StoreError, match="would take 80,000,000 bytes, and 67,108,864 are free"):
        mc.Ballots.load(tmp_path / "e")
    with pytest.raises(mc.StoreError, match="would take 80,000,000 bytes"):
        mc.Ballots.load(tmp_path / "e", slice(0, 1))


def test_few_images_of_very_many_pairs_of_masks(tmp_path: Path) -> None:
    """2 MB of labels, and an index of all pairs that would take a hundred."""
    mc.MaskPairs(np.zeros((1, 3), int), masks="masks:1/1", image_size=(1, 2), n_classes=2).save(tmp_path / "e")
    declared(tmp_path / "e", [1, 2 * 10**6], [1, 2 * 10**6])
    packed = Zstd(level=9).encode(bytes(2 * 10**6))
    chunk = tmp_path / "e" / "labels" / "c" / "0" / "0"
    chunk.write_bytes(packed + google_crc32c.value(packed).to_bytes(4, "little"))
    with pytest.raises(mc.StoreError, match="the table of all pairs of masks would take 128,000,000 bytes"):
        load_evidence(tmp_path / "e")


def test_free_memory_is_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    before = intake.memory()
    assert 0 < before < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_evidence_packed_in_another_way(tmp_path: Path) -> None:
    BALLOTS.save(tmp_path / "e")
    rewritten(tmp_path / "e" / "labels" / "zarr.json", codecs=[{"name": "bytes"}, {"name": "gzip"}])
    with pytest.raises(mc.StoreError, match=r"cannot read|packed in another way"):
        mc.Ballots.load(tmp_path / "e")
    codecs = [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}]
    rewritten(tmp_path / "e" / "labels" / "zarr.json", codecs=codecs)
    with pytest.raises(mc.StoreError, match="packed in another way than majorcert packs evidence"):
        mc.Ballots.load(tmp_path / "e")


def test_maps_that_would_not_fit(tmp_path: Path) -> None:
    labels = np.zeros((100, 1), dtype=np.int8)
    mc.Ballots(labels, strategy="rows:1/900", image_size=(900, 900), n_classes=2).save(tmp_path / "e")
    with pytest.raises(mc.StoreError, match=r"the maps .*read fewer images at a time.* would take 81,000,000 bytes"):
        mc.Ballots.load(tmp_path / "e")
    assert len(mc.Ballots.load(tmp_path / "e", slice(0, 10))) == 10


def verdict_file(path: Path, header: dict[str, Any], row: dict[str, Any] | None = None) -> Path:
    mc.drs(BALLOTS, mc.Patch(1), bound="local").save(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0] |= header
    lines[1] |= row or {}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ({"placements": [2**12, 2**12]}, {}, "maps of 4096x4096 placements for 3 images"),
        ({"placements": [2**11, 2**11, 2**11]}, {}, "expected a list of length 2, in placements"),
        ({"placements": [10**100, 1]}, {}, "expected a whole number"),
        ({"n": 10**12}, {}, "truncated, it has 3 of 1000000000000 rows"),
        ({}, {"safe": base64.b64encode(zlib.compress(bytes(2**26))).decode()}, "a map of 3 bytes where 2 are expected"),
        ({}, {"predicted": 10**30}, "row 0: .*expected a whole number.*in predicted"),
        ({}, {"image": 1.5}, "row 0: expected a whole number.*in image"),
        ({"defenders": [1, 2]}, {}, "expected named values, got a whole number, in defenders"),
    ],
)
def test_a_verdict_of_huge_numbers(tmp_path: Path, header: dict[str, Any], row: dict[str, Any], message: str) -> None:
    with pytest.raises(mc.StoreError, match=message):
        mc.Verdict.load(verdict_file(tmp_path / "v.jsonl", header, row))


def test_a_verdict_of_one_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("majorcert.files.verdicts.MAX_LINE", 1000)
    path = verdict_file(tmp_path / "v.jsonl", {"method": "x" * 2000})
    with pytest.raises(mc.StoreError, match="a line of 1000 bytes or more"):
        mc.Verdict.load(path)


def npy(path: Path, shape: str, data: bytes = b"12345678", dtype: str = "<i8") -> Path:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
    return path


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(1000000000000,)", "the header declares 8,000,000,000,000 bytes of data, there are 8"),
        ("(-1,)", "the header declares -8 bytes"),
        ("(" * 3000, "cannot be read as the true labels"),
        ("-" * 5000 + "1", "cannot be read as the true labels"),
    ],
)
def test_an_array_of_a_huge_shape(tmp_path: Path, shape: str, message: str) -> None:
    path = npy(tmp_path / "truth.npy", shape)
    with pytest.raises(mc.StoreError, match=message) as caught:
        read_truth(path, BALLOTS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["|O", "|V8", "<U0"])
def test_an_array_of_objects_is_refused(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(mc.StoreError, match="where plain numbers or text are expected"):
        read_truth(npy(tmp_path / "truth.npy", "(1,)", dtype=dtype), BALLOTS)


def test_a_zip_bomb(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    header = npy(tmp_path / "h", f"({2**27},)", b"", "|u1").read_bytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("images.npy", "w") as file:
        file.write(header)
        for _ in range(2**7):
            file.write(bytes(2**20))
    assert path.stat().st_size < 2**18
    with pytest.raises(mc.DataError, match=r"its arrays would take 134,\d+,\d+ bytes, and 67,108,864 are free"):
        load_data(str(path), "trainval")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("images.npy", header)
    with pytest.raises(mc.DataError, match="packed in another way than NumPy does"):
        load_data(str(path), "trainval")


def test_images_that_fit_neither_in_memory_nor_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        for number in range(12):
            Image.new("1", (1500, 1500)).save(tmp_path / name / f"{number}.png")
    full = shutil.disk_usage(tmp_path)._replace(free=2 * CEILING)
    monkeypatch.setattr(room, "memory", lambda: 2 * CEILING)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: full)
    with pytest.raises(mc.DataError, match=r"24 images of 1500x1500 take 162,000,000 bytes.*give a smaller size"):
        load_data(str(tmp_path), "trainval", image_size=(1500, 1500), channels=3)


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("t.truth.json", lambda folder: read_truth(folder / "t.truth.json", BALLOTS)),
        ("v.jsonl", lambda folder: mc.Verdict.load(folder / "v.jsonl")),
        ("zarr.json", mc.Ballots.load),
        ("defender.json", Blueprint.read),
        ("ensemble.json", member_folders),
        ("recipes.json", CaseStudy.read),
    ],
)
@pytest.mark.parametrize("content", [DEEP, '{"a":' * 100_000, "NaN", '{"format": Infinity}'])
def test_json_that_is_nested_too_deeply_or_has_no_numbers(
    tmp_path: Path, name: str, read: Callable[[Path], Any], content: str
) -> None:
    np.save(tmp_path / "truth.npy", np.zeros(3, int))
    (tmp_path / name).write_text(content)
    with pytest.raises(MajorcertError) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


def test_json_of_a_huge_size(tmp_path: Path) -> None:
    path = tmp_path / "t.truth.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk
    with pytest.raises(mc.StoreError, match=r"it has 1,099,511,627,776 bytes, and at most 67,108,864 are expected"):
        read_truth(path, BALLOTS)


SMALL = ModelConfig("resnet", 3, 3, width=2, blocks=(1,), strides=(1,))
n_weights(SMALL)  # what torch imports at the first count is not the file's doing


def defender(folder: Path, **change: Any) -> Path:
    """A defender whose blueprint was changed afterwards."""
    blueprint = Blueprint(mc.strategy("columns:1"), "crop", 0.3, (4, 4), 1, ("a", "b", "c"), SMALL)
    blueprint.write(folder, build(SMALL).state_dict())
    raw = json.loads((folder / "defender.json").read_text())
    raw["model"] |= change.pop("model", {})
    (folder / "defender.json").write_text(json.dumps({**raw, **change}))
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"width": 10**5}}, "the network has 180,003,600,003 weights, and the file 162 numbers"),
        ({"model": {"blocks": [10**9]}}, "at most 1000 blocks"),
        ({"model": {"blocks": [1] * 60, "strides": [1] * 60}}, "do not fit the network"),
        ({"model": {"strides": [0]}}, "a stride is 1 or more"),
        ({"model": {"dropout": 2.0}}, "dropout is from 0 to 1"),
        ({"model": {"name": 7}}, "text.* in .*name"),
        ({"image_size": [10**6, 10**6]}, "at most 16384"),
        ({"threshold": "nan"}, "in threshold"),
        ({"image_size": [10**400, 4]}, "cannot read .*defender.json"),
    ],
)
def test_a_card_of_a_huge_network(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(MajorcertError, match=message):
        Defender.load(defender(tmp_path, **change))


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        ModelConfig("small", 5, 7, width=3),
        ModelConfig("resnet", 6, 10, width=4),
        ModelConfig("resnet", 6, 10, width=4, blocks=(2, 1), strides=(2, (1, 2)), stem="7x7"),
        ModelConfig("average", 3, 3, members=(SMALL, SMALL)),
    ],
)
def test_weights_are_counted_as_they_are_built(config: ModelConfig) -> None:
    assert n_weights(config) == sum(weight.numel() for weight in build(config).parameters())


def safetensors(header: dict[str, Any] | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


F32 = {"dtype": "F32", "shape": [2]}


@pytest.mark.parametrize(
    "content",
    [
        safetensors({}, length=2**60),
        safetensors({}, length=90_000_000),
        safetensors({"a": {**F32, "shape": [2**40], "data_offsets": [0, 2**42]}}),
        safetensors({"a": {**F32, "data_offsets": [0, 8]}, "b": {**F32, "data_offsets": [4, 12]}}, bytes(12)),
        safetensors({"a": {**F32, "data_offsets": [8, 0]}}, bytes(8)),
        safetensors({"a": {**F32, "shape": [2**63, 2**63], "data_offsets": [0, 8]}}, bytes(8)),
        safetensors(DEEP.encode()),
        safetensors({"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}, bytes(1)),
        b"",
    ],
)
def test_weights_and_checkpoints_of_a_huge_header(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(content)
    with pytest.raises(mc.ModelError, match=r"cannot read .* as safetensors|is no majorcert checkpoint"):
        Checkpoint.read(tmp_path, {})
    folder = defender(tmp_path / "run", weights_sha256=hashlib.sha256(content).hexdigest())
    (folder / "weights.safetensors").write_bytes(content)
    with pytest.raises(mc.ModelError, match="do not fit the network"):
        Defender.load(folder)


def test_a_checkpoint_whose_bytes_were_changed(tmp_path: Path) -> None:
    Checkpoint({}, 1, 0, 0.0, {"weights/a": torch.zeros(8)}).write(tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\x01")
    with pytest.raises(mc.ModelError, match="is damaged, its SHA-256 differs"):
        Checkpoint.read(tmp_path, {})
