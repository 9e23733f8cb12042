"""What `covey check` looks at: one small function each, in the order of the list at the end.

1. A check yields findings; an error of ours that it raises is a finding, too, with its own hint.
2. A check is skipped when one that it needs has found an error: one cause, one line.
3. Nothing is changed but what any command changes (a database of an earlier version is migrated).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.limits import MIB
from agent.errors import CoveyError

if TYPE_CHECKING:
    from agent.adapters.sqlite_store import SqliteStore
    from agent.adapters.state_folder import StateFolder
    from agent.config import Configuration
    from agent.core.crypto import Identity
    from agent.core.membership import Membership
    from agent.ports import Clock

_DAY_US = 86_400_000_000
_OLDEST_CLOCK_US = 1_735_689_600_000_000
"""2025-01-01: a clock before the first release of Covey has not been set."""
_CERTIFICATE_DAYS = 30
"""A gateway that is away for a month must still trust the relay when it is back."""
_LEAST_FREE_BYTES = 64 * MIB
_LEAST_FREE_INODES = 1_000


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line, and how to mend what it says."""

    level: Level
    check: str
    line: str
    hint: str = ""


Seen = tuple[Level, str, str]


def _ok(line: str) -> Seen:
    return Level.OK, line, ""


def _warning(line: str, hint: str) -> Seen:
    return Level.WARNING, line, hint


def _error(line: str, hint: str) -> Seen:
    return Level.ERROR, line, hint


@dataclass(slots=True)
class Device:
    """What is checked; the parts are there once their own check has found no error."""

    folder: StateFolder
    clock: Clock
    configuration: Configuration = field(init=False)
    identity: Identity = field(init=False)
    store: SqliteStore = field(init=False)
    membership: Membership = field(init=False)

    def close(self) -> None:
        """Close what checks have opened."""
        if hasattr(self, "store"):
            self.store.close()


def versions(_: Device) -> Iterator[Seen]:
    """What runs here."""
    from importlib.metadata import version

    from agent.adapters.sqlite_inspection import library_version

    here = f"covey {version('covey')}, Python {sys.version.split()[0]}, SQLite {library_version()}"
    if tuple(int(part) for part in library_version().split(".")[:2]) < (3, 37):
        yield _error(here, "Covey needs SQLite 3.37 or later: upgrade the system, or Python with its own SQLite")
    else:
        yield _ok(f"{here}, paho-mqtt {version('paho-mqtt')}, PyNaCl {version('pynacl')}")


def configuration(device: Device) -> Iterator[Seen]:
    """Every file and variable that settings come from."""
    from agent.cli.cmd_config import check_meanings

    device.configuration = device.folder.configuration()
    check_meanings(device.configuration)
    yield _ok(", ".join(str(path) for path in device.folder.config_files()))


def identity(device: Device) -> Iterator[Seen]:
    """The keys: there, whole, and nobody else's to read."""
    from agent.adapters.key_file import private_folder
    from agent.core.ids import device_name

    device.identity = device.folder.identity()
    private_folder(device.folder.path)
    yield _ok(f"device {device_name(device.identity.signing_public)} in {device.folder.path}")


def secrets(device: Device) -> Iterator[Seen]:
    """The other files that hold secrets."""
    from agent.adapters.key_file import read_secret

    password = device.folder.relay_password(device.configuration.config)
    if device.configuration.config.relay.url and not password:
        yield _warning("no password for the relay", "covey relay --password-file -")
    if device.folder.vault_key_path.exists():
        read_secret(device.folder.vault_key_path, 65_536)
    yield _ok("key files are private")


def clock(device: Device) -> Iterator[Seen]:
    """Whether times can be believed. Covey works without; TLS and the people who read the tables do not."""
    now_us = device.clock.wall_us()
    if now_us < _OLDEST_CLOCK_US:
        yield _error(
            "the clock has not been set: it says a year before 2025",
            "set it, or install a time service (apt-get install systemd-timesyncd); TLS fails until then",
        )
    elif not device.clock.synchronised():
        yield _warning("the clock is not synchronised", "timedatectl shows why; readings are marked until it is")
    else:
        yield _ok("synchronised")


def disk(device: Device) -> Iterator[Seen]:
    """Room for the outbox to grow to its bound, and for the database to work at all."""
    path = device.folder.path
    if not os.access(path, os.W_OK):
        yield _error(f"{path} cannot be written", "is the disk mounted read-only (dmesg), or another user's?")
        return
    free = shutil.disk_usage(path).free
    status = os.statvfs(path)
    used = sum(each.stat().st_size for each in path.glob("state.sqlite*"))
    wanted = max(0, device.configuration.config.outbox.maximum_bytes - used)
    room = f"{free // MIB} MiB free"
    if free < _LEAST_FREE_BYTES:
        yield _error(room, "free some space; what is queued stays")
    elif status.f_files and status.f_favail < _LEAST_FREE_INODES:
        yield _error(f"{status.f_favail} inodes free", "remove small files; what is queued stays")
    elif free < wanted:
        yield _warning(
            f"{room}, less than outbox.maximum_bytes allows the outbox",
            f"free some space, or: covey config set outbox.maximum_bytes {max(MIB, (free + used) // 2)}",
        )
    else:
        yield _ok(room)


def database(device: Device) -> Iterator[Seen]:
    """The state database: sound, and of a version that this Covey knows."""
    from agent.adapters.sqlite_inspection import DAMAGED_HINT, quick_check
    from agent.core.membership import Membership

    path = device.folder.path / "state.sqlite"
    if path.exists():
        complaints = quick_check(path)
        if complaints:
            yield _error(f"{path} is damaged: {complaints[0]}", DAMAGED_HINT)
            return
    device.store = device.folder.store(device.configuration.config)
    device.membership = Membership(device.identity, device.store, os.urandom)
    yield _ok("sound")


def agent(device: Device) -> Iterator[Seen]:
    """Whether one runs."""
    if device.folder.agent_runs():
        yield _ok("running")
    else:
        yield _warning("no agent runs on this state", "systemctl start covey, or: covey run")


def group(device: Device) -> Iterator[Seen]:
    """Whether there is somebody to talk to."""
    groups = device.membership.groups()
    if device.store.pending_joins():
        yield _warning("a join waits for its answer", "the inviter's agent must run; an invite is valid ten minutes")
    elif not groups:
        yield _warning("this device is in no group", "covey group create, or covey join")
    elif not any(device.membership.collector_of(each.group_id) for each in groups):
        yield _warning(
            "no group has a collector: readings go nowhere", "invite one: covey invite --capability collector"
        )
    else:
        yield _ok(", ".join(f"{each.group_id.hex()[:8]} version {each.version}" for each in groups))


def outbox(device: Device) -> Iterator[Seen]:
    """How full it is, and how long the oldest message has waited."""
    messages, size = device.store.totals()
    maximum = device.configuration.config.outbox.maximum_bytes
    oldest = min((each.oldest_at_us for each in device.store.queues() if each.oldest_at_us is not None), default=None)
    age_us = 0 if oldest is None else device.clock.wall_us() - oldest
    line = f"{messages} messages, {size} of {maximum} bytes"
    if size >= maximum:
        yield _error(
            f"{line}: full", "covey status shows for whom it waits; raise outbox.maximum_bytes if there is room"
        )
    elif size > 0.8 * maximum:
        yield _warning(f"{line}: nearly full", "covey status shows for whom it waits")
    elif age_us > _DAY_US:
        yield _warning(
            f"{line}; the oldest waits for {age_us // _DAY_US} d", "is its recipient away? covey status names it"
        )
    else:
        yield _ok(line)


def troubles(device: Device) -> Iterator[Seen]:
    """What the counters tell of messages that could not be used."""
    counters = device.store.counters()
    quarantined = sum(value for name, value in counters.items() if name.startswith("quarantined_"))
    lost = counters.get("lost_messages", 0)
    if quarantined:
        yield _warning(f"{quarantined} messages in quarantine", "are all devices on the same version of Covey?")
    if lost:
        yield _warning(f"senders have admitted to have lost {lost} messages", "their outboxes were too small or erased")
    if not quarantined and not lost:
        yield _ok("nothing in quarantine, nothing lost")


def vault(device: Device) -> Iterator[Seen]:
    """A collector's vault: there and writable, with room."""
    folder = device.folder.path / device.configuration.config.vault.folder
    if not device.folder.vault_key_path.exists():
        yield Level.SKIPPED, "this device is no collector", ""
    elif not folder.is_dir() or not os.access(folder, os.W_OK):
        yield _error(f"{folder} cannot be written", "is its disk mounted, and does it belong to the agent's user?")
    elif shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
        yield _error(f"{folder}: no room left", "free some space; senders keep what is not landed")
    else:
        yield _ok(f"{folder}, {device.store.landing_bytes()} bytes on their way")


def relay(device: Device) -> Iterator[Seen]:
    """The relay: reachable, and who it says it is, for longer than the longest outage."""
    from agent.adapters.mqtt_settings import parse_url
    from agent.adapters.relay_probe import reach

    settings = device.configuration.config.relay
    if not settings.url:
        yield _error("no relay is set", "covey relay --url mqtts://HOST")
        return
    host, _, encrypted = parse_url(settings.url)
    reached = reach(settings.url, Path(settings.ca_file) if settings.ca_file else None)
    if not encrypted and host not in {"localhost", "127.0.0.1", "::1"}:
        yield _warning(
            f"{reached.place} without TLS: the network reads the password and who talks to whom",
            "let the broker speak TLS, then covey relay --url mqtts://HOST",
        )
    if reached.certificate_ends_at is None:
        yield _ok(f"{reached.place} answers")
        return
    days = int((reached.certificate_ends_at - device.clock.wall_us() / 1e6) // 86_400)
    line = f"{reached.place} answers with {reached.protocol}; its certificate ends in {days} days"
    if days < _CERTIFICATE_DAYS:
        yield _warning(line, "renew it in time: a gateway that was away must still trust it")
    else:
        yield _ok(line)


def credential(device: Device) -> Iterator[Seen]:
    """Whether the relay accepts this device: asked only while no agent is signed in, whom it would throw out."""
    condition, since_us = device.store.conditions().get("relay", ("never connected", device.clock.wall_us()))
    lock = None if device.folder.agent_runs() else device.folder.lock_relay()
    if lock is None:
        seconds = max(0, device.clock.wall_us() - since_us) // 1_000_000
        if condition == "up":
            yield _ok(f"the agent is signed in, since {seconds} s")
        else:
            yield _error(
                f"the agent is not signed in, since {seconds} s: {condition}", "journalctl -u covey shows more"
            )
        return
    from agent.adapters.relay_probe import sign_in
    from agent.cli.session import make_relay

    try:
        up = sign_in(make_relay(device.folder, device.configuration.config, device.identity))
    finally:
        os.close(lock)
    yield _ok(f"the relay accepts this device, messages up to {up.maximum_payload} bytes")


@dataclass(frozen=True, slots=True)
class Check:
    """A function, and the checks that must have gone well before."""

    look: Callable[[Device], Iterable[Seen]]
    needs: frozenset[str] = frozenset()
    online: bool = False

    @property
    def name(self) -> str:
        """What findings call it."""
        return self.look.__name__


_STATE = frozenset({"configuration", "identity"})
_STORE = _STATE | {"database"}

CHECKS = (
    Check(versions),
    Check(identity),
    Check(configuration),
    Check(secrets, _STATE),
    Check(clock),
    Check(disk, _STATE),
    Check(database, _STATE),
    Check(agent, _STATE),
    Check(group, _STORE),
    Check(outbox, _STORE),
    Check(troubles, _STORE),
    Check(vault, _STORE),
    Check(relay, frozenset({"configuration"}), online=True),
    Check(credential, _STORE | {"relay", "secrets"}, online=True),
)


def examine(device: Device, *, offline: bool) -> Iterator[Finding]:
    """Yield what every check finds, as it finds it."""
    failed: set[str] = set()
    for check in CHECKS:
        if offline and check.online:
            yield Finding(Level.SKIPPED, check.name, "offline")
            continue
        if blocking := sorted(check.needs & failed):
            failed.add(check.name)
            yield Finding(Level.SKIPPED, check.name, f"needs {', '.join(blocking)}")
            continue
        try:
            for level, line, hint in check.look(device):
                if level is Level.ERROR:
                    failed.add(check.name)
                yield Finding(level, check.name, line, hint)
        except CoveyError as error:
            failed.add(check.name)
            yield Finding(Level.ERROR, check.name, str(error), error.hint)
