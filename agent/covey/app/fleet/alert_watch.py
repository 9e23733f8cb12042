"""Watch the fleet and send alerts, in a process separate from the agent.

1. What was found is committed with the messages that tell of it; then they are sent.
2. Each target has a thread while a message is under way to it, so that one that is down holds up no other.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.alert_file import AlertFile
from covey.adapters.alert_targets import AlertTarget, alert_targets
from covey.app.device.device import open_device
from covey.app.fleet.alerts import findings_of, message_of
from covey.app.fleet.fleet import FleetView
from covey.app.fleet.silences import silenced
from covey.app.wording import count
from covey.core.alerts import AlertMessage
from covey.core.ids import printable
from covey.errors import ConfigurationError, CoveyError, LocalError, StorageError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder

_FILE = "alerts.json"
_SINCE_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class AlertEntry:
    """Something that is wrong. Times are microseconds since 1970. `announced`: whether a message tells of it."""

    kind: str
    device: str
    label: str
    series: str
    what: str
    since_us: int
    announced: bool


@dataclass(frozen=True, slots=True)
class AlertTargetEntry:
    """A target: how many messages wait for it, how many were dropped, and how often and why the first was refused."""

    name: str
    waiting: int
    dropped: int
    attempts: int
    error: str


@dataclass(frozen=True, slots=True)
class AlertList:
    """The problems at the last look, the targets, and whether `covey alert watch` runs here."""

    watched: bool
    alerts: tuple[AlertEntry, ...]
    targets: tuple[AlertTargetEntry, ...]


@dataclass(frozen=True, slots=True)
class AlertTrial:
    """The result of a test message to a target: `error` is empty if it was accepted."""

    target: str
    error: str


def list_alerts(folder: StateFolder) -> AlertList:
    """Return what was wrong at the last look, and how the targets are.

    Raises:
        ConfigurationError: the settings cannot be used.
        StorageError: what alerts remember cannot be read.
    """
    book, targets = (
        AlertFile(folder.path / _FILE).read(),
        alert_targets(folder.configuration.config().alerts, folder.path),
    )
    alerts = (
        AlertEntry(*subject[:2], each.label, subject.series, each.what, each.since_us, each.announced)
        for subject, each in book.episodes.items()
        if not each.ended_us
    )
    queues = ((name, book.queue(name)) for name in targets)
    return AlertList(
        folder.locks.alerts_are_watched(),
        tuple(sorted(alerts, key=lambda each: each.since_us)),
        tuple(
            AlertTargetEntry(name, len(each.waiting), each.dropped, each.attempts, each.error) for name, each in queues
        ),
    )


def try_targets(folder: StateFolder) -> list[AlertTrial]:
    """Send a message to each target, and return the results.

    Raises:
        ConfigurationError: no target is configured, or one that cannot be used.
    """
    now_us = time.time_ns() // 1_000
    text = f"This is a test of {printable(folder.configuration.config().label) or 'this device'}'s alerts."
    message = AlertMessage(f"{now_us:x}-test", "test", ended=False, title="Covey: a test", text=text, at_us=now_us)
    return [AlertTrial(name, _sent(target, message)) for name, target in _targets(folder).items()]


def _targets(folder: StateFolder) -> Mapping[str, AlertTarget]:
    found = alert_targets(folder.configuration.config().alerts, folder.path)
    if not found:
        raise ConfigurationError(
            "no alert target is configured",
            hint="covey config set alerts.webhook https://ntfy.sh/NAME; or set alerts.mail_to or alerts.program",
        )
    return found


def _sent(target: AlertTarget, message: AlertMessage) -> str:
    try:
        target(message)
    except CoveyError as error:
        return str(error)
    return ""


class AlertWatch:
    """Looks at the fleet of a device, and tells its owner what is wrong; one for each device at a time."""

    def __init__(self, folder: StateFolder, *, log: Callable[[str], None]) -> None:
        """Read what was told before; `log` takes a line for people.

        Raises:
            ConfigurationError: no target is configured, or one that cannot be used.
            LocalError: another process watches already.
            StorageError: what alerts remember cannot be read, or, where it is damaged, not be set aside.
        """
        self._folder, self._log, self._config = folder, log, folder.configuration.config().alerts
        self._targets = _targets(folder)
        self._lock = folder.locks.alerts()
        if self._lock is None:
            raise LocalError("another process already watches alerts", hint="covey alert list")
        self._file = AlertFile(folder.path / _FILE)
        self._book, aside = self._file.read_or_set_aside()
        if aside is not None:
            log(f"{_FILE} was damaged and is kept as {aside.name}; current alerts are sent again")
        self._view = FleetView()
        self._listens_since = time.monotonic()
        self._under_way: dict[str, threading.Thread] = {}
        self._guard = threading.Lock()

    def look(self) -> None:
        """Look at the fleet, commit what is to be told, and send what is due.

        Raises:
            StorageError: the state or the vault cannot be read, or nothing can be committed.
        """
        with open_device(self._folder) as device:
            fleet = self._view.look(device, None, _SINCE_US, always_us=_SINCE_US)
            own, quiet = device.node.identity.signing_public.hex(), silenced(device)
        if not fleet.listens:
            self._listens_since = time.monotonic()
        settled = time.monotonic() - self._listens_since >= self._config.restart_seconds and fleet.listens
        known, devices = self._book.episodes, self._view.keys
        findings = findings_of(
            fleet, self._view.devices(values=True), self._config, own=own, settled=settled, known=known
        )
        with self._guard:
            settle_us = int(self._config.settle_seconds * 1_000_000)
            for notice in self._book.look(findings, devices, fleet.at_us, settle_us, quiet):
                self._book.number += 1
                message = message_of(notice, devices, fleet.at_us, self._book.number)
                self._book.enqueue(message, self._targets)
                for line in message.text.splitlines():
                    self._log(printable(line))
            self._file.write(self._book)
            self._send_due(fleet.at_us)

    def _send_due(self, now_us: int) -> None:
        for name, target in self._targets.items():
            message = self._book.queue(name).due(now_us)
            if message is not None and (name not in self._under_way or not self._under_way[name].is_alive()):
                thread = threading.Thread(target=self._send, args=(name, target, message), daemon=True)
                self._under_way[name] = thread
                thread.start()

    def _send(self, name: str, target: AlertTarget, message: AlertMessage) -> None:
        waiting: AlertMessage | None = message
        while waiting is not None:
            why = _sent(target, waiting)
            with self._guard:
                queue = self._book.queue(name)
                if why:
                    queue.refused(why, time.time_ns() // 1_000)
                    self._log(f"{name}: {printable(why)}; after {count(queue.attempts, 'attempt')}")
                else:
                    queue.taken(waiting)
                try:
                    self._file.write(self._book)
                except StorageError as error:  # it is sent once more, under the same id
                    self._log(f"the alerts' state was not written: {error}")
                    return
                waiting = None if why else queue.due(time.time_ns() // 1_000)

    def close(self) -> None:
        """Let another process watch."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
