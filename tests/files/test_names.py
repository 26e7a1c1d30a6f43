"""Names of files: telling, and never twice."""

from majorcert.files.names import file_names


def test_names_are_plain_and_differ() -> None:
    assert file_names(["columns:19/5", "rows:4", "rows:4", "rows:4/2", "rows:4"]) == [
        "columns-19-5",
        "rows-4",
        "rows-4-no2",
        "rows-4-2",
        "rows-4-no3",
    ]
    assert file_names(["pool of rows:4, columns:4", "../secret"]) == ["pool-of-rows-4-columns-4", "secret"]
