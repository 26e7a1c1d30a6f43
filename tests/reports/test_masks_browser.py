"""The rows of a masking defender in a real browser: the core's numbers and words, and what is pointed at."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import ASK, Open, told_by_core, until

import majorcert as mc
from majorcert.reports.contents import Contents
from majorcert.reports.page import write_report
from majorcert.reports.page.palette import PALETTE
from majorcert.reports.story import row_sentences, scene
from reports import painted

SIZE, MASKS = (32, 32), mc.Masks(5, stride=3)
KIND: dict[str, Any] = {"masks": MASKS, "image_size": SIZE, "n_classes": 10}
NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "7", "שלום", "</script>"]
DOG, CAT = 5, 3
ACCENT, UNSAFE = "#1c5fb8", "#c24a0a"


def table(*changed: tuple[int, int, int]) -> Any:
    """(100, 100) of one label, with another one under some pairs of masks."""
    labels = np.full((100, 100), DOG)
    for first, second, other in changed:
        labels[first, second] = labels[second, first] = other
    return labels


BROKEN = [(22, 40, CAT), (22, 91, 8), (22, 22, 7), (22, 3, CAT), (77, 77, CAT)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of three images: one that is certified, one with a broken row, and one with rows of all sorts."""
    labels = np.stack([table(), table(*BROKEN), np.where(np.indices((100, 100)).sum(axis=0) % 9 == 0, CAT, DOG)])
    contents = Contents([mc.MaskPairs(labels, **KIND)], [mc.Patch(5)], pictures=painted(3, SIZE, 3), class_names=NAMES)
    write_report(path := tmp_path_factory.mktemp("masks") / "report.html", contents)
    return path


def pairs_of(seed: int, n_images: int, n_classes: int) -> mc.MaskPairs:
    """Tables of one label, with another under some pairs, mostly of one mask; and pairs that nobody looked at."""
    random, masks = np.random.default_rng(seed), mc.Masks(2, 3, stride=2)
    n = masks.n_masks((8, 9))
    labels = np.repeat(random.integers(0, n_classes, (n_images, 1, 1)), n * n, axis=1).reshape(n_images, n, n)
    for image, mask in zip(range(n_images), random.integers(0, n, n_images), strict=True):
        where = random.random(n) < random.choice([0.0, 0.2, 1.0])
        labels[image, mask, where] = labels[image, where, mask] = random.integers(0, n_classes)
    scattered = np.triu(random.random(labels.shape) < 0.01)
    labels[scattered | scattered.transpose(0, 2, 1)] = n_classes - 1
    singles = np.diagonal(labels, axis1=1, axis2=2)[:, :, None]
    mixed = (labels != singles).any(axis=2)
    unseen = mixed[:, None] & mixed[:, :, None] & (labels == singles) & (labels == singles.transpose(0, 2, 1))
    unseen &= ~np.eye(n, dtype=bool) & (random.random((n_images, 1, 1)) < 0.5)
    labels[unseen] = -1
    return mc.MaskPairs(labels, masks=masks, image_size=(8, 9), n_classes=n_classes, provenance={"certify_only": True})


@pytest.mark.parametrize(("seed", "n_images", "n_classes"), [(0, 300, 4), (1, 20, 300), (2, 20, 12)])
def test_rows_are_those_of_the_core(seed: int, n_images: int, n_classes: int, tmp_path: Path, open_page: Open) -> None:
    """Several blocks of images, many classes, pairs that nobody looked at, rows that are and are not of one label."""
    pairs, patch = pairs_of(seed, n_images, n_classes), mc.Patch(2)
    names = [f"class {label}" for label in range(n_classes)]
    write_report(path := tmp_path / "page.html", Contents([pairs], [patch], class_names=names))
    page, seen = open_page(path), set()
    safe = mc.majorcert([pairs], patch).safe
    assert safe is not None
    for image in [*range(0, n_images, max(1, n_images // 20)), n_images - 1]:
        unsafe, scenes, _ = page.evaluate(ASK, [image, "2x2", [[2, 2], [6, 7]]])
        assert unsafe == (~safe[image]).ravel().tolist()
        core = [scene([pairs], patch, image, at) for at in ((2, 2), (6, 7))]
        assert scenes == [told_by_core(told) for told in core]
        rows = [row for told in core for row in told.testimonies[0].told.rows]
        seen |= {(bool(row.dissent), bool(row.n_unseen)) for row in rows}
        page.evaluate(f"location.hash = '#image={image}&patch=2x2&at=2,2'")
        until(page, f"document.getElementById('fact-image').textContent === '#{image}'")
        until(page, "document.getElementById('placement').textContent === 'top 2, left 2'")
        words = page.locator(".row-list li").all_inner_texts()
        assert [_plain(text) for text in words] == row_sentences(core[0].testimonies[0], names)
    assert seen == {(False, False), (True, False), (True, True)}


def _plain(text: str) -> str:
    return text.replace("\u2068", "").replace("\u2069", "")


def _corner(mask: int) -> str:
    starts = [*range(0, 25, 3), 25]
    return f"{starts[mask // 10]},{starts[mask % 10]}"


def _point(page: Any, second: int) -> str:
    """Where the only row has the cell of this second mask; and what is said of it."""
    box = page.locator(".rows").bounding_box()
    page.mouse.move(
        box["x"] + (second % 10 + 0.5) / 10 * box["width"], box["y"] + (second // 10 + 0.5) / 10 * box["height"]
    )
    return _plain(page.locator(".pointed").inner_text())


def test_a_cell_that_is_pointed_at_says_its_masks_and_its_label(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=1&patch=5x5&at=6,6")
    assert page.locator(".pointed").inner_text() == ""
    assert "no vote" not in page.locator("#legend").inner_text()
    assert "theorem" not in page.locator("#fact-verdict").inner_text()
    assert _point(page, 40) == f"Under the masks at 6,6 and {_corner(40)}: cat."
    assert _point(page, 91) == f"Under the masks at 6,6 and {_corner(91)}: “שלום”."
    assert _point(page, 22) == "Under the mask at 6,6 alone: “7”."
    assert _point(page, 99) == "Under the masks at 6,6 and 25,25: dog."
    page.locator("#stage").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".pointed").inner_text() == ""


def test_the_button_goes_through_all_that_dissent(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=1&patch=5x5&at=6,6")
    told = []
    for _ in range(5):
        page.locator(".next-dissent").press("Enter")
        told.append(_plain(page.locator(".pointed").inner_text()))
    others = [f"Under the masks at 6,6 and {_corner(at)}: {name}." for at, name in ((3, "cat"), (40, "cat"))]
    assert told[0] == told[4] == "Under the mask at 6,6 alone: “7”."
    assert told[1:3] == others
    open_at = "location.hash = '#image=0&patch=5x5&at=6,6'"
    page.evaluate(open_at)
    until(page, "document.getElementById('fact-image').textContent === '#0'")
    assert page.locator(".next-dissent").is_disabled()


PIXELS = """([name, places]) => {
    const canvas = document.querySelector(name);
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    const hex = (at) => "#" + [0, 1, 2].map((part) => data[at + part].toString(16).padStart(2, "0")).join("");
    const at = ([y, x]) => Math.floor(y * canvas.height) * canvas.width + Math.floor(x * canvas.width);
    return places.map((place) => hex(4 * at(place)));
}"""
"""The colours of a canvas at places that are shares of its height and width."""


def test_dissent_has_its_colour_where_its_mask_lies(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=1&patch=5x5&at=6,6")
    places = [[(part + 0.2) / 10 for part in divmod(second, 10)] for second in (3, 40, 91, 22, 41, 0)]
    *dissent, next_to_it, elsewhere = page.evaluate(PIXELS, [".rows", places])
    assert dissent == [PALETTE[label] for label in (CAT, CAT, 8, 7)]
    assert next_to_it == elsewhere
    assert elsewhere not in PALETTE


@pytest.mark.parametrize(("image", "colour", "other"), [(0, ACCENT, UNSAFE), (1, UNSAFE, ACCENT)])
def test_covering_masks_are_framed_on_the_image(
    image: int, colour: str, other: str, report: Path, open_page: Open
) -> None:
    page = open_page(report, f"#image={image}&patch=5x5&at=6,6", color_scheme="light")
    page.uncheck("#show-map")
    below, right = ([[13 / 32, x / 96] for x in range(18, 39)], [[y / 96, 13 / 32] for y in range(18, 39)])
    for edge in (below, right):
        seen = page.evaluate(PIXELS, ["#stage", edge])
        assert colour in seen
        assert other not in seen


def test_the_image_shows_what_the_masks_hide(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=1&patch=5x5&at=6,6")
    page.uncheck("#show-map")
    in_first, in_second, in_none = ([y / 32, x / 32] for y, x in ((12.3, 12.3), (16, 4), (20, 20)))
    before = page.evaluate(PIXELS, ["#stage", [in_first, in_second, in_none]])
    _point(page, 40)
    after = page.evaluate(PIXELS, ["#stage", [in_first, in_second, in_none]])
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True]


def test_rows_are_told_in_words_as_well(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=1&patch=5x5&at=6,6")
    expected = "mask at 6,6: not dog under 4 of 100 second masks (“7” alone; cat with 0,9; cat with 12,0; 1 more)"
    assert page.locator(".rows").get_attribute("aria-label") == f"Rows of masks:5/3: {expected}"
    assert [_plain(text) for text in page.locator(".row-list li").all_inner_texts()] == [expected]


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_moving_and_pointing_do_not_move_the_page(width: int, report: Path, open_page: Open) -> None:
    """Whatever the number of masks that cover: from one to nine."""
    page, covering = open_page(report, "#image=2&patch=1x1&at=0,0"), set()
    page.set_viewport_size({"width": width, "height": 900})
    before = page.evaluate("document.documentElement.scrollHeight")
    for _ in range(9):
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        page.locator(".next-dissent").press("Enter")
        covering.add(page.locator(".row-list li").count())
        assert page.evaluate("document.documentElement.scrollHeight") == before
    assert covering >= {1, 4, 9}
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_patch_that_no_mask_covers_has_no_rows(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=0&patch=9x9&at=3,3")
    assert page.locator(".row-list li").count() == 0
    assert page.locator(".next-dissent").is_disabled()
    page.locator(".rows").hover()
    assert page.locator(".pointed").inner_text() == ""


def test_detection_asks_the_first_mask_alone_and_shows_no_rows(tmp_path: Path, open_page: Open) -> None:
    contents = Contents([mc.MaskPairs(table(*BROKEN)[None], **KIND)], [mc.Patch(5)], promise="detection")
    write_report(path := tmp_path / "page.html", contents)
    page = open_page(path, "#image=0&patch=5x5&at=6,6")
    assert page.locator(".masks").count() == 1
    assert page.locator(".rows, .row-list, .next-dissent").count() == 0
    assert page.locator(".reach-list").inner_text() == "class 7"
