"""The code of the README, and the commands and the code of the quickstart, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import majorcert as mc

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "docs" / "quickstart.md"
QUICK = "--size 24x32 --width 4 --epochs 2 --batch-size 8 --device cpu"
"""What is added to the training command, which is made for more photos and more time."""
GIVEN = """
import numpy as np, torch
import majorcert as mc
names, images = ["cat", "dog"], np.zeros((2, 32, 32, 3), dtype=np.uint8)
my_network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(5 * 32 * 4, 2))
my_other_network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6 * 32 * 32, 2))
"""
"""What the last block takes for granted."""


def photographs(folder: Path) -> None:
    """Mixed photos: the first file is a small grey one, and kinds and sizes change from file to file."""
    rng, endings = np.random.default_rng(0), ("png", "jpg", "webp", "ppm", "bmp", "tif")
    for part, n_images in (("train", 12), ("test", 3)):
        for label, name in enumerate(("cat", "dog")):
            (folder / "photos" / part / name).mkdir(parents=True)
            for k in range(n_images):
                size = (40, 50, 3) if k % 3 else (60, 45, 3)
                pixels = (rng.integers(0, 128, size=size) + 127 * label).astype(np.uint8)
                image = Image.fromarray(pixels[:9, :9, 0] if k == label == 0 and part == "train" else pixels)
                image.save(folder / "photos" / part / name / f"{k:02d}.{endings[k % len(endings)]}")
    Image.open(folder / "photos" / "test" / "cat" / "00.png").save(folder / "cat.jpg")


def test_the_code_of_the_readme_works() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    bundled, own_votes = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    rng = np.random.default_rng(0)
    given = {
        "images": rng.integers(0, 256, size=(2, 32, 32, 3), dtype=np.uint8),
        "row_labels": rng.integers(0, 10, size=(2, 32)),
        "column_scores": rng.dirichlet(np.ones(10), size=(2, 32)),
    }
    exec(f"{bundled}\n{own_votes}", given)
    assert len(given["verdict"].predicted) == 2


def test_the_quickstart_works(tmp_path: Path) -> None:
    photographs(tmp_path)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", QUICKSTART.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "python", "python", "python"]
    commands, conversions, ten_lines, own_network = (code for _, code in blocks)
    assert len(commands.splitlines()) == 5
    assert len(ten_lines.splitlines()) <= 10
    commands = commands.replace("--out runs\n", f"--out runs {QUICK}\n")
    assert QUICK in commands
    program = f"{sys.executable} -m majorcert "
    script = re.sub("^majorcert ", lambda _: program, commands, flags=re.MULTILINE)
    environment = {**os.environ, "PYTHONPATH": str(Path(mc.__file__).parents[1]), "OMP_NUM_THREADS": "1"}

    def run(*command: str) -> str:
        found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
        return found.stdout

    run("bash", "-ec", script)
    assert len(list((tmp_path / "verdicts").glob("*.jsonl"))) == 3
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "decoded photos after they were resized to 24x32; of the pixels of every photo" in page
    assert "is not covered" in page
    said = run(sys.executable, "-c", ten_lines).splitlines()
    assert all(re.fullmatch(r"(cat|dog) (not )?certified", line) for line in said[:-1])
    assert re.match(r"Score\(clean=.* n=6\)", said[-1])
    assert len(said) == 7
    run(sys.executable, "-c", f"{GIVEN}\n{conversions}\n{own_network}")
