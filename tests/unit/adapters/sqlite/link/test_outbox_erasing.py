"""What waited for members and is erased is in no page of the file, wherever SQLite had moved it meanwhile."""

from __future__ import annotations

import random
from pathlib import Path

from covey.core.ids import INCARNATION_BYTES, Incarnation
from covey.core.link.queued import MessageClass
from covey.core.wire.sequences import SequenceSet
from tests.fleet import identity, open_store

_WORD = b"what was said in the group "
_KINDS = (MessageClass.HISTORY, MessageClass.HISTORY, MessageClass.TELEMETRY)


def test_pages_that_were_split_or_joined_keep_no_copy_of_what_is_erased(tmp_path: Path) -> None:
    chance, path = random.Random(7), tmp_path / "state"  # a seed that left a copy
    store = open_store(path, Incarnation(bytes(INCARNATION_BYTES)))
    members = [identity(f"member {number}").signing_public for number in range(6)]
    for number in range(250):
        kind = chance.choice(_KINDS)
        said = b"" if kind is MessageClass.TELEMETRY else _WORD
        message = said + b"%d " % number + chance.randbytes(chance.choice((60, 300, 700, 900, 1500, 3000)))
        member = members[chance.randrange(6)]
        with store.transaction():
            seq, link_seq = store.outbox.allocate(member)
            store.outbox.queue(member, seq, link_seq, kind, message, 1)
        if chance.random() < 0.2:
            with store.transaction():
                store.outbox.free(member, SequenceSet(max(0, link_seq - chance.randrange(6))))
    for member in members:
        with store.transaction():
            store.outbox.forget(member)
    store.close()
    assert _WORD not in path.read_bytes()
