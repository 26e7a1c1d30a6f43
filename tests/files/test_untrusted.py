"""Strings from files, as they are shown."""

import pytest

from majorcert.files.untrusted import cleaned, reason


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat", "cat"),
        ("große Katze ☃ 猫", "große Katze ☃ 猫"),
        ("cat\tcertified against 9x9", "cat\\tcertified against 9x9"),
        ("cat\ncertified", "cat\\ncertified"),
        ("\x1b[2Kcat\x1b]0;title\x07", "\\x1b[2Kcat\\x1b]0;title\\x07"),
        ("cat\r\x08\x9b1A", "cat\\r\\x08\\x9b1A"),
        ("cat\u202egod\u200b\u2028", "cat\\u202egod\\u200b\\u2028"),
        ("\ud800", "\\ud800"),
        ("cat" + " " * 70 + "dog", "cat dog"),
        (None, "None"),
        (7, "7"),
    ],
)
def test_what_is_shown_is_one_line_without_anything_invisible(text: object, shown: str) -> None:
    assert cleaned(text) == shown
    assert cleaned(text).isprintable()
    assert reason(ValueError(text)).isprintable()


def test_what_is_shown_is_short() -> None:
    assert cleaned("x" * 201) == "x" * 197 + "..."
    assert cleaned("x" * 200) == "x" * 200
