"""A small vision transformer for crop views: a token for every few visible pixels, and none for hidden ones.

As in Smoothed ViT, a view costs what it shows. Tokens are cut from the crop, wherever it lies, and carry the place of
their pixels in the image, so a band may begin at any pixel and cross the seam.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that every user of torch knows)

from majorcert.errors import ModelError

HEAD = 32
"""Numbers of a token that one attention head looks at."""
OCTAVES = 5
"""A place is told by sines and cosines of so many frequencies, each twice the one before."""


class VisionTransformer(nn.Module):
    """Blocks of attention and of two linear layers over the tokens of a view, and the mean of what comes out."""

    def __init__(
        self, in_channels: int, n_classes: int, width: int = 192, depth: int = 8, side: int = 2, dropout: float = 0.0
    ) -> None:
        """Args: in_channels: colours and the two coordinates of a crop; side: of a token, in pixels."""
        super().__init__()
        if width % HEAD or in_channels < 3 or side < 1:
            raise ModelError(
                f"a transformer's width is a multiple of {HEAD}, and a crop has colours and two coordinates; "
                f"got width {width} and {in_channels} channels"
            )
        self.side = side
        self.pixels = nn.Linear(in_channels * side**2, width)
        self.places = nn.Linear(4 * OCTAVES, width)
        self.blocks = nn.Sequential(*(Block(width, dropout) for _ in range(depth)))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, n_classes))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, views: Tensor) -> Tensor:
        tokens = self.tokens(views)
        corner = tokens.view(len(views), tokens.shape[1], views.shape[1], -1)[:, :, -2:, 0]
        features = self.blocks(self.pixels(tokens) + self.places(waves(corner)))
        logits: Tensor = self.last(features.mean(dim=1))
        return logits

    def tokens(self, views: Tensor) -> Tensor:
        """(views, tokens, channels x side x side): the pixels of each token; past the last pixel there are zeros."""
        height, width = views.shape[2:]
        full = F.pad(views, (0, -width % self.side, 0, -height % self.side))
        return F.pixel_unshuffle(full, self.side).flatten(2).transpose(1, 2)


class Block(nn.Module):
    """What a token takes from the others, and what it makes of it."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asks, self.takes = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.thinks = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        heads = self.asks(self.before(tokens)).unflatten(2, (3, -1, HEAD)).permute(2, 0, 3, 1, 4)
        taken = F.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        tokens = tokens + self.dropout(self.takes(taken.transpose(1, 2).flatten(2)))
        return tokens + self.dropout(self.thinks(self.between(tokens)))


def waves(places: Tensor) -> Tensor:
    """(..., 4 * OCTAVES): sines and cosines of (..., 2) coordinates from -1 to 1."""
    frequency = math.pi / 2 * 2.0 ** torch.arange(OCTAVES, device=places.device, dtype=places.dtype)
    angles = (places[..., None] * frequency).flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
