"""A private mosquitto that runs the committed configuration, for the demo, the benchmarks and the tests.

1. `mosquitto.conf`, or `mosquitto-certificates.conf`, and `acl` beside this file are the one source: only places
   (port, paths) and what a caller names in `settings` are replaced, each option where it stands.
2. It listens on 127.0.0.1 alone (or `address`), and on the same port for its whole life, so that clients find it again.
3. `start` returns when it accepts connections, `add_device` when the credential is in force.
4. The enrolment account exists, with a password that is drawn, unless devices prove themselves by certificates.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from covey.adapters.broker.mosquitto_configuration import PROGRAM_PLACES, substitute
from covey.adapters.broker.mosquitto_passwords import add_device, draw_enrolment_password, share_enrolment
from covey.errors import ConfigurationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

_HERE = Path(__file__).parent
_UNPACKED = _HERE.parents[1] / ".cache" / "mosquitto"
_RUNNING, _RELOADED = b" running\n", b"Reloading config."

DEADLINE_S = 60.0
"""How long a change of the broker's state may take: milliseconds, unless it has a large queue to save."""


class Broker:
    """One mosquitto process and the folder with its configuration, credentials, queue and log."""

    def __init__(
        self,
        folder: Path,
        *,
        certificate: tuple[Path, Path] | None = None,
        fleet_ca: Path | None = None,
        settings: Mapping[str, str | None] | None = None,
        environment: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        """Prepare a broker that is not running yet.

        Args:
            folder: made if absent; what an earlier broker left in it is used again.
            certificate: PEM files (chain, key) for TLS; without them the listener is plain, on loopback.
            fleet_ca: folder of the authority whose certificates devices must have, instead of passwords; needs TLS.
            settings: other values for options of the committed configuration; None removes one.
            environment: what its environment has besides this process's.
            address: where it listens, in the network namespace of the thread that starts it.

        Raises:
            ConfigurationError: mosquitto is not there, or `settings` names an option that is not in the file.
        """
        self.port = free_port()
        self._address = address
        self.url = f"{'mqtts' if certificate else 'mqtt'}://{address}:{self.port}"
        self.log = folder / "mosquitto.log"
        self._folder = folder
        self._configuration = folder / "mosquitto.conf"
        self._passwords = folder / "passwords"
        self._command, own = find_mosquitto()
        self._environment = {**own, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self.enrolment_password = draw_enrolment_password()
        share_enrolment(self._passwords, self.enrolment_password)
        places = _places(folder, f"{self.port} {address}", certificate, fleet_ca)
        committed = (_HERE / ("mosquitto-certificates.conf" if fleet_ca else "mosquitto.conf")).read_text()
        self._configuration.write_text(substitute(committed, {**places, **(settings or {})}))

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def __repr__(self) -> str:
        """Return the class and the port."""
        return f"Broker({self.url})"

    @property
    def pid(self) -> int | None:
        """The process id, or None when it does not run."""
        return self._process.pid if self._process else None

    def add_device(self, user_name: str) -> str:
        """Admit a device, or give it a new password; return the password.

        Raises:
            UsageError: that is not a device's user name.
            TransientError: the broker did not take it up in time.
        """
        return self.add_devices([user_name])[0]

    def add_devices(self, user_names: Iterable[str]) -> list[str]:
        """Admit devices together; return their passwords.

        Raises:
            UsageError: that is not a device's user name.
            TransientError: the broker did not take it up in time.
        """
        passwords = [add_device(self._passwords, user_name) for user_name in user_names]
        self.reload()
        return passwords

    def reload(self) -> None:
        """Have it read passwords, ACL and certificates again, and return when it has.

        Raises:
            TransientError: it did not in time.
        """
        process = self._process
        if process is None:
            return
        reloads, asked = self._count(_RELOADED), -math.inf

        def has_reloaded() -> bool:
            nonlocal asked
            if time.monotonic() > asked + 1:  # and once more each second: it loses what comes while it still reloads
                process.send_signal(signal.SIGHUP)
                asked = time.monotonic()
            return self._count(_RELOADED) > reloads

        self._wait_until(has_reloaded, "did not reload its files")

    def start(self) -> None:
        """Start, and return when it accepts connections.

        Raises:
            TransientError: it ended, or did not accept one in time; the message quotes its log.
        """
        assert self._process is None, "running already"
        starts = self._count(_RUNNING)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                [str(self._command), "-c", str(self._configuration)],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # As Python does, ignore SIGXFSZ: a limit on files' sizes then looks like a full disk, and ends nobody.
                restore_signals=False,
            )
        # A SIGHUP before it says so would end it: it listens before it handles signals.
        self._wait_until(lambda: self._count(_RUNNING) > starts, "does not run")
        self._wait_until(self._accepts, "does not accept connections")

    def stop(self) -> None:
        """End it gently: it saves sessions and queues. A stopped broker stays stopped."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it like a power cut: whatever it had not saved is gone."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start on the same port."""
        self.stop()
        self.start()

    def forget_queue(self) -> None:
        """Delete every session and queued message of a broker that does not run."""
        assert self._process is None, "stop or kill it first, or it saves them again"
        (self._folder / "mosquitto.db").unlink(missing_ok=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _wait_until(self, condition: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                if ended:
                    self._process = None
                tail = b"\n".join(self.log.read_bytes().splitlines()[-5:]).decode(errors="replace")
                raise TransientError(f"mosquitto {'ended' if ended else complaint}:\n{tail}")
            time.sleep(0.005)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self._address, self.port)) == 0

    def _count(self, line: bytes) -> int:
        """Count lines of its log. Passwords are read before clients are served again: a reload logged is in force."""
        return self.log.read_bytes().count(line) if self.log.exists() else 0


def _places(
    folder: Path, listener: str, certificate: tuple[Path, Path] | None, fleet_ca: Path | None
) -> dict[str, str | None]:
    """Say what differs from the committed configuration: places, and TLS only with a certificate."""
    places: dict[str, str | None] = {
        # Started by root, it would become a user who may not enter the folder.
        "listener": f"{listener}\nuser root",
        "acl_file": str(_HERE / "acl"),
        "persistence_location": f"{folder}/",
    }
    if fleet_ca is None:
        places["password_file"] = str(folder / "passwords")
    else:
        places |= {"cafile": str(fleet_ca / "ca.crt"), "crlfile": str(fleet_ca / "revoked.crl")}
    if certificate is None:
        return places | {"certfile": None, "keyfile": None, "tls_version": None}
    return places | {"certfile": str(certificate[0]), "keyfile": str(certificate[1])}


def find_mosquitto() -> tuple[Path, dict[str, str]]:
    """Return the program and its environment: the system's, else the one unpacked beside the project.

    Raises:
        ConfigurationError: neither is there.
    """
    environment = dict(os.environ)
    search = os.pathsep.join([environment.get("PATH", os.defpath), *PROGRAM_PLACES])
    if installed := shutil.which("mosquitto", path=search):
        return Path(installed), environment
    unpacked = _UNPACKED / "usr/sbin/mosquitto"
    if not unpacked.exists():
        raise ConfigurationError(
            "mosquitto is not installed",
            hint="`./dev test` unpacks it beside the project, or: sudo apt-get install mosquitto",
        )
    libraries = {str(library.parent) for library in _UNPACKED.glob("usr/lib/*/lib*.so.*")}  # those that were missing
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(sorted(libraries))
    return unpacked, environment


def environment_with_mosquitto() -> dict[str, str]:
    """Return an environment in which Covey's commands find the same mosquitto.

    Raises:
        ConfigurationError: there is none.
    """
    program, environment = find_mosquitto()
    return {**environment, "PATH": f"{environment.get('PATH', os.defpath)}{os.pathsep}{program.parent}"}


def free_port() -> int:
    """Return a port below the ephemeral range (32768 on Linux): no client takes it while the broker is down."""
    while True:
        port = 20000 + secrets.randbelow(12000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
