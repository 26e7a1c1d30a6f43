"""Training: the same weights however it is interrupted, shared or repeated, and files that are whole or refused."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import majorcert as mc
from majorcert.core.regions import Columns
from majorcert.errors import DataError, ModelError
from majorcert.nets import learner as learner_module
from majorcert.nets import train as train_module
from majorcert.nets.augment import N_RANDOM, Augment, gathered, mixed
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.config import TrainConfig
from majorcert.nets.data import Dataset
from majorcert.nets.learner import Learner
from majorcert.nets.models import ModelConfig
from majorcert.nets.on_disk import read_tensors, write_tensors
from majorcert.nets.processes import Processes
from majorcert.nets.recipes import DIGITS_STRATEGIES, PAPER_STRATEGIES, recipe, strategies_of
from majorcert.nets.threshold import suited_threshold
from majorcert.nets.train import Progress, TrainResult, train
from majorcert.nets.views import in_channels
from majorcert.nets.voter import Voter

CONFIG = TrainConfig(
    strategy=Columns(3),
    view="crop",
    model=ModelConfig("resnet", 3, 3, width=4, blocks=(1, 1), strides=(1, 2), dropout=0.1),
    epochs=4,
    batch_size=8,
    lr=0.1,
    warmup=1,
    ema_decay=0.9,
    augment=Augment(shift=1, flip=True, cutmix=0.5),
)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def toy(n: int = 43, n_classes: int = 3) -> Dataset:
    """Bright bars whose column says the class, with noise."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % n_classes
    images = torch.randint(0, 40, (n, 1, 6, 6), generator=generator, dtype=torch.uint8)
    images[torch.arange(n), 0, :, 2 * labels] += 100
    images[torch.arange(n), 0, :, 2 * labels + 1] += 100
    return Dataset(images, labels, tuple("abc")[:n_classes], "toy", "train")


def weights(run_dir: Path) -> dict[str, torch.Tensor]:
    return read_tensors(run_dir / "weights.safetensors")[0]


def log(run_dir: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run_dir / "log.jsonl").read_text().splitlines()]


def stop_after(n_steps: int) -> "list[Progress]":
    """A progress callback that sends this process SIGTERM at a step; reports must come at every step."""

    class Stopper(list[Progress]):
        def __call__(self, progress: Progress) -> None:
            self.append(progress)
            if len(self) == n_steps:
                os.kill(os.getpid(), signal.SIGTERM)

    return Stopper()


def assert_same_run(one: Path, other: Path) -> None:
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, weights(other)[name]), name
    assert (one / "defender.json").read_text() == (other / "defender.json").read_text()
    timeless = [[{k: v for k, v in line.items() if "second" not in k} for line in log(run)] for run in (one, other)]
    assert timeless[0] == timeless[1]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    run_dir = tmp_path_factory.mktemp("uninterrupted")
    assert train(CONFIG, toy(), run_dir) == (result := TrainResult(run_dir, finished=True, epochs=4))
    assert str(result) == str(run_dir)
    return run_dir


def test_training_learns_and_leaves_a_complete_run_directory(tmp_path: Path) -> None:
    config = replace(CONFIG, epochs=60, augment=Augment())
    seen: list[Progress] = []
    train(config, toy(), tmp_path, progress=seen.append)
    lines = log(tmp_path)
    assert [line["epoch"] for line in lines] == list(range(1, 61))
    assert set(lines[0]) == {"epoch", "loss", "accuracy", "lr", "images_per_second", "seconds"}
    assert lines[-1]["loss"] < 0.5 * lines[0]["loss"]
    assert lines[-1]["accuracy"] > 0.7
    assert (seen[-1].epoch, seen[-1].step) == (59, 5)
    blueprint = Blueprint.read(tmp_path)
    assert blueprint.training["config"] == json.loads(json.dumps(config.to_json()))
    assert blueprint.training["images_sha256"] == toy().sha256()
    assert (blueprint.image_size, blueprint.channels, blueprint.class_names, blueprint.threshold) == (
        (6, 6),
        1,
        ("a", "b", "c"),
        0.3,
    )
    assert blueprint.network(tmp_path)(torch.zeros(2, 3, 6, 3)).shape == (2, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint.json",
        "checkpoint.safetensors",
        "defender.json",
        "log.jsonl",
        "weights.safetensors",
    ]


def test_the_same_run_twice_gives_the_same_weights_and_another_seed_others(uninterrupted: Path, tmp_path: Path) -> None:
    torch.manual_seed(123)
    before = torch.get_rng_state()
    train(CONFIG, toy(), tmp_path / "again")
    assert torch.equal(torch.get_rng_state(), before)
    assert_same_run(uninterrupted, tmp_path / "again")
    train(replace(CONFIG, seed=1), toy(), tmp_path / "other")
    assert any(not torch.equal(t, weights(tmp_path / "other")[n]) for n, t in weights(uninterrupted).items())


@pytest.mark.parametrize("n_steps", [1, 5, 8, 19])
def test_an_interrupted_run_continues_bitwise(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_steps: int
) -> None:
    monkeypatch.setattr(train_module, "SECONDS_BETWEEN_REPORTS", 0)
    result = train(CONFIG, toy(), tmp_path, progress=stop_after(n_steps))  # type: ignore[arg-type]
    assert result == TrainResult(tmp_path, finished=False, epochs=(n_steps - 1) // 5)
    assert not (tmp_path / "defender.json").exists()
    assert train(CONFIG, toy(), tmp_path, resume=True, progress=stop_after(1)).finished is False  # type: ignore[arg-type]
    assert train(CONFIG, toy(), tmp_path, resume=True).finished
    assert_same_run(uninterrupted, tmp_path)


def test_a_killed_run_continues_from_its_last_checkpoint(uninterrupted: Path, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(progress: Progress) -> None:
        if progress.epoch == 2:
            raise Killed

    with pytest.raises(Killed):
        train(CONFIG, toy(), tmp_path, checkpoint_every=1, progress=kill)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"epoch": 3, "written before": "the kill"}\n')
    train(CONFIG, toy(), tmp_path, resume=True)
    assert_same_run(uninterrupted, tmp_path)
    train(CONFIG, toy(), tmp_path, resume=True)
    assert_same_run(uninterrupted, tmp_path)


SCRIPT = """
import sys
import textwrap
import time
import torch
from test_train import CONFIG, toy
from majorcert.nets.train import train
from dataclasses import replace
torch.set_num_threads(1)
config, slowly = replace(CONFIG, epochs=int(sys.argv[2])), lambda progress: time.sleep(float(sys.argv[3]))
print(train(config, toy(48), sys.argv[1], progress=slowly).finished)
"""


def child_environment() -> dict[str, str]:
    here, source = Path(__file__).parent, Path(mc.__file__).parents[1]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (here, here.parent / "support", source))),
        "OMP_NUM_THREADS": "1",
    }


def test_sigterm_to_a_real_process(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    run_dir, epochs = tmp_path / "run", 10
    command = [sys.executable, str(tmp_path / "script.py"), str(run_dir), str(epochs), "0.5"]
    child = subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (run_dir / "log.jsonl").exists() or len(log(run_dir)) < 2:
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    output, _ = child.communicate(timeout=60)
    assert (child.returncode, output) == (0, "False\n")
    done = json.loads((run_dir / "checkpoint.json").read_text())["epoch"]
    assert 2 <= done < epochs
    config = replace(CONFIG, epochs=epochs)
    assert train(config, toy(48), run_dir, resume=True).finished
    train(config, toy(48), tmp_path / "whole")
    assert_same_run(tmp_path / "whole", run_dir)


@pytest.mark.slow
def test_two_processes_share_every_batch(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import os, sys, torch\n"
        "from pathlib import Path\n"
        "from majorcert.nets import learner\n"
        "from majorcert.nets.on_disk import write_tensors\n"
        "parts, models, take, make = [], [], learner.gathered, learner.build\n"
        "def gathered(images, index, *rest):\n"
        "    parts.append(index.clone())\n"
        "    return take(images, index, *rest)\n"
        "def build(config):\n"
        "    models.append(make(config))\n"
        "    return models[-1]\n"
        "learner.gathered, learner.build = gathered, build\n"
        "from majorcert.nets.processes import Processes\n"
        "share = Processes.share\n"
        "def shared(self, rows):\n"
        "    part = share(self, rows)\n"
        "    assert torch.equal(self.whole(part), rows), 'the parts do not make up the batch'\n"
        "    return part\n"
        "Processes.share = shared\n" + SCRIPT + "\n"
        "seen = {'parts': torch.stack(parts), **models[0].state_dict()}\n"
        "write_tensors(Path(sys.argv[1]) / f'rank{os.environ[\"RANK\"]}.safetensors', seen)\n"
    )
    run_dir = tmp_path / "run"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launch, str(tmp_path / "script.py"), str(run_dir), "2", "0"]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    first, second = (read_tensors(run_dir / f"rank{rank}.safetensors")[0] for rank in (0, 1))
    assert first["parts"].shape == (12, 4)
    batches = torch.cat([first.pop("parts"), second.pop("parts")], dim=1)
    for epoch in batches.view(2, 48):
        assert epoch.sort().values.tolist() == list(range(48))
    for name, tensor in first.items():
        if "running" not in name:  # each forward pass begins with the first process's running statistics
            assert torch.equal(tensor, second[name]), name
    assert len(log(run_dir)) == 2
    alone = tmp_path / "alone"
    train(replace(CONFIG, epochs=2), toy(48), alone)
    assert log(run_dir)[0]["loss"] == pytest.approx(log(alone)[0]["loss"], rel=0.1)
    assert Blueprint.read(run_dir).training == Blueprint.read(alone).training


def test_a_second_run_never_overwrites_the_first(uninterrupted: Path) -> None:
    with pytest.raises(ModelError, match="already holds a run or an ensemble; use another folder"):
        train(CONFIG, toy(), uninterrupted)


def test_a_foreign_checkpoint_is_refused(uninterrupted: Path) -> None:
    with pytest.raises(
        ModelError, match=r"of another training run: config.lr was 0.1, now 0.2; config.strategy was 'col"
    ):
        train(replace(CONFIG, lr=0.2, strategy=Columns(2)), toy(), uninterrupted, resume=True)
    with pytest.raises(ModelError, match=r"images_sha256 was '.*n_images was 43, now 44; use another run directory"):
        train(CONFIG, toy(44), uninterrupted, resume=True)


def test_an_unreadable_checkpoint_is_refused(uninterrupted: Path, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    content = (uninterrupted / "checkpoint.safetensors").read_bytes()
    for damaged in (b"", b"no tensors here", content[:-100]):
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match=r"cannot read .*checkpoint.safetensors as safetensors"):
            train(CONFIG, toy(), tmp_path, resume=True)
    write_tensors(path, {"weights": torch.zeros(2)})
    with pytest.raises(ModelError, match="is no majorcert checkpoint"):
        train(CONFIG, toy(), tmp_path, resume=True)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.zeros(3)})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        ModelError, match=r"cannot write .*a.safetensors: No space left on device; what was there before"
    ):
        write_tensors(path, {"x": torch.ones(3)})
    assert read_tensors(path)[0]["x"].tolist() == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_file_appears_by_renaming_a_complete_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.zeros(3)})
    complete: list[dict[str, torch.Tensor]] = []

    def stop_before_renaming(part: Path, target: Path) -> None:
        complete.append(read_tensors(part)[0])
        assert read_tensors(target)[0]["x"].tolist() == [0, 0, 0]
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", stop_before_renaming)
    with pytest.raises(ModelError, match=r"cannot write .*a.safetensors: Input/output error"):
        write_tensors(path, {"x": torch.ones(3)})
    assert complete[0]["x"].tolist() == [1, 1, 1]
    assert read_tensors(path)[0]["x"].tolist() == [0, 0, 0]


def test_a_tampered_defender_is_refused(uninterrupted: Path, tmp_path: Path) -> None:
    blueprint = Blueprint.read(uninterrupted)
    with pytest.raises(ModelError, match=r"holds no trained defender \(defender.json is missing\)"):
        Blueprint.read(tmp_path)
    raw = json.loads((uninterrupted / "defender.json").read_text())
    for change, message in [
        ({"format": "other"}, "'other' version 1 is not 'majorcert-defender' version 1"),
        ({"strategy": "columns:9"}, "columns:9 does not fit in a 6x6 image"),
        ({"view": "canvas"}, "needs a network of 2 input channels and 3 classes, got 3 and 3"),
        ({"class_names": ["a", "b"]}, "needs a network of 3 input channels and 2 classes, got 3 and 3"),
        ({"image_size": 6}, "cannot read .*defender.json as a defender"),
    ]:
        (tmp_path / "defender.json").write_text(json.dumps({**raw, **change}))
        with pytest.raises(ModelError, match=message):
            Blueprint.read(tmp_path)
    content = (uninterrupted / "weights.safetensors").read_bytes()
    for tampered in (content[:-4] + b"\0\0\0\0", content[:-4], b""):
        (tmp_path / "weights.safetensors").write_bytes(tampered)
        with pytest.raises(ModelError, match=r"is not the file that defender.json is about"):
            blueprint.network(tmp_path)
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(ModelError, match=r"cannot read .*weights.safetensors: No such file"):
        blueprint.network(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelError, match=r"do not fit the network"):
        replace(blueprint, weights_sha256=hashlib.sha256(b"no tensors").hexdigest()).network(tmp_path)
    other = replace(blueprint.model, width=5)
    written = replace(blueprint, model=other).write(tmp_path, weights(uninterrupted))
    with pytest.raises(ModelError, match=r"do not fit the network that defender.json describes"):
        written.network(tmp_path)


def test_the_step_is_nesterov_descent_as_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(CONFIG, augment=Augment(), ema_decay=0.0, model=replace(CONFIG.model, dropout=0.0))
    dataset = toy(8)
    learner, expected = (Learner(config, dataset, Processes("cpu")) for _ in range(2))
    optimiser = torch.optim.SGD(expected.weights, lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    for each in (learner, expected):
        each.batch.copy_(torch.arange(8))
        each.lr.fill_(0.05)
        for _ in range(5):
            each.step()
        monkeypatch.setattr(learner_module, "descend", lambda *_: optimiser.step())  # for the second one
    for one, other in zip(learner.weights, expected.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_a_sharp_step_takes_the_gradient_uphill(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the weights plus the gradient there, `sharp` long; the weights themselves are where they were."""
    config = replace(CONFIG, augment=Augment(), model=replace(CONFIG.model, dropout=0.0), epochs=10)
    sharp = replace(config, sharp=0.5, sharp_from=0.25)
    assert [sharp.is_sharp(epoch) for epoch in (0, 2, 3, 9)] == [False, False, True, True]
    assert not config.is_sharp(9)
    found: list[list[torch.Tensor]] = []
    plain, uphill, learner = (Learner(each, toy(8), Processes("cpu")) for each in (config, config, sharp))
    learner.begin(0)
    assert learner.begin(3)
    before = [weight.detach().clone() for weight in learner.weights]
    monkeypatch.setattr(
        learner_module, "descend", lambda _config, _lr, _weights, gradients, *_: found.append(gradients)
    )
    for each in (plain, uphill, learner):
        each.batch.copy_(torch.arange(8))
        if each is uphill:
            length = torch.stack([gradient.norm() for gradient in found[0]]).norm()
            with torch.no_grad():
                for weight, gradient in zip(uphill.weights, found[0], strict=True):
                    weight += 0.5 * gradient / length
        each.step()
    for first, expected, gradient in zip(*found, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)
        assert not torch.allclose(gradient, first, rtol=1e-2) or not first.any()
    for weight, old in zip(learner.weights, before, strict=True):
        torch.testing.assert_close(weight.detach(), old)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_recorded_step_on_cuda_is_the_step_itself(precision: str) -> None:
    config = replace(CONFIG, precision=precision, model=replace(CONFIG.model, dropout=0.0))  # type: ignore[arg-type]
    plain, recorded = (Learner(config, toy(), Processes("cuda")) for _ in range(2))
    advance = recorded.recorded()
    for name, tensor in plain.state().items():
        assert torch.equal(tensor, recorded.state()[name]), name
    for step in range(4):
        for learner in (plain, recorded):
            learner.batch.copy_(torch.arange(8) + 8 * step)
            learner.lr.fill_(0.01)
            learner.decay.fill_(0.5)
        plain.step()
        advance()
        for name, tensor in plain.state().items():
            torch.testing.assert_close(recorded.state()[name], tensor, rtol=1e-2, atol=1e-3, msg=name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a CUDA device")
def test_training_on_cuda_records_resumes_and_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_module, "SECONDS_BETWEEN_REPORTS", 0)
    config = replace(CONFIG, epochs=60, augment=Augment())
    assert not train(config, toy(), tmp_path, "cuda", progress=stop_after(7)).finished  # type: ignore[arg-type]
    assert train(config, toy(), tmp_path, "cuda", resume=True).finished
    assert len(log(tmp_path)) == 60
    assert log(tmp_path)[-1]["accuracy"] > 0.7
    with pytest.raises(ModelError, match="device was 'cuda', now 'cpu'"):
        train(config, toy(), tmp_path, "cpu", resume=True)


def test_the_artifact_is_the_moving_average(tmp_path: Path) -> None:
    config = replace(CONFIG, ema_decay=0.5)
    learner = Learner(config, toy(8), Processes("cpu"))
    name = "0.0.weight"
    average = learner.model.state_dict()[name].clone()
    learner.decay.fill_(0.5)
    learner.lr.fill_(0.1)
    for _ in range(3):
        learner.step()
        average = average * 0.5 + learner.model.state_dict()[name] * 0.5
    torch.testing.assert_close(learner.result()[name], average)
    assert not torch.equal(learner.result()[name], learner.model.state_dict()[name])
    plain = Learner(replace(CONFIG, ema_decay=0.0), toy(8), Processes("cpu"))
    assert torch.equal(plain.result()[name], plain.model.state_dict()[name])


def test_each_image_gets_its_own_ablation(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(replace(CONFIG, batch_size=40), toy(), Processes("cpu"))
    seen: list[int] = []
    cut = type(learner.cutter).cut
    monkeypatch.setattr(
        type(learner.cutter), "cut", lambda self, images, k: seen.extend(k.tolist()) or cut(self, images, k)
    )
    learner.step()
    assert len(seen) == 40
    assert set(seen) == set(range(6))


def test_every_epoch_is_shuffled_anew_and_drops_other_images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    orders: list[torch.Tensor] = []
    step = Learner.step
    monkeypatch.setattr(Learner, "step", lambda self: orders.append(self.batch.clone()) or step(self))
    train(CONFIG, toy(), tmp_path)
    epochs = torch.stack(orders).view(4, 40).tolist()
    assert all(len(set(epoch)) == 40 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert len({frozenset(epoch) for epoch in epochs}) > 1


def test_the_learning_rate_follows_its_schedule() -> None:
    cosine = replace(CONFIG, epochs=10, lr=1.0, warmup=2)
    rates = [cosine.learning_rate(step, 10) for step in range(100)]
    assert rates[:2] == pytest.approx([0.05, 0.1])
    assert max(rates) == pytest.approx(1.0)
    assert rates[60] == pytest.approx(0.5)
    assert 0 < rates[99] < 0.001
    steps = replace(CONFIG, epochs=10, lr=1.0, warmup=0, milestones=(3, 6))
    assert [steps.learning_rate(step, 10) for step in (0, 29, 30, 59, 60)] == pytest.approx([1, 1, 0.1, 0.1, 0.01])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs is 1 or more, got 0"),
        ({"momentum": 1.0}, "momentum is at least 0 and less than 1"),
        ({"seed": 10**23}, r"seed is under 2\*\*32, got 1000"),
        ({"threshold": 0.0}, "threshold is above 0 and at most 1, or None; got 0.0"),
        ({"view": "full"}, "'canvas' or 'crop'.* got 'full'"),
        ({"precision": "fp8"}, "'bf16' or 'float32', got 'fp8'"),
    ],
)
def test_senseless_configurations_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        replace(CONFIG, **change)  # type: ignore[arg-type]


def test_checkpoints_every_0_epochs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="checkpoint_every is a whole number of 1 or more, got 0"):
        train(CONFIG, toy(), tmp_path / "run", checkpoint_every=0)


def test_a_second_run_into_the_same_new_folder_is_refused(tmp_path: Path) -> None:
    """The first has written nothing yet by which it could be known."""
    refused: list[str] = []

    def meanwhile(progress: Progress) -> None:
        for resume in (False, True):
            with pytest.raises(ModelError, match="another run is being trained there") as caught:
                train(replace(CONFIG, seed=1), toy(), tmp_path / "run", resume=resume)
            refused.append(str(caught.value))

    train(CONFIG, toy(), tmp_path / "run", progress=meanwhile)
    assert refused
    train(CONFIG, toy(), tmp_path / "alone")
    assert_same_run(tmp_path / "run", tmp_path / "alone")
    with pytest.raises(ModelError, match="already holds a run"):
        train(CONFIG, toy(), tmp_path / "run")


def test_a_killed_run_does_not_keep_its_folder(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, signal, sys
        sys.path.insert(0, sys.argv[1])
        import test_train as t
        def kill(progress):
            if progress.epoch == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        t.train(t.CONFIG, t.toy(), sys.argv[2], checkpoint_every=1, progress=kill)
    """)
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(Path(mc.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    killed = subprocess.run([sys.executable, "-c", script, here, tmp_path / "run"], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert train(CONFIG, toy(), tmp_path / "run", resume=True).finished
    train(CONFIG, toy(), tmp_path / "alone")
    assert_same_run(tmp_path / "run", tmp_path / "alone")


@pytest.mark.parametrize("share", [0.15, 0.55])
def test_a_suited_threshold_is_one_that_the_truth_passes_and_others_do_not(share: float) -> None:
    """Of ten classes the truth has `share` in every view and another one a little less: only between them is a lead."""
    views = torch.tensor([[share, share - 0.1, *[(1.1 - 2 * share) / 8] * 8]]).clamp(min=1e-4)

    def network(views_of: torch.Tensor) -> torch.Tensor:
        return views.log().expand(len(views_of), -1)

    voter = Voter.of(network, Columns(3), "crop", None, image_size=(6, 6), channels=1)
    images = torch.zeros(40, 1, 6, 6, dtype=torch.uint8)
    data = Dataset(images, torch.zeros(40, dtype=torch.int64), tuple("abcdefghij"), "toy", "val")
    chosen = suited_threshold(voter, data, n_views=100)
    scores = network(images).softmax(dim=1)[0]
    assert scores[1:].max() < chosen <= scores[0]


def test_the_threshold_is_chosen_by_validation_images_and_recorded(tmp_path: Path) -> None:
    validation = replace(toy(), split="val")
    config = replace(CONFIG, epochs=20)
    train(config, toy(), tmp_path / "chosen", validation=validation)
    chosen = Blueprint.read(tmp_path / "chosen")
    assert chosen.training["threshold_chosen_by"]["split"] == "val"
    assert chosen.training["threshold_chosen_by"]["images_sha256"] == validation.sha256()
    defender = mc.Defender.load(tmp_path / "chosen")
    assert defender.threshold == chosen.threshold
    expected = suited_threshold(replace(defender.voter, threshold=None), validation, n_views=43)
    assert chosen.threshold == expected
    train(replace(config, threshold=0.45), toy(), tmp_path / "given", validation=validation)
    assert Blueprint.read(tmp_path / "given").threshold == 0.45
    assert "threshold_chosen_by" not in Blueprint.read(tmp_path / "given").training


def test_a_narrow_network_of_long_views_trains_on_a_cpu(tmp_path: Path) -> None:
    """This ended the process: torch's backward pass of a narrow 1x1 convolution with a stride, channels last."""
    images = torch.zeros(4, 3, 224, 224, dtype=torch.uint8)
    data = Dataset(images, torch.arange(4) % 2, ("a", "b"), "tall", "train")
    base = recipe("best", "columns:5", 3, 2)
    config = replace(base, model=replace(base.model, width=8), epochs=1, batch_size=4)
    assert train(config, data, tmp_path).finished


def test_data_that_cannot_be_trained_on_is_refused(tmp_path: Path) -> None:
    alike, unlabelled = replace(toy(), labels=torch.zeros(43, dtype=torch.int64)), replace(toy(), labels=None)
    for dataset in (alike, unlabelled):
        with pytest.raises(DataError, match="training needs labelled images of at least two classes"):
            train(CONFIG, dataset, tmp_path)
    with pytest.raises(ModelError, match="needs a network of 3 input channels and 2 classes, got 3 and 3"):
        train(CONFIG, toy(n_classes=2), tmp_path)
    narrow, strange = replace(toy(), images=toy().images[..., :5]), replace(toy(), class_names=("a", "c", "b"))
    for validation, message in (
        (unlabelled, "validation needs labelled images"),
        (narrow, r"of no use to validate: its image_size is \(6, 5\), not \(6, 6\)"),
        (strange, "its class_names is"),
    ):
        with pytest.raises(DataError, match=message):
            train(CONFIG, toy(), tmp_path, validation=validation)


def test_a_missing_cuda_device_and_an_uneven_team_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ModelError, match="'cuda' was asked for, but torch sees 0 CUDA devices; use 'cpu'"):
        train(CONFIG, toy(), tmp_path, "cuda")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ModelError, match="a batch of 8 cannot be shared evenly by 3 processes"):
        train(CONFIG, toy(), tmp_path)


def test_recipes_fit_their_data() -> None:
    for name, specs, channels in [
        ("digits", DIGITS_STRATEGIES, 1),
        ("paper", PAPER_STRATEGIES, 3),
        ("best", PAPER_STRATEGIES, 3),
        ("small", strategies_of("small"), 3),
        ("undefended", strategies_of("undefended"), 3),
        ("digits", ("masks:2/2",), 1),
        ("masking", ("masks:5/3", "masks:3x7/2"), 3),
        ("masking-best", strategies_of("masking-best"), 3),
        ("bagcert", ("fields:32x5", "fields:5x32/2", "fields:11/2"), 3),
        ("cbn", strategies_of("cbn"), 3),
        ("pg-bn", strategies_of("pg-bn"), 3),
    ]:
        for spec in specs:
            config = recipe(name, spec, channels, 10)
            assert str(config.strategy) == spec
            assert config.model.in_channels == in_channels(config.view, channels)
            assert json.loads(json.dumps(config.to_json()))["strategy"] == spec
    assert not recipe("digits", "columns:2", 1, 10).augment.flip
    with pytest.raises(ModelError, match=r"no recipe 'worst'; use one of bagcert, best, cbn, digits, .*, paper"):
        recipe("worst", "rows:4", 3, 10)
    with pytest.raises(ModelError, match="no recipe 'worst'"):
        strategies_of("worst")


def uniform(n: int) -> torch.Tensor:
    return torch.rand(n, N_RANDOM, generator=torch.Generator().manual_seed(0))


def test_shifts_and_flips_are_what_padding_and_cropping_give() -> None:
    images = toy(20).images.repeat(1, 2, 1, 1)
    index = torch.arange(20).flip(0)
    random = uniform(20)
    assert torch.equal(gathered(images, index, Augment(), random), images[index])
    for fill, mode in (("reflect", "reflect"), ("zero", "constant")):
        got = gathered(images, index, Augment(shift=2, fill=fill, flip=True), random)  # type: ignore[arg-type]
        padded = torch.nn.functional.pad(images.float(), (2, 2, 2, 2), mode=mode)
        seen = set()
        for k in range(20):
            top, left = (int(value * 5) for value in random[k, :2])
            expected = padded[index[k], :, top : top + 6, left : left + 6]
            assert torch.equal(got[k].float(), expected.flip(2) if random[k, 2] < 0.5 else expected)
            seen.add((top, left))
        assert len(seen) > 8


def test_cutmix_shows_a_square_of_the_neighbour_in_so_many_images() -> None:
    images = torch.arange(1.0, 401).view(400, 1, 1, 1).expand(400, 1, 8, 10)
    changed, share = mixed(images, Augment(cutmix=0.5), uniform(400))
    from_other, sides = changed != images, set()
    assert torch.equal(changed[from_other], images.roll(1, dims=0)[from_other])
    for k in range(400):
        assert float(from_other[k].sum()) == pytest.approx(80 * float(share[k]))
        rows, columns = (from_other[k, 0].any(dim=axis) for axis in (1, 0))
        assert int(from_other[k].sum()) == int(rows.sum()) ** 2 == int(columns.sum()) ** 2
        sides.add(int(rows.sum()))
    assert sides == {0, 2, 3, 4, 5}
    assert 170 < int((share > 0).sum()) < 230


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fill": "wrap"}, "'reflect' or 'zero', got 'wrap'"),
        ({"shift": -1}, "0 or more"),
        ({"cutmix": 1.5}, "cutmix is from 0 to 1"),
    ],
)
def test_senseless_augmentations_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Augment(**change)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="a shift of 6 is too large for a 6x6 image"):
        gathered(toy(2).images, torch.arange(2), Augment(shift=6), uniform(2))
