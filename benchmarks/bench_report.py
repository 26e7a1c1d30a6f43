"""How large and how quick the report of 10,000 images is, in Chromium: python benchmarks/bench_report.py

Needs `make browser`. Votes are those of examples/synthetic.py, pictures are textured noise, so that they pack about as
badly as photographs do.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import majorcert as mc  # noqa: E402
from majorcert.reports.contents import Contents  # noqa: E402
from majorcert.reports.page import page as report_page  # noqa: E402
from majorcert.reports.page.overview import overview  # noqa: E402
from synthetic import synthetic_ballots  # noqa: E402 (found through the path above)

N_IMAGES = 10_000
SPECS = ["rows:4", "columns:4", "blocks:12"]
KEYS = ["ArrowRight", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"] * 8

# From the press, as the browser stamps it, until the frame that shows its effect has been drawn.
WATCH_KEYS = """() => {
    window.took = [];
    addEventListener("keydown", ({ timeStamp }) =>
        requestAnimationFrame(() => setTimeout(() => took.push(performance.now() - timeStamp))), true);
}"""
SEARCH = """async (words) => {
    const query = document.getElementById("query");
    const took = [];
    for (const word of words) {
        const start = performance.now();
        query.value = word;
        query.dispatchEvent(new Event("input", { bubbles: true }));
        took.push(performance.now() - start);
        await new Promise((done) => setTimeout(done, 200));
    }
    return took;
}"""
OPEN = """async (numbers) => {
    const shown = document.getElementById("fact-image");
    const took = [];
    for (const number of numbers) {
        const start = performance.now();
        location.hash = `#image=${number}&patch=5x5&at=1,1`;
        while (shown.textContent !== `#${number}`) await new Promise((done) => setTimeout(done, 1));
        took.push(performance.now() - start);
    }
    return took;
}"""


def row(what: str, value: str, bar: str = "") -> None:
    print(f"{what:<70} {value:>28}  {bar}", flush=True)


def spread(milliseconds: list[float]) -> str:
    return f"median {statistics.median(milliseconds):.0f} ms, worst {max(milliseconds):.0f} ms"


def textured(n_images: int) -> np.ndarray:
    """Coarse colours under fine noise, (images, 3, 32, 32)."""
    random = np.random.default_rng(0)
    coarse = random.integers(30, 200, size=(n_images, 3, 4, 4), dtype=np.uint8).repeat(8, axis=2).repeat(8, axis=3)
    return coarse + random.integers(0, 40, size=coarse.shape, dtype=np.uint8)


def write(path: Path) -> None:
    defenders, truth = synthetic_ballots(SPECS, n_images=N_IMAGES)
    contents = Contents(defenders, [mc.Patch(5), mc.Patch(2)], truth=truth, pictures=textured(N_IMAGES))
    start = time.perf_counter()
    numbers = overview(contents)
    certified = time.perf_counter()
    text = report_page(contents, numbers)
    row("certify all that the overview states, two patch sizes and all squares", f"{certified - start:.1f} s")
    row("make the page of it", f"{time.perf_counter() - certified:.1f} s")
    path.write_text(text, encoding="utf-8")
    row("size of the page, three defenders, pictures included", f"{path.stat().st_size / 1e6:.1f} MB", "under 15 MB")


def load(browser: Any, path: Path) -> tuple[Page, float, float]:
    """The page once it answers, the milliseconds until then, and those until something was painted."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    start = time.perf_counter()
    page.goto(path.as_uri())
    page.evaluate("majorcert.ready")
    ready = (time.perf_counter() - start) * 1e3
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")
    return page, ready, painted


def browse(path: Path) -> None:
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), headless=True, args=flags)
        browser.new_page().close()
        loads = [load(browser, path) for _ in range(5)]
        row("load: something is painted", spread([painted for _, _, painted in loads]))
        row("load: gallery and explorer answer", spread([ready for _, ready, _ in loads]), "under 3,000 ms")
        for page, _, _ in loads[:-1]:
            page.close()
        page = loads[-1][0]
        page.evaluate("location.hash = '#image=17&patch=5x5&at=5,5'")
        page.wait_for_timeout(2000)
        page.evaluate(WATCH_KEYS)
        for key in KEYS:
            page.keyboard.press(key)
            page.wait_for_timeout(30)
        row("arrow key: from the press to the drawn frame", spread(page.evaluate("took")), "under 50 ms")
        row("another image, of another block", spread(page.evaluate(OPEN, [5000, 9999, 3, 7000])))
        row("search among all images", spread(page.evaluate(SEARCH, ["class", "17", "truth:3", ""])))
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "report.html")
        browse(Path(folder) / "report.html")
