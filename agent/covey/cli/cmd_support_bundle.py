"""`covey support-bundle FILE`: what somebody who helps needs to know, and nothing that this device keeps secret.

Redacted by construction: no file is copied, no text is carried over. Each part is built from numbers, truth values, and
words of this program's own (setting names, error codes, versions). What people or peers have written (labels, URLs,
paths, messages, names of unknown files) has no way in, so nothing has to be found and removed.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import stat
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from covey.adapters.clock import SystemClock
from covey.app.checks.findings import Examined
from covey.app.checks.local import examine
from covey.app.device import Device
from covey.cli.device_options import open_device, state_folder
from covey.cli.grammar import Parser
from covey.cli.terminal import count
from covey.config.settings import settings
from covey.errors import CoveyError, UsageError

_OUR_FILES = (
    "agent.lock",
    "config.toml",
    "identity.key",
    "noise.keys",
    "relay.lock",
    "relay.password",
    "relay.pem",
    "state.sqlite",
    "state.sqlite-shm",
    "state.sqlite-wal",
    "vault.key",
)


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("file", metavar="FILE", help="where to write it; ends in .tar.gz")
    parser.add_argument("--offline", action="store_true", help="leave the relay out")


def run(options: argparse.Namespace) -> int:
    """Write the bundle; a part that cannot be told says why, by code."""
    path = Path(options.file).absolute()
    if not path.name.endswith(".tar.gz"):
        raise UsageError("the file's name must end in .tar.gz")
    if path.exists():
        raise UsageError(f"{path} exists already", hint="name another file")
    parts: dict[str, Callable[[], object]] = {
        "about": _about,
        "check": lambda: _findings(options),
        "files": lambda: _files(options),
        "settings": lambda: _settings(options),
        "status": lambda: _with_session(options, _status),
        "metrics": lambda: _with_session(options, _metrics),
    }
    content = _archive({f"covey-support/{name}.json": _told(part) for name, part in parts.items()})

    from covey.adapters.keys.key_file import write_secret

    write_secret(path, content)
    print(f"{path}: {count(len(content), 'byte')}; numbers and settings' names only, no key, message, label or address")
    return 0


def _told(part: Callable[[], object]) -> object:
    try:
        return part()
    except CoveyError as error:
        return {"error": error.code}


def _archive(parts: dict[str, object]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, value in parts.items():
            text = (json.dumps(value, indent=1) + "\n").encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(text), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


def _about() -> object:
    from importlib.metadata import version

    from covey.adapters.sqlite.inspection import library_version

    return {
        "covey": version("covey"),
        "python": sys.version.split()[0],
        "sqlite": library_version(),
        "packages": {name: version(name) for name in ("paho-mqtt", "pynacl", "cbor2", "psutil")},
        "kernel": platform.release(),
        "machine": platform.machine(),
        "unix_time": int(time.time()),
    }


def _findings(options: argparse.Namespace) -> object:
    examined = Examined(state_folder(options), SystemClock())
    try:
        found = list(examine(examined, offline=options.offline))
    finally:
        examined.close()
    return [{"level": each.level.value, "check": each.check} for each in found]


def _files(options: argparse.Namespace) -> object:
    folder = state_folder(options).path
    known: dict[str, object] = {}
    others = 0
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name not in _OUR_FILES:
            others += 1
            continue
        status = path.lstat()
        known[path.name] = {
            "bytes": status.st_size,
            "mode": stat.filemode(status.st_mode),
            "owner": status.st_uid,
            "modified": int(status.st_mtime),
        }
    return {"known": known, "others": others}


def _settings(options: argparse.Namespace) -> object:
    configuration = state_folder(options).configuration()
    shown = {}
    for key, about in settings().items():
        value = configuration.value(key)
        shown[key] = ("set" if value != about.default else "default") if isinstance(value, str | tuple) else value
    url = configuration.config.relay.url
    return {
        "settings": shown,
        "encrypted": url.startswith("mqtts:"),
        "overridden_by_environment": sorted(
            key for key, origin in configuration.origins.items() if origin.startswith("$")
        ),
    }


def _with_session(options: argparse.Namespace, tell: Callable[[Device], object]) -> object:
    with open_device(options) as device:
        return tell(device)


def _status(device: Device) -> object:
    now_us = device.clock.wall_us()
    messages, size = device.store.outbox.totals()
    state, since_us = device.store.conditions.values().get("relay", ("", now_us))
    return {
        "agent_runs": device.folder.agent_runs(),
        "clock_synchronised": device.clock.synchronised(),
        "relay": {"up": state == "up", "never": not state, "seconds": (now_us - since_us) // 1_000_000},
        "outbox": {"messages": messages, "bytes": size},
        "queues": [
            {
                "queued": each.queued,
                "acknowledged": each.acknowledged,
                "oldest_seconds": None if each.oldest_at_us is None else (now_us - each.oldest_at_us) // 1_000_000,
            }
            for each in device.store.outbox.queues()
        ],
        "groups": [
            {"version": each.version, "members": len(each.members), "epoch": each.epoch, "mode": int(each.mode)}
            for each in device.node.membership.groups()
        ],
        "pending_joins": len(device.store.joins.pending()),
    }


def _metrics(device: Device) -> object:
    """The counters, under the names that this program gives them."""
    from covey.cli.cmd_metrics import families

    return {
        "/".join([family.name, *(value for key, value in labels.items() if key == "reason")]): value
        for family in families(device)
        if family.name not in {"covey_manifest_version", "covey_group_members"}  # in status, without the group's id
        for labels, value in family.samples
    }
