"""Events as one client of the local API gets them: as server-sent events, which it resumes by the last one's id."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from covey.adapters.local_api.routes import EventStream, Request, ServerSentEvent
from covey.app.api.event_documents import EphemeralEvent
from covey.app.api.events import Events, check_types
from covey.app.documents import to_json
from covey.app.loop.following import Following

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.device.ephemeral import EphemeralExchange
    from covey.core.ephemeral.state import ReceivedEphemeral

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
