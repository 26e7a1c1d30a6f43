"""One valid artifact of every kind that majorcert reads, for the tests that damage it."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import google_crc32c
import numpy as np
import torch
from hostile import Artifact
from PIL import Image

import majorcert as mc
from majorcert.defences.scores import Scores
from majorcert.errors import MajorcertError
from majorcert.files.evidence import load_evidence as read_evidence
from majorcert.files.evidence import save_evidence
from majorcert.files.publish import publish
from majorcert.files.truth import read_truth, write_truth
from majorcert.files.writer import EvidenceWriter
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.checkpoint import Checkpoint
from majorcert.nets.data import load as load_data
from majorcert.nets.ensemble import Ensemble
from majorcert.nets.ensemble_file import write_members
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.sources import cifar10
from majorcert.nets.sources.decode import read_image
from majorcert.reports.artifact import describe
from majorcert.reports.study import CaseStudy
from majorcert.reports.study.figures import draw
from majorcert.reports.study.results import committed

torch.set_num_threads(1)
SIZE, N_CLASSES = (4, 6), 5
ABOUT = {"config": {"seed": 0}, "n_images": 3}


def some_ballots() -> mc.Ballots:
    labels = np.random.default_rng(0).permuted(np.tile(np.arange(-1, 4), (7, 6, 1)), axis=2)[:, :, :2]
    facts = {"images_sha256": "ab", "dataset": "toy", "split": "test", "threshold": 0.3}
    images = np.arange(7)[::-1] + 1
    return mc.Ballots(
        labels, strategy="columns:2", image_size=SIZE, n_classes=N_CLASSES, images=images, provenance=facts
    )


def make_evidence(folder: Path) -> None:
    scores = np.random.default_rng(1).random((7, 6, N_CLASSES))
    some = some_ballots()
    points = Scores.rounded(scores, strategy=some.strategy, image_size=SIZE, images=some.images)
    publish(some, folder / "e.zarr", points)


def load_evidence(folder: Path) -> None:
    for read in (Scores.load, lambda path: mc.drs(mc.Ballots.load(path), mc.Patch(2))):
        with suppress(MajorcertError):
            read(folder / "e.zarr")
    describe(folder / "e.zarr")
    EvidenceWriter.open(folder / "e.zarr", some_ballots(), 7)


def reseal_evidence(folder: Path) -> None:
    """As a forger would: no seal, no fingerprint, and checksums that fit."""
    for path in (folder / "e.zarr").rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        if path.name == "zarr.json":
            try:
                raw = json.loads(content)
                for name in ("seal", "sha256"):
                    raw["attributes"].pop(name, None)
                path.write_text(json.dumps(raw))
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
        elif "/c/" in str(path):
            path.write_bytes(content[:-4] + google_crc32c.value(content[:-4]).to_bytes(4, "little"))


def make_pairs(folder: Path) -> None:
    masks = mc.Masks(2, stride=2)
    n = masks.n_masks(SIZE)
    labels = np.random.default_rng(2).integers(0, N_CLASSES, (7, n * (n + 1) // 2))
    distance = np.random.default_rng(3).random((7, n)).astype(np.float16)
    facts = {"images_sha256": "ab", "split_size": 9}
    table = mc.MaskPairs(labels, masks=masks, image_size=SIZE, n_classes=N_CLASSES, distance=distance, provenance=facts)
    table.save(folder / "e.zarr")


def make_masked_scores(folder: Path) -> None:
    scores = np.random.default_rng(1).random((7, 6, N_CLASSES))
    points = Scores.rounded(scores, strategy="columns:2", image_size=SIZE)
    save_evidence(mc.MaskedScores(points, mc.Patch(2), 0.25), folder / "e.zarr")


def make_bounds(folder: Path) -> None:
    possible = np.random.default_rng(4).random((7, 15, N_CLASSES)) < 0.5
    possible[:, :, 2] = True
    facts = {"images_sha256": "ab", "split_size": 9}
    found = mc.Bounds(np.full(7, 2), possible, sizes="bounds:2", image_size=SIZE, n_classes=N_CLASSES, provenance=facts)
    found.save(folder / "e.zarr")


def load_any(folder: Path) -> None:
    evidence = read_evidence(folder / "e.zarr")
    mc.majorcert([evidence], mc.Patch(1))
    describe(folder / "e.zarr")


def make_detection(folder: Path) -> None:
    mc.detect([some_ballots(), some_ballots()], mc.Patch(1)).save(folder / "v.jsonl")


def make_verdict(folder: Path) -> None:
    mc.majorcert([some_ballots(), some_ballots()], mc.Patch(1)).save(folder / "v.jsonl")


def load_verdict(folder: Path) -> None:
    verdict = mc.Verdict.load(folder / "v.jsonl")
    describe(folder / "v.jsonl")
    verdict.save(folder / "again.jsonl")


def make_truth(folder: Path) -> None:
    write_truth(
        folder / "t.truth.json", np.arange(9) % N_CLASSES, {"images_sha256": "ab", "class_names": list("abcde")}
    )
    np.save(folder / "t.npy", np.arange(9) % N_CLASSES)


def load_truth(folder: Path) -> None:
    read_truth(folder / "t.npy", some_ballots())
    read_truth(folder / "t.truth.json", some_ballots())
    describe(folder / "t.truth.json")


def make_ensemble(folder: Path) -> None:
    model = ModelConfig("resnet", 3, N_CLASSES, width=2, blocks=(1,), strides=(1,))
    for name, config in (("a", model), ("b", ModelConfig("average", 3, N_CLASSES, members=(model, model)))):
        blueprint = Blueprint(mc.strategy("columns:2"), "crop", 0.3, SIZE, 1, tuple("abcde"), config)
        blueprint.write(folder / name, build(config).state_dict())
    plain = ModelConfig("small", 1, N_CLASSES, width=2)
    masked = ModelConfig("cascade:0.9", 1, N_CLASSES, members=(plain,))
    blueprint = Blueprint(mc.Masks(1, stride=2), "masked", None, SIZE, 1, tuple("abcde"), masked)
    blueprint.write(folder / "c", build(masked).state_dict())
    write_members(folder, ["a", "b", "c"])


def load_ensemble(folder: Path) -> None:
    describe(folder)
    Ensemble.load(folder).predict(np.zeros((1, *SIZE), dtype=np.uint8))


def reseal_ensemble(folder: Path) -> None:
    for path in folder.glob("*/defender.json"):
        weights = path.parent / "weights.safetensors"
        if path.is_file() and weights.is_file() and not path.is_symlink():
            try:
                raw = json.loads(path.read_bytes())
                raw["weights_sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
                path.write_text(json.dumps(raw))
            except (ValueError, TypeError):
                continue


def make_checkpoint(folder: Path) -> None:
    Checkpoint(ABOUT, 2, 1, 0.5, {"weights/a": torch.arange(12.0), "sums": torch.zeros(3)}).write(folder)


def load_checkpoint(folder: Path) -> None:
    found = Checkpoint.read(folder, ABOUT)
    if found is not None:
        assert found.tensors["weights/a"].equal(torch.arange(12.0))
        describe(folder)


def make_arrays(folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (10, *SIZE), dtype=np.uint8)
    labels = np.arange(10) % 3
    np.savez_compressed(folder / "d.npz", images=images, labels=labels, class_names=["a", "b", "c"])
    np.savez(folder / "e.npz", images=images, labels=labels, test_images=images, test_labels=labels)


def load_arrays(folder: Path) -> None:
    load_data(str(folder / "d.npz"), "trainval")
    load_data(str(folder / "e.npz"), "test")


def make_images(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 4), dtype=np.uint8)
    for name in "ab":
        (folder / name).mkdir()
        Image.fromarray(pixels).save(folder / name / "1.png", pnginfo=None)
        Image.fromarray(pixels[:, :, :3]).save(folder / name / "2.jpg", exif=Image.Exif())
        Image.fromarray(pixels[:, :, 0]).convert("P").save(folder / name / "3.png", transparency=0)


def load_images(folder: Path) -> None:
    for path in sorted(folder.glob("*/*")):
        with suppress(MajorcertError):
            read_image(path, (4, 4), 3)
    load_data(str(folder), "trainval")


def make_cifar(folder: Path) -> None:
    random = np.random.default_rng(0)
    values, labels = random.integers(0, 256, (4, 12), dtype=np.uint8), [3, 1, 0, 2]
    for kind in ("bin", "py"):
        (folder / kind / f"cifar-10-batches-{kind}").mkdir(parents=True)
    records = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], values], axis=1)
    (folder / "bin" / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(records.tobytes())
    (folder / "py" / "cifar-10-batches-py" / "test_batch").write_bytes(python_batch(records))


def load_cifar(folder: Path) -> None:
    binary = cifar10._read_binary(folder / "bin" / "cifar-10-batches-bin" / "test_batch.bin")
    python = cifar10._read_python(folder / "py" / "cifar-10-batches-py" / "test_batch")
    for values, labels in (binary, python):
        assert values.shape == (4, 12)
        assert labels.shape == (4,)


def make_study(folder: Path) -> None:
    for name in ("columns-2", "columns-2-no2"):
        publish(some_ballots(), folder / "best" / f"{name}.zarr")
    stores = ["best/columns-2.zarr", "best/columns-2-no2.zarr"]
    recipe = {"defenders": stores, "epochs": 3, "gpu_minutes": 1.5, "command": "train", "note": ""}
    (folder / "recipes.json").write_text(json.dumps({"best": recipe}))
    np.save(folder / "truth.npy", (np.arange(9) % N_CLASSES).astype(np.uint8))
    row = {"recipe": "best", "defenders": ["columns:2"], "evidence": stores[:1], "clean": 80.0}
    rows = [
        {**row, "method": method, "patch": patch, "certified": 40.0, "n": 7}
        for method in ("drs-local", "majorcert-exact")
        for patch in ("2x2", "5x5")
    ]
    by_side = [{"recipe": "best", "certified": [50.0] * 16}]
    unsafe = [{"recipe": "best", "patch": "5x5", "images": [[1, 2], [3, 4]]}]
    results = {"n": 7, "rows": rows, "means": [], "by_side": by_side, "unsafe": unsafe}
    (folder / "results.json").write_text(json.dumps(results))


def load_study(folder: Path) -> None:
    study = CaseStudy.read(folder)
    for recipe in study.recipes:
        for store in recipe.defenders:
            study.truth_of(mc.drs(study.evidence(store), mc.Patch(1), bound="local"))
            study.scores(store)
    draw(committed(folder), folder / "figures")
    describe(folder)


def make_attack(folder: Path) -> None:
    rows = [
        {"image": k, "attacked": k != 3, "flipped": k == 0, "certified": k == 1, "by": "solid" if k == 0 else ""}
        for k in range(4)
    ]
    about = {"dataset": "digits", "split": "test", "strategies": ["rows:2"], "weights_sha256": ["ab"], "restarts": 1}
    counts = {"n_attacked": 3, "n_flipped": 1, "n_certified_attacked": 1, "n_certified_flipped": 0}
    shares = {"clean": 0.75, "under_attack": 0.5, "certified": 0.25}
    summary = {"n": 4, "patch": "2x2", "defended": {**shares, **counts, "broken": [], "about": about}}
    (folder / "attack.json").write_text(json.dumps(summary))
    header = {"format": "majorcert-attack", "version": 1, "about": about, "seconds": 1.5}
    (folder / "attack.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (header, *rows)))


def load_attack(folder: Path) -> None:
    describe(folder)
    describe(folder / "attack.json")
    describe(folder / "attack.jsonl")


ARTIFACTS = {
    "evidence": Artifact(make_evidence, load_evidence),
    "forged evidence": Artifact(make_evidence, load_evidence, reseal_evidence),
    "mask pairs": Artifact(make_pairs, load_any),
    "forged mask pairs": Artifact(make_pairs, load_any, reseal_evidence),
    "bounds": Artifact(make_bounds, load_any),
    "forged bounds": Artifact(make_bounds, load_any, reseal_evidence),
    "masked scores": Artifact(make_masked_scores, load_any),
    "forged masked scores": Artifact(make_masked_scores, load_any, reseal_evidence),
    "verdict": Artifact(make_verdict, load_verdict),
    "verdict of detection": Artifact(make_detection, load_verdict),
    "truth": Artifact(make_truth, load_truth),
    "ensemble": Artifact(make_ensemble, load_ensemble),
    "forged ensemble": Artifact(make_ensemble, load_ensemble, reseal_ensemble),
    "checkpoint": Artifact(make_checkpoint, load_checkpoint),
    "arrays": Artifact(make_arrays, load_arrays),
    "images": Artifact(make_images, load_images),
    "cifar": Artifact(make_cifar, load_cifar),
    "case study": Artifact(make_study, load_study),
    "attack": Artifact(make_attack, load_attack),
}


def python_batch(records: np.ndarray) -> bytes:
    """A batch file as Python 2 wrote it, opcode by opcode."""
    labels = b"".join(b"K" + bytes([label]) for label in records[:, 0])
    pixels = records[:, 1:].tobytes()
    return (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05(" + labels + b"e"
        b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09"
        b"(K\x01K\x0aM\x00\x0c\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T" + len(pixels).to_bytes(4, "little") + pixels + b"tb"
        b"U\tfilenamesq\x0c]q\x0dU\x05a.pngau."
    )
