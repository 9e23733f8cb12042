"""`MESSAGE`: what becomes of a message of the window, in each state and by each event, as the table says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from covey.core.ids import DeviceKey, Place
from covey.core.link.send_window import MESSAGE, Event, Gone, InFlight, Relayed, SendLink, Sent, Waiting
from covey.core.wire.sequences import SequenceSet

NOW_US = 1_000_000
LATE_US = 1_000_000_000
RELAY = "relay"


class Window:
    """A link with one message, in any state; a second one, which is never sent, keeps the window open."""

    def __init__(self, state: type) -> None:
        self.link = SendLink(DeviceKey(b"recipient"))
        self.link.connected(NOW_US)
        wanted = self.link.wanted()
        assert wanted is not None
        self.link.offer([(Place(1), b"message"), (Place(2), b"later")], wanted)
        self.entry: InFlight = next(self.link.messages_to_send())
        if state is not Waiting:
            self.link.sent(self.entry, NOW_US, RELAY)
        if state is Relayed:
            self.link.relayed(Place(1))
        if state is Gone:
            self.link.receive_acknowledgement(SequenceSet(1), NOW_US)
        assert type(self.entry.state) is state


EVENTS: Mapping[Event, Callable[[Window], object]] = {
    Event.SENT: lambda window: window.link.sent(window.entry, LATE_US, RELAY),
    Event.RELAYED: lambda window: window.link.relayed(Place(1)),
    Event.CUT: lambda window: window.link.connection_lost(RELAY),
    Event.RETRY: lambda window: window.link.handle_deadline(LATE_US, lambda _low, high: high),
    Event.MISSING: lambda window: window.link.receive_acknowledgement(SequenceSet(0, ((2, 2),)), LATE_US),
    Event.ACKNOWLEDGED: lambda window: window.link.receive_acknowledgement(SequenceSet(1), LATE_US),
    Event.WITHDRAWN: lambda window: window.link.withdraw(1, 1),
}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", MESSAGE)
def test_a_message_goes_where_its_table_says(state: type, event: Event) -> None:
    window = Window(state)
    EVENTS[event](window)
    assert type(window.entry.state) is MESSAGE[state].get(event, state)


@pytest.mark.parametrize("state", [Sent, Relayed])
def test_another_relays_connection_does_not_matter(state: type) -> None:
    window = Window(state)
    window.link.connection_lost("another")
    assert type(window.entry.state) is state


def test_a_message_sent_twice_counts_from_the_last_time() -> None:
    window = Window(Sent)
    EVENTS[Event.SENT](window)
    assert window.entry.state == Sent(LATE_US)
    assert window.entry.sends == 2
