"""What each cell of a map really sees: found out by a network's own arithmetic, before it may vote.

Whatever is computed from a number that is none (NaN) is none either, even if it is multiplied by zero. So of an image
with such numbers in one row, just those cells stay numbers that do not look at this row. Other rows are tried as well
(the negative, black, white), and must leave the same cells as they are to the last bit, by the very kernels that vote.
"""

import torch
from torch import Tensor

from majorcert.core.regions import Strategy
from majorcert.core.threat import ImageSize
from majorcert.errors import ModelError
from majorcert.nets.ambient import settled
from majorcert.nets.company import odd_views
from majorcert.nets.scorer import Scorer


def check_sight(scorer: Scorer, strategy: Strategy, image_size: ImageSize) -> None:
    """Refuse a network of which a cell sees a pixel outside of its field, on this device and in this precision.

    A field is a run of rows times a run of columns. A pixel outside of it is in a row or in a column that is outside,
    and the cell was found to depend on none of such a row or column. Fast convolutions that mix neighbouring outputs
    (Winograd's, Fourier's) are found out as well: there a pixel moves cells by rounding that do not look at it.
    """
    rows, columns = (torch.from_numpy(runs) for runs in strategy.visible(image_size))
    black, white, *_, noise = odd_views(scorer.shape)
    for what, sees, across in (("row", rows, columns), ("column", columns, rows)):
        views = noise.repeat(sees.shape[1], 1, 1, 1)
        before = _said(scorer, views, noise)
        hit = torch.zeros(len(views), len(rows), len(columns), dtype=torch.bool)
        for other in (torch.full_like(noise, torch.nan), 1 - noise, black, white):
            changed = views.clone()
            for line, view in enumerate(changed):
                place = (slice(None), line) if what == "row" else (..., line)
                view[place] = other[place]
            hit |= (before != _said(scorer, changed, noise)).any(dim=1)
        strange = (hit if what == "row" else hit.transpose(1, 2)) & ~sees.T[:, :, None].expand(-1, -1, len(across))
        if strange.any():
            line, cell, _ = strange.nonzero()[0].tolist()
            raise ModelError(
                f"{strategy}: cell {cell} of the map looks at {what} {line} of the image, outside of its field; the "
                f"network sees more than it should, or its arithmetic mixes cells ({scorer.precision}, "
                f"{scorer.device.type}): use the strategy that fits the network, or another precision"
            )


def _said(scorer: Scorer, views: Tensor, rest: Tensor) -> Tensor:
    """(views, classes, rows, columns) what the network says of views, each at a place of its own in a tile."""
    found = []
    with settled(scorer.device):
        for some in views.split(scorer.tile):  # type: ignore[no-untyped-call]
            tile = torch.cat([some, rest.expand(scorer.tile - len(some), -1, -1, -1)])
            found.append(scorer.logits(tile.to(scorer.device, scorer.dtype)).cpu())
    return torch.cat(found)[: len(views)]
