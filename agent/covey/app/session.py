"""What commands share: finding the state, opening the store and node, running the agent until something holds."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.clock import SystemClock
from covey.adapters.sqlite.store import SqliteStore
from covey.adapters.state_folder import SYSTEM_STATE, StateFolder
from covey.adapters.systemd import Systemd
from covey.app.roles.publisher import Publisher, telemetry_group
from covey.config.settings import Config
from covey.core.group.manifest import GroupManifest
from covey.core.ids import GROUP_ID_BYTES, from_hex
from covey.core.node import Node
from covey.core.now import Now
from covey.core.wire.topics import inbox_topic
from covey.errors import (
    ConfigurationError,
    DamagedStateError,
    GroupDestroyedError,
    LocalError,
    MalformedError,
    RemoteError,
    UsageError,
)

if TYPE_CHECKING:
    from covey.adapters.mqtt.relay import MqttRelay
    from covey.core.crypto import Identity

_POLL_S = 0.1
_PATIENCE_S = 2.0
_PROBE_S = 0.5
"""A command that asks whether an agent runs holds the agent's lock for a moment."""
_REFUSED_S, _FRESH_REFUSED_S = 30.0, 2.0
"""Before a relay that has refused us is asked again."""
_YIELD_S = 10.0
"""A command that waits notices a starting agent within a second; then it lets go of the relay."""


@dataclass(frozen=True, slots=True)
class Session:
    """One device, opened by one command. A fresh account is one that the relay may have to hear of yet."""

    folder: StateFolder
    config: Config
    store: SqliteStore
    clock: SystemClock
    node: Node
    fresh_account: bool = False

    def now(self) -> Now:
        """Return both clocks."""
        return Now(self.clock.monotonic_us(), self.clock.wall_us())

    def make_node(self, *, lands_telemetry: bool = False, presence_us: int = 0) -> Node:
        """Return a node over the committed state."""
        node = Node(
            self.node.identity,
            self.store,
            secrets.token_bytes,
            _jitter,
            lands_telemetry=lands_telemetry,
            presence_us=presence_us,
            silent_us=int(self.config.telemetry.takeover_minutes * 6e7),
        )
        node.keep_telemetry(self.config.telemetry.keep_days)
        return node

    def publisher(self, batch_readings: int | None = None) -> Publisher:
        """Return what turns readings into queued batches, as configured."""
        telemetry = self.config.telemetry
        group = group_id(telemetry.group) if telemetry.group else None
        return Publisher(
            self.clock,
            self.store,
            telemetry_group(group),
            int(telemetry.batch_seconds * 1e6),
            batch_readings or telemetry.batch_readings,
        )

    def pick_group(self, name: str | None) -> GroupManifest:
        """Return the group that a person means: by the beginning of its id, or the only one.

        Raises:
            LocalError: none, or more than one.
        """
        groups = self.node.membership.groups()
        matching = [group for group in groups if group.group_id.hex().startswith(name or "")]
        if len(matching) == 1:
            return matching[0]
        if not groups:
            raise LocalError("this device is in no group", hint="covey group create, or covey join")
        known = ", ".join(group.group_id.hex()[:8] for group in groups)
        raise LocalError(f"which group? {len(matching)} match '{name or ''}'", hint=f"--group with one of: {known}")


def _jitter(low: int, high: int) -> int:
    return low + secrets.randbelow(high - low + 1)


def group_id(text: str) -> bytes:
    """Return a group's id, as the configuration names it.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        return from_hex(text, GROUP_ID_BYTES)
    except MalformedError as error:
        raise ConfigurationError(f"telemetry.group: {error}", hint="'covey group show' prints the id") from error


def state_folder(options: argparse.Namespace) -> StateFolder:
    """Return the folder that a command works on: --state, $COVEY_STATE, or the system's for root and who owns it."""
    if options.state:
        path = Path(options.state)
    elif "COVEY_STATE" in os.environ:
        path = Path(os.environ["COVEY_STATE"])
    elif os.geteuid() in {0, _owner(SYSTEM_STATE)}:
        path = SYSTEM_STATE
    else:
        path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "covey"
    config = options.config or os.environ.get("COVEY_CONFIG")
    folder = StateFolder.at(path.absolute(), Path(config) if config else None)
    passphrase_file = getattr(options, "passphrase_file", None)
    return replace(folder, passphrase_file=Path(passphrase_file)) if passphrase_file else folder


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


@contextmanager
def open_session(options: argparse.Namespace) -> Iterator[Session]:
    """Open the device that a command works on.

    Raises:
        ConfigurationError: no device here, or its files are wrong.
        StorageError: the database cannot be opened.
    """
    folder = state_folder(options)
    identity = folder.identity()
    try:
        with session_on(folder, identity, folder.config()) as session:
            yield session
    finally:
        identity.wipe()


def _while_opening() -> Callable[[], None]:
    """Return what tells a person, or systemd, that a state that is being converted or saved moves."""
    supervisor, began, told = Systemd(), time.monotonic(), False

    def moves() -> None:
        nonlocal told
        supervisor.starting()
        if not told and time.monotonic() - began > _PATIENCE_S and sys.stderr.isatty():
            told = True
            print("the state is being converted or saved; this can take minutes", file=sys.stderr, flush=True)

    return moves


@contextmanager
def session_on(folder: StateFolder, identity: Identity, config: Config) -> Iterator[Session]:
    """Open a device whose key and settings are known already.

    Raises:
        ConfigurationError: its database is a newer Covey's.
        StorageError: the database cannot be opened.
    """
    store = folder.store(config, identity, lambda saved: report("error", saved.line()), _while_opening())
    try:
        try:
            node = Node(identity, store, secrets.token_bytes, _jitter)
            node.keep_telemetry(config.telemetry.keep_days)
        except (RemoteError, ValueError) as error:  # what was checked when it was stored
            raise DamagedStateError(f"the state database is damaged: {error}") from error
        yield Session(folder, config, store, SystemClock(), node)
    except DamagedStateError as error:
        folder.state_file.note_damage()
        raise DamagedStateError(str(error), hint="the next start saves what can be read") from error
    finally:
        store.close()


def run_agent(session: Session, roles: Sequence[object], *, lands_telemetry: bool = False) -> None:
    """Be the agent on this state until SIGTERM or Ctrl-C.

    Raises:
        ConfigurationError: no relay is set, or the local API's socket cannot be there.
        LocalError: an agent runs already on this state.
    """
    agent_lock = _lock_within(session.folder.lock_agent, _PROBE_S)
    if agent_lock is None:
        raise LocalError("an agent runs already on this state", hint="'covey status' shows what it does")
    relay_lock = _lock_within(session.folder.lock_relay, _YIELD_S)
    if relay_lock is None:
        raise LocalError("another covey command does not let go of the relay", hint="end it, then start again")
    try:
        with stop_signals() as early, _local_api(session):
            session.folder.state_file.change_mark(session.store)
            speak_with_relay(session, roles, lambda: bool(early), lands_telemetry=lands_telemetry, supervisor=Systemd())
            session.folder.state_file.change_mark(session.store)
    finally:
        os.close(relay_lock)
        os.close(agent_lock)


@contextmanager
def _local_api(session: Session) -> Iterator[None]:
    """Serve the local API where the configuration names a socket."""
    name = session.config.api.socket
    if not name:
        yield
        return
    from covey.app.api import serve

    api = serve(session, session.folder.path / name)
    try:
        yield
    finally:
        api.close()


def _lock_within(lock: Callable[[], int | None], seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while (descriptor := lock()) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return descriptor


def wait_until(session: Session, condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for something that needs the relay: the agent does it, or this command does while no agent runs."""
    deadline = time.monotonic() + seconds

    def done() -> bool:
        return condition() or time.monotonic() >= deadline

    while not done():
        relay_lock = None if session.folder.agent_runs() else session.folder.lock_relay()
        if relay_lock is None:
            time.sleep(_POLL_S)
            continue
        try:
            if speak_with_relay(session, [], lambda: done() or session.folder.agent_runs()):
                raise KeyboardInterrupt
        finally:
            os.close(relay_lock)
    return condition()


def speak_with_relay(
    session: Session,
    roles: Sequence[object],
    until: Callable[[], bool],
    *,
    lands_telemetry: bool = False,
    supervisor: Systemd | None = None,
) -> bool:
    """Run the loop in this process, holding the relay's lock; return whether a signal ended it before `until` did.

    An agent has a supervisor, and tells the collector that it is there; a command comes and goes unreported.

    Raises:
        ConfigurationError: no relay is set.
    """
    from covey.app.pairing import host_facts
    from covey.app.relays import Relays
    from covey.app.roles.group_teardown import GroupTeardown
    from covey.app.roles.key_reload import KeyReload
    from covey.app.roles.pairing_host import PairingHost
    from covey.app.runtime import Runtime

    presence_us = 0 if supervisor is None else int(session.config.presence.interval_seconds * 1e6)
    refused_s = _FRESH_REFUSED_S if session.fresh_account else _REFUSED_S
    relays = Relays(make_relays(session.folder, session.config, session.node.identity, refused_s))
    teardown = GroupTeardown(session.store)
    host = PairingHost(session.store, relays, host_facts(session.folder, session.config), secrets.token_bytes, report)
    runtime = Runtime(
        session.store,
        relays,
        session.clock,
        lambda: session.make_node(lands_telemetry=lands_telemetry, presence_us=presence_us),
        [*roles, KeyReload(session.folder, session.store, report), host, teardown],  # type: ignore[list-item] # roles are structural; runtime.Role is not loaded by light commands
        report,
        supervisor,
        host.receive,
    )
    with stop_signals() as stopping:
        runtime.run(lambda: bool(stopping) or teardown.nothing_left or until())
    if teardown.nothing_left:
        session.store.close()
        session.folder.wipe()
        raise GroupDestroyedError("the group was destroyed, and this device has forgotten everything")
    return bool(stopping)


def make_relays(
    folder: StateFolder, config: Config, identity: Identity, refused_s: float = _REFUSED_S
) -> list[MqttRelay]:
    """Return the configured relays, not connected yet; `refused_s` is the shortest wait after one has said no.

    Raises:
        ConfigurationError: no relay is set, or one is not usable.
    """
    from covey.adapters.keys.relay_credential import accounts
    from covey.adapters.mqtt.relay import MqttRelay

    return [
        MqttRelay(
            account.name,
            account.url,
            identity.signing_public.hex(),
            account.password,
            inbox_topic(identity.signing_public),
            ca_file=account.ca_file,
            client=account.client,
            refused_s_min=refused_s,
        )
        for account in accounts(folder, config)
    ]


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Give a list that stays empty until SIGTERM or SIGINT."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda signal_number, _frame: received.append(signal_number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_PRIORITIES = {"error": 3, "warning": 4, "notice": 5, "info": 6}


def report(level: str, line: str) -> None:
    """Print one line on stderr: with a journal priority under systemd, with the level for people."""
    prefix = f"<{_PRIORITIES[level]}>" if "JOURNAL_STREAM" in os.environ else f"{level}: "
    print(prefix + line, file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    """Print one JSON document on stdout."""
    print(json.dumps(value, ensure_ascii=False))


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns, each as wide as its widest cell."""
    for line in table_lines(head, rows):
        print(line)


def table_lines(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield columns, each as wide as its widest cell."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def confirm(question: str, yes: bool) -> None:
    """Ask a person before something that cannot be undone.

    Raises:
        LocalError: the person does not want to, or nobody is there to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this cannot be undone", hint="--yes does it without asking")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise LocalError("nothing was changed")


def read_text_file(name: str) -> str:
    """Read a small file that a person named; `-` is stdin.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} cannot be read: {error}") from error
