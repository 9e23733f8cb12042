"""`covey.app.orders.attempts`: attempts are told in the log, at a bounded pace."""

from __future__ import annotations

from pathlib import Path

from covey.app.orders.attempts import AttemptEntry, Attempts, OrderAttempts
from tests.fleet import Device, found

_MINUTE_S = 60


def _entry(number: int, last_us: int, count: int) -> AttemptEntry:
    name = f"{number:08x}"
    return AttemptEntry(name, name, "", "not_an_operator", "not an operator here", count, 0, last_us, "")


def test_a_flood_of_attempts_writes_few_lines(tmp_path: Path) -> None:
    device = Device("ann", tmp_path)
    found(device)
    lines: list[str] = []
    tries = 1

    def attempts(_: object) -> Attempts:
        return Attempts(tuple(_entry(each, device.now.wall_us, tries) for each in range(5)), open=False)

    role = OrderAttempts(attempts, device.store, lambda _, line: lines.append(line))
    assert role.turn(device.node, device.now) is not None
    assert len(lines) == 3
    assert "1 order by 00000000, not an operator here" in lines[0]
    for _ in range(30):
        device.wait(_MINUTE_S)
        tries += 1
        device.node.history.refresh()
        role.turn(device.node, device.now)
    assert len(lines) == 5, "one a day for each"
    device.wait(24 * 60 * _MINUTE_S)
    device.node.history.refresh()
    assert role.turn(device.node, device.now) is not None
    assert len(lines) == 8
    assert "31 orders by" in lines[-1]


def test_old_events_are_not_reported_again_after_a_start(tmp_path: Path) -> None:
    device = Device("ann", tmp_path)
    found(device)
    lines: list[str] = []
    old = (_entry(1, device.now.wall_us - 3 * 86_400_000_000, 7),)
    role = OrderAttempts(lambda _: Attempts(old, open=False), device.store, lambda _, line: lines.append(line))
    assert role.turn(device.node, device.now) is None
    assert lines == []


def test_each_is_counted_once_also_over_a_restart_and_where_it_is_forgotten(tmp_path: Path) -> None:
    device = Device("ann", tmp_path)
    found(device)
    old_us = device.now.wall_us - 3 * 86_400_000_000

    def counted(*counts: int) -> int:
        """Look anew, as a process does that has just started; return the counter."""
        entries = tuple(_entry(number, old_us, each) for number, each in enumerate(counts))
        role = OrderAttempts(lambda _: Attempts(entries, open=False), device.store, lambda _level, _line: None)
        role.turn(device.node, device.now)
        return device.store.counters.values().get("attempts_not_an_operator", 0)

    assert counted() == 0
    assert counted(2, 1) == 3
    written = device.store.conditions.values()["attempts"]
    device.wait(1)
    assert counted(2, 1) == 3
    assert device.store.conditions.values()["attempts"] == written, "nothing new, nothing written"
    assert counted(1) == 3, "what is forgotten stays counted"
    assert counted(1, 1) == 4
