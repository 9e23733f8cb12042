"""Hours with late readings into Home Assistant's long-term statistics, by its WebSocket API.

A connection imports some hours:

1. Home Assistant must have started and record. Then it has made its own rows of all hours that have ended, which an
   import replaces; in the other order its own rows would be refused together with those of other entities.
2. An entity is found by its `unique_id`: a person may have given it another id. One that is missing, or that Home
   Assistant counts in a unit of another quantity, keeps its hours waiting and stops no other.
3. An hour of which earlier readings are unknown here is imported only where Home Assistant has nothing of it.
4. Home Assistant answers before it stores. So the rows are read back, and those that it has count as imported.

The messages are those of `home_statistics.py`.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.adapters.doors.home_statistics import (
    hours_stored,
    import_message,
    is_row,
    look_message,
    row_of,
    takes_new_form,
    unit_class,
)
from covey.adapters.doors.http_post import secret_text
from covey.adapters.doors.kinds import ImportedHours
from covey.adapters.exchange_deadline import ended_within
from covey.adapters.mqtt.settings import is_nearby
from covey.adapters.web_address import web_address
from covey.core.ids import printable
from covey.core.telemetry.door_discovery import home_unit
from covey.core.telemetry.door_hours import DueHour
from covey.errors import ConfigurationError, DoorError, MissingPackageError
from covey.limits.doors import (
    DOOR_IMPORT_BYTES,
    DOOR_IMPORT_LOOK_SECONDS,
    DOOR_IMPORT_LOOKS,
    DOOR_IMPORT_SECONDS,
    DOOR_SEND_SECONDS,
)

if TYPE_CHECKING:
    from covey.adapters.doors.kinds import DoorOpening
    from covey.config.doors import HomeAssistant

_PATHS = {"": "/api/websocket", "/core": "/core/websocket"}
"""By the path of `history_url`: of Home Assistant itself, and of http://supervisor/core, by which add-ons reach it."""
_PORTS = {"http": 80, "https": 443}
_LONGEST_LOOK_S = 5.0
_NEXT_HOURS = 24
"""Hours that are further apart are asked for separately."""


def from_entry(opening: DoorOpening) -> HomeAssistantHistory | None:
    """Return what imports an entry's hours; None where it names no address for that."""
    options = opening.options
    return HomeAssistantHistory(options, opening.where, opening.folder) if options.history_url else None


class HomeAssistantHistory:
    """Imports hours."""

    def __init__(self, options: HomeAssistant, where: str, folder: Path) -> None:
        """Check what is configured; nothing is sent yet.

        Raises:
            ConfigurationError: no address, no token's file, a token that would cross foreign networks in the clear, or
                no certificates.
            MissingPackageError: websocket-client is not installed.
        """
        try:
            import websocket
        except ImportError as error:
            raise MissingPackageError("history_url", "websocket-client", debian="python3-websocket") from error
        self._library = websocket
        url = web_address(options.history_url, f"{where}: history_url", _PORTS)
        assert url.hostname is not None
        path = _PATHS.get(url.path.rstrip("/"))
        if path is None or url.query or url.fragment or url.username:
            raise ConfigurationError(
                f"{where}: history_url must be Home Assistant's address with nothing after the port"
            )
        if url.scheme == "http" and not is_nearby(url.hostname):
            raise ConfigurationError(f"{where}: history_url: outside private networks, a token needs https://")
        self._context: ssl.SSLContext | None = None
        if url.scheme == "https":
            try:
                ca_file = str(folder / options.ca_file) if options.ca_file else None
                self._context = ssl.create_default_context(cafile=ca_file)
            except (OSError, ssl.SSLError) as error:
                raise ConfigurationError(f"{where}: ca_file: {options.ca_file} holds no certificates") from error
        self._host, self._port = url.hostname, url.port or _PORTS[url.scheme]
        self._address = f"{'wss' if self._context else 'ws'}://{url.netloc}{path}"
        self._token = folder / options.token_file

    def send(self, hours: Iterable[DueHour], claim: Callable[[list[DueHour]], None]) -> ImportedHours:
        """Import hours; `claim` is called with those of rule 3 that Home Assistant has nothing of, before they go.

        Raises:
            DoorError: it cannot be reached, refuses the token, or takes nothing now.
            ConfigurationError: the token's file is missing, or open to others.
        """
        token = secret_text(self._token)
        try:
            connected = _Connected(self._library, self._host, self._port, self._context)
            with ended_within(DOOR_IMPORT_SECONDS, lambda: connected.socket):
                try:
                    connected.open(self._address, token)
                    return _import(connected, [*hours], claim)
                finally:
                    connected.close()
        except (OSError, self._library.WebSocketException) as error:
            raise DoorError(f"{self._host} cannot be reached: {_why(error)}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DoorError(f"{self._host} does not answer as Home Assistant does: {type(error).__name__}") from None


class _Connected:
    """A connection to the API; `ask` sends a command and returns its result."""

    def __init__(self, library: Any, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._library, self._host, self._port, self._context = library, host, port, context
        self._websocket: Any = None
        self._asked = 0
        self.socket: socket.socket | None = None
        self.version = ""

    def open(self, address: str, token: str) -> None:
        """Connect, and show the token."""
        self.socket = socket.create_connection((self._host, self._port), timeout=DOOR_SEND_SECONDS)
        if self._context is not None:
            self.socket = self._context.wrap_socket(self.socket, server_hostname=self._host)
        self._websocket = self._library.WebSocket(enable_multithread=False)
        bounded = _Bounded(self.socket)
        self._websocket.connect(address, socket=bounded, suppress_origin=True, redirect_limit=0)
        self._receive("auth_required")
        self._websocket.send(json.dumps({"type": "auth", "access_token": token}))
        self.version = str(self._receive("auth_ok", "auth_invalid").get("ha_version", ""))

    def _receive(self, *wanted: str) -> dict[str, Any]:
        found = json.loads(self._websocket.recv())
        if not isinstance(found, dict) or found.get("type") not in wanted:
            raise ValueError("an unexpected message")
        if found["type"] == "auth_invalid":
            raise DoorError(f"{self._host} refuses the token: create one on the profile page of an administrator")
        return found

    def ask(self, command: Mapping[str, Any]) -> Any:
        """Send a command, and return its result."""
        self._asked += 1
        self._websocket.send(json.dumps({"id": self._asked, **command}))
        answer = self._receive("result")
        if answer["id"] != self._asked:
            raise ValueError("an answer to another command")
        if answer["success"] is not True:
            error = answer["error"]
            raise _RefusedError(str(error.get("code", "")), printable(str(error.get("message", "")), 200))
        return answer["result"]

    def close(self) -> None:
        """Close it without a word."""
        if self.socket is not None:
            self.socket.close()


class _Bounded:
    """A socket that stops a server that sends without end; all else is the socket's."""

    def __init__(self, its_socket: socket.socket) -> None:
        self._socket, self._left = its_socket, DOOR_IMPORT_BYTES

    def recv(self, size: int) -> bytes:
        """Return what has come, as a socket does."""
        found = self._socket.recv(size)
        self._left -= len(found)
        if self._left < 0:
            raise OSError("it sends too much")
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class _RefusedError(DoorError):
    """Home Assistant has refused a command."""

    def __init__(self, code_there: str, message: str) -> None:
        if code_there == "unauthorized":
            message = "the token is not an administrator's"
        elif code_there == "unknown_command":
            message = "it does not record: the integration `recorder` is off"
        super().__init__(f"Home Assistant refuses: {message or code_there}")


@dataclass(slots=True)
class _Series:
    """The hours of one entity, and the unit that its statistics have."""

    entity_id: str
    unit: str
    stored_unit: str
    rows: dict[int, tuple[DueHour, dict[str, Any]]] = field(default_factory=dict)


def _import(connected: _Connected, hours: list[DueHour], claim: Callable[[list[DueHour]], None]) -> ImportedHours:
    if connected.ask({"type": "get_config"})["state"] != "RUNNING":
        raise DoorError("Home Assistant is still starting")
    recorder = connected.ask({"type": "recorder/info"})
    if not recorder["recording"] or recorder["migration_in_progress"]:
        raise DoorError("Home Assistant does not record now")
    found = ImportedHours()
    if not hours:
        return found
    series = _series(connected, hours, found)
    _leave_parts(connected, series, found, claim)
    new_form = takes_new_form(connected.version)
    for each in series:
        rows = [row for _, row in each.rows.values()]
        if rows:
            connected.ask(import_message(each.entity_id, each.stored_unit, rows, new_form=new_form))
    _read_back(connected, series, found)
    return found


def _series(connected: _Connected, hours: list[DueHour], found: ImportedHours) -> list[_Series]:
    """Return hours by entity, as rows (rule 2)."""
    wanted = {each.entity for each in hours}
    entities = {
        each["unique_id"]: each["entity_id"]
        for each in connected.ask({"type": "config/entity_registry/list"})
        if each["platform"] == "mqtt" and each["unique_id"] in wanted and each["disabled_by"] is None
    }
    command = {"type": "recorder/get_statistics_metadata", "statistic_ids": sorted(entities.values())}
    known = connected.ask(command) if entities else []  # of no entity it would tell all
    metadata = {each["statistic_id"]: each["statistics_unit_of_measurement"] or "" for each in known}
    series = dict[str, _Series]()
    missing, foreign = set[str](), set[str]()
    for due in hours:
        entity_id = entities.get(due.entity)
        if entity_id is None:
            missing.add(due.entity)
            found.waiting.append(due)
            continue
        unit, _ = home_unit(due.unit)
        each = series.setdefault(entity_id, _Series(entity_id, unit, metadata.get(entity_id, unit)))
        row = row_of(due, unit, each.stored_unit)
        if row is None:
            foreign.add(f"{entity_id} in {printable(each.stored_unit, 32) or 'no unit'}")
            found.waiting.append(due)
            continue
        each.rows[due.hour] = due, row
    if missing:
        found.failed.append(f"Home Assistant has no entity {_some(missing)}")
    if foreign:
        found.failed.append(f"Home Assistant counts {_some(foreign)}")
    return [*series.values()]


def _leave_parts(
    connected: _Connected, series: list[_Series], found: ImportedHours, claim: Callable[[list[DueHour]], None]
) -> None:
    """Leave hours to Home Assistant that it has counted while they were not (rule 3)."""
    if not any(due.is_part for each in series for due, _ in each.rows.values()):
        return
    stored = _stored(connected, series)
    holes = list[DueHour]()
    for each in series:
        for hour, (due, _) in [*each.rows.items()]:
            if not due.is_part:
                continue
            if (each.entity_id, hour) in stored:
                found.kept.append(due)
                del each.rows[hour]
            else:
                holes.append(due)
    claim(holes)


def _read_back(connected: _Connected, series: list[_Series], found: ImportedHours) -> None:
    """Wait until what was sent is there (rule 4)."""
    pause_s = DOOR_IMPORT_LOOK_SECONDS
    for look in range(DOOR_IMPORT_LOOKS):
        if look:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
        stored = _stored(connected, series)
        for each in series:
            for hour, (due, row) in [*each.rows.items()]:
                if is_row(stored.get((each.entity_id, hour)), row):
                    found.stored.append(due)
                    del each.rows[hour]
        if not any(each.rows for each in series):
            return
    found.waiting.extend(due for each in series for due, _ in each.rows.values())
    found.failed.append(f"Home Assistant has not stored {_some(each.entity_id for each in series if each.rows)}")


def _stored(connected: _Connected, series: list[_Series]) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Return what is stored of the hours that are left, in the units in which it is stored."""
    found = dict[tuple[str, int], Mapping[str, Any]]()
    for unit in {each.stored_unit for each in series}:
        of_unit = [each for each in series if each.stored_unit == unit and each.rows]
        kind = unit_class(unit)
        units = {} if kind is None else {kind: unit}
        for entity_ids, first, last in _looks(of_unit):
            found |= hours_stored(connected.ask(look_message(entity_ids, first, last, units)))
    return found


def _looks(series: list[_Series]) -> Iterator[tuple[list[str], int, int]]:
    """Yield entities and a period, so that few questions are asked, and answers are no longer than what is wanted."""
    hours = sorted({hour for each in series for hour in each.rows})
    if len(hours) < len(series):
        for hour in hours:
            yield [each.entity_id for each in series if hour in each.rows], hour, hour
        return
    for each in series:
        first = last = min(each.rows)
        for hour in sorted(each.rows):
            if hour - last > _NEXT_HOURS:
                yield [each.entity_id], first, last
                first = hour
            last = hour
        yield [each.entity_id], first, last


def _some(names: Iterable[str]) -> str:
    first, *others = sorted(set(names))
    return printable(first, 128) + (f" and {len(others)} more" if others else "")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return type(error).__name__
