"""Lifetimes: what is not wanted any more leaves, by time that no clock can set, and its recipient is told."""

from __future__ import annotations

import pytest

from covey.cli.quantities import read_us
from covey.core.ids import GroupId
from covey.core.now import Now
from covey.core.wire.message import Loss, LossReason, MessageType, read_message
from covey.errors import UsageError
from covey.limits.group import MAINTENANCE_US
from covey.limits.storage import EXPIRED_AT_ONCE
from covey.limits.units import MIB
from tests.fleet import Device, Make, carry, found

_HOUR_US = 3_600_000_000
_DECADE_US = 3_650 * 86_400_000_000
_YEARS_US = 20 * 365 * 86_400_000_000


def _maintenance(device: Device, elapsed_us: int = MAINTENANCE_US) -> None:
    """Let time pass as a running agent sees it, in its steps."""
    while elapsed_us > 0:
        device.wait(min(elapsed_us, MAINTENANCE_US) // 1_000_000)
        elapsed_us -= MAINTENANCE_US
        with device.store.transaction():
            device.node.maintain(device.now)


def _send(device: Device, group_id: GroupId, content: bytes, lifetime_us: int | None) -> None:
    with device.store.transaction():
        device.node.send_blob(group_id, content, device.now, None, lifetime_us)


def _reasons(device: Device) -> list[LossReason]:
    rows = device.store.connection.execute("SELECT message FROM outbox ORDER BY id").fetchall()
    messages = [read_message(raw, verify=False) for (raw,) in rows]
    return [Loss.from_wire(message.body).reason for message in messages if message.type is MessageType.LOSS]


def test_an_expired_message_is_dropped_and_its_recipient_is_notified(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    for content, lifetime_us in ((b"short", _HOUR_US), (b"for good", None), (b"long", 5 * _HOUR_US)):
        _send(ann, group_id, content, lifetime_us)
    _maintenance(ann, _HOUR_US)
    assert ann.store.outbox.totals()[0] == 3, "not before its time"
    _maintenance(ann, _HOUR_US)
    assert ann.store.counters.values()["expired_messages"] == 1
    assert _reasons(ann) == [LossReason.EXPIRED]
    carry(ann, ben)
    assert ben.inbox() == [b"for good", b"long"]
    assert ben.store.counters.values()["lost_messages"] == 1
    assert ann.store.outbox.totals() == (0, 0)


@pytest.mark.parametrize("jump_us", [_YEARS_US, -_YEARS_US])
def test_a_wall_clock_that_jumps_ends_nothing(make: Make, jump_us: int) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    _send(ann, group_id, b"a day", 24 * _HOUR_US)
    _maintenance(ann)
    jumped = Now(ann.now.monotonic_us + MAINTENANCE_US, max(0, ann.now.wall_us + jump_us))
    with ann.store.transaction():
        ann.node.maintain(jumped)
    assert ann.store.outbox.totals()[0] == 1
    assert "expired_messages" not in ann.store.counters.values()


def test_telemetry_is_kept_as_long_as_configured(make: Make) -> None:
    ann, collector = make("ann"), make("collector", collects=True)
    group_id = found(ann, collector)
    ann.node.telemetry.keep(1 / 24)
    for number in range(3):
        ann.batch(group_id, b"%d" % number)
    _maintenance(ann, 3 * _HOUR_US)
    [(raw,)] = ann.store.connection.execute("SELECT message FROM outbox").fetchall()
    assert Loss.from_wire(read_message(raw, verify=False).body).numbers == ((1, 3),)
    _maintenance(ann, 3 * _HOUR_US)
    assert ann.store.outbox.totals()[0] == 1, "a record never expires"


def test_many_leave_in_portions(make: Make) -> None:
    ann, ben = make("ann", outbox_bytes=64 * MIB), make("ben")
    group_id = found(ann, ben)
    with ann.store.transaction():
        for _ in range(EXPIRED_AT_ONCE + 5):
            ann.node.send_blob(group_id, b"x", ann.now, None, _HOUR_US)
    while "expired_messages" not in ann.store.counters.values():
        _maintenance(ann)
    assert ann.store.counters.values()["expired_messages"] == EXPIRED_AT_ONCE
    ann.wait(2)
    with ann.store.transaction():
        ann.node.maintain(ann.now)
    assert ann.store.counters.values()["expired_messages"] == EXPIRED_AT_ONCE + 5


def test_durations_as_people_write_them() -> None:
    read = [read_us("--expires", text, _DECADE_US, 1_000_000) for text in ("90s", "15m", "36h", "1.5h", "2d", "4w")]
    assert [each // 1_000_000 for each in read] == [90, 900, 129_600, 5_400, 172_800, 2_419_200]
    for text in ("", "d", "0", "0s", "2", "-1d", "2D", "3651d", "9999999999s", "\u0662d"):
        with pytest.raises(UsageError):
            read_us("--expires", text, _DECADE_US, 1_000_000)
