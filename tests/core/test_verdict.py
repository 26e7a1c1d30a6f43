import json
from pathlib import Path

import numpy as np
import pytest

import majorcert as mc


def defenders(n_images: int = 60, n_defenders: int = 3) -> list[mc.Ballots]:
    rng = np.random.default_rng(7)
    clean = rng.integers(0, 4, (n_images, 1))
    specs = ["rows:2", "columns:2", "blocks:3"][:n_defenders]
    made = []
    for spec in specs:
        shape = (n_images, mc.strategy(spec).n_ablations((8, 8)))
        clarity = np.linspace(0.2, 1, n_images)[:, None]
        labels = np.where(rng.random(shape) < clarity, clean, rng.integers(0, 4, shape))
        made.append(mc.Ballots(labels, strategy=spec, image_size=(8, 8), n_classes=4, provenance={"note": spec}))
    return made


@pytest.mark.parametrize("method", ["majorcert", "local", "margin"])
def test_a_saved_verdict_is_the_same_when_read(tmp_path: Path, method: str) -> None:
    evidence = defenders()
    verdict = (
        mc.majorcert(evidence, mc.Patch(3, 1))
        if method == "majorcert"
        else mc.drs(evidence[1], mc.Patch(3, 1), bound=method)
    )
    assert 0 < verdict.certified.sum() < len(verdict)
    verdict.save(tmp_path / "verdict.jsonl")
    read = mc.Verdict.load(tmp_path / "verdict.jsonl")
    for name in ("predicted", "certified", "by", "images"):
        assert np.array_equal(getattr(read, name), getattr(verdict, name)), name
    assert (read.safe is None) == (verdict.safe is None)
    assert read.safe is None or np.array_equal(read.safe, verdict.safe)
    assert read.witnesses == verdict.witnesses
    assert (read.patch, read.method) == (verdict.patch, verdict.method)
    assert read.defenders == tuple(verdict.defenders)


def test_rows_are_plain_json_lines(tmp_path: Path) -> None:
    verdict = mc.majorcert(defenders(), mc.Patch(2))
    verdict.save(tmp_path / "verdict.jsonl")
    header, *rows = [json.loads(line) for line in (tmp_path / "verdict.jsonl").read_text().splitlines()]
    assert header["defenders"][2]["strategy"] == "blocks:3"
    assert [row["certified"] for row in rows] == verdict.certified.tolist()
    assert [row["image"] for row in rows] == list(range(60))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2].rsplit("\n", 1)[0], "truncated"),
        (lambda text: text[:-20], "damaged"),
        (lambda text: "", "damaged"),
        (lambda text: "{}\n", "damaged"),
        (lambda text: "[]\n", "damaged"),
        (lambda text: text.replace("majorcert-verdict", "diary", 1), "not a verdict file of version 1"),
        (lambda text: text.replace('"version":1', '"version":2', 1), "not a verdict file of version 1"),
        (lambda text: text.replace('"safe":"', '"safe":"@', 1), "damaged"),
        (lambda text: text.replace('"placements":[7,7]', '"placements":[70,70]', 1), "damaged"),
    ],
)
def test_a_damaged_verdict_is_refused(tmp_path: Path, change, message: str) -> None:
    path = tmp_path / "verdict.jsonl"
    mc.majorcert(defenders(), mc.Patch(2)).save(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(mc.StoreError, match=message):
        mc.Verdict.load(path)


def test_a_missing_verdict_is_named(tmp_path: Path) -> None:
    with pytest.raises(mc.StoreError, match=r"nothing\.jsonl: no such verdict file"):
        mc.Verdict.load(tmp_path / "nothing.jsonl")


def test_by_says_which_argument_and_is_empty_where_none_holds() -> None:
    evidence = defenders()
    verdict = mc.majorcert(evidence, mc.Patch(1))
    assert set(verdict.by.tolist()) == {"", "theorem1", "theorem2"}
    assert np.array_equal(verdict.by != "", verdict.certified)
    alone = np.stack([mc.drs(each, mc.Patch(1)).certified & (each.label == verdict.predicted) for each in evidence])
    assert np.array_equal(verdict.by == "theorem1", alone.sum(axis=0) >= 2)
    for bound in ("margin", "local"):
        single = mc.drs(evidence[0], mc.Patch(1), bound=bound)
        assert set(single.by[single.certified].tolist()) == {bound}
    assert mc.drs(evidence[0], mc.Patch(1)).safe is None


def test_score_and_summary_count_the_images() -> None:
    verdict = mc.majorcert(defenders(), mc.Patch(1))
    truth = verdict.predicted.copy()
    truth[::3] = 3 - truth[::3]
    correct = verdict.predicted == truth
    score = mc.score(verdict, truth)
    assert score == (correct.mean(), (correct & verdict.certified).mean(), 60)
    assert 0 < score.certified < score.clean < 1
    found = mc.summary(verdict, truth)
    assert sum(found.by.values()) == found.n_certified == verdict.certified.sum()
    assert sum(found.by_and_correct.values()) == found.n_certified_and_correct == (correct & verdict.certified).sum()


def test_truth_of_another_length_is_refused() -> None:
    verdict = mc.majorcert(defenders(), mc.Patch(1))
    for truth in ([1, 2, 3], np.zeros((60, 1), dtype=int)):
        with pytest.raises(mc.EvidenceError, match="expected the true label of each of 60 images"):
            mc.score(verdict, truth)


def test_what_is_no_verdict_has_no_score() -> None:
    found, truth = mc.joint(defenders(), 1), [0] * 60
    for count in (mc.score, mc.summary):
        with pytest.raises(mc.EvidenceError, match=r"got Joint; of what mc.joint gives take .recovery, .detection"):
            count(found, truth)  # type: ignore[operator]
    with pytest.raises(mc.BallotsError, match="expected an array, or lists of equal lengths"):
        mc.score(found.recovery, [[1], [1, 2]])


def other(**changes) -> mc.Ballots:
    facts = {"strategy": "rows:2", "image_size": (8, 8), "n_classes": 4, "n": 60, **changes}
    n = facts.pop("n")
    return mc.Ballots(np.zeros((n, facts["image_size"][0]), int), **facts)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (other(n=59), "1 and 2 .* numbers of images: 60 and 59"),
        (other(image_size=(8, 9)), r"1 and 2 .*image sizes: \(8, 8\) and \(8, 9\)"),
        (other(n_classes=5), "1 and 2 .*classes: 4 and 5"),
        (other(provenance={"images_sha256": "b"}), "defenders 1 and 2 have different images"),
        (other(images=np.arange(1, 61)), "defenders 1 and 2 have different images"),
    ],
)
def test_defenders_that_do_not_belong_together(second: mc.Ballots, message: str) -> None:
    first = other(provenance={"images_sha256": "a"})
    for judge in (lambda both: mc.majorcert(both, mc.Patch(1)), mc.largest_patch):
        with pytest.raises(mc.EvidenceError, match=message):
            judge([first, second])


def test_questions_that_make_no_sense() -> None:
    ballots = other()
    with pytest.raises(mc.EvidenceError, match="a list of one or more defenders"):
        mc.majorcert([], mc.Patch(1))
    with pytest.raises(mc.EvidenceError, match="a list of one or more defenders"):
        mc.majorcert(ballots, mc.Patch(1))
    with pytest.raises(mc.EvidenceError, match="reach is 'exact' or 'paper', got 'loose'"):
        mc.majorcert([ballots], mc.Patch(1), reach="loose")
    with pytest.raises(mc.EvidenceError, match="bound is 'margin' or 'local', got 'global'"):
        mc.drs(ballots, mc.Patch(1), bound="global")
    for judge in (lambda: mc.majorcert([ballots], 2.5), lambda: mc.drs(ballots, None)):
        with pytest.raises(mc.PatchError, match=r"of a patch .* whole number"):
            judge()
    for judge in (lambda: mc.majorcert([ballots], mc.Patch(9, 1)), lambda: mc.drs(ballots, mc.Patch(9, 1))):
        with pytest.raises(mc.PatchError, match="a 9x1 patch does not fit in a 8x8 image"):
            judge()


@pytest.mark.parametrize("judge", [mc.drs, lambda one, patch: mc.top_k(one, patch, 2)])
def test_what_is_no_evidence_is_refused(judge) -> None:
    with pytest.raises(mc.EvidenceError, match=r"got the path 'rows.zarr'; read it with mc.load_evidence"):
        judge("rows.zarr", 2)
    with pytest.raises(mc.EvidenceError, match=r"expected what mc.load_evidence gives, got list"):
        judge([other()], 2)


class Masked:
    """Evidence that is no ballot: one label, in danger at some placements, where it may become anything."""

    def __init__(self, label: np.ndarray, in_danger: np.ndarray) -> None:
        self.label, self.in_danger = label, in_danger
        self.images, self.provenance, self.n_classes, self.image_size = np.arange(len(label)), {}, 4, (8, 8)

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, images) -> "Masked":
        part = Masked(self.label[images], self.in_danger[images])
        part.images = self.images[images]
        return part

    def reach(self, patch: mc.Patch) -> mc.Reach:
        rows, columns = (np.arange(n) for n in patch.n_placements(self.image_size))
        return mc.Reach(
            listed=self.label[:, None],
            members=np.ones((len(self), 1, len(rows), len(columns)), dtype=bool),
            below=np.where(self.in_danger, self.n_classes, 0),
            rows=rows,
            columns=columns,
        )


def test_evidence_of_another_kind_joins_an_ensemble_unchanged() -> None:
    rng = np.random.default_rng(3)
    votes = defenders()[:2]
    clean = mc.majorcert(votes, mc.Patch(2)).predicted
    in_danger = rng.random((60, 7, 7)) < 0.002
    masked = Masked(clean, in_danger)
    assert np.array_equal(mc.majorcert([masked], mc.Patch(2)).safe, ~in_danger)
    assert np.array_equal(mc.drs(masked, mc.Patch(2), bound="local").certified, ~in_danger.any(axis=(1, 2)))
    both = mc.majorcert([*votes, masked], mc.Patch(2))
    n_firm = sum(mc.drs(each, mc.Patch(2), bound="local").safe & (each.label == clean)[:, None, None] for each in votes)
    assert both.safe[n_firm == 2].all()
    assert np.array_equal(both.safe[(n_firm == 1) & in_danger], np.zeros(((n_firm == 1) & in_danger).sum(), bool))
    assert ((n_firm == 1) & ~in_danger & both.safe).any()
    with pytest.raises(mc.EvidenceError, match="Masked has none; use bound='local'"):
        mc.drs(masked, mc.Patch(2))
    with pytest.raises(mc.EvidenceError, match="reach='paper' is for ballots, got Masked"):
        mc.majorcert([masked], mc.Patch(2), reach="paper")


def test_results_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    evidence = defenders()
    whole = mc.majorcert(evidence, mc.Patch(3))
    monkeypatch.setattr(sys.modules["majorcert.core.majority"], "CHUNK_BYTES", 1)
    single = mc.majorcert(evidence, mc.Patch(3))
    assert np.array_equal(whole.safe, single.safe)
    assert np.array_equal(whole.by, single.by)
    assert whole.witnesses == single.witnesses


def test_images_are_compared_even_when_the_first_defender_does_not_name_them() -> None:
    named = [other(), other(provenance={"images_sha256": "a"}), other(provenance={"images_sha256": "b"})]
    with pytest.raises(mc.EvidenceError, match="defenders 2 and 3 have different images"):
        mc.majorcert(named, mc.Patch(1))


def a_reach(**changes) -> mc.Reach:
    cells = np.array([[[[True, False, False]], [[False, False, True]]]])
    facts = {
        "listed": np.array([[0, 1]]),
        "members": cells,
        "below": np.zeros((1, 1, 3), int),
        "rows": np.array([0]),
        "columns": np.array([2, 1, 0]),
    }
    return mc.Reach(**{**facts, **changes})


def test_cells_are_spread_to_the_placements_that_have_them() -> None:
    reach = a_reach()
    spread = reach.spread(reach.has(np.array([1])))
    at = [reach.at(np.array([0]), np.array([0]), np.array([left]), np.array([[1]])).item() for left in range(3)]
    assert spread[0, 0].tolist() == at == [True, False, False]


def test_a_path_is_no_evidence() -> None:
    for judge in (mc.certify, mc.detect, mc.report):
        with pytest.raises(mc.EvidenceError, match=r"path 'a.zarr'; read it with mc.load_evidence"):
            judge(["a.zarr"], 2)  # type: ignore[list-item]
    with pytest.raises(mc.EvidenceError, match=r"use mc.Verdict.load"):
        mc.verify("a.jsonl", [])  # type: ignore[arg-type]
    with pytest.raises(mc.EvidenceError, match=r"path 'runs'; read it with mc.Ensemble.load"):
        mc.attack("runs", "digits", 2, "out")  # type: ignore[arg-type]


def test_no_label_is_in_no_set() -> None:
    every, none = a_reach(below=np.full((1, 1, 3), 9)), np.array([-1])
    assert not every.has(none).any()
    assert every.at(np.array([0]), np.array([0]), np.array([0]), np.array([[-1, 2]])).tolist() == [[False, True]]


@pytest.mark.parametrize(
    "changes",
    [
        {"below": np.full((1, 1, 3), -1)},
        {"listed": np.array([[1, 1]])},
        {"columns": np.array([0, 1, 3])},
        {"rows": np.array([-1])},
        {"below": np.zeros((1, 3, 1), int)},
    ],
)
def test_a_reach_that_contradicts_itself_is_refused(changes: dict) -> None:
    with pytest.raises(mc.EvidenceError, match="a reach lists each label once"):
        a_reach(**changes)


@pytest.mark.parametrize(
    "forged", ['"certified":"false"', '"certified":1', '"predicted":0.5', '"by":"theorem12"', '"predicted":true']
)
def test_a_row_of_other_types_is_refused(tmp_path: Path, forged: str) -> None:
    path = tmp_path / "verdict.jsonl"
    mc.majorcert(defenders(), mc.Patch(2)).save(path)
    header, first, *rest = path.read_text().splitlines()
    row = {**json.loads(first), **json.loads("{" + forged + "}")}
    path.write_text("\n".join([header, json.dumps(row), *rest]) + "\n")
    with pytest.raises(mc.StoreError, match=r"row 0: .*(expected|invalid)"):
        mc.Verdict.load(path)


def test_truth_in_words_is_refused() -> None:
    with pytest.raises(mc.EvidenceError, match="true labels are whole numbers"):
        mc.score(mc.majorcert(defenders(), mc.Patch(2)), ["0"] * 60)


def test_a_verdict_of_detection_keeps_its_promise_and_its_alerts(tmp_path: Path) -> None:
    verdict = mc.detect(defenders(), mc.Patch(3, 1))
    assert 0 < verdict.alert.sum() < len(verdict)
    verdict.save(tmp_path / "v.jsonl")
    read = mc.Verdict.load(tmp_path / "v.jsonl")
    assert (read.promise, read.method) == ("detection", "detection")
    for name in ("alert", "certified", "by", "predicted", "safe"):
        assert np.array_equal(getattr(read, name), getattr(verdict, name))
    mc.majorcert(defenders(), mc.Patch(3, 1)).save(tmp_path / "w.jsonl")
    assert "promise" not in (tmp_path / "w.jsonl").read_text()
    text = (tmp_path / "v.jsonl").read_text()
    for change in (
        ('"promise":"detection"', '"promise":"recovery"'),
        (',"alert":true', ""),
        ('"by":"detection"', '"by":"magic"'),
    ):
        (tmp_path / "v.jsonl").write_text(text.replace(*change, 1))
        with pytest.raises(mc.StoreError, match="damaged"):
            mc.Verdict.load(tmp_path / "v.jsonl")


def test_defenders_with_different_class_names_are_no_ensemble() -> None:
    """Both vote 0, and mean another class: without the check the first one's name would be certified."""
    cats, dogs = (other(n=3, provenance={"class_names": names}) for names in (["cat", "dog"] * 2, ["dog", "cat"] * 2))
    for judge in (lambda both: mc.majorcert(both, 1), lambda both: mc.detect(both, 1), mc.largest_patch, mc.Pool):
        with pytest.raises(mc.EvidenceError, match="defenders 1 and 2 have different class names"):
            judge([cats, dogs])
        judge([cats, other(n=3), cats])
        judge([cats, other(n=3, provenance={"class_names": ("cat", "dog", "cat", "dog")})])
