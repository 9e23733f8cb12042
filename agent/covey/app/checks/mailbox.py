"""Whether this device is a mailbox where it is said to be one, and has room."""

from __future__ import annotations

from collections.abc import Iterator

from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.wording import count
from covey.core.group.manifest import MAILBOX
from covey.errors import ConfigurationError


def mailbox(device: Examined) -> Iterator[Seen]:
    """The capability and the setting go together: one alone keeps nothing."""
    settings = device.configuration.config.mailbox
    groups, own = device.opened.node.groups.joined(), device.identity.signing_public
    if settings.serve or settings.wake:
        from covey.app.relays.mailbox_roles import mailbox_roles

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
            yield warning(f"{line}: nearly full", "covey mailbox status shows for whom; raise mailbox.maximum_mib")
        else:
            yield ok(line)
