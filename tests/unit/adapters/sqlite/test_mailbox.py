"""The tables of mailboxes over real files: what is kept, and handed over, comes through a salvage and a restart."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from covey.adapters.sqlite.file.salvage import finish, salvage
from covey.core.ids import DeviceKey, Incarnation
from covey.core.mailbox.messages import BlobRefusal, Hook, Kept, Push, WakeHook
from covey.limits.storage import OUTBOX_BYTES
from tests.fleet import identity, open_store

_ANN, _BEN, _POST = (identity(name).signing_public for name in ("ann", "ben", "post"))
_HOOK = WakeHook(Hook.PROGRAM, "program")


def _push(number: int, recipient: DeviceKey = _BEN) -> Push:
    return Push(number.to_bytes(16), b"sealed %d" % number, 0, recipient)


def _fill(path: Path) -> None:
    with closing(open_store(path, Incarnation(bytes(8)))) as store, store.transaction():
        for number in range(4):
            assert store.mailbox.put(_ANN, _push(number), 10**12, 7, 10**9) == Kept(number + 1, is_new=True)
        store.mailbox.delete(_BEN, (1, 2))
        store.mailbox.add_hook(_BEN, _HOOK)
        store.mailbox.set_position(_POST, "state", 9)
        store.mailbox.set_pushed(_BEN, _POST, 3, 7)  # type: ignore[arg-type]


def test_a_salvage_keeps_a_mailboxes_messages(tmp_path: Path) -> None:
    path = tmp_path / "state"
    _fill(path)
    report = salvage(path, identity("ann"), Incarnation(b"salvaged"), OUTBOX_BYTES, 1)
    finish(path)
    assert not {name for name in report.lost if name.startswith("mailbox")}
    with closing(open_store(path, Incarnation(bytes(8)))) as store:
        tables = store.mailbox
        assert tables.relay_id() == b"salvaged".hex(), "devices ask it from the first cursor on"
        [inbox] = tables.all()
        assert (inbox.device, inbox.blobs, inbox.bytes, inbox.max_cursor) == (_BEN, 2, 16, 4)
        blobs, is_cut = tables.after(_BEN, 0, 100, 100, 1_000)
        assert ([(each.cursor, each.payload) for each in blobs], is_cut) == (
            [(3, b"sealed 2"), (4, b"sealed 3")],
            False,
        )
        assert tables.hooks(_BEN) == [_HOOK]
        assert tables.position(_POST) == ("state", 9)
        assert tables.pushed_upto(_BEN, _POST) == (3, 7)
        with store.transaction():
            assert tables.put(_ANN, _push(3), 1, 7, 10**9) == Kept(4, is_new=False)
            assert tables.put(_ANN, _push(9), 1, 7, 10**9) == Kept(5, is_new=True), "no cursor is given twice"


_SENDERS = (_ANN, _POST, *(identity(name).signing_public for name in ("cid", "dan")))


@pytest.mark.parametrize(("bound", "most"), [("INBOX_BLOBS", 8), ("INBOX_BYTES_KEPT", 8 * len(_push(0).payload))])
def test_an_inbox_is_bounded_and_each_senders_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """In blobs, and in bytes: eight for an inbox; each of four senders is guaranteed one, and four are common."""
    monkeypatch.setattr(f"covey.adapters.sqlite.mailbox.{bound}", most)
    with closing(open_store(tmp_path / "state", Incarnation(bytes(8)))) as store, store.transaction():

        def put(sender: DeviceKey, number: int, recipient: DeviceKey = _BEN) -> Kept | BlobRefusal:
            return store.mailbox.put(sender, _push(number, recipient), 10**12, 7, 10**9, len(_SENDERS))

        for number in range(5):
            assert isinstance(put(_ANN, number), Kept)
        assert put(_ANN, 9) is BlobRefusal.INBOX_FULL
        for number, sender in enumerate(_SENDERS[1:]):
            assert isinstance(put(sender, number), Kept), "each has its own share"
        assert put(_POST, 9) is BlobRefusal.INBOX_FULL, "the common half is used up"
        assert isinstance(put(_ANN, 0), Kept), "what is kept is kept once"
        assert isinstance(put(_ANN, 1, _POST), Kept)
        store.mailbox.delete(_BEN, (1, 1))
        assert isinstance(put(_POST, 9), Kept)


def test_one_sender_that_fills_the_mailbox_keeps_no_other_one_out(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "state", Incarnation(bytes(8)))) as store, store.transaction():

        def put(sender: DeviceKey, number: int, recipient: DeviceKey) -> Kept | BlobRefusal:
            push = Push(number.to_bytes(16), bytes(10), 0, recipient)
            return store.mailbox.put(sender, push, 10**12, 7, 80, len(_SENDERS))

        inboxes = [identity(f"device {number}").signing_public for number in range(9)]
        outcomes = [put(_ANN, number, inbox) for number, inbox in enumerate(inboxes)]
        assert [isinstance(each, Kept) for each in outcomes] == [True] * 5 + [False] * 4
        assert outcomes[-1] is BlobRefusal.FULL
        for number, sender in enumerate(_SENDERS[1:]):
            assert isinstance(put(sender, 100 + number, _BEN), Kept)
        store.mailbox.empty(inboxes[0])
        assert isinstance(put(_ANN, 9, inboxes[0]), Kept), "what is deleted makes room"


def test_forgetting_a_mailbox_leaves_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "state"
    _fill(path)
    with closing(open_store(path, Incarnation(bytes(8)))) as store, store.transaction():
        store.mailbox.forget(_BEN)
        assert store.mailbox.devices() == []
        assert store.mailbox.totals() == (0, 0)
        assert store.mailbox.hook_count() == 0
        assert store.database.one("SELECT count(*) FROM mailbox_blob") == 0
        assert store.database.one("SELECT count(*) FROM mailbox_share") == 0
