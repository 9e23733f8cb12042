"""`covey.app.takeovers`: connections that are cut off again and again, in a real store."""

from __future__ import annotations

from pathlib import Path

from covey.app.takeovers import cuts, note_connection
from tests.fleet import Device


def noted(device: Device, up_s: float, *, taken_over: bool = False) -> tuple[int, bool, int]:
    with device.store.transaction():
        note_connection(device.store.conditions, up_s, device.now.wall_us, taken_over=taken_over)
    return cuts(device.store.conditions)


def test_short_connections_in_a_row_are_counted_until_one_lasts(tmp_path: Path) -> None:
    ann = Device("ann", tmp_path)
    at_us = ann.now.wall_us
    assert noted(ann, 0.0) == (0, False, 0)
    assert noted(ann, 3600.0) == (0, False, 0)
    assert noted(ann, 2.0) == (1, False, at_us)
    assert noted(ann, 0.0) == (1, False, at_us)
    assert noted(ann, 20.0, taken_over=True) == (2, True, at_us)
    assert noted(ann, 5.0) == (3, True, at_us)
    ann.restart()
    assert cuts(ann.store.conditions) == (3, True, at_us)
    assert noted(ann, 3600.0) == (0, False, at_us)
