"""Files that strangers may have written: plain JSON and plain arrays, whose sizes are checked before memory is taken.

Nothing that is read is ever executed. What is wrong with a file comes out as an OSError or a ValueError, which the
reader of each artifact turns into its own sentence.
"""

import math
import os
import re
import stat
import sys
import zipfile
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from majorcert.errors import StoreError

T = TypeVar("T")

MAX_JSON_BYTES = 2**26
"""Of one JSON file; the true labels of 14 million images take less."""
PLAIN_KINDS = "biufU"
"""Arrays of numbers and of text; never of Python objects, which would have to be unpickled."""
MAX_SHOWN = 200
"""Characters of a string from a file that are shown."""
PYTHONS_WORDS = ("invalid literal for", "could not convert", "cannot convert", "not enough values", "too many values")
"""How Python's own complaints about a value begin."""
WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "named values",
    "null": "nothing",
}


def cleaned(value: object, most: int = MAX_SHOWN) -> str:
    """A string from a file as it may be shown: on one line, nothing invisible, and not too long to be read.

    A name with line breaks, tabs, escape codes or a screenful of spaces could pose as a line of ours.
    """
    text = str(value)
    shown = text if len(text) <= most else f"{text[: most - 3]}..."
    return " ".join(word for word in visible(shown).split(" ") if word)


def visible(text: str) -> str:
    """The text with everything that is no printable character written out, as \\n or \\x1b."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def reason(error: BaseException) -> str:
    """What is wrong, on one line and not too long: what the error says, unless Python said it of its own types."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return f"it has no {str(error.args[0])[:40]!r}" if error.args else "a part of it is missing"
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    text = cleaned(" ".join(str(error).split()))
    if isinstance(error, TypeError | AttributeError | IndexError | OverflowError) or text.startswith(PYTHONS_WORDS):
        return "a part of it is missing or of another kind than expected"
    return text or type(error).__name__


def memory() -> int:
    """The bytes that this process may still take: of the machine, its container and its own limit the least."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    page = os.sysconf("SC_PAGE_SIZE")
    found = [page * os.sysconf("SC_PHYS_PAGES")]
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    with suppress(OSError, ValueError, KeyError):  # files of Linux
        found.append(1024 * _numbers(Path("/proc/meminfo"))["MemAvailable:"])
        if limit != resource.RLIM_INFINITY:
            found.append(limit - page * int(Path("/proc/self/statm").read_text().split()[0]))
    with suppress(OSError, ValueError, KeyError):  # of a container, in which files that were read can be forgotten
        container = Path("/sys/fs/cgroup")
        used, kept = int((container / "memory.current").read_text()), _numbers(container / "memory.stat")
        found.append(int((container / "memory.max").read_text()) - used + kept["inactive_file"] + kept["active_file"])
    return max(0, min(found))


def _numbers(path: Path) -> dict[str, int]:
    return {name: int(number) for name, number, *_ in (line.split() for line in path.read_text().splitlines())}


def check_room(n_bytes: int, what: str) -> None:
    """Refuse what would not fit in memory, before any is taken."""
    if n_bytes > memory():
        raise ValueError(f"{what} would take {n_bytes:,} bytes, and {memory():,} are free")


def plain_size(path: str | PathLike[str]) -> int:
    """The bytes of a plain file; a folder, a pipe or a device, which might never end, is refused."""
    found = Path(path).stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is not a plain file")
    return found.st_size


def read_bytes(path: str | PathLike[str], most: int) -> bytes:
    """The whole content of a plain file of at most so many bytes."""
    if (size := plain_size(path)) > most:
        raise ValueError(f"it has {size:,} bytes, and at most {most:,} are expected")
    return Path(path).read_bytes()


def read_json(path: str | PathLike[str]) -> Any:
    """The content of a JSON file."""
    anything: Any = Any
    return decoded(read_bytes(path, MAX_JSON_BYTES), anything)


def read_object(path: str | Path) -> dict[str, Any]:
    """The JSON object in a file; what cannot be read, or is something else, is told in a sentence."""
    try:
        raw = read_json(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({reason(error)})") from None
    if not isinstance(raw, dict):
        raise StoreError(f"{path}: not an artifact of majorcert")
    return raw


def decoded(text: str | bytes, wanted: type[T]) -> T:
    """JSON as an object of that type; as its standard has it: no NaN, no infinity, and not nested too deeply."""
    if not text.strip():
        raise ValueError("it is empty")
    try:
        return msgspec.json.decode(text, type=wanted)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(error)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(f"it is not JSON ({reason(error)})") from None
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def typed(value: Any, wanted: type[T]) -> T:
    """A JSON value as an object of that type, once everything in it is known to be of the kind that it should be."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(error)) from None


def _in_words(error: msgspec.MsgspecError) -> str:
    """What msgspec says, without its names of types: "expected a whole number, got text, in n_classes"."""
    what, _, place = str(error).partition(" - at `$")
    said = re.sub(r"`(\w+)( \| \w+)*`", lambda found: WORDS.get(found[1], repr(found[1])), what)
    return said[:1].lower() + said[1:] + (f", in {place.strip('.`')}" if place.strip(".`") else "")


def read_npy(path: str | PathLike[str]) -> npt.NDArray[Any]:
    """The array in an .npy file."""
    size = plain_size(path)
    with Path(path).open("rb") as file:
        return _array(file, size)


def read_npz(path: str | PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file by name."""
    plain_size(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            check_room(sum(member.file_size for member in members.values()), "its arrays")
            return {name: _member(archive, member) for name, member in members.items()}
    except (OSError, ValueError):
        raise
    except zipfile.BadZipFile:
        raise ValueError("it is damaged, or no archive as NumPy's savez writes it") from None
    except Exception as error:  # the unpacker raises errors of many kinds on damaged files
        raise ValueError(reason(error)) from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename!r} is packed in another way than NumPy does")
    with archive.open(member) as file:
        return _array(file, member.file_size)


def _array(file: IO[bytes], n_bytes: int) -> npt.NDArray[Any]:
    """The array in a stream of so many bytes; NumPy's own reader takes the memory that the header asks for."""
    shape, in_columns, dtype = _header(file)
    expected = math.prod(shape) * dtype.itemsize
    if dtype.kind not in PLAIN_KINDS or not dtype.itemsize:
        raise ValueError(f"an array of {dtype} where plain numbers or text are expected")
    if expected != n_bytes - file.tell():
        raise ValueError(f"the header declares {expected:,} bytes of data, there are {n_bytes - file.tell():,}")
    check_room(expected, "its array")
    content = bytearray(expected)
    if _fill(file, content) != expected:
        raise ValueError("it is cut short")
    return np.ndarray(shape, dtype, buffer=content, order="F" if in_columns else "C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise ValueError("it does not begin as an array that NumPy saved") from None
    try:
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(file)
    except (OSError, ValueError):
        raise
    except Exception as error:  # the header is a Python literal, and its parser has its own complaints
        raise ValueError(f"its header cannot be read ({reason(error)})") from None
    raise ValueError(f"the .npy format {version} is not known")


def _fill(file: IO[bytes], content: bytearray) -> int:
    view, done = memoryview(content), 0
    while done < len(content) and (n := file.readinto(view[done : done + 2**20])):  # type: ignore[attr-defined]
        done += n
    return done
