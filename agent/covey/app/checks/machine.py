"""Checks of this machine and of what Covey keeps on it: versions, settings, keys, clock, disk, database, agent."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from covey.adapters.clock import was_never_set
from covey.adapters.services import hint_for
from covey.app.checks.findings import LEAST_FREE_BYTES, Examined, Level, Seen, error, ok, warning
from covey.app.wording import count
from covey.errors import hint_of_errno
from covey.limits.units import MIB

_LEAST_FREE_INODES = 1_000


def versions(_: Examined) -> Iterator[Seen]:
    """What runs here."""
    from importlib.metadata import version

    from covey.adapters.sqlite.file.inspection import library_version

    here = f"covey {version('covey')}, Python {sys.version.split()[0]}, SQLite {library_version()}"
    if tuple(int(part) for part in library_version().split(".")[:2]) < (3, 37):
        yield error(here, "Covey needs SQLite 3.37 or later: upgrade the system, or Python with its own SQLite")
    else:
        yield ok(f"{here}, paho-mqtt {version('paho-mqtt')}, PyNaCl {version('pynacl')}")


def configuration(device: Examined) -> Iterator[Seen]:
    """Every file and variable that settings come from."""
    from covey.adapters.configuration_copy import damaged_file
    from covey.app.device.settings import check_meanings

    device.configuration = device.folder.configuration.read()
    check_meanings(device.configuration)
    aside = damaged_file(device.folder.configuration.path)
    if aside.exists():
        yield warning(
            "config.toml was damaged, and restored from its copy",
            f"compare it with {aside.name}, then delete that file; dmesg shows whether the disk fails",
        )
    else:
        yield ok(", ".join(str(path) for path in device.folder.configuration.files()))


def identity(device: Examined) -> Iterator[Seen]:
    """The keys: there, whole, and nobody else's to read."""
    from covey.adapters.keys.key_file import private_folder
    from covey.core.ids import device_name

    device.identity = device.folder.identity()
    private_folder(device.folder.path)
    kept = device.folder.how_seed_is_kept()[1]
    yield ok(f"device {device_name(device.identity.signing_public)} in {device.folder.path}; key {kept}")


def secrets(device: Examined) -> Iterator[Seen]:
    """The other files that hold secrets."""
    relay = device.configuration.config.relay
    password = device.folder.relay_password(device.configuration.config, device.identity)
    if relay.url and not password and not relay.client_certificate:
        yield warning("no password or certificate for the relay", "covey relay set --password-file -")
    if device.folder.has_vault_key:
        device.folder.vault_key(device.identity).read()
    yield ok("key files are private")


def clock(device: Examined) -> Iterator[Seen]:
    """Whether times can be believed. Covey works without; TLS and the people who read the tables do not."""
    if was_never_set():
        yield error(
            "the clock was never set: it shows a year before 2025",
            "set it, or install a time service (apt-get install systemd-timesyncd); until then Covey "
            "continues from the last known time, and cannot detect that a relay's certificate has expired",
        )
    elif not device.clock.synchronised():
        yield warning("the clock is not synchronised", "timedatectl shows why; readings are marked until it is")
    else:
        yield ok("synchronised")


def disk(device: Examined) -> Iterator[Seen]:
    """Room for the outbox to grow to its bound, and for the database to work at all."""
    path = device.folder.path
    if device.folder.state_file.is_read_only():
        yield error(f"the disk of {path} is read-only", hint_of_errno(errno.EROFS))
        return
    if not os.access(path, os.W_OK):
        yield error(
            f"{path} cannot be written",
            "check with dmesg whether the disk is read-only, and with ls -ld who owns the folder",
        )
        return
    free = shutil.disk_usage(path).free
    status = os.statvfs(path)
    used = sum(each.stat().st_size for each in path.glob("state.sqlite*"))
    wanted = max(0, device.configuration.config.outbox.maximum_bytes - used)
    room = f"{free // MIB} MiB free"
    if free < LEAST_FREE_BYTES:
        yield error(room, "free some space; queued messages are safe")
    elif status.f_files and status.f_favail < _LEAST_FREE_INODES:
        yield error(f"{status.f_favail} inodes free", "remove small files; queued messages are safe")
    elif free < wanted:
        yield warning(
            f"{room}, less than outbox.maximum_bytes allows the outbox",
            f"free some space, or: covey config set outbox.maximum_bytes {max(MIB, (free + used) // 2)}",
        )
    else:
        yield ok(room)


def database(device: Examined) -> Iterator[Seen]:
    """The state database: sound, and of a version that this Covey knows."""
    from covey.adapters.sqlite.file.inspection import DAMAGED_HINT, quick_check

    path = device.folder.path / "state.sqlite"
    if path.exists():
        complaints = quick_check(path)
        if complaints:
            yield error(f"{path} is damaged: {complaints[0]}", DAMAGED_HINT)
            return
    device.open()
    aside = sorted(device.folder.path.glob("state.sqlite.damaged-*[!lm]"))
    if aside:
        yield warning(
            f"it was recovered from a damaged file, {aside[-1].name}",
            "'covey check database' shows what was lost; delete the file if nothing is missing: it contains secrets",
        )
    lost = device.status.counters.get("unreadable_commits", 0)
    if lost:
        yield warning(
            f"its disk has lost {count(lost, 'commit')} that were durable", "copy the state to another disk: see dmesg"
        )
    if not aside and not lost:
        yield ok("sound")


def agent(device: Examined) -> Iterator[Seen]:
    """Whether one runs."""
    if device.folder.locks.agent_runs():
        yield ok("running")
    else:
        yield warning(
            "no agent is running on this state", hint_for("covey", "sudo systemctl start {unit}", "covey run")
        )


def api(device: Examined) -> Iterator[Seen]:
    """The local API: it answers, and its intended users can reach it."""
    from covey.adapters.local_api.server import group_named
    from covey.app.device.addresses import socket_path
    from covey.client import Client

    config = device.configuration.config
    path = socket_path(device.folder, config)
    if path is None:
        yield Level.SKIPPED, "api.socket is not set", ""
        return
    group = config.api.group
    if group:
        group_named(group)
    if device.folder.locks.agent_runs() and not Client(path).answers():
        yield error(
            f"no agent answers at {path}",
            hint_for("covey", "sudo systemctl restart {unit}", "restart the agent")
            + ": it reads api.socket at its start",
        )
    elif group and (closed := _closed_to(path, group_named(group))) is not None:
        yield warning(
            f"members of {group} cannot get through {closed}", "put api.socket in a folder that they may enter"
        )
    else:
        yield ok(f"{path}{f', for members of {group}' if group else ''}")


def _closed_to(path: Path, gid: int) -> Path | None:
    for folder in reversed(path.absolute().parents):
        about = folder.stat()
        if not about.st_mode & (stat.S_IXGRP if about.st_gid == gid else stat.S_IXOTH):
            return folder
    return None
