"""The second round of double masking, as an attacker sees it: rows that overrule a plurality which he has changed.

The rows of masks that cover the patch stay as they are. All others show some of it; but where a mask hides most of the
patch, its row may still say nothing but the label of the clean image. Then it decides, and nothing is won.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from majorcert.core.threat import Patch
from majorcert.defences.masking import MaskPairs

SOME_ROWS = 4
"""So many rows are to be broken: of the masks that hide the most of the patch without covering it."""


@dataclass(frozen=True, eq=False)
class SecondRound:
    """For some images, which rows are to be broken, and by which pairs of masks."""

    covering: Tensor  # (placement rows, placement columns, masks) does this mask hide the whole patch?
    partly: Tensor  # (placement rows, placement columns, some) the masks that hide the most of it, but not all
    broken: Tensor  # (images, masks, masks) the pairs that do not say the label of the clean image, before any patch

    @classmethod
    def of(cls, pairs: MaskPairs, patch: Patch, device: torch.device) -> "SecondRound":
        covering = torch.from_numpy(pairs.masks.covering(patch, pairs.image_size))
        hidden = torch.from_numpy(pairs.masks.hidden(pairs.image_size)).float()
        share = avg_pool2d(hidden[:, None], (patch.height, patch.width), stride=1)[:, 0].permute(1, 2, 0)
        partly = share.masked_fill(covering, -1).argsort(dim=2, descending=True, stable=True)[:, :, :SOME_ROWS]
        broken = torch.from_numpy(pairs.table() != pairs.label[:, None, None])
        return cls(covering.to(device), partly.to(device), broken.to(device))

    def pairs(self, image: Tensor, top: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        """(N, some) a pair of masks for each row, as first times the number of masks plus second; and (N, some) whether
        the row overrules as long as this pair says the label of the clean image.

        The second mask breaks the row of one that covers the patch: it hides what speaks for the label.
        """
        covers, first = self.covering[top, left], self.partly[top, left]
        breaks = self.broken[image, covers.int().argmax(dim=1)] & ~covers
        unanimous = ~self.broken[image[:, None], first].any(dim=2)
        return first * covers.shape[1] + breaks.int().argmax(dim=1, keepdim=True), unanimous
