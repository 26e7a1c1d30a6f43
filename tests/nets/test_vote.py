"""Voting: ballots that do not depend on their company, and stores that survive anything."""

import errno
import math
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import majorcert as mc
from majorcert.errors import BallotsError, ModelError, StoreError
from majorcert.files.scoring import distance_of, rounded_down, votes_from_scores
from majorcert.files.store import Store
from majorcert.nets.data import Dataset
from majorcert.nets.models import ModelConfig, build
from majorcert.nets.scorer import cpu_tile
from majorcert.nets.shards import Progress
from majorcert.nets.tensor_votes import most_votes, votes_of
from majorcert.nets.views import in_channels
from majorcert.nets.voter import Voter

torch.set_num_threads(1)
N_CLASSES = 5


def pictures(n: int) -> Dataset:
    images = torch.randint(0, 256, (n, 3, 10, 8), generator=torch.Generator().manual_seed(7)).to(torch.uint8)
    return Dataset(images, torch.arange(n) % N_CLASSES, tuple("abcde"), "pictures", "test")


def vote(voter: Voter, dataset: Dataset, path: Path | str, *, scores: bool = False, **options: Any) -> None:
    voter.recording(scores=scores).write(dataset, path, **options)


def voter(
    spec: str = "columns:3", view: Any = "crop", threshold: float | None = 0.3, width: int = 8, **options: Any
) -> Voter:
    torch.manual_seed(0)
    config = ModelConfig("resnet", in_channels(view, 3), N_CLASSES, width=width, blocks=(1, 1), strides=(1, 2))
    network = build(config)
    for module in network.modules():  # statistics as after training, so that folding has something to fold
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3)  # type: ignore[union-attr, operator]
            module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr, operator]
    strategy = mc.strategy(spec)
    return Voter.of(network, strategy, view, threshold, image_size=(10, 8), channels=3, config=config, **options)


def files(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("view", ["canvas", "crop"])
@pytest.mark.parametrize("spec", ["rows:3", "columns:3/8", "blocks:4/3"])
@pytest.mark.parametrize("width", [64, 17, 19])  # narrow networks round alike in any batch
def test_scores_do_not_depend_on_the_company(width: int, spec: str, view: str) -> None:
    images = pictures(9).images
    one_voter = voter(spec, view, width=width)
    together = one_voter.vote(images, keep_scores=True).scores
    assert together is not None
    alone = torch.cat([one_voter.vote(image[None], keep_scores=True).scores for image in images])  # type: ignore[misc]
    order = torch.tensor([4, 8, 0, 2, 6, 1, 7, 3, 5])
    shuffled = one_voter.vote(images[order], keep_scores=True).scores
    assert torch.equal(alone, together)
    assert torch.equal(shuffled, together[order])
    assert len(together.unique(dim=0)) == len(images)


def test_the_network_sees_tiles_of_one_shape_alone() -> None:
    shapes = set()

    def watched(views: torch.Tensor) -> torch.Tensor:
        shapes.add(tuple(views.shape))
        return views.mean(dim=(2, 3))

    found = Voter.of(watched, mc.Blocks(4, stride=3), "crop", None, image_size=(10, 8), channels=3)
    shapes.clear()
    for n_images in (1, 5, 11, 37):
        found.vote(pictures(n_images).images)
    assert shapes == {(32, 5, 4, 4)}


@pytest.mark.parametrize(
    ("n_pixels", "n_ablations", "tile"),
    [(128, 32, 32), (144, 1024, 64), (9, 1, 32), (9, 100, 64), (1024, 1024, 32), (224 * 224, 224, 8)],
)
def test_one_image_alone_wastes_little_of_a_tile(n_pixels: int, n_ablations: int, tile: int) -> None:
    assert cpu_tile(n_pixels, n_ablations) == tile


def test_scores_do_not_depend_on_the_batch_size_on_a_cpu() -> None:
    images = pictures(9).images
    expected = voter().vote(images, keep_scores=True).scores
    for batch_size in (1, 7, 1000):
        found = voter(batch_size=batch_size)
        assert found.scorer.tile == 32
        assert torch.equal(found.vote(images, keep_scores=True).scores, expected)  # type: ignore[arg-type]


def test_scores_are_the_softmax_of_the_network_on_the_views() -> None:
    found = voter("blocks:4/3", "canvas")
    images = pictures(2).images
    with torch.inference_mode():
        sheet, pair = found.cutter.sheet(images.float() / 255), torch.arange(len(images) * found.cutter.n_views)
        views = found.cutter.take(sheet, pair // found.cutter.n_views, pair % found.cutter.n_views).contiguous()
        expected = found.network(views).softmax(dim=1).view(2, found.cutter.n_ablations, N_CLASSES)
    assert torch.allclose(found.vote(images, keep_scores=True).scores, expected, atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [None, 0.0, 0.1, 0.2, 0.25, 0.3, 1 / 3, 0.5, 0.7, 1.0, 1.5])
def test_votes_are_those_of_the_core(threshold: float | None) -> None:
    generator = np.random.default_rng(3)
    scores = generator.dirichlet(np.full(6, 0.5), size=500).astype(np.float32)
    edge = np.float32(threshold or 0.5)
    special = [[0.5, 0.5, 0, 0, 0, 0], [0.25] * 4 + [0, 0], [0, 0, 0, 0, 0, 1], [edge, 1 - edge, 0, 0, 0, 0]]
    around = [[np.nextafter(edge, np.float32(side)), 0, 0, 0, 0, 0] for side in (-1, 2)]
    scores = np.concatenate([scores, np.array(special + around, dtype=np.float32)]).clip(0)
    n_votes = most_votes(threshold, 6)
    expected = votes_from_scores(scores[None], threshold)[0]
    expected = np.pad(expected, ((0, 0), (0, n_votes - expected.shape[1])), constant_values=mc.ABSTAIN)
    found = votes_of(torch.from_numpy(scores), threshold, n_votes).numpy()
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int8


@pytest.mark.parametrize(
    ("threshold", "n_classes", "expected"),
    [
        (None, 10, 1),
        (0.3, 10, 3),
        (1 / 3, 10, 3),
        (0.25, 10, 4),
        (0.1, 10, 10),
        (0.1, 4, 4),
        (1.0, 10, 1),
        (0.0, 10, 10),
    ],
)
def test_the_most_labels_in_a_ballot(threshold: float | None, n_classes: int, expected: int) -> None:
    assert most_votes(threshold, n_classes) == expected


@pytest.mark.parametrize("threshold", [0.07, 0.11, 0.2, 0.3, 1 / 3, 0.49999])
def test_rounded_probabilities_never_cast_more_votes_than_there_is_room_for(threshold: float) -> None:
    n_equal = math.floor(1 / threshold)
    logits = torch.full((1, 20), -30.0)
    logits[0, :n_equal] = 1.0
    scores = logits.softmax(dim=1)
    assert int((scores >= threshold).sum()) <= most_votes(threshold, 20)


def test_the_store_holds_the_ballots_and_where_they_come_from(tmp_path: Path) -> None:
    data, found = pictures(23), voter()
    seen: list[Progress] = []
    vote(found, data, tmp_path / "e.zarr", origin={"weights_sha256": "w"}, scores=True, chunk=5, progress=seen.append)
    ballots = mc.Ballots.load(tmp_path / "e.zarr")
    direct = found.vote(data.images, keep_scores=True)
    np.testing.assert_array_equal(ballots.labels, direct.labels.numpy())
    assert direct.scores is not None
    kept = Store.open(tmp_path / "e.zarr").read("scores")
    np.testing.assert_array_equal(kept, direct.scores.half().numpy())
    np.testing.assert_array_equal(ballots.distance, rounded_down(direct.distance.numpy()))
    np.testing.assert_array_equal(ballots.distance, distance_of(direct.scores.numpy(), 0.3))
    assert len(np.unique(ballots.distance)) > 1
    expected = votes_from_scores(direct.scores.numpy(), 0.3)
    np.testing.assert_array_equal(ballots.labels[:, :, : expected.shape[2]], expected)
    assert ballots.provenance["images_sha256"] == data.sha256()
    facts = {key: ballots.provenance[key] for key in ("view", "threshold", "precision", "device", "dataset", "split")}
    assert facts == {
        "view": "crop",
        "threshold": 0.3,
        "precision": "float32",
        "device": "cpu",
        "dataset": "pictures",
        "split": "test",
    }
    assert ballots.provenance["weights_sha256"] == "w"
    assert ballots.provenance["software"] == f"majorcert {mc.__version__}"
    assert (seen[-1].done, seen[-1].total) == (23 * 8, 23 * 8)
    assert seen[-1].views_per_second > 0


@pytest.mark.parametrize("chunk", [4, 23])
def test_several_processes_write_the_same_store(chunk: int, tmp_path: Path) -> None:
    data, found = pictures(23), voter()
    vote(found, data, tmp_path / "1.zarr", chunk=chunk)
    for size in (2, 3):
        for rank in reversed(range(size)):
            vote(found, data, tmp_path / f"{size}.zarr", chunk=chunk, rank=rank, world_size=size)
        assert files(tmp_path / f"{size}.zarr") == files(tmp_path / "1.zarr")


@pytest.mark.parametrize("chunk", [4, 23])
def test_a_place_where_nothing_can_be_written_is_refused_before_any_work(chunk: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    seen: list[Progress] = []
    with pytest.raises(StoreError, match="cannot be written"):
        vote(voter(), pictures(23), tmp_path / "file" / "e.zarr", chunk=chunk, progress=seen.append)
    assert seen == []


def test_each_process_does_its_own_chunks_whatever_was_done_before(tmp_path: Path) -> None:
    data, found = pictures(23), voter()
    vote(found, data, tmp_path / "e.zarr", chunk=4, rank=1, world_size=3)
    missing = [images.start // 4 for images in Store.open(tmp_path / "e.zarr").missing()]
    assert missing == [0, 2, 3, 5]
    vote(found, data, tmp_path / "e.zarr", chunk=4, rank=2, world_size=3)
    missing = [images.start // 4 for images in Store.open(tmp_path / "e.zarr").missing()]
    assert missing == [0, 3]


def test_a_killed_run_continues_to_the_same_store(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, signal, sys
        sys.path.insert(0, sys.argv[1])
        import test_vote as t
        from majorcert.files.writer import EvidenceWriter
        left = [3]
        write = EvidenceWriter.write
        def writes_a_few(self, images, *arrays):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            write(self, images, *arrays)
        EvidenceWriter.write = writes_a_few
        t.vote(t.voter(), t.pictures(23), sys.argv[2], chunk=4, scores=True)
    """)
    here = str(Path(__file__).parent)
    killed = subprocess.run([sys.executable, "-c", script, here, tmp_path / "k.zarr"], env=_environment(), check=False)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(StoreError, match="incomplete"):
        mc.Ballots.load(tmp_path / "k.zarr")
    vote(voter(), pictures(23), tmp_path / "k.zarr", chunk=4, scores=True)
    vote(voter(), pictures(23), tmp_path / "whole.zarr", chunk=4, scores=True)
    assert files(tmp_path / "k.zarr") == files(tmp_path / "whole.zarr")


@pytest.mark.parametrize("array", ["labels", "distance", "scores"])
def test_a_damaged_chunk_is_not_called_done(array: str, tmp_path: Path) -> None:
    vote(voter(), pictures(9), tmp_path / "e.zarr", chunk=4, scores=True)
    chunk = next(path for path in (tmp_path / "e.zarr" / array / "c" / "1").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[-6] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(StoreError, match="cannot read the evidence store"):
        vote(voter(), pictures(9), tmp_path / "e.zarr", chunk=4, scores=True)


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(mc.__file__).parents[1]), str(Path(__file__).parents[1] / "support")]),
    }


def test_a_store_may_be_behind_a_url() -> None:
    pytest.importorskip("fsspec")
    data, found, url = pictures(9), voter(), "memory://bucket/e.zarr"
    vote(found, data, url, chunk=4, rank=0, world_size=2)
    with pytest.raises(StoreError, match="incomplete"):
        mc.Ballots.load(url)
    vote(found, data, url, chunk=4, rank=1, world_size=2)
    np.testing.assert_array_equal(mc.Ballots.load(url).labels, found.vote(data.images).labels.numpy())
    with pytest.raises(StoreError, match="holds other evidence"):
        vote(found, pictures(8), url, chunk=4)
    assert not Path("memory:").exists()


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zarr.storage._local as local

    put, room = local._put, [19]  # nine chunks of distances and labels, and distances alone

    def put_while_there_is_room(path: Path, *arguments: Any, **options: Any) -> Any:
        if "/c/" in str(path):
            room[0] -= 1
            if room[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return put(path, *arguments, **options)

    monkeypatch.setattr(local, "_put", put_while_there_is_room)
    with pytest.raises(StoreError, match=r"No space left on device.*all finished chunks are kept.*run the same again"):
        vote(voter(), pictures(40), tmp_path / "e.zarr", chunk=2)
    monkeypatch.undo()
    calls: list[int] = []
    vote(voter(), pictures(40), tmp_path / "e.zarr", chunk=2, progress=lambda progress: calls.append(progress.total))
    assert calls[-1] == (20 - 9) * 2 * 8
    vote(voter(), pictures(40), tmp_path / "whole.zarr", chunk=2)
    assert files(tmp_path / "e.zarr") == files(tmp_path / "whole.zarr")


def test_another_run_may_not_go_on_with_a_store(tmp_path: Path) -> None:
    vote(voter(), pictures(6), tmp_path / "e.zarr", origin={"weights_sha256": "one"})
    with pytest.raises(StoreError, match=r"holds other evidence.*weights_sha256"):
        vote(voter(), pictures(6), tmp_path / "e.zarr", origin={"weights_sha256": "two"})
    with pytest.raises(StoreError, match="holds other evidence"):
        vote(voter(), pictures(7), tmp_path / "e.zarr", origin={"weights_sha256": "one"})


def test_a_network_that_gives_no_numbers_is_refused(tmp_path: Path) -> None:
    def broken(views: torch.Tensor) -> torch.Tensor:
        dark = (views[:, 0] == 7 / 255).any(dim=2).any(dim=1)
        return torch.where(dark[:, None], math.nan, 0.0).expand(-1, N_CLASSES)

    found = Voter.of(broken, mc.Columns(3), "crop", 0.3, image_size=(10, 8), channels=3)
    with pytest.raises(ModelError, match="not finite"):
        vote(found, pictures(3), tmp_path / "e.zarr")


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BallotsError, match="threshold is a number of 0 or more"):
        voter(threshold=-0.1)
    with pytest.raises(ModelError, match="at least one view"):
        voter(batch_size=0)
    with pytest.raises(ModelError, match="'float32' or 'bfloat16' or 'float16', got 'int8'"):
        voter(precision="int8")
    with pytest.raises(ModelError, match="no device 'gpu'"):
        voter(device="gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_where_there_is_none_is_refused() -> None:
    with pytest.raises(ModelError, match="torch sees 0 CUDA devices; use 'cpu'"):
        voter(device="cuda")


def test_a_store_is_not_continued_by_a_compiled_network(tmp_path: Path) -> None:
    """A compiled network rounds differently, and the store would be a mixture."""
    vote(voter(), pictures(4), tmp_path / "e.zarr", rank=0, world_size=2, chunk=2)
    compiled = replace(voter(), scorer=replace(voter().scorer, compiled=True))
    with pytest.raises(StoreError, match=r"holds other evidence .differs in compiled.;"):
        vote(compiled, pictures(4), tmp_path / "e.zarr", rank=1, world_size=2, chunk=2)


@pytest.mark.parametrize(("precision", "most"), [("bfloat16", 0.1), ("float16", 0.01)])
def test_reduced_precision_is_recorded_and_close(precision: str, most: float) -> None:
    exact = voter().vote(pictures(4).images, keep_scores=True).scores
    reduced = voter(precision=precision)
    scores = reduced.vote(pictures(4).images, keep_scores=True).scores
    assert exact is not None
    assert scores is not None
    assert reduced.facts()["precision"] == precision
    assert 0 < float((scores - exact).abs().max()) < most
