"""Networks that are a mean: what they see, what they say, and the defenders made of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner
from views import cut_all

import majorcert as mc
from majorcert.commands.app import app
from majorcert.errors import ModelError
from majorcert.files.photo import Resizing
from majorcert.nets.averaging import averaged
from majorcert.nets.blueprint import Blueprint
from majorcert.nets.defender import Defender
from majorcert.nets.folded import folded
from majorcert.nets.joined import mirrored
from majorcert.nets.models import ModelConfig, average, build, check, check_weights, mirror
from majorcert.nets.views import VIEWS, Cutter, View, in_channels

SIZE = (6, 9)
CONFIG = ModelConfig("resnet", 5, 3, width=4, blocks=(1, 1), strides=(1, 2))


def some_images(n: int = 4) -> Tensor:
    return torch.rand(n, 3, *SIZE, generator=torch.Generator().manual_seed(0))


def run(folder: Path, seed: int = 0, spec: str = "columns:3", **changes: Any) -> Path:
    torch.manual_seed(seed)
    facts: dict[str, Any] = {"image_size": SIZE, "class_names": ["a", "b", "c"], "config": CONFIG, **changes}
    Defender(build(facts["config"]), spec, "crop", 0.4, training={"seed": seed}, **facts).save(folder)
    return folder


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("spec", ["columns:3", "rows:2", "blocks:4", "columns:2/2"])
def test_a_mirrored_view_is_the_view_of_the_mirrored_image(spec: str, view: View) -> None:
    cutter, images = Cutter.of(mc.strategy(spec), view, SIZE), some_images(1)
    mirrors = mirrored(cut_all(cutter, images), crop=view == "crop").flatten(1)
    everywhere = Cutter.of(mc.strategy(spec.split("/")[0]), view, SIZE)
    found = cut_all(everywhere, images.flip(3)).flatten(1)
    apart = (mirrors[:, None] - found[None]).abs().amax(2)
    assert apart.amin(1).max() == 0
    assert apart.argmin(1).unique().numel() == cutter.n_ablations


@pytest.mark.parametrize("view", VIEWS)
def test_a_mirror_is_the_mean_of_both_looks(view: View) -> None:
    member = ModelConfig("small", in_channels(view, 3), 3, width=4)
    model = build(mirror(member, view)).eval()
    views = torch.rand(5, member.in_channels, *SIZE)
    network = model.get_submodule("members.0")
    with torch.no_grad():
        looks = [network(views).softmax(1), network(mirrored(views, crop=view == "crop")).softmax(1)]
        torch.testing.assert_close(model(views).softmax(1), (looks[0] + looks[1]) / 2)
        torch.testing.assert_close(model(mirrored(views, crop=view == "crop")), model(views))
        torch.testing.assert_close(folded(model)(views), model(views), rtol=1e-4, atol=1e-5)
    assert not torch.equal(*looks)


def test_a_mirror_has_one_member_of_its_own_kind() -> None:
    for members in ((), (CONFIG, CONFIG)):
        with pytest.raises(ModelError, match=f"just one, got {len(members)}; `majorcert average` makes them"):
            build(ModelConfig("mirror:crop", 5, 3, members=members))
    with pytest.raises(ModelError, match="expected 5 channels and 4 classes"):
        build(ModelConfig("mirror:crop", 5, 4, members=(CONFIG,)))
    with pytest.raises(ModelError, match="there is no model 'mirror:round'"):
        build(ModelConfig("mirror:round", 5, 3, members=(CONFIG,)))


def test_a_tower_of_mirrors_is_refused() -> None:
    tower = CONFIG
    for _ in range(9):
        tower = mirror(tower, "crop")
    check(tower)
    with pytest.raises(ModelError, match="looks at a view at most 1000 times, got 1024"):
        check(mirror(tower, "crop"))


def test_a_mirror_is_for_the_view_of_its_defender(tmp_path: Path) -> None:
    canvas = ModelConfig("small", 6, 3, width=4)
    for view, config in (("canvas", mirror(canvas, "crop")), ("crop", average((mirror(CONFIG, "canvas"),)))):
        facts: dict[str, Any] = {"image_size": SIZE, "channels": 3, "config": config}
        with pytest.raises(ModelError, match=f"a {view} view is mirrored by 'mirror:{view}'"):
            Defender(build(config), "columns:3", view, 0.3, **facts)  # type: ignore[arg-type]


def test_evidence_says_which_function_of_the_weights_voted() -> None:
    """A mirror of a network, an average of it alone, and other strides: the same weights, other ballots."""
    images, kinds = (
        some_images(),
        [mirror(CONFIG, "crop"), average((CONFIG,)), average((replace(CONFIG, strides=(1, 1)),))],
    )
    found = []
    for kind in kinds:
        torch.manual_seed(0)
        found.append(Defender(build(kind), "columns:3", "crop", 0.3, image_size=SIZE, config=kind).ballots(images))
    assert len({each.provenance["weights_sha256"] for each in found}) == 1
    assert len({each.provenance["network_sha256"] for each in found}) == 3


def test_members_that_are_not_used_do_not_hide_the_weights_of_a_network() -> None:
    large = ModelConfig("small", 5, 3, width=4000, members=(ModelConfig("small", 5, 3, width=1),))
    with pytest.raises(ModelError, match="weights, and the file 10 numbers"):
        check_weights(large, {"a": torch.zeros(10)})


def test_runs_are_averaged_into_one_defender(tmp_path: Path) -> None:
    runs, images = [run(tmp_path / "a", 0), run(tmp_path / "b", 1)], some_images()
    each = [Defender.load(folder) for folder in runs]
    (blueprint,) = averaged(runs, tmp_path / "both")
    both = Defender.load(tmp_path / "both")
    torch.testing.assert_close(
        torch.from_numpy(both.scores(images)),
        torch.from_numpy((each[0].scores(images) + each[1].scores(images)) / 2),
    )
    assert both.threshold == 0.4
    assert blueprint.model == average((CONFIG, CONFIG))
    assert [member["seed"] for member in blueprint.training["members"]] == [0, 1]
    assert [member["weights_sha256"] for member in blueprint.training["members"]] == [
        one.weights_sha256 for one in each
    ]
    averaged(runs, tmp_path / "mirrored", mirrored=True, threshold=0.45)
    again = Defender.load(tmp_path / "mirrored")
    assert again.threshold == 0.45
    # The label of an image and of its mirror image is the same, since every band has its mirror band.
    assert (again.ballots(images).counts() == again.ballots(images.flip(3)).counts()).all()
    assert not (both.scores(images) == both.scores(images.flip(3))).all()
    assert Blueprint.read(tmp_path / "mirrored").model == mirror(average((CONFIG, CONFIG)), "crop")


def ensemble(folder: Path, seed: int, specs: tuple[str, ...] = ("columns:3", "rows:2")) -> Path:
    members = [Defender.load(run(folder / "parts" / spec, seed, spec)) for spec in specs]
    mc.Ensemble(members).save(folder)
    return folder


def test_ensembles_are_averaged_member_by_member(tmp_path: Path) -> None:
    parts, images = [ensemble(tmp_path / "a", 0), ensemble(tmp_path / "b", 1)], some_images()
    blueprints = averaged(parts, tmp_path / "both")
    assert [str(blueprint.strategy) for blueprint in blueprints] == ["columns:3", "rows:2"]
    both, one, other = (mc.Ensemble.load(folder).defenders for folder in (tmp_path / "both", *parts))
    for k in range(2):
        expected = (one[k].scores(images) + other[k].scores(images)) / 2
        torch.testing.assert_close(torch.from_numpy(both[k].scores(images)), torch.from_numpy(expected))
    averaged(parts[:1], tmp_path / "mirrored", mirrored=True)
    assert len(mc.Ensemble.load(tmp_path / "mirrored").defenders) == 2
    half = ensemble(tmp_path / "half", 2)
    (half / "ensemble.json").unlink()
    before = (half / "rows-2" / "weights.safetensors").read_bytes()
    with pytest.raises(ModelError, match="columns-3 already holds a run"):
        averaged(parts, half)
    assert (half / "rows-2" / "weights.safetensors").read_bytes() == before
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "defender.json").touch()
    with pytest.raises(ModelError, match="begun already holds a run"):
        averaged(parts, tmp_path / "begun")
    with pytest.raises(ModelError, match="both already holds a run or an ensemble"):
        averaged(parts, tmp_path / "both")
    with pytest.raises(ModelError, match=r"c has 1 defenders, and .*a has 2"):
        averaged([parts[0], run(tmp_path / "c")], tmp_path / "out")
    with pytest.raises(ModelError, match=r"its strategy is rows:3, and .*rows-2 has rows:2"):
        averaged([parts[0], ensemble(tmp_path / "d", 1, ("columns:3", "rows:3"))], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_only_like_runs_average(tmp_path: Path) -> None:
    one, two = run(tmp_path / "a"), run(tmp_path / "two", 1)
    with pytest.raises(
        ModelError,
        match=r"two runs or more, or of one that is mirrored, has another .* or is kept in fewer bits; got 1",
    ):
        averaged([one], tmp_path / "out")
    with pytest.raises(ModelError, match=r"its strategy is columns:2, and .*a has columns:3; only like runs average"):
        averaged([one, run(tmp_path / "b", spec="columns:2")], tmp_path / "out")
    with pytest.raises(ModelError, match=r"its class_names is .*'x'"):
        averaged([one, run(tmp_path / "c", class_names=["a", "b", "x"])], tmp_path / "out")
    with pytest.raises(ModelError, match=r"there is no folder .*none"):
        averaged([one, tmp_path / "none"], tmp_path / "out")
    for threshold in (0.0, 1.5, float("nan")):
        with pytest.raises(ModelError, match="above 0 and at most 1, got"):
            averaged([one, two], tmp_path / "out", threshold=threshold)
    assert not (tmp_path / "out").exists()
    before = (one / "weights.safetensors").read_bytes()
    with pytest.raises(ModelError, match="a already holds a run or an ensemble"):
        averaged([one, two], one)
    assert (one / "weights.safetensors").read_bytes() == before
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "checkpoint.safetensors").touch()
    with pytest.raises(ModelError, match="begun already holds a run"):
        averaged([one, two], tmp_path / "begun")
    with pytest.raises(ModelError, match="given twice"):
        averaged([one, tmp_path / "two" / ".." / "a"], tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="file: cannot be the folder of a run, it is a file"):
        averaged([one, two], tmp_path / "file")
    averaged([one, two], tmp_path / "mirrored", mirrored=True)
    with pytest.raises(ModelError, match="mirrored is mirrored already"):
        averaged([tmp_path / "mirrored"], tmp_path / "out", mirrored=True)


def test_one_run_may_have_another_threshold(tmp_path: Path) -> None:
    one = run(tmp_path / "a")
    (written,) = averaged([one], tmp_path / "lower", threshold=0.05)
    before, after = Blueprint.read(one), Blueprint.read(tmp_path / "lower")
    assert after == written == replace(before, threshold=0.05, training=after.training)
    images, scores = some_images(), Defender.load(one).scores(some_images())
    ballots = Defender.load(tmp_path / "lower").ballots(images)
    assert (ballots.counts() == (scores >= 0.05).sum(axis=1)).all()
    assert (scores >= 0.05).sum() > (scores >= before.threshold).sum()
    assert ballots.provenance["threshold"] == 0.05


def test_the_command_averages(tmp_path: Path) -> None:
    runs = [str(run(tmp_path / "a", 0)), str(run(tmp_path / "b", 1))]
    said = CliRunner().invoke(app, ["average", *runs, "--mirror", "-o", str(tmp_path / "both"), "--json"])
    assert said.exit_code == 0
    assert json.loads(said.stdout) == {"out": str(tmp_path / "both"), "strategies": ["columns:3"], "networks": 2}
    assert "columns:3: the average of 2 networks, every view also seen in a mirror, in" in said.stderr
    assert [Blueprint.read(tmp_path / "both")] == averaged([Path(one) for one in runs], tmp_path / "c", mirrored=True)
    refused = CliRunner().invoke(app, ["average", runs[0], "-o", str(tmp_path / "one")])
    assert refused.exit_code == 2
    assert "an average is made of two runs or more" in refused.stderr


def test_an_average_of_averages_resizes_photos_as_its_networks_learned(tmp_path: Path) -> None:
    photos = {"fit": "pad", "filter": "bicubic", "channels": 3}
    torch.manual_seed(0)
    about: dict[str, Any] = {"image_size": SIZE, "class_names": ["a", "b", "c"], "config": CONFIG}
    Defender(build(CONFIG), "columns:3", "crop", 0.4, training={"photos": photos}, **about).save(tmp_path / "run")
    averaged([tmp_path / "run"], tmp_path / "once", mirrored=True)
    averaged([tmp_path / "once"], tmp_path / "twice", bits=8)
    resizings = [Defender.load(tmp_path / name).resizing for name in ("run", "once", "twice")]
    assert resizings == [Resizing("pad", "bicubic")] * 3
    Defender(build(CONFIG), "columns:3", "crop", 0.4, training={}, **about).save(tmp_path / "other")
    with pytest.raises(ModelError, match=r"other learned from photos resized in another way than .*run; only like"):
        averaged([tmp_path / "run", tmp_path / "other"], tmp_path / "both")
