"""One device: which folder holds its state, and that state opened. Whatever works on a device begins here."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.clock import SystemClock
from covey.adapters.journal import notify_person, report
from covey.adapters.sqlite.store import SqliteStore
from covey.adapters.state_folder import StateFolder
from covey.adapters.state_path import default_state
from covey.adapters.systemd import Systemd
from covey.app.device.calls import EphemeralExchange, Waking
from covey.app.device.carriage import announced_payloads
from covey.app.device.known_time import earliest_us
from covey.app.device.live_settings import LiveSettings
from covey.app.device.noted_alarms import noted_alarms
from covey.config.schema import Config
from covey.core.checkpoints.newcomers import nobody_pinned
from covey.core.group.manifest import GroupManifest, Mode
from covey.core.ids import GROUP_ID_BYTES, GroupId, from_hex
from covey.core.link.state import LinkState
from covey.core.node import Node
from covey.core.now import Now
from covey.core.telemetry.series_rules import SeriesWatch
from covey.errors import ConfigurationError, DamagedStateError, LocalError, MalformedError, RemoteError

if TYPE_CHECKING:
    from covey.core.crypto import Identity
    from covey.core.orders.authority import Pins
    from covey.ports import Clock

_PATIENCE_S = 2.0
"""After so long a person is told why a state takes time to open."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device, opened. A fresh account is one that the relay may have to hear of yet."""

    folder: StateFolder
    live: LiveSettings
    store: SqliteStore
    clock: Clock
    node: Node
    fresh_account: bool = False
    ephemeral: EphemeralExchange = field(default_factory=EphemeralExchange)
    waking: Waking = field(default_factory=Waking)
    series: SeriesWatch = field(default_factory=SeriesWatch)

    @property
    def config(self) -> Config:
        """The settings as they hold."""
        return self.live.config

    def now(self) -> Now:
        """Return both clocks."""
        return Now(self.clock.monotonic_us(), self.clock.wall_us())

    def make_node(
        self,
        *,
        lands_telemetry: bool = False,
        presence_us: int = 0,
        state: LinkState | None = None,
        pins: Callable[[GroupId], Pins] = nobody_pinned,
    ) -> Node:
        """Return a node over the committed state; one that takes another's place gets its link state."""
        node = Node(
            self.node.identity,
            self.store,
            secrets.token_bytes,
            _jitter,
            lands_telemetry=lands_telemetry,
            presence_us=presence_us,
            silent_us=int(self.config.telemetry.takeover_minutes * 6e7),
            state=state,
            pins=pins,
        )
        node.telemetry.keep(self.config.telemetry.keep_days, self.series.is_newest_only)
        if state is None:
            _note_carriage(node, self.config, self.store)
        return node

    def pick_group(self, name: str | None) -> GroupManifest:
        """Return the group that a person means, as `pick_group` does; one that this device still joins is named."""
        joined = any(each.group_id.hex().startswith(name or "") for each in self.node.groups.joined())
        syncing = [each.group_id.hex() for each in self.store.joins.pending() if name and not joined]
        for group in syncing:
            if group.startswith(name or ""):
                raise LocalError(
                    f"group {group[:8]} is still syncing: its inviter has not sent it yet",
                    hint="'covey request' shows what is missing; the inviter's agent must be running",
                )
        return pick_group(self.node, name)


def pick_group(node: Node, name: str | None) -> GroupManifest:
    """Return the group that a person means: by the beginning of its id, or the only one.

    The group of the person's own devices is meant by name alone, unless there is no other.

    Raises:
        LocalError: none, or more than one.
    """
    joined = node.groups.joined()
    groups = joined if name else [each for each in joined if each.mode is not Mode.PERSONAL] or joined
    matching = [group for group in groups if group.group_id.hex().startswith(name or "")]
    if len(matching) == 1:
        return matching[0]
    if not groups:
        raise LocalError("this device is in no group", hint="covey group create, or covey join")
    known = ", ".join(group.group_id.hex()[:8] for group in groups)
    what = f"which group? {len(matching)} match" if matching else f"no group's id begins with '{name}'"
    raise LocalError(what, hint=f"--group with one of: {known}")


def _note_carriage(node: Node, config: Config, store: SqliteStore) -> None:
    """Tell a node what the relays accepted when an agent last reached them: a command writes without a connection."""
    payloads = announced_payloads(config.relay, store)
    if payloads:
        node.state.carriage.maximum_payload = max(payloads.values())


def _jitter(low: int, high: int) -> int:
    return low + secrets.randbelow(high - low + 1)


def group_id(text: str) -> GroupId:
    """Return a group's id, as the configuration names it.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        return GroupId(from_hex(text, GROUP_ID_BYTES))
    except MalformedError as error:
        raise ConfigurationError(f"telemetry.group: {error}", hint="'covey group show' prints the id") from error


def find_state(state: str | None = None, config: str | None = None, passphrase_file: str | None = None) -> StateFolder:
    """Return the folder that is meant: the one named, $COVEY_STATE, or the system's for root and who owns it.

    `config` names the configuration instead of the folder's own, `passphrase_file` the file that unlocks the key.
    """
    path = Path(state) if state else default_state()
    config = config or os.environ.get("COVEY_CONFIG")
    folder = StateFolder.at(path.absolute(), Path(config) if config else None)
    return replace(folder, passphrase_file=Path(passphrase_file)) if passphrase_file else folder


@contextmanager
def open_device(folder: StateFolder) -> Iterator[Device]:
    """Open the device in a folder.

    Raises:
        ConfigurationError: no device here, or its files are wrong.
        StorageError: the database cannot be opened.
    """
    identity = folder.identity()
    try:
        with device_on(folder, identity, folder.configuration.config()) as device:
            yield device
    finally:
        identity.wipe()


@contextmanager
def device_on(folder: StateFolder, identity: Identity, config: Config) -> Iterator[Device]:
    """Open a device whose key and settings are known already.

    Raises:
        ConfigurationError: its database is a newer Covey's.
        StorageError: the database cannot be opened.
    """
    store = folder.store(config, identity, lambda seen: report("error", seen.line()), _while_opening())
    try:
        try:
            node = Node(identity, store, secrets.token_bytes, _jitter)
            series = SeriesWatch(config.telemetry.series)
            series.resume(noted_alarms(store))
            node.telemetry.keep(config.telemetry.keep_days, series.is_newest_only)
            _note_carriage(node, config, store)
        except (RemoteError, ValueError) as error:  # what was checked when it was stored
            raise DamagedStateError(f"the state database is damaged: {error}") from error
        live = LiveSettings(config)
        live.follow(("telemetry.series",), lambda changed: series.change(changed.telemetry.series))
        yield Device(folder, live, store, SystemClock(earliest_us(store)), node, series=series)
    except DamagedStateError as error:
        folder.state_file.note_damage()
        raise DamagedStateError(
            str(error), hint="restart the agent: it sets the damaged file aside and recovers what can be read"
        ) from error
    finally:
        store.close()


def _while_opening() -> Callable[[], None]:
    """Return a function that reports progress to a person, or systemd, while a state is converted or salvaged."""
    supervisor, began, notified = Systemd(), time.monotonic(), False

    def moves() -> None:
        nonlocal notified
        supervisor.starting()
        if not notified and time.monotonic() - began > _PATIENCE_S:
            notified = True
            notify_person("the state is being converted or saved; this can take minutes")

    return moves
