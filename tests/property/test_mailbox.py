"""The inboxes of a mailbox: whatever is pushed, pulled and deleted, in whatever order, cursors have no gap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from covey.adapters.sqlite.mailbox import MailboxTables
from covey.core.ids import DeviceKey, Incarnation
from covey.core.mailbox.messages import Kept, Push
from tests.fleet import open_store

_DEVICES = [DeviceKey(bytes([number]) * 32) for number in range(3)]
_device = st.sampled_from(_DEVICES)
_push = st.tuples(st.just("push"), _device, _device, st.integers(0, 5), st.integers(0, 40))
_pull = st.tuples(st.just("pull"), _device, st.integers(0, 12), st.integers(1, 4), st.integers(1, 400))
_delete = st.tuples(st.just("delete"), _device, st.integers(1, 12), st.integers(0, 5))


@contextmanager
def _tables() -> Iterator[MailboxTables]:
    with TemporaryDirectory() as folder, closing(open_store(Path(folder) / "state", Incarnation(bytes(8)))) as store:
        yield store.mailbox


class _Model:
    """What an inbox is: cursors from 1 on, each given once, and what of them is held."""

    def __init__(self) -> None:
        self.last = dict.fromkeys(_DEVICES, 0)
        self.held: dict[DeviceKey, dict[int, tuple[DeviceKey, bytes, bytes]]] = {each: {} for each in _DEVICES}

    def push(self, sender: DeviceKey, push: Push) -> tuple[int, bool]:
        """Return the cursor, and whether the blob is new."""
        held = self.held[push.recipient]
        known = [cursor for cursor, each in held.items() if each[:2] == (sender, push.blob_id)]
        if known:
            return known[0], False
        self.last[push.recipient] += 1
        held[self.last[push.recipient]] = (sender, push.blob_id, push.payload)
        return self.last[push.recipient], True


@given(st.lists(st.one_of(_push, _pull, _delete), max_size=40))
# accepts: 002.05, 002.07, 002.12, 002.39, 002.40, 002.41
def test_cursors_have_no_gap_and_each_blob_is_given_in_order_until_it_is_deleted(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    model = _Model()
    with _tables() as tables:
        for kind, *step in steps:
            if kind == "push":
                sender, recipient, number, size = step
                push = Push(bytes([number]) * 16, bytes(size), 0, recipient)
                assert tables.put(sender, push, 10**12, 0, 10**9) == Kept(*model.push(sender, push))
            elif kind == "delete":
                device, first, more = step
                gone = [cursor for cursor in model.held[device] if first <= cursor <= first + more]
                assert tables.delete(device, (first, first + more)) == len(gone)
                for cursor in gone:
                    del model.held[device][cursor]
            else:
                device, after, limit, size = step
                blobs, is_cut = tables.after(device, after, 10_000, limit, size)
                expected = sorted(cursor for cursor in model.held[device] if cursor > after)
                assert [each.cursor for each in blobs] == expected[: len(blobs)]
                assert is_cut == (len(blobs) < len(expected))
                assert len(blobs) <= limit
                assert bool(blobs) == bool(expected)
                for each in blobs:
                    assert (each.sender_id, each.blob_id, each.payload) == model.held[device][each.cursor]
        for device in _DEVICES:
            state, held = tables.state(device), model.held[device]
            assert (state.max_cursor, state.blobs) == (model.last[device], len(held))
            assert state.bytes == sum(len(payload) for _, _, payload in held.values())
        before = [tables.state(device) for device in _DEVICES]
        tables.recount()
        assert [tables.state(device) for device in _DEVICES] == before
