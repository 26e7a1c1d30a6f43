"""A browser for the tests of the page; they are skipped where there is none."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Open

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: run `make browser`")
    if (program := shutil.which("chromium")) is None:
        pytest.skip("browser tests need Chromium: run `make browser`")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, headless=True, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Open]:
    """Opens a report and, at the end, insists that nothing went wrong in it and nothing was fetched."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    complaints: list[str] = []

    def show(path: Path, fragment: str = "", **media: Any) -> Any:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: complaints.append(request.url) if _leaves(request.url) else None)
        page.emulate_media(**media)
        page.goto(path.as_uri() + fragment)
        assert page.evaluate("window.majorcert.ready")
        return page

    yield show
    context.close()
    assert complaints == []


def _leaves(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))
