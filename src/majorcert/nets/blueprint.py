"""The artifact of a training run: RUN/weights.safetensors and RUN/defender.json, which rebuild a defender exactly."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from majorcert.core.threat import ImageSize
from majorcert.errors import MajorcertError, ModelError
from majorcert.errors.checks import checked_size
from majorcert.files.seal import digest
from majorcert.files.untrusted import read_bytes, read_json, reason, typed
from majorcert.nets.compact import restored
from majorcert.nets.folders import DEFENDER, WEIGHTS, check_format, make_folder
from majorcert.nets.hiding import Hiding, check_regions, check_view, n_views, read_hiding
from majorcert.nets.models import CASCADE, ModelConfig, build, check_weights, factories_in, mirrors_in
from majorcert.nets.on_disk import write_json, write_tensors
from majorcert.nets.own import NORMAL, check_allowed
from majorcert.nets.rules import VOTES, check_rule
from majorcert.nets.views import View, in_channels

FORMAT = "majorcert-defender"
MAX_WEIGHTS_BYTES = 2**35


@dataclass(frozen=True)
class Blueprint:
    """What a defender is: its strategy, view, threshold, network and origin; all but the weights themselves."""

    strategy: Hiding
    view: View
    threshold: float | None
    image_size: ImageSize
    channels: int
    class_names: tuple[str, ...]
    model: ModelConfig
    weights_sha256: str = ""
    rule: str = VOTES  # what makes evidence of the scores, as in `rules`
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_view(self.strategy, self.view)
        check_rule(self.rule)
        expected = in_channels(self.view, self.channels), len(self.class_names)
        got = self.model.in_channels, self.model.n_classes
        if got != expected:
            raise ModelError(
                f"a {self.view} view of {self.channels} channels and {len(self.class_names)} classes needs a network "
                f"of {expected[0]} input channels and {expected[1]} classes, got {got[0]} and {got[1]}"
            )
        if self.view in ("masked", "bounds") and self.threshold is not None:
            raise ModelError(
                f"a {self.view} view says its top label, and threshold is None there, got {self.threshold}"
            )
        if (self.view == "bounds") != (self.model.name == "ibp"):
            raise ModelError(f"bounds are of the model 'ibp', and it is of no use elsewhere; got {self.model.name!r}")
        if self.view != "crop" and self.model.name == "vit":
            raise ModelError(f"a 'vit' is for crop views, of which it sees the visible pixels alone, got {self.view!r}")
        if self.view != "masked" and self.model.name.startswith((CASCADE, NORMAL)):
            raise ModelError(f"a cascade, and colours of a network's own, are for masks, got {self.strategy}")
        if mirrors_in(self.model) - {f"mirror:{self.view}"}:
            raise ModelError(f"a {self.view} view is mirrored by 'mirror:{self.view}', got {mirrors_in(self.model)}")
        n_views(self.strategy, checked_size(self.image_size))

    @property
    def network_sha256(self) -> str:
        """Fingerprint of the network's configuration: with that of the weights, it says which function this is."""
        return digest(self.model.to_json())

    def write(self, run_dir: Path, weights: Mapping[str, Tensor]) -> "Blueprint":
        """Write the weights and the blueprint; returns the blueprint with the weights' fingerprint."""
        make_folder(run_dir)
        blueprint = replace(self, weights_sha256=write_tensors(run_dir / WEIGHTS, weights))
        write_json(
            run_dir / DEFENDER,
            {"format": FORMAT, "version": 1, **asdict(blueprint), "strategy": str(blueprint.strategy)},
        )
        return blueprint

    @classmethod
    def read(cls, run_dir: Path) -> "Blueprint":
        """The blueprint in a run directory."""
        path = run_dir / DEFENDER
        try:
            raw = read_json(path)
            check_format(raw, FORMAT)
            facts = typed(raw, _Facts)
            hiding = read_hiding(facts.strategy)
            check_regions(hiding, facts.image_size)
            return cls(**{**vars(facts), "strategy": hiding, "model": ModelConfig.from_json(facts.model)})
        except FileNotFoundError:
            raise ModelError(
                f"{run_dir} holds no trained defender ({DEFENDER} is missing); train it to the end first"
            ) from None
        except (OSError, ValueError, RecursionError, MajorcertError) as error:
            raise ModelError(f"cannot read {path} as a defender: {reason(error)}") from None

    def network(self, run_dir: Path, allowed: Sequence[str] = ()) -> nn.Module:
        """The network with its weights, in eval mode on the CPU; the weights must be those it is about.

        Args:
            allowed: as for `build`.
        """
        path = run_dir / WEIGHTS
        for factory in factories_in(self.model):
            check_allowed(factory, allowed)
        try:
            content = read_bytes(path, MAX_WEIGHTS_BYTES)
        except (OSError, ValueError) as error:
            raise ModelError(f"cannot read {path}: {reason(error)}; it belongs beside {DEFENDER}") from None
        if hashlib.sha256(content).hexdigest() != self.weights_sha256:
            raise ModelError(
                f"{path} is not the file that {DEFENDER} is about (SHA-256 differs); restore it or train again"
            )
        try:
            kept = load(content)
            check_weights(self.model, kept)
            network = build(self.model, allowed)
            weights = restored(kept)
            _check_numbers(network, weights)
            network.load_state_dict(weights)
        except (ModelError, SafetensorError, RuntimeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelError(
                f"the weights in {path} do not fit the network that {DEFENDER} describes: {reason(error)}"
            ) from None
        return network.eval()


def _check_numbers(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Refuse whole numbers in place of fractions and the other way round, which torch would convert silently."""
    for name, own in dict[str, Any](network.state_dict()).items():
        kept = weights.get(name)
        if isinstance(own, Tensor) and kept is not None and own.is_floating_point() != kept.is_floating_point():
            raise ModelError(f"{name!r} is of {kept.dtype}, where the network has {own.dtype}")


@dataclass(frozen=True)
class _Facts:
    """What defender.json says, each of its own kind."""

    strategy: str
    view: str
    threshold: float | None
    image_size: tuple[int, int]
    channels: int
    class_names: tuple[str, ...]
    model: dict[str, Any]
    weights_sha256: str
    training: dict[str, Any]
    rule: str = VOTES
