"""What `covey check` looks at: one small function each, in the order of the list at the end.

1. A check yields findings; an error of ours that it raises is a finding, too, with its own hint.
2. A check is skipped when one that it needs has found an error: one cause, one line.
3. Nothing is changed but what any command changes (a database is brought up to the newest tables).
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.clock import was_never_set
from covey.adapters.services import hint_for
from covey.app.boards.unnamed_boards import CANNOT_START_HINT
from covey.app.checks.content import content, mailbox
from covey.app.checks.documents import AgreementStatus
from covey.app.checks.findings import Check, Examined, Finding, Level, Seen, error, ok, warning
from covey.app.checks.orders import actions, attempts, installers, releases
from covey.app.checks.relays import acl, credential, duplicate, relay, relay_accounts, served_relay
from covey.app.checks.telemetry import doors, sensors
from covey.app.documents import DAY_S
from covey.app.telemetry.collecting import vault_place
from covey.app.wording import count, duration, size_text
from covey.errors import CoveyError, UnknownGroupError, UnsupportedError, hint_of_errno
from covey.limits.units import MIB
from covey.ports import UDP_PREFIX

if TYPE_CHECKING:
    from covey.core.group.manifest import GroupManifest

_LEAST_FREE_BYTES = 64 * MIB
_LEAST_FREE_INODES = 1_000
_NAMED = 3
_UNHEARD_DAYS = 7
"""After so long without a sign of any member a group may have ended without this device."""


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
    from covey.app.device.settings import check_meanings

    device.configuration = device.folder.configuration.read()
    check_meanings(device.configuration)
    yield ok(", ".join(str(path) for path in device.folder.configuration.files()))


def identity(device: Examined) -> Iterator[Seen]:
    """The keys: there, whole, and nobody else's to read."""
    from covey.adapters.keys.key_file import private_folder
    from covey.core.ids import device_name

    device.identity = device.folder.identity()
    private_folder(device.folder.path)
    yield ok(f"device {device_name(device.identity.signing_public)} in {device.folder.path}")


def secrets(device: Examined) -> Iterator[Seen]:
    """The other files that hold secrets."""
    relay = device.configuration.config.relay
    password = device.folder.relay_password(device.configuration.config)
    if relay.url and not password and not relay.client_certificate:
        yield warning("no password or certificate for the relay", "covey relay set --password-file -")
    if device.folder.vault_key.exists():
        device.folder.vault_key.read()
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
    if free < _LEAST_FREE_BYTES:
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
        yield warning("no agent is running on this state", hint_for("covey", "sudo systemctl start covey", "covey run"))


_UNKNOWN_GROUP = f"dropped_{UnknownGroupError.code}"


def group(device: Examined) -> Iterator[Seen]:
    """Whether there is somebody to talk to."""
    groups = device.status.groups
    membership = device.opened.node.membership
    if device.status.pending_joins:
        yield warning(
            "a join is waiting for its answer",
            "the inviter's agent must be running; an invite is valid for ten minutes",
        )
    elif not groups and (unknown := device.status.counters.get(_UNKNOWN_GROUP, 0)):
        yield warning(
            f"this device is in no group, but members of one send to it ({count(unknown, 'message')} dropped): "
            "its state may have been lost",
            "let it in again: run 'covey invite' on a member, then 'covey join CODE' here",
        )
    elif not groups:
        yield warning("this device is in no group", "covey group create, or covey join")
    elif not any(membership.groups.collector_of(each.group_id) for each in membership.groups.joined()):
        yield warning(
            "no group has a collector, so no device stores readings", "invite one: covey invite --capability collector"
        )
    else:
        yield ok(", ".join(f"{each.group_id[:8]} version {each.version}" for each in groups))


def outbox(device: Examined) -> Iterator[Seen]:
    """How full it is, and how long the oldest message has waited."""
    seen = device.status.outbox
    line = f"{count(seen.messages, 'message')}, {size_text(seen.bytes)} of {size_text(seen.maximum_bytes)}"
    if seen.full:
        yield error(
            f"{line}: full", "'covey status' shows the recipients; raise outbox.maximum_bytes if the disk has room"
        )
    elif seen.nearly_full:
        yield warning(f"{line}: nearly full", "'covey status' shows the recipients")
    elif seen.waits_long:
        yield warning(
            f"{line}; the oldest waits for {(seen.oldest_seconds or 0) // DAY_S} d",
            "check whether the recipient is offline: 'covey status' shows it",
        )
    else:
        yield ok(line)


def troubles(device: Examined) -> Iterator[Seen]:
    """What the counters tell of messages that could not be used."""
    counters = device.status.counters
    newer = counters.get(f"quarantined_{UnsupportedError.code}", 0)
    quarantined = sum(value for name, value in counters.items() if name.startswith("quarantined_")) - newer
    older, lost = counters.get("not_understood", 0), counters.get("lost_messages", 0)
    if newer:
        yield warning(
            f"{count(newer, 'message')} from newer devices in quarantine: this version of Covey does not support them",
            "upgrade Covey on this device; nothing else waits for these messages",
        )
    if older:
        yield warning(
            f"older devices have set aside {count(older, 'message')} of this device: they do not support them",
            "the log names these devices; upgrade Covey on them",
        )
    if quarantined:
        yield warning(
            f"{count(quarantined, 'message')} in quarantine", "check that all devices have the same version of Covey"
        )
    if lost:
        yield warning(f"senders report {count(lost, 'lost message')}", "their outboxes were full or were deleted")
    if not (quarantined or newer or older or lost):
        yield ok("nothing in quarantine, nothing lost")


def vault(device: Examined) -> Iterator[Seen]:
    """A collector's vault: there and writable, with room."""
    place = vault_place(device.opened)
    folder = device.folder.path / place
    if not device.folder.vault_key.exists():
        yield Level.SKIPPED, "this device is not a collector", ""
    elif "://" in place:
        yield ok(f"{place}, {size_text(device.status.landing_bytes)} waiting to be stored")
    elif not folder.is_dir() or not os.access(folder, os.W_OK):
        yield error(
            f"{folder} cannot be written", "check that its disk is mounted and that it belongs to the agent's user"
        )
    elif shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
        yield error(f"{folder}: no room left", "free some space; senders keep their data until then")
    else:
        yield ok(f"{folder}, {size_text(device.status.landing_bytes)} waiting to be stored")


def agreement(device: Examined) -> Iterator[Seen]:
    """Whether members agree on who is in the group: what each has last said of it, and what this device lacks."""
    from covey.core.group.manifest import read_manifest

    missing = "the agent requests what is missing; check that the relay is up and another member is online"
    membership = device.opened.node.membership
    statuses = {each.group_id: each for each in device.status.groups}
    labels = {each.device: each.label for each in device.status.members}
    for group in membership.groups.joined():
        name, found = f"group {group.group_id.hex()[:8]}", statuses[group.group_id.hex()].agreement
        if small := statuses[group.group_id.hex()].too_large:
            yield warning(
                f"{name} {small}: some members do not receive its changes",
                "raise max_packet_size at that broker; 'covey broker check' shows how much Covey needs",
            )
        early = [read_manifest(raw).version for raw in device.opened.store.groups.early_manifests(group.group_id)]
        if early:
            yield warning(f"{name}: members know version {max(early)}, this device {group.version}", missing)
        elif not group.raw:
            yield warning(
                f"{name}: members hold conflicting versions {group.version}", "they agree after two minutes online"
            )
        elif membership.groups.secret(group.group_id) is None:
            yield warning(f"{name}: the secret of its epoch has not arrived", missing)
        elif days := _days_unheard(device, group):
            yield warning(
                f"{name} version {group.version}: nothing from other members for {count(days, 'day')}",
                "if they destroyed the group, delete it here: covey group destroy",
            )
        elif found.others or found.never:
            yield warning(
                f"{name} version {group.version}: {_who_agrees(found, labels)}",
                "devices with older versions request it when online; 'covey status --json' lists them",
            )
        else:
            yield ok(f"{name} version {group.version}: {_who_agrees(found, labels)}")
    if not statuses:
        yield ok("no group to agree on")


def _days_unheard(device: Examined, group: GroupManifest) -> int:
    own, seen_at = device.opened.node.identity.signing_public, device.opened.store.heads.seen_at()
    others = [each.keys.signing_public for each in group.members if each.keys.signing_public != own]
    newest_us = max((seen_at[key] for key in others if key in seen_at), default=None)
    days = 0 if newest_us is None else int((device.clock.wall_us() - newest_us) / (DAY_S * 1e6))
    return days if days >= _UNHEARD_DAYS else 0


def _who_agrees(found: AgreementStatus, labels: dict[str, str]) -> str:
    from covey.core.ids import labelled_name

    same = count(found.same, "other member") if found.same else "no other member"
    parts = [f"{same} with the same version"]
    if not (found.same or found.others or found.never):
        return "no other members"
    if found.others:
        others = [(labelled_name(each.device, each.label), duration(each.seconds)) for each in found.others[:_NAMED]]
        named = ", ".join(f"{name} for {time}" for name, time in others)
        parts.append(
            f"{len(found.others)} with another version ({named}{', ...' if len(found.others) > _NAMED else ''})"
        )
    if found.never:
        named = ", ".join(labelled_name(each, labels.get(each, "")) for each in found.never[:_NAMED])
        parts.append(f"{len(found.never)} not seen yet ({named}{', ...' if len(found.never) > _NAMED else ''})")
    return ", ".join(parts)


def history(device: Examined) -> Iterator[Seen]:
    """Whether members hold the same history, what is being fetched, and who has proved not to be honest in it."""
    from covey.core.group.device_labels import DeviceLabels
    from covey.core.ids import GroupId, labelled_name

    for each in device.status.groups:
        group_id = GroupId(bytes.fromhex(each.group_id))
        name, found = f"group {each.group_id[:8]}", each.history
        forks = device.opened.store.operations.forks(group_id)
        waiting = sum(one.waiting for one in found.fetching)
        if forks:
            labels = DeviceLabels(device.opened.node.groups.joined())
            named = ", ".join(labels.named(author) for author in [*forks][:_NAMED])
            yield warning(
                f"{name}: {named} wrote two operations under one number; both are kept",
                "'covey history log' marks them (fork): its key was copied, or it lies; to remove it: covey "
                "group remove",
            )
        if waiting:
            giver = labelled_name(found.fetching[0].device, found.fetching[0].label)
            yield warning(
                f"{name}: {count(waiting, 'operation')} of {giver} depend on operations that this device does not have",
                "the agent requests them; check that the relay is up and another member is online",
            )
        elif not forks:
            seen = found.same + len(found.others)
            step = f"same as {found.same} of {seen} members seen" if seen else "no other member seen yet"
            gone = f" ({found.deleted} of them deleted)" if found.deleted else ""
            yield ok(f"{name}: {count(found.operations, 'operation')}{gone}, {step}")


def operators(device: Examined) -> Iterator[Seen]:
    """The operators of this device: pinned by its owner, or added by these."""
    from covey.app.device.pins import somebody_is_pinned
    from covey.app.orders.operators import operators as operators_of

    config = device.configuration.config.operations
    if not somebody_is_pinned(device.opened):
        yield Level.SKIPPED, "this device obeys no operator", ""
        return
    for group in device.opened.node.groups.joined():
        able = sorted(each.label or each.name for each in operators_of(device.opened, group) if each.member)
        name = f"group {group.group_id.hex()[:8]}"
        if len(able) < config.threshold:
            yield warning(
                f"{name}: {count(len(able), 'operator')}, and an order needs {config.threshold}",
                "check that operators are members and their keys are right: covey group operators",
            )
        else:
            named = ", ".join(able[:_NAMED])
            yield ok(f"{name}: {count(len(able), 'operator')} ({named}{', ...' if len(able) > _NAMED else ''})")


_MENDED = "correct its covey.json, sensors or firmware, then: covey mcu reset"
_COPIED = "on the copy: mpremote rm :identity.key, then covey mcu reset, and covey mcu enrol"


def boards(device: Examined) -> Iterator[Seen]:
    """The boards on this machine's ports: there, answering, enrolled."""
    known = device.status.boards
    if not known:
        yield Level.SKIPPED, "no board has been seen", ""
    for board in known:
        device_file, is_serial = Path(board.port), not board.port.startswith(UDP_PREFIX)
        if is_serial and not device_file.exists():
            yield warning(f"{board.port} is gone", "plug the board in; on another port Covey finds it there")
        elif is_serial and not os.access(device_file, os.R_OK | os.W_OK):
            yield error(f"{board.port} cannot be opened", "let the agent's user open it: sudo adduser covey dialout")
        elif board.trouble:
            is_copied = any(each.up and each.device == board.device and each is not board for each in known)
            hint = (_COPIED if is_copied else _MENDED) if board.device else CANNOT_START_HINT
            yield warning(f"the board on {board.port} reports: {board.trouble}", hint)
        elif not board.up:
            yield warning(f"the board on {board.port} is silent", "reset it, or unplug it for a moment")
        elif not board.enrolled:
            yield warning(f"the board on {board.port} has no collector", "add it: covey mcu enrol")
        else:
            yield ok(f"{board.port}: {board.software}")


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
            hint_for("covey", "sudo systemctl restart covey", "restart the agent")
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
    Check(api, _STATE),
    Check(group, _STORE),
    Check(agreement, _STORE),
    Check(history, _STORE),
    Check(operators, _STORE),
    Check(attempts, _STORE),
    Check(actions, _STATE),
    Check(installers, _STORE),
    Check(releases, _STORE),
    Check(outbox, _STORE),
    Check(mailbox, _STORE),
    Check(content, _STORE),
    Check(troubles, _STORE),
    Check(vault, _STORE),
    Check(boards, _STORE),
    Check(served_relay, frozenset({"configuration", "identity"})),
    Check(relay_accounts, _STORE),
    Check(sensors, _STORE),
    Check(doors, _STATE),
    Check(duplicate, _STORE),
    Check(relay, frozenset({"configuration"}), online=True),
    Check(credential, _STORE | {"relay", "secrets"}, online=True),
    Check(acl, frozenset({"credential"}), online=True),
)


def examine(device: Examined, *, offline: bool) -> Iterator[Finding]:
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
        except CoveyError as broken:
            failed.add(check.name)
            yield Finding(Level.ERROR, check.name, str(broken), broken.hint)
