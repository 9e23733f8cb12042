"""`link_machine.TRANSITIONS`: in each state each event leads where the table says, or changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from covey_boards.shared import framing, link_machine
from covey_boards.shared.link_machine import Link

OURS, PEER, OTHER = b"a" * 8, b"b" * 8, b"c" * 8
STATES = ("SEARCHING", "GREETING", "UP", "INCOMPATIBLE")
NOBODY, FOREIGN = bytes(8), 9


def _hello(boot_id: bytes, names: bytes, version: int = 1) -> bytes:
    return framing.encode(bytes([1, 0, 0, 0, version, version, 0, 0, 64, 0, 0, 16]) + boot_id + names)


def _silence(link: Link) -> None:
    """Send a message, if the link is up, and let every deadline pass without an answer."""
    link.send(b"reading")
    for _ in range(9):
        link.bytes_to_send(0)
        if link.next_deadline() is not None:
            link.handle_deadline(link.next_deadline())


EVENTS: Mapping[str, Callable[[Link], None]] = {
    "_MET": lambda link: link.receive_bytes(_hello(OTHER, NOBODY), 0),
    "_NAMED": lambda link: link.receive_bytes(_hello(PEER, OURS), 0),
    "_TAGGED": lambda link: link.receive_bytes(framing.encode(bytes([4, 9]) + link._tag), 0),
    "_SILENCE": _silence,
    "_FOREIGN": lambda link: link.receive_bytes(_hello(OTHER, NOBODY, FOREIGN), 0),
}


def _in(state: str) -> Link:
    link = Link(OURS)
    if state != "SEARCHING":
        link.receive_bytes(_hello(PEER, OURS if state == "UP" else NOBODY), 0)
    if state == "INCOMPATIBLE":
        link.receive_bytes(_hello(OTHER, NOBODY, FOREIGN), 0)
    assert link.state == getattr(link_machine, state)
    return link


def _next(state: str, event: str) -> int | None:
    place = len(EVENTS) * getattr(link_machine, state) + getattr(link_machine, event)
    following = link_machine.TRANSITIONS[place]
    return following if following < len(STATES) else None


def test_the_table_has_a_place_for_each_state_and_event() -> None:
    assert len(link_machine.TRANSITIONS) == len(STATES) * len(EVENTS)
    assert [getattr(link_machine, name) for name in STATES] == list(range(len(STATES)))
    assert [getattr(link_machine, name) for name in EVENTS] == list(range(len(EVENTS)))


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES)
def test_the_link_goes_where_its_table_says(state: str, event: str) -> None:
    link = _in(state)
    if (state, event) == ("SEARCHING", "_NAMED"):  # whoever is heard first is met first: it is known to nobody yet
        link._follow(link_machine._NAMED, 0)
    else:
        EVENTS[event](link)
    following = _next(state, event)
    assert link.state == (getattr(link_machine, state) if following is None else following)


@pytest.mark.parametrize("state", STATES)
def test_a_frame_that_the_table_does_not_have_is_a_stray(state: str) -> None:
    link = _in(state)
    link.bytes_to_send(0)
    before = link.statistics.strays
    link.receive_bytes(framing.encode(bytes([5, 0]) + link._tag + b"\1\0"), 0)
    assert link.statistics.strays - before == (_next(state, "_TAGGED") is None)
