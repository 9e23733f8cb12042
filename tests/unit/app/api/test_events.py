"""`covey.app.api.events`: what was committed is told in that order, each once, from wherever a program has come to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from covey.app.api.event_documents import GroupEvent, InvitationEvent, OrderResultEvent, VoteEvent
from covey.app.api.events import FROM_THE_BEGINNING, DeviceEvent, Events, check_types
from covey.app.device.device import Device, find_state, open_device
from covey.app.history.documents import HistoryEntry
from covey.app.history.pages import HistoryQuery, page
from covey.core.actions.results import CommandState, OrderResult
from covey.core.group.policy import Action
from covey.core.history.bodies import Note
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.membership.events import InvitationState, VoteCast
from covey.errors import UsageError
from covey.limits.storage import EVENTS_KEPT
from tests.command import Here

EVERYTHING = check_types("")


@contextmanager
def _opened(here: Here) -> Iterator[Device]:
    with open_device(find_state(str(here.state))) as device:
        yield device


@pytest.fixture
def ann(tmp_path: Path) -> Here:
    """A device in a group of its own."""
    here = Here(tmp_path, "ann")
    here.ok("group", "create")
    return here


def _texts(found: list[DeviceEvent]) -> list[str | None]:
    return [each.data.text for each in found if isinstance(each.data, HistoryEntry)]


def test_events_include_own_notes_after_the_first_read(ann: Here) -> None:  # accepts: 003.24
    with _opened(ann) as device:
        events = Events(device, None, EVERYTHING)
        assert list(events.read()) == []
        ann.ok("history", "post", "one")
        ann.ok("history", "post", "two")
        found = list(events.read())
        assert _texts(found) == ["one", "two"]
        assert list(Events(device, found[0].id, EVERYTHING).read()) == found[1:]
        assert list(Events(device, found[1].id, EVERYTHING).read()) == []
        assert list(events.read()) == []


def test_an_uncommitted_event_is_not_reported(ann: Here) -> None:
    with _opened(ann) as device, _opened(ann) as writer:
        events = Events(device, None, EVERYTHING)
        with writer.store.transaction():
            writer.node.history.write(writer.pick_group(None).group_id, Note("text/plain", b"one"), writer.now())
            assert list(events.read()) == []
        assert _texts(list(events.read())) == ["one"]


def test_everything_from_the_beginning(ann: Here) -> None:  # accepts: 000.21
    ann.ok("history", "post", "one")
    ann.ok("group", "create", "--mode", "public")
    with _opened(ann) as device:
        found = list(Events(device, FROM_THE_BEGINNING, EVERYTHING).read())
        assert [each.type for each in found] == ["group_joined", "operation", "group_joined"]
        last = found[2].data
        assert isinstance(last, GroupEvent)
        only = Events(device, FROM_THE_BEGINNING, EVERYTHING, device.pick_group(last.group_id).group_id)
        assert [each.id for each in only.read()] == [found[2].id]
        assert [each.type for each in Events(device, FROM_THE_BEGINNING, check_types("operation")).read()] == [
            "operation"
        ]


@pytest.mark.slow
def test_a_window_ends_nothing(ann: Here) -> None:
    with _opened(ann) as device:
        group_id = device.pick_group(None).group_id
        with device.store.transaction():
            for number in range(150):
                device.store.events.note("setting", group_id, 1, {"key": f"app.{number}"})
                device.node.history.write(group_id, Note("text/plain", str(number).encode()), device.now())
        found = list(Events(device, FROM_THE_BEGINNING, EVERYTHING).read())
        assert [each.type for each in found] == ["group_joined", *["setting", "operation"] * 150]
        assert _texts(found) == [str(number) for number in range(150)]


def test_events_report_invitations_and_votes(ann: Here) -> None:
    cast = VoteCast(GroupId(bytes(32)), Action.KEEP_OUT, DeviceKey(bytes(32)), DeviceKey(b"v" * 32), 1, 2)
    with _opened(ann) as device:
        events = Events(device, None, EVERYTHING)
        with device.store.transaction():
            device.store.events.invitation(cast.group_id, cast.voter, InvitationState.DECLINED, 5)
            device.store.events.vote(cast, 6)
        assert [(each.type, each.data) for each in events.read()] == [
            ("invitation", InvitationEvent("00" * 32, 5, "76" * 32, "declined")),
            ("vote", VoteEvent("00" * 32, 6, "keep_out", "00" * 32, "76" * 32, 1, 2)),
        ]


@pytest.mark.parametrize("lost", ["another state", "a number to come", "too many since"])
def test_a_client_that_cannot_continue_is_notified_once(ann: Here, lost: str) -> None:
    with _opened(ann) as device:
        place = Events(device, None, EVERYTHING).position
        incarnation, _, number = place.partition("-")
        if lost == "another state":
            place = f"00000000-{number}"
        elif lost == "a number to come":
            place = f"{incarnation}-{int(number) + 1}"
        else:
            group_id = device.pick_group(None).group_id
            with device.store.transaction():
                for _ in range(EVENTS_KEPT + 1):
                    device.store.events.note("setting", group_id, 1, {"key": "app.mode"})
        found = list(Events(device, place, EVERYTHING).read())
        assert found[0].type == "missed"
        assert list(Events(device, found[-1].id, EVERYTHING).read()) == []


@pytest.mark.parametrize("place", ["", "x", "1", "00000000-", "0-0", "00000000-1\n"])
def test_no_place_at_all(ann: Here, place: str) -> None:
    with _opened(ann) as device, pytest.raises(UsageError):
        Events(device, place, EVERYTHING)


def test_no_such_type() -> None:
    with pytest.raises(UsageError, match="no event type is called b"):
        check_types("operation,b")


@pytest.mark.slow
def test_pages_and_the_events_after_them_are_everything_once(ann: Here) -> None:
    for number in range(5):
        ann.ok("history", "post", str(number))
    with _opened(ann) as device:
        first = page(device, HistoryQuery(), limit=2)
        ann.ok("history", "post", "late")
        device.node.refresh()
        second = page(device, HistoryQuery(), first.next, limit=2)
        third = page(device, HistoryQuery(), second.next, limit=2)
        assert [each.text for found in (first, second, third) for each in found.entries] == ["0", "1", "2", "3", "4"]
        assert (third.next, third.event) == (None, first.event)
        assert _texts(list(Events(device, third.event, EVERYTHING).read())) == ["late"]
        assert [each.text for each in page(device, HistoryQuery(last=2)).entries] == ["4", "late"]
        assert page(device, HistoryQuery(kind="merge")).entries == ()
        with pytest.raises(UsageError, match="not a page cursor"):
            page(device, HistoryQuery(), "x")


def test_a_command_result_is_reported_once_despite_power_cuts(ann: Here) -> None:
    with _opened(ann) as device:
        events = Events(device, None, EVERYTHING)
        group_id, own = device.pick_group(None).group_id, device.node.identity.signing_public
        result = OrderResult(OperationId(bytes(32)), CommandState.DONE, 4, 7, 5, exit=3, output=b"all well")
        keep = partial(device.store.order_results.keep, group_id, own, result, 9, 65_536, judged=True)
        with suppress(InterruptedError), device.store.transaction():
            keep()
            raise InterruptedError
        assert list(events.read()) == []
        for _ in range(2):
            with device.store.transaction():
                keep()
        [event] = events.read()
        assert event.type == "order_result"
        assert event.data == OrderResultEvent(
            group_id.hex(), 9, "00" * 32, own.hex(), "done", 3, "", "", len(b"all well"), judged=True
        )
        device.store.order_results.forget(group_id)
        assert list(Events(device, FROM_THE_BEGINNING, check_types("order_result")).read()) == []
