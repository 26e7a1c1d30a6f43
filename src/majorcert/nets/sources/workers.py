"""Many files read side by side, in order; one that is refused does not stop the others."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from majorcert.errors import DataError

Given = TypeVar("Given")
Found = TypeVar("Found")
AT_ONCE = 2048
"""Files that wait for the workers."""


def attempted(function: Callable[[Given], Found], given: Sequence[Given]) -> Iterator[Found | DataError]:
    """What the function makes of each, or what it refuses it with."""

    def attempt(one: Given) -> Found | DataError:
        try:
            return function(one)
        except DataError as error:
            return error

    with ThreadPoolExecutor() as pool:
        for start in range(0, len(given), AT_ONCE):
            yield from pool.map(attempt, given[start : start + AT_ONCE])
