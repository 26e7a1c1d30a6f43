"""What a notebook shows: tables with the names of classes, a map on the image, a bar; and the example runs."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from calls import script

import majorcert as mc
from majorcert.files.html import table

ROOT = Path(__file__).parents[2]
NAMES = ["cat", "<script>dog", "emu"]


def verdict(labels: Any = ((0, 0, 0, 0, 0, 0), (1, 1, 1, 0, 0, 1)), **more: Any) -> mc.Verdict:
    given = {"class_names": NAMES, **more}
    rows = mc.Ballots(np.array(labels), strategy="rows:1", image_size=(6, 4), n_classes=3, provenance=given)
    return mc.certify([rows], 2)


def test_a_verdict_is_a_table_with_the_names_of_its_classes() -> None:
    judged = verdict()
    assert judged.certified.tolist() == [True, False]
    html = judged._repr_html_()  # type: ignore[attr-defined]
    assert "1 of 2 images certified against 2x2 patches" in html
    assert '<td style="text-align:left">cat</td>' in html
    assert "&lt;script&gt;dog" in html
    assert "<script>" not in html
    assert html.count("data:image/png") == 1, "a map of the image that is not certified"
    assert judged.named() == ["cat", "<script>dog"]  # type: ignore[attr-defined]


def test_sentences_name_classes_places_and_promises() -> None:
    judged = verdict()
    first, second = (judged.tell(k) for k in range(2))  # type: ignore[attr-defined]
    assert first == "cat, certified: no 2x2 patch, wherever it is, changes it"
    witness = judged.witness(1)
    assert witness is not None
    assert f"at row {witness.placement[0]}, column {witness.placement[1]}" in second
    assert f"rows:1 says {NAMES[witness.forced[0]]}" in second
    rows = mc.Ballots(np.zeros((1, 6), int), strategy="rows:1", image_size=(6, 4), n_classes=3)
    watched = mc.detect([rows], 2)
    assert (
        watched.tell(0) == "0, without an alert, certified: no 2x2 patch, wherever it is, changes it without an alert"
    )  # type: ignore[attr-defined]
    margin = mc.drs(rows[:0], 2)
    assert "0 of 0 images" in margin._repr_html_()  # type: ignore[attr-defined]


def test_of_the_first_k_no_more_is_said_than_that_the_label_stays_among_them() -> None:
    votes = np.array([[0, 0, 0, 0, 1, 1], [2, 2, 2, 1, 1, 0]])
    known = {"class_names": NAMES, "threshold": None}
    rows = mc.Ballots(votes, strategy="rows:1", image_size=(6, 4), n_classes=3, provenance=known)
    judged = mc.top_k(rows, 2, 2)
    assert judged.certified.tolist() == [True, False]
    assert not mc.certify([rows], 2).certified.any(), "the label itself may change"
    first, second = (judged.tell(k) for k in range(2))  # type: ignore[attr-defined]
    assert first == "cat, certified: no 2x2 patch, wherever it is, drives it out of the first 2 labels"
    assert second.endswith("these may stand ahead of it: cat, <script>dog")


def test_a_cell_holds_what_each_of_several_defenders_says_of_classes_with_long_names() -> None:
    said = [f"defender {place} says {'a rather long name of a class':.>150}" for place in range(5)]
    assert said[-1] in table("title", ["why not"], [[", ".join(said)]])


def test_evidence_of_every_kind_is_a_table() -> None:
    masks = mc.Masks(2, stride=2)
    n = masks.n_masks((6, 4))
    pairs = mc.MaskPairs(np.ones((1, n, n), int), masks=masks, image_size=(6, 4), n_classes=3)
    rows = mc.Ballots(np.zeros((1, 6), int), strategy="rows:1", image_size=(6, 4), n_classes=3)
    for evidence, title in ((pairs, "masks:2/2"), (rows, "rows:1"), (mc.Pool([rows]), "pool of rows:1")):
        assert title in evidence._repr_html_()  # type: ignore[attr-defined]


class Axes:
    """Keeps what is drawn on it."""

    def __init__(self) -> None:
        self.drawn: list[tuple[np.ndarray, dict[str, Any]]] = []
        self.title = ""

    def imshow(self, picture: np.ndarray, **how: Any) -> None:
        self.drawn.append((picture, how))

    def set_title(self, title: str, **how: Any) -> None:
        self.title = title

    def set_xlim(self, *limits: float) -> None: ...

    def set_ylim(self, *limits: float) -> None: ...


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3), (3, 6, 4), (1, 6, 4)])
def test_a_plot_lays_the_map_over_the_middle_of_the_patch(shape: tuple[int, ...]) -> None:
    judged, axes = verdict(), Axes()
    assert judged.plot(1, np.zeros(shape), ax=axes) is axes  # type: ignore[attr-defined]
    (picture, _), (colours, how) = axes.drawn
    assert picture.shape[:2] == (6, 4)
    assert judged.safe is not None
    assert np.array_equal(colours[:, :, 3] > 0, ~judged.safe[1])
    left, right, bottom, top = how["extent"]
    # The first placement covers pixels 0 and 1: its middle is at 0.5, and its cell from 0 to 1.
    assert (left, top, right, bottom) == (0, 0, 3, 5)
    assert "not certified" in axes.title


def test_what_cannot_be_plotted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = verdict()
    with pytest.raises(mc.DataError, match=r"6x4 pixels, got shape \(5, 5\)"):
        judged.plot(0, np.zeros((5, 5)), ax=Axes())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(mc.DataError, match=r"majorcert\[notebook\]"):
        judged.plot(0)  # type: ignore[attr-defined]
    rows = mc.Ballots(np.zeros((1, 6), int), strategy="rows:1", image_size=(6, 4), n_classes=3)
    with pytest.raises(mc.DataError, match="margin"):
        mc.drs(rows, 2).plot(0, ax=Axes())  # type: ignore[attr-defined]


def test_a_bar_understands_every_way_to_tell_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = SimpleNamespace(epoch=1, n_epochs=2, step=5, n_steps=10)
    voting, attacking = SimpleNamespace(done=3, total=4), SimpleNamespace(steps=1, n_steps=4)
    for said in ((None, training), (None, voting), (3, 4)):
        mc.Bar()(*said)
        assert "75.0%" in capsys.readouterr().err
    mc.Bar()(attacking)
    assert "25.0%" in capsys.readouterr().err
    shown: list[str] = []
    handle = SimpleNamespace(update=shown.append)
    display = SimpleNamespace(HTML=str, display=lambda html, display_id: shown.append(html) or handle)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    bar = mc.Bar()
    bar(1, 2)
    bar(2, 2)
    assert ["50.0%" in shown[0], "100.0%" in shown[1], len(shown)] == [True, True, 2]


@pytest.mark.slow
def test_the_example_shows_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs, and what it prints and names is what the file holds."""
    monkeypatch.chdir(ROOT)
    module = script("examples/execute.py")
    held = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    again = module.execute(held, without=("matplotlib",))
    n_outputs = 0
    for before, now in zip(held["cells"], again["cells"], strict=True):
        assert before.get("outputs", []) == now.get("outputs", [])
        n_outputs += len(now.get("outputs", []))
    assert n_outputs >= 6
