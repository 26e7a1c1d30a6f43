"""How hard an attack tries."""

from dataclasses import dataclass

from majorcert.errors import ModelError


@dataclass(frozen=True)
class Effort:
    """How hard the attack tries."""

    restarts: int = 20  # gradient searches at each placement
    steps: int = 40  # of each search
    placements: int = 4  # of each image, at which gradients are used
    probed: int = 16  # placements of each image at which cheap patches are tried
    cheap: int = 20  # cheap patches at each of those
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("restarts", "steps", "placements", "probed", "cheap"):
            if getattr(self, name) < 1:
                raise ModelError(f"an attack has at least 1 of {name}, got {getattr(self, name)}")

    def candidate_steps(self, n_images: int) -> int:
        """The candidates x steps of so many images, if none of them gives way."""
        return n_images * (self.probed * self.cheap + self.placements * self.restarts * (self.steps + 1))
