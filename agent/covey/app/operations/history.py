"""What a group says, for people: writing a note, reading the history in its order, proving it anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from covey.adapters.sqlite.groups import GroupTables
from covey.adapters.sqlite.operations import OperationTables
from covey.adapters.sqlite.store import empty_history
from covey.app.device import Device
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.history.acceptance import Acceptance, Waits
from covey.core.history.bodies import Body, Merge, Note, OperationKind, is_mime_type, read_body
from covey.core.history.operation import ID_BYTES, Operation, read_operation
from covey.core.history.records import StoredOperation
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.membership.replay import replayed
from covey.errors import LocalError, RemoteError, UsageError
from covey.limits.history import FORKS_OF_ONE

KINDS = tuple(kind.name.lower() for kind in OperationKind)
"""What operations are, as people write it."""

_WINDOW = 256
"""OperationTables read at a time: at most 16 MiB, and mostly 100 kB."""

_SHORTEST_ID = 4
_COMPLAINTS = 20
_BEGINNING = (0, b"")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One operation as people and programs read it; times are microseconds since 1970.

    `made_at_us` is what its author's clock said, `stored_at_us` when it came here by ours.
    """

    id: str
    kind: str
    author: str
    label: str
    height: int
    number: int
    made_at_us: int
    stored_at_us: int
    parents: tuple[str, ...]
    manifest: str
    mime: str | None = None
    text: str | None = None
    bytes: int = 0
    about: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Which operations a person wants to see; None and 0 set no bound."""

    kind: str | None = None
    author: DeviceKey | None = None
    since_us: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """What a replay of a group's whole history has found; `complaints` is empty where all of it holds."""

    operations: int
    authors: int
    versions: int
    first_version: int
    forks: int
    complaints: tuple[str, ...]


# -- writing ----------------------------------------------------------------------------------------------------------


def write_note(
    device: Device, manifest: GroupManifest, content: bytes, mime: str, about: str | None, replaces: str | None
) -> Operation:
    """Add a note to a group's history; `about` and `replaces` are beginnings of operations' ids.

    Raises:
        UsageError: no MIME type.
        LocalError: nothing or several begin like that, or what is to be replaced is no note of this device.
    """
    if not is_mime_type(mime):
        raise UsageError(f"'{mime[:64]}' is no MIME type", hint="--mime text/plain, or image/png")
    commented = pick_operation(device, manifest.group_id, about).id if about else None
    edited = pick_operation(device, manifest.group_id, replaces) if replaces else None
    if edited is not None and (
        edited.author != device.node.identity.signing_public or edited.kind != OperationKind.NOTE
    ):
        raise LocalError(f"{edited.id.hex()[:8]} is no note of this device", hint="--react comments what others wrote")
    note = Note(mime, content, commented, edited.id if edited else None)
    with device.store.transaction():
        return device.node.history.write(manifest.group_id, note, device.now())


def pick_operation(device: Device, group_id: GroupId, name: str) -> Operation:
    """Return the operation that a person means, by the beginning of its id.

    Raises:
        LocalError: none, or more than one; or too few digits.
    """
    digits = name.lower()
    if len(digits) < _SHORTEST_ID or len(digits) > 2 * ID_BYTES or not set(digits) <= set("0123456789abcdef"):
        raise LocalError(f"'{name[:70]}' is not the beginning of an id", hint="'covey history log' shows ids")
    first, last = (bytes.fromhex(digits.ljust(2 * ID_BYTES, end)) for end in "0f")
    found = device.store.operations.beginning_with(group_id, first, last)
    if len(found) != 1:
        what = "no operation's id begins" if not found else f"{len(found)} operations' ids begin"
        raise LocalError(f"{what} with {digits}", hint="'covey history log' shows ids")
    raw = device.store.operations.raw(group_id, found[0])
    assert raw is not None, "its id was just read"
    return read_operation(raw, verify=False)


# -- reading ----------------------------------------------------------------------------------------------------------


def entries(device: Device, manifest: GroupManifest, asked: Asked) -> Iterator[HistoryEntry]:
    """Yield what a person wants to see of a group's history, in the order that holds everywhere."""
    after = _before_the_last(device, manifest, asked) if asked.last else _BEGINNING
    yield from _wanted(_all(device, manifest.group_id, after), manifest, asked)


def _before_the_last(device: Device, manifest: GroupManifest, asked: Asked) -> tuple[int, bytes]:
    """Return the (height, id) behind which the last so many of the wanted operations stand."""
    before: tuple[int, bytes] | None = None
    wanted = asked.last
    while window := device.store.operations.newest_first(manifest.group_id, before, _WINDOW):
        for stored in window:
            if wanted == 0:
                return stored.height, stored.id
            wanted -= sum(1 for _ in _wanted([stored], manifest, asked))
        before = (window[-1].height, window[-1].id)
    return _BEGINNING


def entries_after(
    device: Device, manifest: GroupManifest, arrival: int, asked: Asked
) -> tuple[int, list[HistoryEntry]]:
    """Return what came after an operation, by when it came; and the last one to come."""
    window = device.store.operations.arrived_after(manifest.group_id, arrival, _WINDOW)
    return (window[-1].arrival if window else arrival), list(_wanted(window, manifest, asked))


def last_arrival(device: Device, manifest: GroupManifest) -> int:
    """Return which operation was the last to come, 0 where none has."""
    return device.store.operations.last_arrival(manifest.group_id)


def entry(device: Device, manifest: GroupManifest, name: str) -> HistoryEntry:
    """Return the operation that a person means.

    Raises:
        LocalError: none, or more than one.
    """
    operation = pick_operation(device, manifest.group_id, name)
    stored_at_us = device.store.operations.stored_at_us(manifest.group_id, operation.id)
    return _entry(operation, stored_at_us, manifest)


def content(device: Device, manifest: GroupManifest, name: str) -> bytes:
    """Return what a note holds.

    Raises:
        LocalError: it is no note, or not clear which is meant.
    """
    operation = pick_operation(device, manifest.group_id, name)
    body = read_body(operation)
    if not isinstance(body, Note):
        raise LocalError(f"{operation.id.hex()[:8]} is no note")
    return body.content


def _wanted(window: Iterable[StoredOperation], manifest: GroupManifest, asked: Asked) -> Iterator[HistoryEntry]:
    for stored in window:
        operation = read_operation(stored.raw, verify=False)
        if asked.author not in {None, operation.author} or operation.made_at_us < asked.since_us:
            continue
        if asked.kind in {None, KINDS[operation.kind]}:
            yield _entry(operation, stored.stored_at_us, manifest)


def _entry(operation: Operation, stored_at_us: int, manifest: GroupManifest) -> HistoryEntry:
    member = manifest.member(operation.author)
    known = HistoryEntry(
        operation.id.hex(),
        KINDS[operation.kind],
        operation.author.hex(),
        member.label if member else "",
        operation.height,
        operation.number,
        operation.made_at_us,
        stored_at_us,
        tuple(each.hex() for each in operation.parents),
        operation.manifest.hex(),
    )
    return _with_body(known, read_body(operation))


def _with_body(known: HistoryEntry, body: Body) -> HistoryEntry:
    if isinstance(body, Merge):
        return known
    text = body.content.decode(errors="replace") if body.mime.startswith("text/") else None
    return replace(
        known,
        mime=body.mime,
        text=text,
        bytes=len(body.content),
        about=_hex(body.about),
        replaces=_hex(body.replaces),
    )


def _hex(operation_id: OperationId | None) -> str | None:
    return None if operation_id is None else operation_id.hex()


# -- proving ----------------------------------------------------------------------------------------------------------


def verify_history(device: Device, manifest: GroupManifest) -> HistoryReport:
    """Judge every version and every operation of a group anew, from the first one on, as if strangers had sent them."""
    group_id = manifest.group_id
    manifests = [read_manifest(raw) for raw in device.store.groups.manifests_from(group_id, 1)]
    found = _Replayed(complaints=[])
    if replayed(group_id, manifests) is None:
        found.complaints.append("the versions of the group do not follow one another")
    with empty_history() as operations:
        acceptance = Acceptance(_Replay(operations, device.store.groups))
        for stored in _all(device, group_id):
            found.operations += 1
            try:
                operation = _replay(acceptance, operations, stored)
            except (RemoteError, LocalError) as error:
                if len(found.complaints) < _COMPLAINTS:
                    found.complaints.append(f"operation {stored.id.hex()[:8]}: {error}")
            else:
                found.authors.add(operation.author)
                found.forks += len(operations.numbered(group_id, operation.log, operation.number)) == FORKS_OF_ONE
    return HistoryReport(
        found.operations, len(found.authors), len(manifests), manifests[0].version, found.forks, tuple(found.complaints)
    )


@dataclass(slots=True)
class _Replayed:
    complaints: list[str]
    operations: int = 0
    forks: int = 0
    authors: set[DeviceKey] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Replay:
    """What acceptance reads in a replay: the operations so far, and the manifests as they are stored."""

    operations: OperationTables
    groups: GroupTables


def _replay(acceptance: Acceptance, operations: OperationTables, stored: StoredOperation) -> Operation:
    """Take an operation as if it came now.

    Raises:
        RemoteError: the rule that it breaks.
        LocalError: it rests on what is not here.
    """
    operation = read_operation(stored.raw)
    judged = acceptance.judge(operation, wanted=True)
    if isinstance(judged, Waits):
        raise LocalError("it rests on what is not here")
    operations.add(operation, judged.version, 0)
    return operation


def _all(device: Device, group_id: GroupId, after: tuple[int, bytes] = _BEGINNING) -> Iterator[StoredOperation]:
    while window := device.store.operations.in_order(group_id, after, _WINDOW):
        yield from window
        after = (window[-1].height, window[-1].id)
