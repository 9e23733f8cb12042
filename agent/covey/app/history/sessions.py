"""Sessions: where people meet to work on the fleet, and when they did."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from covey.app.device.device import Device
from covey.app.history.history import as_entry, pick_operation
from covey.app.history.writing import write
from covey.core.group.manifest import GroupManifest
from covey.core.history.bodies import Session
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.ids import OperationId, printable
from covey.errors import LocalError, UsageError
from covey.limits.history import MAXIMUM_URI_BYTES


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One session: who began it, where, when, and when it ended, None while it runs. Microseconds since 1970."""

    id: str
    author: str
    label: str
    uri: str
    started_at_us: int
    ended_at_us: int | None = None


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+")
"""A scheme and the rest (RFC 3986, section 3); programs that open it interpret it."""
_EXAMPLES = "https://meet.example/pumps, tel:+43-1-2345, or geo:48.2,16.4"


def start_session(device: Device, manifest: GroupManifest, uri: str) -> Operation:
    """Say that people meet at an address to work on the fleet.

    Raises:
        UsageError: it is no URI, or too long.
    """
    if len(uri.encode()) > MAXIMUM_URI_BYTES or not _URI.fullmatch(uri):
        shown = printable(uri, 80) + ("..." if len(uri) > 80 else "")
        raise UsageError(
            f"'{shown}' is not a URI of at most {MAXIMUM_URI_BYTES} bytes", hint=f"for example {_EXAMPLES}"
        )
    return write(device, manifest, Session(uri, device.now().wall_us))


def end_session(device: Device, manifest: GroupManifest, name: str | None) -> SessionEntry:
    """End any session; without a name this device's last running one.

    Raises:
        LocalError: it is not clear which is meant, or it has ended.
    """
    own = device.node.identity.signing_public.hex()
    going_on = [each for each in sessions(device, manifest) if each.ended_at_us is None]
    if name is None:
        matching = [each for each in going_on if each.author == own][-1:]
    else:
        wanted = pick_operation(device, manifest.group_id, name, "covey history sessions").id.hex()
        matching = [each for each in going_on if each.id == wanted]
    if not matching:
        raise LocalError("no open session has that id" if name else "this device has no open session", hint=_LIST)
    begun = matching[0]
    ended_at_us = max(device.now().wall_us, begun.started_at_us)
    end = Session(begun.uri, begun.started_at_us, ended_at_us, OperationId(bytes.fromhex(begun.id)))
    write(device, manifest, end)
    return replace(begun, ended_at_us=ended_at_us)


_LIST = "'covey history sessions' shows them"


def sessions(device: Device, manifest: GroupManifest) -> list[SessionEntry]:
    """Return the sessions of a group, in the history's order; the first end of each holds."""
    found: dict[str, SessionEntry] = {}
    for stored in device.store.operations.of_kind(manifest.group_id, OperationKind.SESSION):
        entry = as_entry(device, manifest, read_operation(stored.raw, verify=False), stored.stored_at_us)
        if entry.void:
            continue
        assert entry.uri is not None, "of that kind"
        assert entry.started_at_us is not None, "likewise"
        if entry.about is None:
            found[entry.id] = SessionEntry(entry.id, entry.author, entry.label, entry.uri, entry.started_at_us)
        elif entry.about in found and found[entry.about].ended_at_us is None:
            found[entry.about] = replace(found[entry.about], ended_at_us=entry.ended_at_us)
    return list(found.values())
