"""Events as one client of the local API gets them: as server-sent events, which it resumes by the last one's id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from covey.adapters.local_api.routes import EventStream, Request, ServerSentEvent
from covey.app.documents import to_json
from covey.app.events import Events, check_types
from covey.app.following import Following

if TYPE_CHECKING:
    from covey.app.device import Device

_FOLLOW_S = 86_400


def event_stream(opened: Callable[[], AbstractContextManager[Device]], request: Request) -> EventStream:
    """Return what a client asks for, as it comes.

    Raises:
        UsageError: there are no such events.
    """
    types = check_types(request.query.get("types", ""))
    after = request.query.get("after") if request.last_event is None else request.last_event
    return EventStream(_events(opened, after, types, request.query))


def _events(
    opened: Callable[[], AbstractContextManager[Device]],
    after: str | None,
    types: frozenset[str],
    query: dict[str, str],
) -> Iterator[ServerSentEvent | None]:
    with opened() as device:
        group_id = device.pick_group(query["group"]).group_id if query.get("group") else None
        events = Events(device, after, types, group_id)
        following = Following(device.store, int(query.get("follow", _FOLLOW_S)))
        yield ServerSentEvent(events.position)
        while True:
            for each in events.read():
                yield ServerSentEvent(each.id, each.type, to_json(each.data))
                following.spoke()
            if following.over:
                return
            if following.wait():
                yield ServerSentEvent(events.position)
