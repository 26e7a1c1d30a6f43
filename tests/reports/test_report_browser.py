"""The page in a real browser: its numbers are the core's, its keys and links work, it asks nothing of the network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import ASK, Open, told_by_core, until
from cases import draw_case

import majorcert as mc
from majorcert.reports.contents import Contents
from majorcert.reports.page import write_report
from majorcert.reports.promises import promised
from majorcert.reports.story import scene, sentence
from reports import ReachOnly, coherent_ballots, every_kind, painted

SIZE = (12, 12)
SPECS = ["rows:2", "columns:3", "blocks:4"]
NAMES = [
    "plain",
    "<script>alert(1)</script>",
    "quo\"te's",
    "& amp;",
    "🦊 fox",
    "שלום",
    "</script>",
    "3",
    "a b",
    "truck",
]


@pytest.fixture(scope="module")
def evidence() -> tuple[list[mc.Ballots], Any]:
    return coherent_ballots(SPECS, n_images=120, image_size=SIZE)


@pytest.fixture(scope="module")
def report(evidence: tuple[list[mc.Ballots], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    defenders, truth = evidence
    path = tmp_path_factory.mktemp("report") / "report.html"
    pictures = painted(len(truth), SIZE, 3)
    patches = [mc.Patch(3), mc.Patch(2), mc.Patch(2, 5)]
    write_report(path, Contents(defenders, patches, truth=truth, pictures=pictures, class_names=NAMES))
    return path


@pytest.mark.parametrize("seed", range(10))
def test_numbers_and_words_are_those_of_the_core(seed: int, tmp_path: Path, open_page: Open) -> None:
    """1 to 5 defenders, any strides, ballots of several labels and of none, defenders that do not vote, any patch."""
    n_classes = [2, 4, 7, 300][seed % 4]
    drawn = min(n_classes, 7)
    case = draw_case(seed, n_classes=drawn, n_defenders=1 + seed % 5, image_sizes=[(5, 7), (8, 6)], n_images=6)
    defenders: list[Any] = [
        mc.Ballots(ballots.labels, strategy=ballots.strategy, image_size=ballots.image_size, n_classes=n_classes)
        for ballots in case.ballots()
    ]
    voting = seed % 3 != 0
    if not voting:
        defenders[0] = ReachOnly(defenders[0])
    patches = [mc.Patch(*case.patch), mc.Patch(1), mc.Patch(3, 2)]
    names = [f"{label}" if label % 2 else "abcdef"[label % 6] * label or "zero" for label in range(n_classes)]
    write_report(path := tmp_path / "page.html", Contents(defenders, patches, class_names=names))
    page = open_page(path)
    random = np.random.default_rng(seed)
    for patch in [*patches, *([mc.Patch(2)] if voting else [])]:
        verdict = mc.majorcert(defenders, patch)
        for image in range(case.n_images):
            safe = verdict.safe[image]
            picks = {(int(random.integers(safe.shape[0])), int(random.integers(safe.shape[1]))) for _ in range(3)}
            if (witness := verdict.witness(image)) is not None:
                picks.add(witness.placement)
            placements = sorted(picks)
            unsafe, scenes, words = page.evaluate(ASK, [image, str(patch), placements])
            assert unsafe == (~safe).ravel().tolist()
            core = [scene(defenders, patch, image, placement) for placement in placements]
            assert scenes == [told_by_core(told) for told in core]
            assert words == [sentence(told, names) for told in core]


@pytest.mark.parametrize("picked", [(0,), (1,), (2,), (3,), (0, 3), (0, 1, 2, 3)])
def test_every_kind_and_shape_is_shown_as_the_core_judges_it(
    picked: tuple[int, ...], tmp_path: Path, open_page: Open
) -> None:
    defenders = [every_kind(12)[place] for place in picked]
    patches = [mc.Patch(2), mc.Patch(3, 1)]
    contents = Contents(defenders, patches, class_names=["a", "b", "c"])
    write_report(path := tmp_path / "page.html", contents)
    page = open_page(path)
    seen = set()
    for patch in [*patches, *([mc.Patch(1, 3)] if set(picked) <= {0, 3} else [])]:
        verdict = mc.majorcert(defenders, patch)
        seen |= set(verdict.certified.tolist())
        for image in range(12):
            unsafe, scenes, _ = page.evaluate(ASK, [image, str(patch), [[1, 2], [0, 0]]])
            assert unsafe == (~verdict.safe[image]).ravel().tolist()
            assert scenes == [told_by_core(scene(defenders, patch, image, at)) for at in ((1, 2), (0, 0))]
    assert seen == {True, False}
    page.locator("#stage").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("article.defender canvas").count() == picked.count(0) + 2 * picked.count(3)


@pytest.mark.parametrize("picked", [(0,), (2,), (3,), (0, 2, 3)])
def test_what_is_left_without_each_placement_is_what_the_core_says(
    picked: tuple[int, ...], tmp_path: Path, open_page: Open
) -> None:
    """Ballots, a pool that is known by its sets alone, and masks: numbers, words and the claim of detection."""
    defenders, patches = [every_kind(12)[place] for place in picked], [mc.Patch(2), mc.Patch(4)]
    names = ["a", "b", "c"]
    contents = Contents(defenders, patches, class_names=names, promise="detection")
    write_report(path := tmp_path / "page.html", contents)
    page, seen = open_page(path), set()
    for patch in patches:
        verdict = mc.detect(defenders, patch)
        seen |= set(verdict.alert.tolist())
        for image in range(12):
            unsafe, scenes, words = page.evaluate(ASK, [image, str(patch), [[1, 2], [0, 0]]])
            assert unsafe == (~verdict.safe[image]).ravel().tolist()
            core = [scene(defenders, patch, image, at, promised("detection")) for at in ((1, 2), (0, 0))]
            assert scenes == [told_by_core(told) for told in core]
            assert words == [sentence(told, names) for told in core]
    assert seen == {True, False}
    assert "without an alert" in page.locator("h1.claim").first.inner_text()
    assert "promise of detection" in page.locator(".prose").inner_text()
    n_alerts = int(mc.detect(defenders, patches[0]).alert.sum())
    assert page.locator(".badge.open").count() == n_alerts
    assert all("alert" in text for text in page.locator(".badge").all_inner_texts())
    assert page.locator("#fact-largest").count() == 0


@pytest.mark.parametrize("pooled", [False, True])
def test_with_a_slack_some_images_are_silent_and_not_certified(pooled: bool, tmp_path: Path, open_page: Open) -> None:
    """Of ballots, which the page counts itself, and of a pool, whose sets it is given: as the core says."""
    (cross, _, pool, _), patch, names = every_kind(12), mc.Patch(3), ["a", "b", "c"]
    defenders, slack = ([pool], 20) if pooled else ([cross], 2)
    contents = Contents(defenders, [patch], class_names=names, promise="detection", slack=slack)
    write_report(path := tmp_path / "page.html", contents)
    page, verdict, seen = open_page(path), mc.detect(defenders, patch, slack=slack), set()
    silent = ~verdict.alert & ~verdict.certified
    assert min(silent.sum(), verdict.alert.sum(), verdict.certified.sum()) > 0
    for image in range(12):
        placements = np.argwhere(~verdict.safe[image])[::3].tolist() or [[1, 2]]
        unsafe, scenes, words = page.evaluate(ASK, [image, str(patch), placements])
        assert unsafe == (~verdict.safe[image]).ravel().tolist()
        core = [scene(defenders, patch, image, tuple(at), promised("detection", slack)) for at in placements]
        assert scenes == [told_by_core(told) for told in core]
        assert words == [sentence(told, names) for told in core]
        seen |= {(told.safe, told.alert) for told in core}
    assert seen == {(True, False), (False, True), (False, False)}
    badges = page.locator(".badge").all_inner_texts()
    assert [text.startswith("alert") for text in badges] == verdict.alert.tolist()
    assert [text == "no alert" for text in badges] == verdict.certified.tolist()
    for image in (int(chosen.argmax()) for chosen in (silent, verdict.alert, verdict.certified)):
        page.evaluate(f"location.hash = '#image={image}&patch=3x3'")
        until(page, f"document.getElementById('fact-image').textContent === '#{image}'")
        said = page.locator("#fact-verdict").inner_text()
        assert said.startswith("alert" if verdict.alert[image] else "no alert")
        assert ("not certified" in said) != verdict.certified[image]
    assert f"a slack of {slack} more" in page.locator(".prose").inner_text()


def test_votes_of_a_larger_ensemble_are_those_of_the_core(
    evidence: tuple[list[mc.Ballots], Any], report: Path, open_page: Open
) -> None:
    defenders, _ = evidence
    page = open_page(report)
    for patch in (mc.Patch(3), mc.Patch(2, 5), mc.Patch(1)):
        verdict = mc.majorcert(defenders, patch)
        assert verdict.certified.any() != verdict.certified.all()
        for image in range(0, 120, 7):
            unsafe = page.evaluate("([n, p]) => majorcert.unsafe(n, p)", [image + 100, str(patch)])
            assert unsafe == (~verdict.safe[image]).ravel().tolist()


def test_arrow_keys_move_the_patch_and_the_address_follows(
    evidence: tuple[list[mc.Ballots], Any], report: Path, open_page: Open
) -> None:
    defenders, _ = evidence
    page = open_page(report, "#image=117&patch=2x2&at=3,4")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    until(page, "location.hash === '#image=117&patch=2x2&at=2,1'")
    told = scene(defenders, mc.Patch(2), 17, (2, 1))
    shown = page.locator("#verdict").inner_text()
    assert shown.replace("\u2068", "").replace("\u2069", "") == sentence(told, NAMES)
    assert page.locator("#placement").inner_text() == "top 2, left 1"
    shown = page.locator("#defender-1 tbody tr").first.locator("td").all_inner_texts()
    first = told.testimonies[1].told.tallies[0]
    assert shown == [str(first.kept), str(first.most), "can win" if first.label in told.testimonies[1].can_say else ""]
    page.keyboard.press("3")
    until(page, "location.hash.startsWith('#image=117&patch=3x3&at=')")
    assert page.locator("#patch-choice input:checked").get_attribute("value") == "3x3"
    page.keyboard.press("j")
    until(page, "location.hash.startsWith('#image=118&')")
    page.keyboard.press("PageUp")
    until(page, "location.hash.startsWith('#image=117&')")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type("j")
    assert page.locator("#query").input_value() == "j"


def test_pointer_moves_the_patch(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=100&patch=3x3&at=0,0")
    page.locator("#stage").hover(position={"x": 12, "y": 12})
    assert page.locator("#placement").inner_text() == "top 0, left 0"
    box = page.locator("#stage").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2)
    assert page.locator("#placement").inner_text() == "top 5, left 9"


def test_deep_link_opens_image_patch_and_placement(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=142&patch=2x5&at=3,6")
    assert page.locator("#fact-image").inner_text() == "#142"
    assert page.locator("#explorer-patch").input_value() == "2x5"
    assert page.locator("#placement").inner_text() == "top 3, left 6"
    page.evaluate("location.hash = '#image=101&patch=4x4&at=99,2'")
    until(page, "document.getElementById('fact-image').textContent === '#101'")
    assert page.locator("#placement").inner_text() == "top 8, left 2"
    assert page.locator("#explorer-patch").input_value() == "4x4"


def test_a_link_wins_over_an_address_that_is_rewritten_in_between(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=100&patch=3x3&at=0,0")
    page.evaluate(
        """() => {
            const newURL = location.href.replace(/#.*/, "#image=110&patch=3x3&at=4,4");
            window.dispatchEvent(new HashChangeEvent("hashchange", { newURL }));
        }"""
    )
    until(page, "document.getElementById('fact-image').textContent === '#110'")
    until(page, "location.hash === '#image=110&patch=3x3&at=4,4'")


def test_filters_orders_and_search_choose_what_the_core_says(
    evidence: tuple[list[mc.Ballots], Any], report: Path, open_page: Open
) -> None:
    defenders, truth = evidence
    verdict = mc.majorcert(defenders, mc.Patch(3))
    correct = verdict.predicted == truth
    numbers = np.arange(120) + 100
    page = open_page(report)
    for value, chosen in {
        "proved": verdict.certified & correct,
        "danger": verdict.certified & ~correct,
        "unproved": ~verdict.certified & correct,
        "wrong": ~verdict.certified & ~correct,
        "theorem2": verdict.by == "theorem2",
        "all": correct | ~correct,
    }.items():
        page.select_option("select[name=filter]", value)
        assert page.evaluate("majorcert.chosen()") == numbers[chosen].tolist()
    n_unsafe = (~verdict.safe).sum(axis=(1, 2))
    page.select_option("select[name=sort]", "many")
    assert page.evaluate("majorcert.chosen()") == numbers[np.argsort(-n_unsafe, kind="stable")].tolist()
    page.select_option("select[name=sort]", "index")
    for query, chosen in {
        "117": numbers == 117,
        "3": (verdict.predicted == 7) | (truth == 7),
        "truth:truck": truth == 9,
        "says:<script>": verdict.predicted == 1,
        "no such label": numbers < 0,
    }.items():
        page.fill("#query", query)
        assert page.evaluate("majorcert.chosen()") == numbers[chosen].tolist(), query
    assert "No image fits" in page.locator("#gallery-count").inner_text()
    page.fill("#query", "117")
    page.locator("#tiles a").first.click()
    until(page, "document.getElementById('fact-image').textContent === '#117'")


def test_coming_back_to_a_filter_that_fits_nothing(tmp_path: Path, open_page: Open) -> None:
    """Browsers fill in again what was chosen last time."""
    ballots = mc.Ballots(np.ones((2, 12), int), strategy="columns:2", image_size=SIZE, n_classes=3)
    write_report(path := tmp_path / "page.html", Contents([ballots], [mc.Patch(2), mc.Patch(3)]))
    page = open_page(path)
    page.check("#patch-choice input[value='3x3']", force=True)
    page.select_option("select[name=filter]", "open")
    page.goto("about:blank")
    page.go_back()
    assert page.evaluate("window.majorcert.ready")
    assert page.locator("select[name=filter]").input_value() == "open"
    assert "No image fits" in page.locator("#gallery-count").inner_text()
    assert page.locator("#fact-image").inner_text() == "#0"
    assert page.locator("#patch-choice input:checked").get_attribute("value") == "2x2"


def test_dark_and_light_follow_the_system_and_the_button(report: Path, open_page: Open) -> None:
    page = open_page(report, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#theme")
    light = page.evaluate(ground)
    assert dark != light
    assert open_page(report, color_scheme="light").evaluate(ground) == light
    page.click("#theme")
    assert page.evaluate(ground) == dark


def test_paper_is_light(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=100&patch=3x3&at=0,0", color_scheme="dark")
    ballots = "document.querySelector('#defender-0 canvas').toDataURL()"
    dark = page.evaluate(ballots)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    light = page.evaluate(ballots)
    assert light != dark
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(ballots) == dark


def test_names_are_shown_and_never_run(report: Path, open_page: Open) -> None:
    page = open_page(report)
    for label, name in enumerate(NAMES):
        page.fill("#query", f"says:{name.split()[0]}")
        assert name in page.locator("#tiles .tile-label").all_inner_texts(), label
    assert page.locator("#overview bdi.label").filter(has_text="<script>alert(1)</script>").count() > 0


@pytest.mark.parametrize("width", [360, 768, 1680])
def test_nothing_sticks_out_sideways(width: int, report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_moving_the_patch_does_not_move_the_page(report: Path, open_page: Open) -> None:
    page = open_page(report, "#image=103&patch=3x3&at=0,0")
    height = "document.documentElement.scrollHeight"
    before = page.evaluate(height)
    for _ in range(9):
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert page.evaluate(height) == before


def _certified_everywhere_and_nowhere() -> Contents:
    votes = np.array([[1] * 12, [0, 1, 2] * 4])
    return Contents([mc.Ballots(votes, strategy="columns:2", image_size=SIZE, n_classes=3)], [mc.Patch(2)])


def _grey_with_a_sample() -> Contents:
    defenders, truth = coherent_ballots(SPECS[:2], n_images=30, image_size=(9, 14))
    return Contents(defenders, [mc.Patch(2)], truth=truth, pictures=painted(30, (9, 14), 1))


def _thousand_classes() -> Contents:
    defenders, truth = coherent_ballots(SPECS, n_images=40, n_classes=1000)
    return Contents(defenders, [mc.Patch(3)], truth=truth)


def _five_with_strides_and_one_that_does_not_vote() -> Contents:
    specs = ["rows:3/2", "columns:5/5", "blocks:4/3", "rows:1", "columns:2"]
    defenders, truth = coherent_ballots(specs, n_images=20)
    return Contents([*defenders[:4], ReachOnly(defenders[4])], [mc.Patch(3)], truth=truth)


@pytest.mark.parametrize(
    "make",
    [
        _certified_everywhere_and_nowhere,
        _grey_with_a_sample,
        _thousand_classes,
        _five_with_strides_and_one_that_does_not_vote,
    ],
)
def test_unusual_evidence_makes_a_sensible_page(make: Callable[[], Contents], tmp_path: Path, open_page: Open) -> None:
    contents = make()
    write_report(path := tmp_path / "page.html", contents, limit=15)
    page = open_page(path)
    assert page.locator("#tiles li").count() == min(len(contents), 15)
    assert page.locator("#verdict").inner_text().startswith(("Safe here", "Not safe here"))
    page.locator("#stage").focus()
    for key in ("ArrowDown", "j", "n", "9", "ArrowLeft", "k", "2"):
        page.keyboard.press(key)
    assert page.locator("article.defender canvas").count() == sum(
        isinstance(defender, mc.Ballots) for defender in contents.defenders
    )
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
