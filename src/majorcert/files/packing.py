"""How evidence is cut into chunks and compressed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from majorcert.files.chunks import MAX_CHUNK_BYTES, MAX_CHUNKS


@dataclass(frozen=True)
class Packing:
    """How arrays are cut into chunks and compressed."""

    chunk: int = 512  # images at most
    chunk_bytes: int = MAX_CHUNK_BYTES  # about, before they are compressed
    level: int = 9
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of the axes, in arrays that become smaller so

    def images_per_chunk(self, shape: tuple[int, ...], item_bytes: int) -> int:
        """As many as wanted, but no chunk and no number of chunks that would be refused when it is read."""
        per_image = max(1, item_bytes * math.prod(shape[1:]))
        wanted = max(min(self.chunk, self.chunk_bytes // per_image), -(-shape[0] // MAX_CHUNKS))
        return max(1, min(wanted, shape[0], MAX_CHUNK_BYTES // per_image))


PLAIN = Packing()
