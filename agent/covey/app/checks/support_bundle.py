"""The support bundle: what somebody who helps needs to know, and nothing that this device keeps secret.

Redacted by construction: no file is copied, no text is carried over. Each part is built from numbers, truth values, and
words of this program's own (setting names, error codes, versions). What people or peers have written (labels, URLs,
paths, messages, names of unknown files) has no way in, so nothing has to be found and removed.
"""

from __future__ import annotations

import io
import json
import platform
import stat
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.keys.key_file import write_secret
from covey.app.checks.examining import examine
from covey.app.checks.findings import Examined
from covey.app.checks.metrics import families
from covey.app.checks.status import status_of
from covey.app.device.device import open_device
from covey.config.settings import settings
from covey.errors import CoveyError, UsageError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.app.checks.documents import Status

_OUR_FILES = (
    "agent.lock",
    "config.toml",
    "config.toml.copy",
    "config.toml.damaged",
    "identity.key",
    "identity.key.copy",
    "noise.keys",
    "noise.keys.copy",
    "relay.lock",
    "relay.password",
    "relay.pem",
    "state.sqlite",
    "state.sqlite-groups",
    "state.sqlite-shm",
    "state.sqlite-wal",
    "vault.key",
    "vault.key.copy",
)


def write_support_bundle(folder: StateFolder, path: Path, *, offline: bool) -> int:
    """Write the bundle of the device in a folder to a new file of mode 0600; return its size in bytes.

    Raises:
        UsageError: the file is there already, or its name does not say what it is.
    """
    if not path.name.endswith(".tar.gz"):
        raise UsageError("the file name must end in .tar.gz", hint="covey support-bundle covey-support.tar.gz")
    if path.exists():
        raise UsageError(f"{path} exists already", hint="name another file")
    content = support_bundle(folder, offline=offline)
    write_secret(path, content)
    return len(content)


def support_bundle(folder: StateFolder, *, offline: bool) -> bytes:
    """Return the bundle of the device in a folder, as a compressed archive; a part that cannot be told says why."""
    parts: dict[str, Callable[[], object]] = {
        "about": _about,
        "check": lambda: _findings(folder, offline=offline),
        "files": lambda: _files(folder),
        "settings": lambda: _settings(folder),
        "status": lambda: _about_status(_status(folder)),
        "metrics": lambda: _metrics(_status(folder)),
    }
    return _archive({f"covey-support/{name}.json": _part(part) for name, part in parts.items()})


def _part(part: Callable[[], object]) -> object:
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

    from covey.adapters.sqlite.file.inspection import library_version

    return {
        "covey": version("covey"),
        "python": sys.version.split()[0],
        "sqlite": library_version(),
        "packages": {name: version(name) for name in ("paho-mqtt", "pynacl", "cbor2", "psutil")},
        "kernel": platform.release(),
        "machine": platform.machine(),
        "unix_time": int(time.time()),
    }


def _findings(folder: StateFolder, *, offline: bool) -> object:
    examined = Examined(folder)
    try:
        found = list(examine(examined, offline=offline))
    finally:
        examined.close()
    return [{"level": each.level.value, "check": each.check} for each in found]


def _files(folder: StateFolder) -> object:
    known: dict[str, object] = {}
    others = 0
    for path in sorted(folder.path.iterdir()) if folder.path.is_dir() else []:
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


def _settings(folder: StateFolder) -> object:
    configuration = folder.configuration.read()
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


def _status(folder: StateFolder) -> Status:
    with open_device(folder) as device:
        return status_of(device)


def _about_status(status: Status) -> object:
    relay = status.relay
    return {
        "agent_runs": status.running,
        "clock_synchronised": status.clock_synchronised,
        "relay": {"up": relay.noted == "up", "never": not relay.noted, "seconds": relay.seconds},
        "outbox": {"messages": status.outbox.messages, "bytes": status.outbox.bytes},
        "queues": [
            {"queued": each.queued, "acknowledged": each.acknowledged, "oldest_seconds": each.oldest_seconds}
            for each in status.queues
        ],
        "groups": [
            {"version": each.version, "members": each.members, "epoch": each.epoch, "mode": each.mode}
            for each in status.groups
        ],
        "pending_joins": status.pending_joins,
    }


def _metrics(status: Status) -> object:
    return {
        "/".join([family.name, *(value for key, value in labels.items() if key in {"reason", "outcome"})]): value
        for family in families(status)
        if family.name not in {"covey_manifest_version", "covey_group_members"}  # in status, without the group's id
        for labels, value in family.samples
    }
