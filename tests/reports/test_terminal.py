"""Where nobody watches a bar, a line now and then says how far slow work is, and how long it will take."""

import pytest

from majorcert.reports import terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(terminal.stderr, "get_time", lambda: now[0])
    return now


def test_lines_say_how_far_work_is_and_how_long_it_takes(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal.bar("voting") as shown:
        for clock[0] in range(91):
            shown.show(clock[0], 200, "columns:4")
    assert capsys.readouterr().err.splitlines() == [
        f"voting: {done / 2:.0f}%  columns:4  0:0{(200 - done) // 60}:{(200 - done) % 60:02} left"
        for done in (30, 60, 90)
    ]


def test_lines_that_come_too_soon_are_left_out(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.bar("training") as shown:
        for clock[0] in (1.0, 2.0, 3.0, 4.5, 4.6):
            shown.tell(f"after {clock[0]}", after=0 if clock[0] == 4.6 else 2)
    assert capsys.readouterr().err.split("\n") == ["after 2.0", "after 4.5", "after 4.6", ""]
