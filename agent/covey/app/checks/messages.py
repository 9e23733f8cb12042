"""Checks of messages and files: what waits, what was lost, the mailbox, and whether files are as announced."""

from __future__ import annotations

from collections.abc import Iterator

from covey.adapters.sqlite.content import DAMAGED_FILES
from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.content.status import content_status, store_trouble
from covey.app.documents import DAY_S
from covey.app.wording import count, size_text
from covey.core.content.secrets import EpochSecrets
from covey.core.group.manifest import MAILBOX
from covey.errors import ConfigurationError, StorageError, UnsupportedError

_NEARLY_FULL = 0.8


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
    held = [each for each in device.opened.store.quarantine.kinds() if each[0] != UnsupportedError.code]
    outgoing = sum(messages for _, is_outgoing, messages in held if is_outgoing)
    incoming = sum(messages for _, is_outgoing, messages in held if not is_outgoing)
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
    if incoming:
        yield warning(
            f"{count(incoming, 'message')} in quarantine that could not be used",
            "'covey message quarantine' shows why; check that all devices have the same version of Covey",
        )
    if outgoing:
        yield warning(
            f"{count(outgoing, 'message')} in quarantine that could not be sent",
            "'covey message quarantine' shows why, and sends or deletes them",
        )
    if lost:
        yield warning(
            f"senders report {count(lost, 'lost message')}",
            "'covey fleet' names senders and reasons: full or deleted outboxes, or an older backup of this device",
        )
    if not (held or newer or older or lost):
        yield ok("nothing in quarantine, nothing lost")


def content(device: Examined) -> Iterator[Seen]:
    """What is pinned leaves room, and nothing was given otherwise than it was offered."""
    status = content_status(device.opened, running=device.opened.folder.locks.agent_runs())
    if status is None:
        yield Level.SKIPPED, "no files stored or requested", ""
        return
    files = device.opened.store.content
    missing = sum(each.sealed_size - files.come(each.hash) for each in files.all_wanted())
    try:
        files.files.need_room(missing)
    except StorageError as error:
        yield warning(f"there is no room for a requested file: {error}", "covey file delete, or make room on the disk")
    if status.wrong:
        yield warning(
            f"{count(status.wrong, 'file')} did not match the offer and was deleted: 'covey file list' shows which",
            "ask its author to put it again, then: covey file delete, covey file get",
        )
    if damaged := device.status.counters.get(DAMAGED_FILES, 0):
        yield warning(
            f"the disk has damaged {count(damaged, 'file')} since this state was made; each was fetched again",
            "read all files with 'covey file verify', and copy the state to another disk: see dmesg",
        )
    if lacking := len({each.epoch_id for each in EpochSecrets(device.opened.store).wanted()}):
        yield warning(
            f"{count(lacking, 'file')} put before this device joined cannot be opened: no member has sent the key yet",
            "run 'covey file pin' on a member that has them, or ask their authors to put them again",
        )
    if trouble := store_trouble(device.opened):
        yield warning(
            f"the object store {device.opened.config.content.store} refuses files: {trouble}",
            "set AWS_ACCESS_KEY_ID etc. in the agent's environment; http:// needs AWS_ALLOW_HTTP=true",
        )
    if status.pinned_bytes > _NEARLY_FULL * status.maximum_bytes:
        yield warning(
            f"pinned files take {size_text(status.pinned_bytes)} of {size_text(status.maximum_bytes)}: "
            "other files have almost no room",
            "covey file delete, covey file unpin, or covey config set content.maximum_mb",
        )
    line = f"{count(status.here, 'file')} here, {size_text(status.here_bytes)} of {size_text(status.maximum_bytes)}"
    line += f"; fetching {status.wanted}" if status.wanted else ""
    yield ok(line if status.peers is None else f"{line}; {count(status.peers, 'peer')} on this network")


def mailbox(device: Examined) -> Iterator[Seen]:
    """The capability and the setting go together: one alone keeps nothing."""
    settings = device.configuration.config.mailbox
    groups, own = device.opened.node.groups.joined(), device.identity.signing_public
    if settings.serve or settings.wake:
        from covey.app.relays.mailbox_role import mailbox_roles

        try:
            mailbox_roles(device.opened, serve=settings.serve)
        except ConfigurationError as wrong:
            yield error(
                f"the agent cannot start with this: {wrong}",
                wrong.hint or "correct it: covey config set, or covey config unset",
            )
            return
    named = any(MAILBOX in member.capabilities for group in groups if (member := group.member(own)) is not None)
    if not named and not settings.serve:
        yield Level.SKIPPED, "this device is not a mailbox", ""
    elif not named:
        yield warning(
            "mailbox.serve is set, but this device is not a mailbox in any group",
            "on an admin's device: covey group profile DEVICE --capability mailbox",
        )
    elif not settings.serve:
        yield warning(
            "this device is a mailbox in a group, but mailbox.serve is not set",
            "covey config set mailbox.serve true, and restart the agent",
        )
    else:
        from covey.app.relays.mailbox import dropped_text as deleted
        from covey.app.relays.mailbox import mailbox_status

        status = mailbox_status(device.opened)
        line = f"{count(status.blobs, 'envelope')}, {size_text(status.bytes)} of {size_text(status.maximum_bytes)}"
        line += deleted(status)
        if status.bytes > 0.8 * status.maximum_bytes:
            yield warning(
                f"{line}: nearly full", "'covey mailbox status' shows for which devices; raise mailbox.maximum_mib"
            )
        else:
            yield ok(line)
