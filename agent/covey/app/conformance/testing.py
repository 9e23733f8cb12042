"""Run one conformance test from its invite to its findings."""

from __future__ import annotations

import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.conformance import (
    board_steps,
    collector_steps,
    gateway_steps,
    mailbox_steps,
    member_steps,
    operator_steps,
    sensor_steps,
)
from covey.app.conformance.checks import RequirementResult
from covey.app.conformance.session import MESSAGE_BYTES, DeviceEndedError, DeviceTest, StepError
from covey.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covey.app.conformance.sensor_steps import Step

_SHORTEST_S = 10.0
"""Less is no fair limit: retries and the heads' random waits take seconds."""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """What a test has found of a device."""

    role: str
    device: str
    """Its signing key in hex; empty where it never connected."""
    findings: list[RequirementResult]

    @property
    def conformant(self) -> bool:
        """Whether every mandatory check passed, and nothing failed."""
        return all(each.sound for each in self.findings)

    def document(self) -> dict[str, object]:
        """Return what `--json` prints."""
        checks = [
            {**each.check.document(), "verdict": each.verdict.value, "seen": each.sentence} for each in self.findings
        ]
        return {"role": self.role, "device": self.device, "conformant": self.conformant, "checks": checks}


_SENDS = (*sensor_steps.DELIVERING, *sensor_steps.RECEIVING)
STEPS: dict[str, tuple[Step, ...]] = {
    "sensor": (*_SENDS, *sensor_steps.RESTARTS, *sensor_steps.LAST),
    "member": (*_SENDS, *member_steps.STEPS, *sensor_steps.RESTARTS, *sensor_steps.LAST),
    "collector": (
        *(*sensor_steps.RECEIVING, *member_steps.HEADS, *collector_steps.LANDING, *collector_steps.RESTARTS),
        *(*member_steps.REMOVAL, *sensor_steps.LAST),
    ),
    "operator": (
        *(*sensor_steps.RECEIVING, *member_steps.HEADS, *operator_steps.ORDERING, *sensor_steps.RELAY_RESTART),
        *(*operator_steps.RESTARTS, *operator_steps.COUNTING, *member_steps.REMOVAL, *sensor_steps.LAST),
    ),
    "mailbox": (
        *(*sensor_steps.RECEIVING, *member_steps.HEADS, *mailbox_steps.KEEPING, *sensor_steps.RELAY_RESTART),
        *(*mailbox_steps.RESTARTS, *member_steps.REMOVAL, *mailbox_steps.REMOVED, *sensor_steps.LAST),
    ),
    "gateway": (
        *(*sensor_steps.RECEIVING, *member_steps.HEADS, *gateway_steps.CARRYING, *sensor_steps.RELAY_RESTART),
        *(*gateway_steps.RESTARTS, *member_steps.REMOVAL, *sensor_steps.LAST),
    ),
    "board": board_steps.STEPS,
}
"""The steps of a test by the device's role, each with what it is called while it runs."""


def check_device(
    role: str,
    listen: str,
    command: Sequence[str],
    wait_s: float,
    report: Callable[[str], None],
    *,
    line: str = "",
    steps: Sequence[Step] | None = None,
) -> ConformanceReport:
    """Play relay and peers for a device of a role; `report` gets what happens, and what a person has to do.

    The device joins, then the test takes the steps; by default, all `STEPS` of the role. `line` is the serial port that
    leads to a gateway; by default, a pseudo terminal.

    Raises:
        ConfigurationError: the address cannot be listened on, or the port cannot be opened.
        UsageError: no address, no such program, too short a time, or a line for a role without one.
    """
    if wait_s < _SHORTEST_S:
        raise UsageError(f"--timeout {wait_s:g} is too short", hint=f"give every step {_SHORTEST_S:g} s at least")
    if line and role not in MESSAGE_BYTES:
        roles = " or ".join(f"--role {each}" for each in MESSAGE_BYTES)
        raise UsageError(f"a device of role {role} is not tested at a line", hint=f"--line goes with {roles}")
    address = _address(listen)
    with (
        tempfile.TemporaryDirectory(prefix="covey-conformance-") as folder,
        closing(DeviceTest(Path(folder), role, address, command, wait_s, line)) as session,
    ):
        with suppress(StepError):
            session.let_join(report)
            _take(STEPS[role] if steps is None else steps, session, report)
        key = session.seen.device
        return ConformanceReport(role, key.hex() if key else "", session.findings.all())


def _take(steps: Sequence[Step], session: DeviceTest, report: Callable[[str], None]) -> None:
    for step, about in steps:
        report(about)
        try:
            step(session)
        except DeviceEndedError:
            return
        except StepError:
            session.unmute()


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65_535 or not host:
        raise UsageError(f"'{listen}' is no address", hint="--listen HOST:PORT, for example 127.0.0.1:1884")
    return host.strip("[]"), int(port)
