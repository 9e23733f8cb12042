"""history_files.json: a group's history in a file, and what each recipient reads of it, whole and damaged."""

from __future__ import annotations

from typing import Any

from covey.core.crypto import Identity
from covey.core.wire.history_file import HistoryFileWriter, Part, PartKind
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, flip, seeded
from tests.vectors.makers.groups import GENESIS, WITH_BOB, WITH_CAROL
from tests.vectors.makers.history import FIRST, SECOND

_PARTS = (
    Part(GROUP_ID, PartKind.MANIFESTS, (GENESIS.raw, WITH_BOB.raw, WITH_CAROL.raw)),
    Part(GROUP_ID, PartKind.OPERATIONS, (FIRST.raw, SECOND.raw)),
    Part(GROUP_ID, PartKind.OPERATIONS, (), last=True),
)


def make() -> dict[str, Any]:
    """Return the file's content."""
    writer = HistoryFileWriter(seeded("file key"), seeded("file ephemeral"), seeded("file nonce", 24))
    recipients = [(each.signing_public, each.noise_public) for each in (ALICE, BOB)]
    header, *parts = items = [writer.header(recipients), *(writer.part(each) for each in _PARTS)]
    whole, cut = b"".join(items), b"".join(items[:-1])
    return {
        "about": "`reads` are the documents that the reader gets before it ends, or before `code`.",
        "cases": [
            _case("read by Alice", ALICE, whole, 5),
            _case("read by Bob", BOB, whole, 5),
            _case("sealed for others", CAROL, whole, 0, "not_for_us"),
            _case("without its last part", BOB, cut, 5, "malformed"),
            _case("cut off within a part", BOB, whole[: len(header) + len(parts[0]) + 40], 3, "malformed"),
            _case("a part left out", BOB, header + b"".join(parts[1:]), 0, "malformed"),
            _case("two parts exchanged", BOB, header + parts[1] + parts[0] + parts[2], 0, "malformed"),
            _case("a bit of a part flipped", BOB, header + parts[0] + flip(parts[1], 60) + parts[2], 3, "malformed"),
            _case("empty", BOB, b"", 0, "malformed"),
        ],
    }


def _case(name: str, reader: Identity, file: bytes, documents: int, code: str | None = None) -> dict[str, Any]:
    every = [raw.hex() for part in _PARTS for raw in part.documents]
    [noise] = [key.secret.reveal().hex() for key in reader.noise.keys]
    return {
        "name": name,
        "reader": reader.signing_public.hex(),
        "noise_secret": noise,
        "bytes": file.hex(),
        "group_id": GROUP_ID.hex(),
        "reads": every[:documents],
        "code": code,
    }
