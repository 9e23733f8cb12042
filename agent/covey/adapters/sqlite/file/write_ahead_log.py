"""What a write-ahead log says of commits that SQLite no longer reads (https://www.sqlite.org/fileformat2.html#walformat).

SQLite ends at the first frame whose checksum is wrong, and says nothing. A power cut leaves the frames of one commit
that way, the last one, which nobody was told of. Where two or more follow, a disk has changed what was durable.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct(">IIIIIIII")
_FRAME = struct.Struct(">IIIIII")
_MAGIC = 0x377F0682


def commits(path: Path) -> list[int]:
    """Return the numbers of the frames that end a commit, from 1, whether their checksums hold or not."""
    found: list[int] = []
    try:
        with path.open("rb") as log:
            header = log.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return []
            magic, _, page_bytes, _, *salts = _HEADER.unpack(header)[:6]
            if magic & ~1 != _MAGIC or not 512 <= page_bytes <= 65_536:
                return []
            number = 0
            while len(head := log.read(_FRAME.size)) == _FRAME.size:
                number += 1
                _, pages_after, *frame_salts = _FRAME.unpack(head)[:4]
                if pages_after and frame_salts == salts:
                    found.append(number)
                log.seek(page_bytes, 1)
    except OSError:
        return []
    return found
