"""`covey.app.device.known_time`: what a device knows of the time at its next start."""

from __future__ import annotations

from pathlib import Path

from covey.adapters.clock import PROGRAM_S, SystemClock
from covey.adapters.mqtt.settings import CertifiedTime
from covey.app.device.known_time import KnownTime, earliest_us
from tests.fleet import Device


class _Clock(SystemClock):
    """A clock that a time service has in hand, or not."""

    disciplined = False

    def synchronised(self) -> bool:
        """Say which."""
        return self.disciplined


def test_only_a_time_that_a_time_service_gave_is_known_later(tmp_path: Path) -> None:
    ann, clock = Device("ann", tmp_path), _Clock()
    role = KnownTime(clock, ann.store, CertifiedTime())
    assert earliest_us(ann.store) == PROGRAM_S * 1_000_000
    role.turn(ann.node, ann.now)
    assert earliest_us(ann.store) == PROGRAM_S * 1_000_000
    clock.disciplined = True
    ann.wait(60)
    role.turn(ann.node, ann.now)
    known = earliest_us(ann.store)
    assert known == ann.now.wall_us
    ann.wait(60)
    role.turn(ann.node, ann.now)
    assert earliest_us(ann.store) == known, "once an hour"
    ann.wait(3_600)
    role.turn(ann.node, ann.now)
    ann.restart()
    assert earliest_us(ann.store) == ann.now.wall_us


def test_without_a_time_service_a_relays_certificate_says_what_has_passed(tmp_path: Path) -> None:
    ann, clock, certified = Device("ann", tmp_path), _Clock(), CertifiedTime()
    role = KnownTime(clock, ann.store, certified)
    certified.begins_s = PROGRAM_S - 1.0
    role.turn(ann.node, ann.now)
    assert earliest_us(ann.store) == PROGRAM_S * 1_000_000
    certified.begins_s = PROGRAM_S + 86_400.0
    ann.wait(3_600)
    role.turn(ann.node, ann.now)
    assert earliest_us(ann.store) == (PROGRAM_S + 86_400) * 1_000_000
    certified.begins_s = PROGRAM_S + 1.0  # an older certificate comes back
    ann.restart()
    role = KnownTime(clock, ann.store, certified)
    ann.wait(3_600)
    role.turn(ann.node, ann.now)
    assert earliest_us(ann.store) == (PROGRAM_S + 86_400) * 1_000_000
