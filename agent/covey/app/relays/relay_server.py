"""Serve this device's own relay: run mosquitto as a child process until it is asked to stop.

1. Changes of its files (accounts, certificate) take effect within a second or so: it is told to reload until its log
   shows that it has. A newly enrolled device can connect by then.
2. The certificate is checked once an hour; its authority stays. A full disk ends no relay.
3. mosquitto is started again at once when it ends by itself, and after growing pauses when it does not come up; a first
   failure is reported. If it ends again soon after, its queue is deleted first: that may be the cause, and senders keep
   their messages until they are acknowledged.
4. It is started again, and keeps its sessions, where it would touch memory that it has freed (`SessionWatch`).
5. A device that looks for the relay on the local network is answered (`relay_search.py`).
6. An account with more subscriptions than the broker's memory would hold is removed, and the log names it.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from covey.adapters.broker.mosquitto_passwords import (
    ENROLMENT_ACCOUNT,
    draw_enrolment_password,
    remove_device,
    share_enrolment,
)
from covey.adapters.broker.mosquitto_process import MemoryFile, MosquittoProcess, find_mosquitto
from covey.adapters.journal import report
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.lan.relay_search import RelayAnnouncer
from covey.adapters.mqtt.settings import parse_url
from covey.adapters.own_addresses import asking_addresses
from covey.adapters.services import hint_for
from covey.adapters.systemd import Systemd
from covey.app.loop.relay_loop import stop_signals
from covey.app.relays.serving_relay import certified_names, served
from covey.errors import ConfigurationError, LocalError, StorageError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from covey.adapters.broker.served_folder import ServedFolder
    from covey.adapters.state_folder import StateFolder

Stamps: TypeAlias = "list[tuple[int, int]]"
"""What changes with each change of a file that mosquitto reads: time and inode."""

_LOOK_S = 0.25
_CERTIFICATE_S = 3600.0
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.2, 60.0
_SOON_S = 60.0
"""An end within so long of the start is one after which the queue may be to blame."""


def serve_relay(folder: StateFolder) -> None:
    """Serve the relay that was prepared, until SIGTERM or Ctrl-C.

    Raises:
        ConfigurationError: none was prepared, or mosquitto is not there.
        LocalError: it is served already.
        TransientError: mosquitto does not start.
    """
    place, supervisor = served(folder), Systemd()
    if not place.exists:
        raise ConfigurationError("this device serves no relay", hint="'covey relay serve' sets one up")
    program = find_mosquitto()
    identity = folder.identity()
    storage_key = StorageKey.of(identity)
    identity.wipe()
    lock = folder.locks.served_relay()
    if lock is None:
        raise LocalError(
            "another process already serves this relay",
            hint=hint_for("covey-relay", "systemctl status {unit}", "stop that process first"),
        )
    try:
        with stop_signals() as stopping, _announced(folder, place):
            _serve_with_restarts(folder, place, storage_key, program, supervisor, stopping)
        supervisor.stopping()
    finally:
        storage_key.wipe()
        os.close(lock)


@contextmanager
def _announced(folder: StateFolder, place: ServedFolder) -> Iterator[None]:
    """Answer devices that look for this relay on the local network."""
    announcer = RelayAnnouncer(
        place.ca_file.read_text(),
        parse_url(folder.configuration.config().relay.url)[1],
        asking_addresses,
        lambda sentence: report("warning", sentence),
    )
    try:
        yield
    finally:
        announcer.close()


def _serve_with_restarts(
    folder: StateFolder,
    place: ServedFolder,
    storage_key: StorageKey,
    program: Path,
    supervisor: Systemd,
    stopping: Sequence[int],
) -> None:
    pause_s, came_up, ended_soon = _PAUSE_S_MIN, False, 0
    certificate = MemoryFile(place.server_pem(storage_key))
    configuration = MemoryFile(place.started_with(certificate.path))
    while not stopping:
        if ended_soon > 1 and place.forget_queue():
            report(
                "warning", "mosquitto stopped twice right after its start; its saved sessions and queues were deleted"
            )
        if not place.server_pem(storage_key):  # missing, or a disk has damaged it
            renew_certificate(folder, place, storage_key)
        began, seen, is_up, ended = time.monotonic(), _stamps(place), False, True
        digest = place.digest()
        certificate.fill(place.server_pem(storage_key))
        configuration.fill(place.started_with(certificate.path))
        mosquitto = MosquittoProcess(program, configuration, [certificate])
        try:
            mosquitto.wait_until_running()
            came_up = is_up = True
            place.note_in_force(digest)
            report("notice", f"serving the relay {folder.configuration.config().relay.url}")
            ended = _look_after(folder, place, storage_key, mosquitto, certificate, supervisor, stopping, seen)
        except TransientError as error:
            if not came_up:
                raise
            report("error", str(error))
        finally:
            mosquitto.stop()
        ended_soon = ended_soon + ended if time.monotonic() - began < _SOON_S else 0
        pause_s = _PAUSE_S_MIN if is_up else min(pause_s * 2, _PAUSE_S_MAX)
        _pause(pause_s, stopping)


def _look_after(
    folder: StateFolder,
    place: ServedFolder,
    storage_key: StorageKey,
    mosquitto: MosquittoProcess,
    certificate: MemoryFile,
    supervisor: Systemd,
    stopping: Sequence[int],
    seen: Stamps,
) -> bool:
    """Keep the files in force until mosquitto ends or must be started again, or a signal arrives.

    Return whether it ended by itself.
    """
    look_at = time.monotonic() + _CERTIFICATE_S
    while not stopping:
        if mosquitto.ended:
            report("error", "mosquitto stopped unexpectedly")
            return True
        if mosquitto.must_restart:
            report("notice", "mosquitto is restarted: its reload damaged a session (mosquitto 2.0); queues are kept")
            return False
        supervisor.alive()
        for account in mosquitto.accounts_to_shut_out(_LOOK_S):
            _shut_out(place, account, storage_key)
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + _CERTIFICATE_S
            renew_certificate(folder, place, storage_key)
        stamps = _stamps(place)
        if stamps != seen:
            digest = place.digest()
            if pem := place.server_pem(storage_key):  # a damaged one is made again within the hour
                certificate.fill(pem)
            mosquitto.reload()
            place.note_in_force(digest)
            seen = stamps
    return False


def renew_certificate(folder: StateFolder, place: ServedFolder, storage_key: StorageKey) -> None:
    """Renew the certificate if it is due; where the disk refuses, the present one stays in use for another hour."""
    try:
        place.certify(certified_names(folder, folder.configuration.config().relay.url), storage_key)
    except StorageError as error:
        report("error", f"{error}; the relay keeps its present certificate and tries again in an hour")


def _shut_out(place: ServedFolder, account: str, storage_key: StorageKey) -> None:
    """Remove an account that subscribes to more than the broker's memory holds; the joiners' account gets another
    password."""
    if account == ENROLMENT_ACCOUNT:
        share_enrolment(place.password_file, draw_enrolment_password(), storage_key)
        remedy = "waiting invites are void: invite again"
    else:
        remove_device(place.password_file, account)
        remedy = f"to let it in again: covey broker enrol {account}"
    report("error", f"the account {account} subscribed to more than any device needs and was removed; {remedy}")


def _stamps(place: ServedFolder) -> Stamps:
    found = (each.stat() for each in (place.password_file, place.certificate_file))
    return [(each.st_mtime_ns, each.st_ino) for each in found]


def _pause(seconds: float, stopping: Sequence[int]) -> None:
    end = time.monotonic() + seconds
    while not stopping and time.monotonic() < end:
        time.sleep(_LOOK_S)
