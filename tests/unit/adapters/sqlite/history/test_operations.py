"""`covey.adapters.sqlite.history.operations`: what a salvage leaves of a history is whole, and the rest comes again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from covey.adapters.sqlite.file.salvage import salvage
from covey.adapters.sqlite.store import empty_history
from covey.core.history.bodies import Note
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation
from covey.core.history.orders import Approval, OperatorChange, SettingOrder
from covey.core.ids import GroupId, Incarnation, OperationId
from covey.core.orders.selector import EVERYBODY
from covey.limits.storage import OUTBOX_BYTES
from tests.fleet import Device, carry, found
from tests.vectors.makers.cast import ALICE, GROUP_ID
from tests.vectors.makers.orders import said


def _write(device: Device, group_id: GroupId, text: str) -> Operation:
    with device.store.transaction():
        return device.node.history.write(group_id, Note("text/plain", text.encode()), device.now)


def _say(device: Device, group_id: GroupId, body: OperationBody) -> None:
    with device.store.transaction():
        device.node.history.write(group_id, body, device.now)


def test_operations_after_a_lost_one_are_fetched_again(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    written: list[Operation] = []
    for author in (ann, ben, ann, ben, ann):
        written.append(_write(author, group_id, f"note {len(written)}"))
        carry(ann, ben)
    ben.stop()
    with closing(sqlite3.connect(ben.path)) as database, database:
        database.execute("UPDATE operation SET raw = zeroblob(200) WHERE hash = ?", (written[2].id,))
    salvage(ben.path, ben.identity, Incarnation(bytes(8)), OUTBOX_BYTES, 1)
    ben.restart()
    operations = ben.store.operations
    assert [each.id for each in operations.in_order(group_id)] == [each.id for each in written[:2]]
    assert operations.heads(group_id) == [written[1].id]
    assert dict(operations.logs(group_id)) == {written[0].log: 1, written[1].log: 1}
    last = _write(ann, group_id, "after all")
    carry(ann, ben)
    assert operations.heads(group_id) == [last.id]
    assert len(operations.in_order(group_id)) == 6


def test_operations_are_read_by_author_and_kind(tmp_path: Path) -> None:
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    written: list[Operation] = []
    for text in ("one", "two"):
        written.append(_write(ann, group_id, text))
        carry(ann, ben)
    _write(ben, group_id, "note")
    _say(ben, group_id, OperatorChange(ben.key, "", added=True))
    operations, of_ann = ben.store.operations, [each.id for each in written]
    notes, changes = OperationKind.NOTE, OperationKind.OPERATOR
    assert [each.id for each in operations.in_order(group_id, author=ann.key)] == of_ann
    assert [each.id for each in operations.newest_first(group_id, None, 9, author=ann.key)] == of_ann[::-1]
    assert len(operations.in_order(group_id, author=ben.key, kind=notes)) == 1
    assert len(operations.in_order(group_id, kind=changes)) == 1
    assert operations.in_order(group_id, author=ann.key, kind=changes) == []


def test_missing_frontiers_of_orders_are_recomputed(tmp_path: Path) -> None:
    """After an upgrade from a version that kept nothing of it, and after a salvage."""
    ann, ben = Device("ann", tmp_path), Device("ben", tmp_path)
    group_id = found(ann, ben)
    for author, body in (
        (ann, OperatorChange(ben.key, "", added=True)),
        (ben, Note("text/plain", b"between")),
        (ben, SettingOrder(EVERYBODY, "app.mode", "eco")),
        (ann, Approval(OperationId(bytes(32)))),
    ):
        _say(author, group_id, body)
        if author is ben:
            carry(ann, ben)
    carry(ann, ben)
    kept = list(ann.store.operations.nodes(group_id))
    assert [each.subject for each in kept if each.subject is not None] == [b"app.mode", bytes(32)]
    assert [len(each.follows) for each in kept] == [0, 1, 1]
    ann.stop()
    with closing(sqlite3.connect(ann.path)) as database, database:
        database.execute("UPDATE operation SET frontier = NULL, node = 0, subject = NULL")
        database.execute("DELETE FROM order_frontier")
    ann.restart()
    assert list(ann.store.operations.nodes(group_id)) == kept
    ann.stop()
    salvage(ann.path, ann.identity, Incarnation(bytes(8)), OUTBOX_BYTES, 1)
    ann.restart()
    assert list(ann.store.operations.nodes(group_id)) == kept


def test_a_log_that_is_not_here_has_no_end(tmp_path: Path) -> None:
    ann = Device("ann", tmp_path)
    nobody = Log(ann.key, Incarnation(bytes(8)))
    assert ann.store.operations.end_of(GroupId(bytes(32)), nobody) is None
    assert ann.store.operations.log_lengths(GroupId(bytes(32)), ann.key) == []


def test_the_last_operation_of_a_log_is_not_forgotten() -> None:
    with empty_history() as tables:
        tables.add(said(ALICE, Note("text/plain", b"the last")), 1, 0)
        [shape] = tables.shapes(GROUP_ID)
        assert tables.forgotten.take([shape.arrival]) == 0


def test_notes_that_are_deleted_leave_no_copy_in_the_file(tmp_path: Path) -> None:
    ann = Device("ann", tmp_path)
    group_id, word = found(ann), "what was said in the group "
    for number in range(60):
        _write(ann, group_id, f"{number} " + word * (1 + number % 13 * 12))
    operations = ann.store.operations
    with ann.store.transaction():
        assert operations.forgotten.take(range(1, 60)) > 50
    with ann.store.transaction():
        ann.store.groups.forget(group_id)
    ann.stop()
    assert word.encode() not in ann.path.read_bytes()
