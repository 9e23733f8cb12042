"""What happens to a device, in the order of its commits, and as server-sent events for one client of the local API.

Events are read from the device's state: nothing is told that a power cut takes back, and nothing is held in memory for
slow readers. An event's id names this device's incarnation and the event's number. A client resumes after the last id
that it has seen, without loss or repetition, however long ago that was. If that is impossible (the state was restored,
or too many events have come since), the first event is `missed`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from covey.adapters.local_api.routes import EventStream, Request, ServerSentEvent
from covey.adapters.sqlite.events import NO_GROUP, KeptEvent
from covey.app.api.event_documents import (
    EVENTS,
    EphemeralEvent,
    GroupEvent,
    InvitationEvent,
    Missed,
    NamedMember,
    OrderResultEvent,
    ReportedSettingEvent,
    SettingEvent,
    SettingReportEvent,
    VoteEvent,
)
from covey.app.documents import to_json
from covey.app.groups.documents import OwnGroupEvent, OwnPreferenceEvent
from covey.app.history.documents import EVENT_ID, HistoryEntry
from covey.app.history.history import as_entry
from covey.app.loop.following import Following
from covey.app.orders.program_settings import ordered_settings
from covey.core.history.kinds import PERSONAL_KINDS
from covey.core.history.operation import read_operation
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.settings.states import SettingReport
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.app.device.calls import EphemeralExchange
    from covey.app.device.device import Device
    from covey.app.groups.own import OwnChanges
    from covey.core.actions.results import KeptResult
    from covey.core.ephemeral.state import ReceivedEphemeral
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.operation import StoredOperation


FROM_THE_BEGINNING = "0"
_WINDOW = 64
"""Events read at a time: of operations at their largest 4 MiB."""


_PERSONAL = frozenset(kind.name.lower() for kind in PERSONAL_KINDS)

EventDocument: TypeAlias = (
    HistoryEntry
    | GroupEvent
    | InvitationEvent
    | VoteEvent
    | SettingEvent
    | SettingReportEvent
    | OrderResultEvent
    | OwnGroupEvent
    | OwnPreferenceEvent
    | Missed
)


_SAYS_ALL: dict[str, type[InvitationEvent | VoteEvent]] = {"invitation": InvitationEvent, "vote": VoteEvent}
"""What is kept of such an event is its document."""


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """An event; `data` is a document of its type (`event_documents.EVENTS`)."""

    id: str
    type: str
    data: EventDocument


def check_types(names: str) -> frozenset[str]:
    """Return the types of events that a program names, with commas between; all of them where it names none.

    Raises:
        UsageError: there is no such type.
    """
    types = frozenset(filter(None, names.split(",")))
    if unknown := types - set(EVENTS):
        raise UsageError(f"no event type is called {min(unknown)[:40]}", hint=f"types: {', '.join(EVENTS)}")
    return types or frozenset(EVENTS)


class Events:
    """The events of a device from a place on: after an id, from the beginning, or those to come."""

    def __init__(self, device: Device, after: str | None, types: frozenset[str], group: GroupId | None = None) -> None:
        """Begin.

        Raises:
            UsageError: `after` is no event's id.
        """
        self._device = device
        self._types = types
        self._group = group
        self._incarnation = device.store.incarnations.present().hex()[:8]
        last = device.store.events.last_number()
        self._own: OwnChanges | None = None
        self._missed = False
        self._arrival = last if after is None else 0
        if after not in {None, FROM_THE_BEGINNING}:
            if not re.fullmatch(EVENT_ID, after or ""):
                raise UsageError(
                    "not the id of an event",
                    hint=f"repeat an id exactly as received, or {FROM_THE_BEGINNING} for all events",
                )
            incarnation, _, number = str(after).partition("-")
            self._arrival = int(number)
            known = incarnation == self._incarnation and self._arrival <= last
            self._missed = not known or device.store.events.may_lack(self._arrival)
            if not known:
                self._arrival = last

    @property
    def position(self) -> str:
        """Return the id of the last event that was read, told or not."""
        return f"{self._incarnation}-{self._arrival}"

    def read(self) -> Iterator[DeviceEvent]:
        """Yield what was committed since the last time."""
        if self._missed:
            self._missed = False
            yield DeviceEvent(self.position, "missed", Missed())
        store = self._device.store
        upto = store.events.last_number()
        if self._arrival < upto:
            self._device.node.refresh()
            self._own = None
        while self._arrival < upto:
            operations = store.operations.arrived_between(self._arrival, upto, _WINDOW)
            others = store.events.between(self._arrival, upto, _WINDOW)
            both: list[StoredOperation | KeptEvent] = sorted([*operations, *others], key=lambda each: each.arrival)
            window = both[:_WINDOW]
            for each in window:
                self._arrival = each.arrival
                yield from self._documents_of(each)
            if len(window) < _WINDOW:
                self._arrival = upto

    def _documents_of(self, event: StoredOperation | KeptEvent) -> Iterator[DeviceEvent]:
        if isinstance(event, KeptEvent):
            if event.kind in self._types and event.group_id in {NO_GROUP, self._group or event.group_id}:
                yield from self._other(event)
        elif "operation" in self._types:
            operation = read_operation(event.raw, verify=False)
            manifest = self._manifests().get(operation.group_id)
            if manifest is not None and self._group in {None, operation.group_id}:
                entry = as_entry(self._device, manifest, operation, event.stored_at_us)
                yield DeviceEvent(self.position, "operation", entry)

    def _manifests(self) -> dict[GroupId, GroupManifest]:
        groups = self._device.node.groups
        return {group.group_id: group for group in (*groups.removed_from(), *groups.joined())}

    def _other(self, event: KeptEvent) -> Iterator[DeviceEvent]:
        about = event.about
        document: EventDocument
        if event.kind in _PERSONAL:
            found_own = self._own_event(event)
            if found_own is None:
                return
            document = found_own
        elif event.kind in _SAYS_ALL:
            document = _SAYS_ALL[event.kind](event.group_id.hex(), event.at_us, **about)
        elif event.kind == "setting":
            found = (each for each in ordered_settings(self._device) if each.key == about["key"])
            document = SettingEvent(about["key"], event.at_us, next(found, None))
        elif event.kind == "setting_report":
            device = bytes.fromhex(about["device"])
            kept = self._device.store.setting_reports.of(event.group_id, DeviceKey(device))
            if kept is None:
                return
            reported = tuple(_reported(SettingReport.from_wire(kept.body)))
            document = SettingReportEvent(event.group_id.hex(), event.at_us, device.hex(), reported)
        elif event.kind == "order_result":
            order, device = (bytes.fromhex(about[name]) for name in ("order", "device"))
            found_result = self._device.store.order_results.of_device(
                event.group_id, OperationId(order), DeviceKey(device)
            )
            if found_result is None:
                return
            document = _result(event, found_result)
        else:
            came, went = (tuple(NamedMember(**each) for each in about.pop(name, ())) for name in ("added", "removed"))
            document = GroupEvent(event.group_id.hex(), event.at_us, added=came, removed=went, **about)
        yield DeviceEvent(self.position, event.kind, document)

    def _own_event(self, event: KeptEvent) -> OwnGroupEvent | OwnPreferenceEvent | None:
        if self._own is None:
            from covey.app.groups.own import OwnChanges  # most devices are nobody's own

            self._own = OwnChanges(self._device)
        return self._own.document(event.group_id, OperationId(bytes.fromhex(event.about["operation"])), event.at_us)


def _result(event: KeptEvent, kept: KeptResult) -> OrderResultEvent:
    result = kept.result
    return OrderResultEvent(
        event.group_id.hex(),
        event.at_us,
        result.order.hex(),
        kept.device.hex(),
        result.state.name.lower(),  # type: ignore[arg-type]  # the names are the document's
        result.exit,
        result.code,
        result.why,
        kept.output_bytes,
        kept.judged,
    )


def _reported(report: SettingReport) -> Iterable[ReportedSettingEvent]:
    for each in report.settings:
        yield ReportedSettingEvent(
            each.key,
            each.operation.hex(),
            each.state.name.lower(),  # type: ignore[arg-type]  # the names are the document's
            each.value,
            each.code,
            each.why,
        )


_FOLLOW_S = 86_400


def event_stream(
    opened: Callable[[], AbstractContextManager[Device]], ephemeral: EphemeralExchange, request: Request
) -> EventStream:
    """Return what a client asks for, as it comes.

    An ephemeral message has the id of the event before it: nobody gets it again.

    Raises:
        UsageError: there are no such events.
    """
    types = check_types(request.query.get("types", ""))
    after = request.query.get("after") if request.last_event is None else request.last_event
    return EventStream(_events(opened, ephemeral, after, types, request.query))


def _events(
    opened: Callable[[], AbstractContextManager[Device]],
    ephemeral: EphemeralExchange,
    after: str | None,
    types: frozenset[str],
    query: dict[str, str],
) -> Iterator[ServerSentEvent | None]:
    reported = ephemeral.last_number

    def news() -> bool:
        return reported < ephemeral.last_number

    with opened() as device:
        group_id = device.pick_group(query["group"]).group_id if query.get("group") else None
        events = Events(device, after, types, group_id)
        following = Following(device.store, int(query.get("follow", _FOLLOW_S)), news)
        yield ServerSentEvent(events.position)
        while True:
            for each in events.read():
                yield ServerSentEvent(each.id, each.type, to_json(each.data))
                following.spoke()
            for number, received in ephemeral.received_after(reported):
                reported = number
                if "ephemeral" in types and group_id in {None, received.group_id}:
                    yield ServerSentEvent(events.position, "ephemeral", to_json(_document(device, received)))
                    following.spoke()
            if following.over:
                return
            if following.wait():
                yield ServerSentEvent(events.position)


def _document(device: Device, received: ReceivedEphemeral) -> EphemeralEvent:
    groups = (each for each in device.node.groups.joined() if each.group_id == received.group_id)
    member = next((each.member(received.author) for each in groups), None)
    label = "" if member is None else member.label
    try:
        said = {"text": received.content.decode()}
    except UnicodeDecodeError:
        said = {"content": b64encode(received.content).decode()}
    return EphemeralEvent(received.group_id.hex(), received.author.hex(), label, received.said_at_us, **said)
