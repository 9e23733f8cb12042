"""Checks of files and of the mailbox: there is room, files arrive, and they are what their authors announced."""

from __future__ import annotations

from collections.abc import Iterator

from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.content.status import content_status, store_trouble
from covey.app.wording import count
from covey.core.content.secrets import EpochSecrets
from covey.core.group.manifest import MAILBOX
from covey.errors import ConfigurationError, StorageError

_NEARLY_FULL = 0.8


def content(device: Examined) -> Iterator[Seen]:
    """What is pinned leaves room, and nothing was given otherwise than it was offered."""
    status = content_status(device.opened, running=device.opened.folder.locks.agent_runs())
    if status is None:
        yield Level.SKIPPED, "no files are here, or asked for", ""
        return
    files = device.opened.store.content
    missing = sum(each.sealed_size - files.come(each.hash) for each in files.all_wanted())
    try:
        files.files.need_room(missing)
    except StorageError as error:
        yield warning(f"what is asked for has no room: {error}", "covey file delete, or make room on the disk")
    if status.wrong:
        yield warning(
            f"{count(status.wrong, 'file')} came whole and not as offered, and went: 'covey file list' says which",
            "ask who has put it to put it again, then covey file delete, and covey file get",
        )
    if lacking := len({each.epoch_id for each in EpochSecrets(device.opened.store).wanted()}):
        yield warning(
            f"files here were put before this device came; their {count(lacking, 'key')} nobody has given yet",
            "a member that has pinned them gives it: covey file pin there; or have them put again",
        )
    if trouble := store_trouble(device.opened):
        yield warning(
            f"the store of files, {device.opened.config.content.store}, refuses: {trouble}",
            "AWS_ACCESS_KEY_ID and so on have to stand in the agent's environment; http:// needs AWS_ALLOW_HTTP=true",
        )
    if status.pinned_bytes > _NEARLY_FULL * status.maximum_bytes:
        yield warning(
            f"pinned files take {status.pinned_bytes} of {status.maximum_bytes} bytes: others have hardly any room",
            "covey file delete, covey file unpin, or covey config set content.maximum_mb",
        )
    line = f"{count(status.here, 'file')} here, {status.here_bytes} of {status.maximum_bytes} bytes"
    line += f"; {status.wanted} on the way" if status.wanted else ""
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
            yield error(f"no agent starts with this: {wrong}", wrong.hint or "covey config set, or unset, that")
            return
    named = any(MAILBOX in member.capabilities for group in groups if (member := group.member(own)) is not None)
    if not named and not settings.serve:
        yield Level.SKIPPED, "this device is no mailbox", ""
    elif not named:
        yield warning(
            "mailbox.serve is set, and no group names this device as a mailbox",
            "on a device that may: covey group profile DEVICE --capability mailbox",
        )
    elif not settings.serve:
        yield warning(
            "a group names this device as a mailbox, and it does not keep anything unless 'covey mailbox run' does",
            "covey config set mailbox.serve true, and restart the agent",
        )
    else:
        from covey.app.relays.mailbox import mailbox_status

        status = mailbox_status(device.opened)
        line = f"{count(status.blobs, 'envelope')}, {status.bytes} of {status.maximum_bytes} bytes"
        if status.bytes > 0.8 * status.maximum_bytes:
            yield warning(
                f"{line}: nearly full", "'covey mailbox status' shows for which devices; raise mailbox.maximum_mib"
            )
        else:
            yield ok(line)
