"""The report without a browser: its numbers are the core's, its data come back unchanged, its text is safe."""

import base64
import io
import itertools
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import majorcert as mc
from majorcert.reports.contents import Contents, defender_names
from majorcert.reports.page import page, write_report
from majorcert.reports.page.charts import curve_chart, heat_map, largest_chart
from majorcert.reports.page.overview import Overview, overview
from majorcert.reports.page.palette import PALETTE
from majorcert.reports.page.sprite import spaced, sprites
from majorcert.reports.payload import Block, script_json
from majorcert.reports.png import png
from reports import ReachOnly, coherent_ballots, every_kind, painted

SPECS = ["rows:2", "columns:3", "blocks:4"]
PATCHES = [mc.Patch(3), mc.Patch(2, 5)]


@pytest.fixture(scope="module")
def evidence() -> tuple[list[mc.Ballots], Any]:
    return coherent_ballots(SPECS, n_images=80)


@pytest.fixture(scope="module")
def made(evidence: tuple[list[mc.Ballots], Any]) -> tuple[Contents, Overview]:
    defenders, truth = evidence
    contents = Contents(defenders, PATCHES, truth=truth)
    return contents, overview(contents)


def blocks_of(text: str) -> dict[str, bytes]:
    found = re.findall(r'<script type="application/base64" id="block ([^"]+)">([^<]*)</script>', text)
    return {name: base64.b64decode(content) for name, content in found}


def manifest_of(text: str) -> dict[str, Any]:
    found = re.search(r'id="manifest">([^<]*)</script>', text)
    assert found is not None
    manifest: dict[str, Any] = json.loads(found[1])
    return manifest


def test_table_holds_the_scores_of_the_core(made: tuple[Contents, Overview]) -> None:
    contents, numbers = made
    for patch, found in zip(PATCHES, numbers.findings, strict=True):
        shown = {(row.who, row.method): row for row in found.methods}
        for ballots in contents.defenders:
            for bound in ("margin", "local"):
                score = mc.score(mc.drs(ballots, patch, bound=bound), contents.truth)
                row = shown[str(ballots.strategy), f"DRS {bound}"]
                assert (row.n_correct / 80, row.n_certified_and_correct / 80) == (score.clean, score.certified)
        verdict = mc.majorcert(contents.defenders, patch)
        counts = mc.summary(verdict, contents.truth)
        theorem1, theorem2 = (shown["ensemble", f"MajorCert, {name}"] for name in ("theorem 1 alone", "exact reach"))
        assert theorem1.n_certified_and_correct == counts.by_and_correct["theorem1"]
        assert theorem2.n_certified_and_correct == counts.n_certified_and_correct
        assert theorem2.n_certified == counts.n_certified
        pooled = mc.score(mc.certify([mc.Pool(contents.defenders)], patch), contents.truth)
        row = shown["pool", "pooled votes"]
        assert (row.n_correct / 80, row.n_certified_and_correct / 80) == (pooled.clean, pooled.certified)
        assert np.array_equal(found.n_unsafe, (~verdict.safe).sum(axis=(1, 2)))
        assert np.allclose(found.unsafe_share, (~verdict.safe).mean(axis=0))


def test_notes_are_of_the_kinds_that_are_shown(made: tuple[Contents, Overview]) -> None:
    pairs = every_kind(2)[3]
    masking = Contents([pairs], [mc.Patch(2)])
    texts = [page(*made), page(masking, overview(masking))]
    assert ["Each cell is one ablation" in text for text in texts] == [True, False]
    assert ["Dashed: the masks that cover it" in text for text in texts] == [False, True]
    assert ["takes for granted that no patch is larger than" in text for text in texts] == [False, True]


def test_classes_and_confusion_add_up(made: tuple[Contents, Overview]) -> None:
    contents, numbers = made
    found = numbers.findings[0]
    correct = found.verdict.predicted == contents.truth
    for row in found.classes:
        mine = contents.truth == row.label
        assert (row.n, row.n_correct) == (mine.sum(), (mine & correct).sum())
        assert row.n_certified_and_wrong == (mine & ~correct & found.verdict.certified).sum()
    assert sum(pair.n for pair in found.confused) == 80
    assert sum(pair.n_certified for pair in found.confused) == found.verdict.certified.sum()


def test_curves_are_the_certified_accuracy_at_every_side(made: tuple[Contents, Overview]) -> None:
    contents, numbers = made
    for curve, defenders in zip(numbers.curves, [contents.defenders, *([d] for d in contents.defenders)], strict=True):
        for side, share in enumerate(curve.shares[1:], start=1):
            assert share == mc.score(mc.majorcert(list(defenders), mc.Patch(side)), contents.truth).certified
    assert numbers.curves[0].shares[-1] == 0


def test_page_is_a_pure_function_and_stands_alone(made: tuple[Contents, Overview]) -> None:
    contents, numbers = made
    text = page(contents, numbers)
    assert text == page(Contents(contents.defenders, PATCHES, truth=contents.truth), numbers)
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)[^"']*""", text)
    assert not re.findall(r"https?:|@import|url\(", text)
    share = mc.score(numbers.findings[0].verdict, contents.truth).certified
    assert f"<em>{share:.1%}</em> of 80 images, which are also correct" in text
    for fact in ("ab" * 32, "cd" * 32, "rows:2", f"majorcert {mc.__version__}"):
        assert fact in text


def test_a_part_of_a_split_is_said_to_be_one() -> None:
    labels = np.zeros((40, 4), int)
    kind = {"strategy": "rows:1", "image_size": (4, 4), "n_classes": 2}
    for images, origin, n_split in (
        (np.arange(40), {}, 40),
        (np.arange(40), {"split_size": 10_000}, 10_000),
        (np.arange(40) * 5, {}, 196),
        (np.arange(40), {"split_size": "many"}, 40),
    ):
        ballots = mc.Ballots(labels, images=images, provenance=origin, **kind)
        for evidence in (ballots, mc.Pool([ballots])):
            contents = Contents([evidence], [mc.Patch(1)])
            text = page(contents, overview(contents))
            assert (f"these are 40 of its {n_split:,} images" in text) == (n_split > 40)
            assert ("all 40" in text) == (n_split == 40)


def test_labels_without_a_vote_are_told() -> None:
    kind = {"strategy": "rows:1", "image_size": (4, 4), "n_classes": 2}
    silent = np.zeros((20, 4), int)
    silent[:5] = mc.ABSTAIN
    for labels, told in ((silent, True), (np.zeros((20, 4), int), False)):
        contents = Contents([mc.Ballots(labels, **kind)], [mc.Patch(1)])
        text = page(contents, overview(contents))
        assert ("none of its views votes on 5 of 20 images" in text) == told
        assert ("a lower threshold" in text) == told


def test_embedded_integers_are_those_of_the_evidence(made: tuple[Contents, Overview]) -> None:
    contents, numbers = made
    text = page(contents, numbers, limit=30)
    blocks, manifest, shown = blocks_of(text), manifest_of(text), spaced(80, 30)
    for place, ballots in enumerate(contents.defenders):
        votes = np.frombuffer(zlib.decompress(blocks[f"votes{place}.0"]), np.int8)
        assert np.array_equal(votes.reshape(1, 30, -1)[0], ballots.labels[shown, :, 0])
    facts = np.frombuffer(zlib.decompress(blocks["facts"]), "<i4").reshape(-1, 30)
    rows = dict(zip(manifest["factRows"], facts, strict=True))
    assert np.array_equal(rows["image"], shown + 100)
    assert np.array_equal(rows["truth"], contents.truth[shown])
    assert np.array_equal(rows["largest"], mc.largest_patch(contents.defenders)[shown])
    assert np.array_equal(rows["unsafe 2x5"], numbers.findings[1].n_unsafe[shown])
    assert "hold 30 of 80 images, evenly spaced" in text
    assert "evenly spaced" not in page(contents, numbers)


def test_hostile_names_stay_text(evidence: tuple[list[mc.Ballots], Any]) -> None:
    defenders, truth = evidence
    hostile = '</script><script>alert("1")</script><!--'
    names = [hostile, "a & b", "it's", "🦊", "שלום", *"56789"]
    loud = mc.Ballots(
        defenders[0].labels,
        strategy=defenders[0].strategy,
        image_size=(12, 12),
        n_classes=10,
        provenance={"data set": hostile},
    )
    contents = Contents([loud], [mc.Patch(2)], truth=truth, class_names=names)
    text = page(contents, overview(contents), title=hostile)
    assert hostile not in text
    assert "alert(&#34;1&#34;)" in text
    assert manifest_of(text)["classNames"] == names
    assert text.count("<script") == text.count("</script>")


def test_script_json_cannot_end_its_element() -> None:
    text = script_json({"name": "</script><!-- & \u2028"})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"name": "</script><!-- & \u2028"}


@pytest.mark.parametrize(
    ("specs", "options"),
    [
        (["rows:2"], {}),
        (["rows:2/3", "columns:5/4", "blocks:4/3", "rows:1", "blocks:2/2"], {}),
        (["rows:2", "columns:2"], {"n_classes": 1000}),
        (["rows:2", "blocks:3"], {"image_size": (8, 14)}),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_unusual_evidence_makes_a_page(specs: list[str], options: dict[str, Any], known: bool) -> None:
    defenders, truth = coherent_ballots(specs, n_images=25, **options)
    contents = Contents(defenders, [mc.Patch(2)], truth=truth if known else None)
    text = page(contents, overview(contents))
    assert ("which are also correct" in text) == known
    assert ("true labels are not known" in text) != known
    assert text.count('<article id="defender-') == len(specs)


def test_evidence_that_does_not_vote_is_embedded_as_its_reach(evidence: tuple[list[mc.Ballots], Any]) -> None:
    defenders, _ = evidence
    contents = Contents([defenders[0], ReachOnly(defenders[1])], [mc.Patch(3)])
    text = page(contents, overview(contents))
    blocks = blocks_of(text)
    reach = defenders[1].reach(mc.Patch(3))
    below = np.frombuffer(zlib.decompress(blocks["below1.0.3x3"]), "<i4")
    assert np.array_equal(below.reshape(reach.below.shape), reach.below)
    assert "votes1.0" not in blocks
    assert "can be made to say" in text
    assert ">curtain<" in text


def test_verdicts_of_other_methods_join_the_table(evidence: tuple[list[mc.Ballots], Any]) -> None:
    defenders, truth = evidence
    other = mc.patchguard(defenders[0], mc.Patch(3))
    contents = Contents(defenders, PATCHES, truth=truth, verdicts=[other])
    found = overview(contents).findings
    assert [row.who for row in found[0].methods if row.method == "PG-DRS"] == ["rows:2"]
    assert not [row for row in found[1].methods if row.method == "PG-DRS"]
    with pytest.raises(mc.EvidenceError, match="is of other images than the evidence"):
        Contents([ballots[:10] for ballots in defenders], PATCHES, verdicts=[other])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"truth": [1, 2]}, mc.DataError, "one true label for each of 80 images"),
        ({"truth": np.full(80, 10)}, mc.DataError, "true labels are 0 to 9, got 10"),
        ({"pictures": np.zeros((80, 12, 12))}, mc.DataError, "pictures are uint8"),
        ({"pictures": np.zeros((80, 2, 12, 12), np.uint8)}, mc.DataError, "expected 80 pictures of 12x12"),
        ({"pictures": np.zeros((80, 3, 12, 13), np.uint8)}, mc.DataError, "expected 80 pictures of 12x12"),
        ({"class_names": ["a", "b"]}, mc.DataError, "names of 10 classes, got 2"),
        ({"patches": []}, mc.PatchError, "at least one patch size"),
        ({"patches": [mc.Patch(13)]}, mc.PatchError, "does not fit"),
        ({"defenders": []}, mc.EvidenceError, "one or more defenders"),
    ],
)
def test_contents_that_do_not_fit_are_refused(
    options: dict[str, Any], error: type[Exception], message: str, evidence: tuple[list[mc.Ballots], Any]
) -> None:
    given = {"defenders": evidence[0], "patches": PATCHES, **options}
    with pytest.raises(error, match=message):
        Contents(**given)


def test_nothing_to_show_is_refused(made: tuple[Contents, Overview]) -> None:
    contents, numbers = made
    with pytest.raises(mc.EvidenceError, match="this evidence holds none"):
        Contents([ballots[:0] for ballots in contents.defenders], PATCHES)
    with pytest.raises(mc.DataError, match="got a limit of 0"):
        page(contents, numbers, limit=0)


def test_class_names_come_from_the_evidence_when_not_given() -> None:
    names = ["cat", "dog"]
    ballots = mc.Ballots(
        np.zeros((1, 4), int), strategy="rows:1", image_size=(4, 4), n_classes=2, provenance={"class_names": names}
    )
    assert Contents([ballots], [mc.Patch(1)]).class_names == ("cat", "dog")
    assert Contents([ballots], [mc.Patch(1)], class_names=["x", "y"]).class_names == ("x", "y")


def test_defenders_of_one_strategy_are_numbered(evidence: tuple[list[mc.Ballots], Any]) -> None:
    rows, columns, _ = evidence[0]
    assert defender_names([rows, columns, rows, ReachOnly(rows)]) == ("rows:2 #1", "columns:3", "rows:2 #2", "curtain")


def test_a_failed_report_leaves_no_file(made: tuple[Contents, Overview], tmp_path: Path) -> None:
    with pytest.raises(mc.DataError):
        write_report(tmp_path / "report.html", made[0], limit=0)
    assert list(tmp_path.iterdir()) == []


def read_sheets(blocks: tuple[Block, ...]) -> Any:
    image = pytest.importorskip("PIL.Image")
    return [np.asarray(image.open(io.BytesIO(base64.b64decode(block.text)))) for block in blocks]


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_that_fit_are_stored_without_loss(channels: int) -> None:
    pictures = painted(300, (9, 14), channels).transpose(0, 2, 3, 1)
    found = sprites(pictures)
    assert (found.quality, found.places, found.per_sheet, found.columns) == (None, tuple(range(300)), 256, 16)
    first, second = read_sheets(found.blocks)
    assert np.array_equal(first[9:18, 28:42], np.broadcast_to(pictures[18], (9, 14, 3)))
    assert np.array_equal(second[0:9, 14:28], np.broadcast_to(pictures[257], (9, 14, 3)))


def test_pictures_over_the_budget_lose_quality_then_become_a_sample() -> None:
    noise = np.random.default_rng(0).integers(0, 256, size=(200, 16, 16, 3), dtype=np.uint8)
    lossless = sum(len(base64.b64decode(block.text)) for block in sprites(noise).blocks)
    smaller = sprites(noise, budget=lossless // 2)
    assert smaller.quality is not None
    assert len(smaller.places) == 200
    sample = sprites(noise, budget=lossless // 20)
    assert 0 < len(sample.places) < 200
    assert sum(len(base64.b64decode(block.text)) for block in sample.blocks) <= lossless // 20


def test_the_page_says_what_became_of_the_pictures(evidence: tuple[list[mc.Ballots], Any], monkeypatch: Any) -> None:
    defenders, _ = evidence
    noise = np.random.default_rng(0).integers(0, 256, size=(80, 3, 12, 12), dtype=np.uint8)
    contents = Contents(defenders, [mc.Patch(3)], pictures=noise)
    numbers = overview(contents)
    assert "WebP" not in page(contents, numbers)
    monkeypatch.setattr("majorcert.reports.page.sprites", lambda pictures: sprites(pictures, budget=15_000))
    assert "Pictures are stored as WebP of quality" in page(contents, numbers)
    monkeypatch.setattr("majorcert.reports.page.sprites", lambda pictures: sprites(pictures, budget=3_000))
    assert re.search(r"\d+ of 80 images have their picture here, evenly spaced", page(contents, numbers))


def test_spaced_numbers() -> None:
    assert spaced(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert spaced(10, 4).tolist() == [0, 2, 5, 7]


def test_png_is_read_back_unchanged() -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 7, 4), dtype=np.uint8)
    assert np.array_equal(np.asarray(image.open(io.BytesIO(png(pixels)))), pixels)


def test_charts_stay_between_their_axes(made: tuple[Contents, Overview]) -> None:
    _, numbers = made
    curves, largest = curve_chart(numbers.curves), largest_chart(numbers.largest)
    assert len(curves.lines) == 4
    for x, y, _ in itertools.chain.from_iterable(line.dots for line in curves.lines):
        assert curves.left <= x <= curves.right
        assert curves.top <= y <= curves.bottom
    assert max(bar.height for bar in largest.bars) == largest.bottom - largest.top
    assert sum(int(bar.text.split()[0]) for bar in largest.bars) == 80
    assert largest_chart(np.zeros(3, dtype=int)).bars[0].text == "3 images: none"
    assert heat_map(np.zeros((3, 4))).startswith("data:image/png;base64,")


# Machado, Oliveira and Fernandes (2009), full severity; rows are red, green, blue in linear light.
SEEN_BY = {
    "everyone": np.eye(3),
    "protanopes": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopes": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopes": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


@pytest.mark.parametrize("who", SEEN_BY)
def test_label_colours_can_be_told_apart(who: str) -> None:
    """Distances in Oklab; 0.02 is about the least that people notice."""
    colours = np.array([[int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)] for text in PALETTE])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ SEEN_BY[who].T, 0, 1)
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    axes = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    lab = np.cbrt(np.clip(seen @ cones.T, 0, None)) @ axes.T
    apart = np.linalg.norm(lab[:, None] - lab, axis=-1)
    assert apart[~np.eye(len(PALETTE), dtype=bool)].min() > 0.06


def test_the_library_writes_the_page_too(tmp_path: Path) -> None:
    votes = mc.Ballots(np.zeros((3, 4), int), strategy="columns:2", image_size=(4, 4), n_classes=3)
    written = mc.report([votes, mc.Pool([votes])], 2, "1x3", path=tmp_path / "page.html", truth=[0, 1, 0])
    assert written == tmp_path / "page.html"
    text = written.read_text(encoding="utf-8")
    assert "2x2" in text
    assert "1x3" in text
    with pytest.raises(mc.PatchError, match="got 0"):
        mc.report([votes], 0, path=tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()
