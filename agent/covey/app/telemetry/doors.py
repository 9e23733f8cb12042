"""Send readings on from a collector's vault, in a separate process with one thread per door."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from covey.adapters.doors.kinds import open_door, open_history
from covey.adapters.sqlite.door_file import DoorFile, set_aside
from covey.app.device.device import open_device
from covey.app.telemetry.door_history import HistoryRunner
from covey.app.telemetry.door_runner import DoorRunner, Survey
from covey.app.telemetry.landed_batches import LandedBatches
from covey.app.telemetry.vault import VaultWriter, vault_nodes, vault_reader, vault_writers
from covey.config.doors import KINDS
from covey.config.kinds import DOORS, ListedKind, listed_kinds
from covey.core.crypto import digest
from covey.core.presence.status import condition
from covey.core.telemetry.batch import ClockKind
from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading, KnownDevice
from covey.errors import ConfigurationError, CoveyError, LocalError, UsageError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.app.device.device import Device
    from covey.config.doors import DoorEntry
    from covey.core.ids import DeviceKey

FILE = "doors.sqlite"
_SETTLED_S = 0.5
"""Interval between checks whether the threads still run."""


@dataclass(frozen=True, slots=True)
class ListedDoor:
    """A door as configured; `to` is where its receiver is, without the rest of its address, which may be a secret."""

    name: str
    kind: str
    to: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Segments of a node that a door has passed over, at least in part, and why; `device` writes there, if known."""

    node: str
    first: int
    last: int
    reason: str
    noted_at_us: int
    device: str
    label: str


@dataclass(frozen=True, slots=True)
class LateReadingsStatus:
    """How a door's import of late readings is. Times as in `DoorStatus`.

    `hours` were imported since it began, the last at `imported_at_us`; an hour with more late readings counts again.
    `waiting` are to be imported. `attempts`, `failing_since_us` and `error` as in `DoorStatus`.
    """

    hours: int
    imported_at_us: int | None
    waiting: int
    attempts: int
    failing_since_us: int | None
    error: str


@dataclass(frozen=True, slots=True)
class DoorStatus:
    """How a door is. Times are microseconds since 1970, None for never.

    `messages` and `readings` were taken since it began, the last at `taken_at_us`. `behind`: segments of the vault that
    it has before it. `attempts`: how often in a row nothing was taken, since `failing_since_us`, and why. `gaps` counts
    what it has passed over, `passed` names the last of it. `dropped`: readings that it left out or cut, by reason.
    """

    name: str
    kind: str
    runs: bool
    begun_at_us: int | None
    messages: int
    readings: int
    taken_at_us: int | None
    behind: int
    attempts: int
    failing_since_us: int | None
    error: str
    gaps: int
    passed: tuple[PassedOver, ...]
    dropped: Mapping[str, int]
    history: LateReadingsStatus | None = None
    """Of its late readings; None where it imports none."""


@dataclass(frozen=True, slots=True)
class DoorTrial:
    """The result of a test batch: `error` is empty if it was accepted."""

    door: str
    error: str


def listed_doors(folder: StateFolder) -> list[ListedDoor]:
    """Return every door of the configuration.

    Raises:
        ConfigurationError: an entry is wrong.
    """
    return [
        ListedDoor(each.name, each.kind, _place(getattr(each.options, "url", "")))
        for each in folder.configuration.doors()
    ]


def door_kinds() -> list[ListedKind]:
    """Return every kind of door that an entry may name."""
    return listed_kinds(KINDS, DOORS)


def _place(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0].rpartition('@')[2]}"


def door_statuses(folder: StateFolder, *, named: bool = True) -> list[DoorStatus]:
    """Return how each door is; `named`: with the devices that write where something was passed over.

    Raises:
        ConfigurationError: an entry is wrong.
        StorageError: what doors remember cannot be read.
    """
    entries = folder.configuration.doors()
    if not entries:
        return []
    runs = doors_run(folder)
    if not (folder.path / FILE).exists():
        return [DoorStatus(each.name, each.kind, runs, *_NOT_BEGUN) for each in entries]
    file = DoorFile(folder.path / FILE)
    try:
        passed = named and any(file.gaps(each.name) for each in entries)
        writers = _writers(folder) if passed else {}
        return [_status(each, file, writers, runs=runs) for each in entries]
    finally:
        file.close()


_NOT_BEGUN: tuple[Any, ...] = (None, 0, 0, None, 0, 0, None, "", 0, (), {})


def _writers(folder: StateFolder) -> dict[str, VaultWriter]:
    with open_device(folder) as device:
        return vault_writers(device)


def _status(entry: DoorEntry, file: DoorFile, writers: Mapping[str, VaultWriter], *, runs: bool) -> DoorStatus:
    state = file.state(entry.name)
    if state is None:
        return DoorStatus(entry.name, entry.kind, runs, *_NOT_BEGUN)
    passed = (
        PassedOver(
            *(each.gap.node, each.gap.first, each.gap.last, each.gap.reason, each.noted_at_us),
            *writers.get(each.gap.node, ("", "")),
        )
        for each in file.gaps(entry.name)
    )
    return DoorStatus(
        entry.name,
        entry.kind,
        runs,
        state.begun_at_us,
        state.messages,
        state.readings,
        state.taken_at_us or None,
        state.behind,
        state.attempts,
        state.failing_since_us or None,
        state.error,
        state.gaps,
        tuple(passed),
        file.dropped(entry.name),
        _history(file, entry.name),
    )


def _history(file: DoorFile, door: str) -> LateReadingsStatus | None:
    found = file.hours.state(door)
    if found is None:
        return None
    return LateReadingsStatus(
        found.hours,
        found.imported_at_us or None,
        found.waiting,
        found.attempts,
        found.failing_since_us or None,
        found.error,
    )


def doors_run(folder: StateFolder) -> bool:
    """Say whether a process sends readings on."""
    lock = folder.locks.doors()
    if lock is not None:
        os.close(lock)
    return lock is None


def try_doors(folder: StateFolder, name: str | None) -> list[DoorTrial]:
    """Send a batch of one reading, `covey-test`, to each door or to one, and return the results.

    Of a door that imports late readings, that connection is tried, too; nothing is imported.

    Raises:
        ConfigurationError: there is none, or an entry is wrong.
        UsageError: there is none of that name.
    """
    entries = _entries(folder)
    if name is not None and name not in {each.name for each in entries}:
        known = ", ".join(each.name for each in entries)
        raise UsageError(f"the configuration has no door {name}", hint=f"known: {known}")
    with open_device(folder) as device:
        own = device.node.identity.signing_public
    now_us = time.time_ns() // 1_000
    reading = DoorReading("covey-test", "", now_us, 1.0)
    message_id = digest(b"covey/1 doortest", now_us.to_bytes(8, "big"))[:16].hex()
    message = DoorMessage(message_id, own, "0" * 64, now_us, ClockKind.SYNCHRONISED, (reading,))
    labels = {own: folder.configuration.config().label}
    return [
        DoorTrial(
            each.name,
            _sent(
                each,
                folder,
                DoorBatch(
                    message_id, each.name, now_us, int(each.common.backlog_seconds * 1_000_000), (message,), labels
                ),
            ),
        )
        for each in entries
        if name in {None, each.name}
    ]


def _sent(entry: DoorEntry, folder: StateFolder, batch: DoorBatch) -> str:
    try:
        door = open_door(replace(entry, name=f"{entry.name}-test"), folder.path)  # whose will speaks of it alone
        try:
            door.send(batch)
        finally:
            door.close()
        history = open_history(entry, folder.path)
        if history is not None:
            history.send((), lambda _: None)
    except CoveyError as error:
        return str(error)
    return ""


def _entries(folder: StateFolder) -> tuple[DoorEntry, ...]:
    found = folder.configuration.doors()
    if not found:
        raise ConfigurationError(
            "the configuration has no [[door]]",
            hint="docs/how-to/forward.md has an example of each kind",
        )
    return found


def run_doors(folder: StateFolder, log: Callable[[str], None]) -> None:
    """Send readings on until the process ends; `log` takes a line for people.

    Raises:
        ConfigurationError: no door is configured, or one that cannot be used; or this device has no vault.
        LocalError: another process does it already.
        StorageError: what doors remember cannot be read.
    """
    entries = _entries(folder)
    doors = [(each, open_door(each, folder.path), open_history(each, folder.path)) for each in entries]
    if not folder.has_vault_key:
        raise ConfigurationError(
            "this device has no vault, so it has no readings to forward",
            hint="use doors on the collector, the device that runs 'covey collect'",
        )
    lock = folder.locks.doors()
    if lock is None:
        raise LocalError("another process already forwards readings", hint="covey door status")
    try:
        aside = set_aside(folder.path / FILE)
        if aside is not None:
            log(f"{FILE} was damaged and is kept as {aside.name}; every door starts over")
        stop = threading.Event()
        runners: list[DoorRunner | HistoryRunner] = []
        for entry, door, history in doors:
            file = DoorFile(folder.path / FILE)
            look, keeps_hours = partial(survey, folder), history is not None
            runners.append(DoorRunner(entry, door, file, look, log, keeps_hours=keeps_hours))
            if history is None:
                file.hours.forget(entry.name)
            else:
                runners.append(HistoryRunner(entry.name, history, DoorFile(folder.path / FILE), log))
        threads = [threading.Thread(target=_go_on, args=(each, stop), daemon=True) for each in runners]
        for thread in threads:
            thread.start()
        try:
            while all(each.is_alive() for each in threads):
                stop.wait(_SETTLED_S)
        finally:
            stop.set()
        raise LocalError(
            "a door stopped because of a defect in Covey", hint="the lines above say where; please report them"
        )
    finally:
        os.close(lock)


def _go_on(runner: DoorRunner | HistoryRunner, stop: threading.Event) -> None:
    try:
        while not stop.is_set():
            stop.wait(runner.turn())
    finally:
        runner.close()


def survey(folder: StateFolder) -> Survey:
    """Look at the device: its vault, the nodes there, what members are called.

    Raises:
        ConfigurationError: the settings cannot be used.
        StorageError: the state or the vault cannot be read.
    """
    with open_device(folder) as device:
        reader = vault_reader(device, None)
        nodes = tuple(vault_nodes(device, reader.nodes()))
        return Survey(LandedBatches(reader), nodes, _known_devices(device))


def _known_devices(device: Device) -> dict[DeviceKey, KnownDevice]:
    seen, presences, now_us = (
        device.store.presence.last_seen(),
        device.store.presence.of_peers(),
        device.clock.wall_us(),
    )
    found = {}
    for group in device.node.groups.joined():
        for member in group.members:
            key = member.keys.signing_public
            state, _ = condition(presences.get(key), seen.get(key), now_us)
            found[key] = KnownDevice(member.label, state not in {"silent", "gone", "stopped"})
    return found
