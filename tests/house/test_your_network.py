"""The code of docs/your-network.md, as a reader would run it, with a network that is quick."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import majorcert as mc
from majorcert.nets.data import Dataset

PAGE = Path(__file__).parents[2] / "docs" / "your-network.md"
SOURCE = """
import torch
from torch import nn
def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.AvgPool2d(56), nn.Flatten(), nn.Linear(48, 2))
"""


@pytest.mark.slow
def test_the_code_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_nets.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    from my_nets import make  # type: ignore[import-not-found]

    network: nn.Module = make()
    rng = np.random.default_rng(0)
    labels = np.arange(4) % 2
    images = (rng.integers(0, 100, size=(4, 224, 224, 3)) + 100 * labels[:, None, None, None]).astype(np.uint8)
    held = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    data = Dataset(held, torch.from_numpy(labels), ("dark", "light"), "shades", "train")
    known: dict[str, Any] = {"network": network, "images": images[:1], "data": data}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, known)
    assert str(known["guarded"].strategy) == "masks:32/33"
    assert len(known["verdict"]) == 1
    assert isinstance(known["tuned"], mc.Ensemble)
