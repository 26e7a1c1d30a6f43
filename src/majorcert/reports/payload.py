"""Integers and pictures inside an HTML page: deflated (or WebP), then base64, one block of text for each array."""

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from majorcert.core.ballots import Ballots
from majorcert.core.plurality import Ints
from majorcert.core.reach import Evidence
from majorcert.core.regions import Runs
from majorcert.core.threat import Patch
from majorcert.reports.contents import Contents
from majorcert.reports.overview import Overview

IMAGES_PER_BLOCK = 256
"""The page unpacks one block at a time, when an image of it is looked at."""
BY = ("", "theorem1", "theorem2")


@dataclass(frozen=True)
class Block:
    """One array as text. The page finds it by its name and reads it by its type; shapes follow from the manifest."""

    name: str
    type: str
    """"int8", "int16", "int32" or "uint8", little-endian and deflated; or a picture's media type"""
    text: str

    @classmethod
    def of(cls, name: str, array: npt.NDArray[Any]) -> "Block":
        little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return cls(name, array.dtype.name, _text(zlib.compress(little_endian.tobytes(), 6)))

    @classmethod
    def of_file(cls, name: str, media_type: str, content: bytes) -> "Block":
        return cls(name, media_type, _text(content))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no character of it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def facts_block(contents: Contents, overview: Overview, shown: Ints) -> Block:
    """One row for each fact, one column for each shown image; the rows are those that `fact_rows` names, in order."""
    rows = [contents.images, overview.findings[0].verdict.predicted, overview.largest]
    rows.append(np.full(len(contents), -1) if contents.truth is None else contents.truth)
    rows.extend(defender.label for defender in contents.defenders)
    for found in overview.findings:
        rows.append(np.array([BY.index(by) for by in found.verdict.by.tolist()]))
        rows.append(found.n_unsafe)
    return Block.of("facts", np.stack([row[shown] for row in rows]).astype(np.int32))


def fact_rows(contents: Contents) -> list[str]:
    """The names of the rows of the facts."""
    labels = [f"label{place}" for place in range(len(contents.defenders))]
    by_patch = [f"{fact} {patch}" for patch in contents.patches for fact in ("by", "unsafe")]
    return ["image", "predicted", "largest", "truth", *labels, *by_patch]


def evidence_blocks(contents: Contents, shown: Ints) -> Iterator[Block]:
    """The evidence of the shown images: votes for ballots, the recorded reach at each patch for everything else."""
    for place, defender in enumerate(contents.defenders):
        if isinstance(defender, Ballots):
            assert isinstance(defender.strategy, Runs)
            rows, columns = defender.strategy.visible(defender.image_size)
            yield Block.of(f"rows{place}", rows.astype(np.uint8))
            yield Block.of(f"columns{place}", columns.astype(np.uint8))
        for number, start in enumerate(range(0, len(shown), IMAGES_PER_BLOCK)):
            some = defender[shown[start : start + IMAGES_PER_BLOCK]]
            if isinstance(some, Ballots):
                # All first votes, then all second ones: runs of equal numbers pack better.
                yield Block.of(f"votes{place}.{number}", some.labels.transpose(2, 0, 1))
            else:
                for patch in contents.patches:
                    yield from _reach_blocks(f"{place}.{number}.{patch}", some, patch)


def _reach_blocks(name: str, some: Evidence, patch: Patch) -> Iterator[Block]:
    reach = some.reach(patch)
    n_images, n_slots = reach.listed.shape
    sizes = [n_slots, *reach.below.shape[1:]]
    head = np.concatenate([sizes, reach.rows, reach.columns])
    yield Block.of(f"cells{name}", head.astype(np.int32))
    yield Block.of(f"listed{name}", reach.listed.astype(np.int32))
    yield Block.of(f"members{name}", np.packbits(reach.members.reshape(n_images, -1), axis=1))
    yield Block.of(f"below{name}", reach.below.astype(np.int32))


def defender_facts(contents: Contents) -> list[dict[str, Any]]:
    """What the script needs to know of each defender, beside its blocks."""
    facts: list[dict[str, Any]] = []
    for name, defender in zip(contents.names, contents.defenders, strict=True):
        if isinstance(defender, Ballots):
            assert isinstance(defender.strategy, Runs)
            rows, columns = defender.strategy.visible(defender.image_size)
            shape = {"votes": defender.labels.shape[2], "rows": len(rows), "columns": len(columns)}
            facts.append({"name": name, "kind": "ballots", **shape})
        else:
            facts.append({"name": name, "kind": "reach"})
    return facts
