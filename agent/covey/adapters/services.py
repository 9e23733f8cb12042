"""The machine's own services, as root has systemd run them: for commands that root calls on the machine's own state.

1. What such a command does to the state, it does as the user whose state it is: a process of its own becomes that user.
2. A service is enabled and started only where systemd runs and the package has brought its unit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from covey.errors import TransientError

_MANAGER = Path("/run/systemd/system")
_SYSTEMCTL = "/usr/bin/systemctl"
_UNITS = (Path("/usr/lib/systemd/system"), Path("/etc/systemd/system"))
_AGENT, _COLLECTOR = "covey", "covey-collector"
_COLLECTOR_ENABLED = Path("/etc/systemd/system/multi-user.target.wants/covey-collector.service")
_SIGNALLED = 128


def ended_as_owner(folder: Path, as_root: Callable[[], None] = lambda: None) -> int | None:
    """If root calls for another user's folder, let a process of that user continue; return its exit code.

    None: this is that process. It has called `as_root` while it still was root.
    """
    owner = folder.stat() if os.geteuid() == 0 and folder.is_dir() else None
    if owner is None or owner.st_uid == 0:
        return None
    worker = os.fork()
    if worker == 0:
        as_root()
        name = _name_of(owner.st_uid)
        if name is None:
            os.setgroups([])
        else:
            os.initgroups(name, owner.st_gid)
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
        return None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker hears it, too, and says how it ended
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else _SIGNALLED - code


def _name_of(uid: int) -> str | None:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def may_manage(unit: str) -> bool:
    """Say whether root calls where systemd runs and knows a unit."""
    known = any((folder / unit).exists() for folder in _UNITS)
    return os.geteuid() == 0 and known and _MANAGER.is_dir() and Path(_SYSTEMCTL).exists()


def hint_for(unit: str, with_systemd: str, otherwise: str) -> str:
    """Return the hint that applies on this machine: whether systemd runs and has a service called `unit`.

    `{unit}` in `with_systemd` becomes its name; that of the agent is another one on a collector.
    """
    if unit == _AGENT and _COLLECTOR_ENABLED.is_symlink():
        unit = _COLLECTOR
    runs_it = _MANAGER.is_dir() and any((folder / f"{unit}.service").exists() for folder in _UNITS)
    return with_systemd.format(unit=unit) if runs_it else otherwise


def enable(unit: str, instead_of: str = "") -> None:
    """Enable and start a unit, or restart it, perhaps in place of another one.

    Raises:
        TransientError: systemd refused, or it did not start.
    """
    if instead_of:
        _systemctl("disable", "--now", instead_of)
    _systemctl("enable", unit)
    _systemctl("restart", unit)


def _systemctl(*words: str) -> None:
    import subprocess  # no agent comes here: 0.3 MiB less for it

    done = subprocess.run([_SYSTEMCTL, *words], capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        raise TransientError(f"systemctl {' '.join(words)}: {said[0]}", hint=f"journalctl -u {words[-1]}")
