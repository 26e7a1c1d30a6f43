"""Networks are rebuilt exactly from configuration and weights, and work on the smallest windows."""

import json
import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from majorcert.errors import ModelError
from majorcert.nets.folded import folded
from majorcert.nets.models import ModelConfig, average, build, check_named, n_weights, small
from majorcert.nets.resnet import resnet

TINY = ModelConfig("resnet", 5, 3, width=4, blocks=(1, 1), strides=(1, 2))


def random_views(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("window", [(4, 32), (32, 4), (12, 12), (1, 1), (2, 5)])
def test_the_resnet_works_on_small_windows(window: tuple[int, int]) -> None:
    logits = resnet(5, 10, width=4).eval()(random_views(2, 5, *window))
    assert logits.shape == (2, 10)
    assert logits.isfinite().all()


def test_the_default_has_the_shape_of_resnet_18() -> None:
    model = resnet(3, 10)
    assert sum(isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3) for m in model.modules()) == 17
    assert sum(p.numel() for p in model.parameters()) == 11_173_962


@pytest.mark.parametrize(("strides", "expected"), [((1, 2, 2), (1, 8)), ((1, (1, 2), (2, 1)), (2, 16))])
def test_strides_may_differ_down_and_across(
    strides: tuple[int | tuple[int, int], ...], expected: tuple[int, int]
) -> None:
    model = resnet(1, 2, width=2, blocks=(1, 1, 1), strides=strides)
    assert isinstance(model, nn.Sequential)
    assert model[:4](random_views(1, 1, 4, 32)).shape[2:] == expected


def test_the_large_stem_divides_by_four() -> None:
    model = resnet(3, 2, width=2, blocks=(1,), strides=(1,), stem="7x7")
    assert isinstance(model, nn.Sequential)
    assert model[0](random_views(1, 3, 64, 32)).shape == (1, 2, 16, 8)


@pytest.mark.parametrize("window", [(3, 8), (1, 1), (4, 4)])
def test_the_small_network_works_on_tiny_windows(window: tuple[int, int]) -> None:
    assert small(3, 10, width=4).eval()(random_views(2, 3, *window)).shape == (2, 10)


@pytest.mark.parametrize("config", [TINY, ModelConfig("small", 5, 3, width=4), average((TINY, TINY))])
def test_configuration_and_weights_rebuild_a_network(config: ModelConfig) -> None:
    model = build(config).eval()
    again = ModelConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    rebuilt = build(again).eval()
    views = random_views(3, 5, 4, 6)
    assert not torch.equal(rebuilt(views), model(views))
    rebuilt.load_state_dict(model.state_dict())
    assert torch.equal(rebuilt(views), model(views))


def test_pairs_of_strides_survive_json() -> None:
    config = ModelConfig("resnet", 5, 3, blocks=(1, 1), strides=(1, (1, 2)))
    assert ModelConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_an_average_is_the_mean_of_the_probabilities() -> None:
    model = build(average((TINY, ModelConfig("small", 5, 3, width=4)))).eval()
    views = random_views(4, 5, 4, 6)
    with torch.no_grad():
        expected = torch.stack([member(views).softmax(1) for member in model.get_submodule("members").children()]).mean(
            0
        )
        torch.testing.assert_close(model(views).softmax(1), expected)
        torch.testing.assert_close(model(views).exp().sum(1), torch.ones(4))


@pytest.mark.parametrize("config", [TINY, ModelConfig("small", 5, 3, width=4), average((TINY, TINY))])
def test_folding_keeps_the_function_and_the_original(config: ModelConfig) -> None:
    model = build(config)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 2)
            nn.init.normal_(module.bias)
            assert module.running_mean is not None
            nn.init.normal_(module.running_mean)
    model.eval()
    views = random_views(3, 5, 4, 6)
    before = model(views)
    lean = folded(model)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in lean.modules())
    torch.testing.assert_close(lean(views), before, rtol=1e-4, atol=1e-5)
    assert torch.equal(model(views), before)
    with torch.no_grad():
        torch.testing.assert_close(lean(views), before, rtol=1e-4, atol=1e-5)


class Rectified(nn.BatchNorm2d):
    """As timm's `BatchNormAct2d`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input).relu()


class Halved(nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) / 2


@pytest.mark.parametrize("parts", [(nn.Conv2d(3, 4, 3), Rectified(4)), (Halved(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())])
def test_what_only_derives_from_a_convolution_or_a_normalisation_is_not_folded(parts: tuple[nn.Module, ...]) -> None:
    model, views = nn.Sequential(*parts).eval(), random_views(3, 3, 5, 6)
    assert torch.equal(folded(model)(views), model(views))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_kernel_or_three_give_the_same_on_cuda(dtype: torch.dtype) -> None:
    """Without gradients convolution, shortcut and ReLU are one kernel; with gradients they are three."""
    lean = folded(build(ModelConfig("resnet", 5, 3, width=8))).to("cuda", dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
    views = random_views(16, 5, 12, 12).to("cuda", dtype).contiguous(memory_format=torch.channels_last)
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        three = lean(views)
        with torch.inference_mode():
            one = lean(views)
    assert three.requires_grad
    assert not one.requires_grad
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(one, three, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ModelConfig("vgg", 3, 10), "no model 'vgg'; use 'resnet'"),
        (ModelConfig("resnet", 0, 10), "at least 1, got"),
        (ModelConfig("resnet", 3, 10, blocks=(1, 1)), "one stride in each stage"),
        (ModelConfig("resnet", 3, 10, stem="5x5"), "'3x3' or '7x7', got '5x5'"),
        (ModelConfig("average", 3, 10), "at least one member"),
        (ModelConfig("average", 5, 10, members=(TINY,)), "expected 5 channels and 10 classes, got 5 and 3"),
    ],
)
def test_senseless_configurations_are_refused(config: ModelConfig, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build(config)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"name": "small"}, "cannot read the model configuration"),
        ({"name": "small", "in_channels": 1, "n_classes": 2, "depth": 3}, r"unknown fields \['depth'\]"),
        ({"name": "resnet", "in_channels": 1, "n_classes": 2, "blocks": "ab"}, "cannot read the model configuration"),
        ({"name": "resnet", "in_channels": 1, "n_classes": 2, "members": [1]}, "members"),
    ],
)
def test_unreadable_configurations_are_refused(raw: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        ModelConfig.from_json(raw)


def test_a_missing_timm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(
        ModelError, match=r"timm:vit_tiny needs the timm package .*pip install 'majorcert\[timm\]' brings it"
    ):
        build(ModelConfig("timm:vit_tiny", 3, 10))


@pytest.mark.parametrize("name", ["local-dir:/etc", "hf-hub:who/what", "../x", "/x", "a b", "", "http://x/y"])
def test_names_from_files_never_become_paths_or_requests(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = ModuleType("timm")
    monkeypatch.setattr(stand_in, "create_model", lambda *args, **options: pytest.fail("timm was asked"), raising=False)
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    with pytest.raises(ModelError, match="plain name of an architecture"):
        build(ModelConfig(f"timm:{name}", 3, 10))


def test_networks_of_timm_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, **options: object) -> nn.Module:
        if name == "shy":  # as some of timm, it looks at a number that has no memory
            torch.zeros(1).item()
        return nn.Linear(10**6, 10**6)

    stand_in = ModuleType("timm")
    monkeypatch.setattr(stand_in, "create_model", create_model, raising=False)
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    assert n_weights(ModelConfig("timm:huge", 3, 10)) == 10**12 + 10**6
    assert n_weights(ModelConfig("timm:shy", 3, 10)) == 0


def test_counting_weights_draws_no_random_numbers() -> None:
    before = torch.get_rng_state()
    assert n_weights(TINY) == sum(weight.numel() for weight in build(TINY).parameters())
    torch.set_rng_state(before)
    n_weights(ModelConfig("resnet", 5, 3, width=10**6))
    assert torch.equal(torch.get_rng_state(), before)


def test_timm_is_asked_for_the_right_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, *, pretrained: bool, in_chans: int, num_classes: int, drop_rate: float) -> nn.Module:
        if name != "known":
            raise RuntimeError(f"Unknown model ({name})")
        assert not pretrained
        return small(in_chans, num_classes, 2)

    stand_in = ModuleType("timm")
    monkeypatch.setattr(stand_in, "create_model", create_model, raising=False)
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    assert build(ModelConfig("timm:known", 3, 7)).eval()(random_views(2, 3, 8, 8)).shape == (2, 7)
    with pytest.raises(ModelError, match="timm cannot build 'other': Unknown model"):
        build(ModelConfig("timm:other", 3, 7))
    with pytest.raises(ModelError, match="timm cannot build 'other'"):
        check_named("timm:other")
