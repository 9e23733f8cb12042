"""A real systemd as PID 1 of a `DebianRoot`, in namespaces of its own.

Needs root with CAP_SYS_ADMIN (namespaces, mounts) and a kernel with cgroup v2: a virtual machine has both, a container
has them when it is started as privileged. The network is the machine's, so that a broker on loopback is reached, or a
named one of its own.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.integration.debian_root import DebianRoot, missing_for_root
from tests.waiting import GUARD_S, wait_until

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
"""Root's, inside."""

_MASKED = (
    "console-getty.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "getty-static.service",
    "getty.target",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-modules-load.service",
    "systemd-networkd.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-resolved.service",
    "systemd-sysctl.service",
    "systemd-sysext.service",
    "systemd-sysusers.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-udev-trigger.service",
    "systemd-udevd.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
    "timers.target",
)
"""Units that look after hardware and people."""

_ENTER_GROUP = """
mount --make-rprivate /
mount -t cgroup2 cgroup2 "$1/mnt"
mkdir "$1/mnt/covey-test-$$"
echo $$ >"$1/mnt/covey-test-$$/cgroup.procs"
umount "$1/mnt"
exec unshare --mount --cgroup --pid --fork --kill-child --uts --ipc sh -ec "$2" sh "$1" "$2"
"""

# Credentials come to a service by a mount in /run that propagates, made under a /dev of its own; user namespaces are
# refused in a chroot, hence pivot_root.
_BOOT = """
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
mount -t tmpfs tmpfs "$1/run"
mount -t tmpfs tmpfs "$1/tmp"
mount -t tmpfs -o mode=755 tmpfs "$1/dev"
mkdir "$1/dev/shm" "$1/dev/pts" "$1/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
ln -s pts/ptmx "$1/dev/ptmx"
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "$1/dev"
cd "$1"
pivot_root . mnt
umount -l /mnt
mount --make-rshared /
exec env -i container=covey PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --system --unit=multi-user.target \\
    --log-target=journal --show-status=0
"""

_FORGET_GROUPS = """
mount -t cgroup2 cgroup2 "$1/mnt"
find "$1/mnt/covey-test-$2" -depth -type d -exec rmdir {} +
"""


def missing_for_boot(packages: tuple[str, ...]) -> str | None:
    """Return why systemd cannot be booted here, or None where it can."""
    allowed = subprocess.run(["unshare", "--mount", "--pid", "--cgroup", "--fork", "true"], check=False).returncode == 0
    return missing_for_root(packages) or (None if allowed else "namespaces need CAP_SYS_ADMIN: a privileged container")


class Booted:
    """The running system."""

    def __init__(self, pid: int) -> None:
        """Name its PID 1, as it is known outside."""
        self._pid = pid
        self.enter = ["nsenter", f"--target={pid}", "--mount", "--net", "--pid", "--root", "--wd=/"]
        """What a command is preceded by, so that it runs inside."""

    def goes_down(self) -> None:
        """Wait until it is off."""
        wait_until(lambda: not Path(f"/proc/{self._pid}").exists(), "the machine goes down")

    def run(self, *words: str, feed: str = "", code: int | None = 0) -> str:
        """Run a program inside, as root; return what it printed."""
        command = [*self.enter, *words]
        done = subprocess.run(
            command, input=feed, capture_output=True, text=True, timeout=GUARD_S, check=False, env=ENVIRONMENT
        )
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def processes(self) -> list[str]:
        """Return the command lines of all that runs inside."""
        own, found = Path(f"/proc/{self._pid}/ns/pid").readlink(), []
        for each in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (each / "ns/pid").readlink() == own:
                    found.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
        return found

    def shown(self, unit: str, *names: str) -> list[str]:
        """Return properties of a unit."""
        return [self.run("systemctl", "show", "--value", f"--property={name}", unit).strip() for name in names]


@contextlib.contextmanager
def booted(root: DebianRoot, network: str | None = None) -> Iterator[Booted]:
    """Boot, with a network of that name or the machine's; pull the plug at the end."""
    units = root.path / "etc/systemd/system"
    for unit in _MASKED:
        with contextlib.suppress(FileExistsError):
            (units / unit).symlink_to("/dev/null")
    (root.path / "etc/machine-id").write_text(f"{secrets.token_hex(16)}\n")
    (root.path / "mnt").mkdir(exist_ok=True)
    plugged = [] if network is None else ["nsenter", f"--net=/run/netns/{network}"]
    outer = subprocess.Popen([*plugged, "unshare", "--mount", "sh", "-ec", _ENTER_GROUP, "sh", str(root.path), _BOOT])
    try:
        wait_until(lambda: _first_process(outer.pid) is not None, "systemd has taken over")
        system = Booted(_first_process(outer.pid) or 0)
        state = ["systemctl", "is-system-running"]
        wait_until(lambda: system.run(*state, code=None).strip() in {"running", "degraded"}, "systemd has booted")
        yield system
    finally:
        first = _first_process(outer.pid)
        outer.kill()
        outer.wait()
        wait_until(lambda: not Path(f"/proc/{first}").exists(), "all is gone")
        forget = ["unshare", "--mount", "sh", "-ec", _FORGET_GROUPS, "sh", str(root.path), str(outer.pid)]
        subprocess.run(forget, check=False)


def _first_process(outer: int) -> int | None:
    """Return the child that has become systemd, which is PID 1 for itself."""
    for child in Path(f"/proc/{outer}/task/{outer}/children").read_text().split():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                return int(child)
    return None
