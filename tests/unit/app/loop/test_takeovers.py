"""`covey.app.loop.takeovers`: connections that are cut off again and again, in a real store."""

from __future__ import annotations

from pathlib import Path

from covey.app.loop.takeovers import CopySign, cuts, note_connection, seen_cuts
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


def test_a_row_of_cuts_may_be_a_copy_and_a_relay_that_says_so_is_one_for_an_hour(tmp_path: Path) -> None:
    ann = Device("ann", tmp_path)
    at_us = ann.now.wall_us
    for times in (1, 2, 3):
        noted(ann, 2.0)
        sign = CopySign.POSSIBLE if times == 3 else CopySign.NONE
        assert seen_cuts(ann.store.conditions, at_us + 5_000_000) == (sign, times, 5)
    noted(ann, 2.0, taken_over=True)
    assert seen_cuts(ann.store.conditions, at_us).sign is CopySign.CERTAIN
    assert seen_cuts(ann.store.conditions, at_us + 3_599_000_000).sign is CopySign.CERTAIN
    assert seen_cuts(ann.store.conditions, at_us + 3_600_000_000).sign is CopySign.NONE
