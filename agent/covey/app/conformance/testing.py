"""Run one conformance test from its invite to its findings."""

from __future__ import annotations

import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from difflib import get_close_matches
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
from covey.app.conformance.checks import ROLES, RequirementResult
from covey.app.conformance.session import MESSAGE_BYTES, DeviceEndedError, DeviceTest, StepError
from covey.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from covey.app.conformance.sensor_steps import ConformanceStep

_SHORTEST_S = 10.0
"""Less is no fair limit: retries and the heads' random waits take seconds."""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """What a test has found of a device."""

    role: str
    device: str
    """Its signing key in hex; empty where it never connected."""
    findings: list[RequirementResult]
    is_whole: bool = True
    """Whether all checks of the role were tested."""

    @property
    def passed(self) -> bool:
        """Whether every mandatory check that was tested passed, and nothing failed."""
        return all(each.sound for each in self.findings)

    @property
    def conformant(self) -> bool:
        """Whether the device passed the whole test."""
        return self.is_whole and self.passed

    def document(self) -> dict[str, object]:
        """Return what `--json` prints."""
        checks = [
            {**each.check.document(), "verdict": each.verdict.value, "seen": each.sentence} for each in self.findings
        ]
        verdicts = {"whole": self.is_whole, "passed": self.passed, "conformant": self.conformant}
        return {"role": self.role, "device": self.device, **verdicts, "checks": checks}


_SENDS = (*sensor_steps.DELIVERING, *sensor_steps.RECEIVING)
STEPS: dict[str, tuple[ConformanceStep, ...]] = {
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
    only: Collection[str] = (),
) -> ConformanceReport:
    """Play relay and peers for a device of a role; `report` gets what happens, and what a person has to do.

    The device joins, then the test takes all `STEPS` of the role, or those that the checks in `only` need. `line` is
    the serial port that leads to a gateway; by default, a pseudo terminal.

    Raises:
        ConfigurationError: the address cannot be listened on, or the port cannot be opened.
        UsageError: no address, no such program or check, too short a time, or a line for a role without one.
    """
    known = [each.name for each in ROLES[role]]
    if unknown := next((each for each in only if each not in known), ""):
        near = "".join(f"did you mean '{each}'? " for each in get_close_matches(unknown, known, 1))
        raise UsageError(f"role {role} has no check '{unknown}'", hint=f"{near}--list shows the checks of a role")
    if wait_s < _SHORTEST_S:
        raise UsageError(f"--timeout {wait_s:g} is too short", hint=f"give every step {_SHORTEST_S:g} s at least")
    if line and role not in MESSAGE_BYTES:
        roles = " or ".join(f"--role {each}" for each in MESSAGE_BYTES)
        raise UsageError(f"a device of role {role} is not tested at a line", hint=f"--line goes with {roles}")
    address = _address(listen)
    with (
        tempfile.TemporaryDirectory(prefix="covey-conformance-") as folder,
        closing(DeviceTest(Path(folder), role, address, command, wait_s, line, only)) as session,
    ):
        with suppress(StepError):
            session.let_join(report)
            _take(steps_for(role, only), session, report)
        key, findings = session.seen.device, session.findings
        found = findings.of(only) if only else findings.all()
        return ConformanceReport(role, key.hex() if key else "", found, is_whole=not only)


def steps_for(role: str, only: Collection[str] = ()) -> list[ConformanceStep]:
    """Return the steps that decide some checks of a role, and those that prepare them; all steps if none is named.

    No step decides what a device shows while it joins.
    """
    if not only:
        return list(STEPS[role])
    taken: list[ConformanceStep] = []
    wanted = set(only)
    for step in reversed(STEPS[role]):
        if wanted & set(step.checks):
            taken.append(step)
            wanted |= set(step.needs)
    return taken[::-1]


def _take(steps: Sequence[ConformanceStep], session: DeviceTest, report: Callable[[str], None]) -> None:
    for step in steps:
        wanted = [each for each in step.checks if session.wants(each)]
        if wanted and all(map(session.findings.failed, wanted)):
            continue  # they stay failed
        report(step.about)
        try:
            step.run(session)
        except DeviceEndedError:
            return
        except StepError:
            session.unmute()


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65_535 or not host:
        raise UsageError(f"'{listen}' is no address", hint="--listen HOST:PORT, for example 127.0.0.1:1884")
    return host.strip("[]"), int(port)
