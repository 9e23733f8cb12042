"""`covey.core.history.messages`: the bodies, by the vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from covey.core.history.messages import HistoryPull, OperationBundle, log_tag
from covey.core.history.operation import ID_BYTES, Log
from covey.core.ids import DeviceKey, Incarnation, OperationId
from covey.core.wire import cbor
from covey.errors import RemoteError
from covey.limits.history import MAXIMUM_WANTED
from covey.limits.message import MAXIMUM_SEQUENCE
from tests.vectors import vectors

_READERS: dict[str, Callable[[bytes], OperationBundle | HistoryPull]] = {
    "OPERATIONS": OperationBundle.from_wire,
    "HISTORY_PULL": HistoryPull.from_wire,
}


def test_tags_stand_for_the_logs_that_are_here() -> None:
    known, unknown, other = (Log(DeviceKey(bytes([each]) * 32), Incarnation(bytes(8))) for each in range(3))
    pull = HistoryPull({known: 7, unknown: 3}).with_tags(b"saltsalt")
    assert pull.ends == {}
    read = HistoryPull.from_wire(pull.to_wire())
    assert read.among([known, other]) == HistoryPull({known: 7})
    assert HistoryPull({known: 7}).among([other]) == HistoryPull({known: 7}), "without tags it names them itself"
    assert log_tag(b"saltsalt", known) != log_tag(b"tlastlas", known), "nobody can find two that always have one tag"


def test_of_two_logs_with_one_tag_all_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (Log(DeviceKey(bytes([each]) * 32), Incarnation(bytes(8))) for each in range(2))
    pull = HistoryPull({one: 7}).with_tags(bytes(8))
    monkeypatch.setattr("covey.core.history.messages.log_tag", lambda *_: log_tag(bytes(8), one))
    assert pull.among([one, two]).ends == {}, "as if the asker had none of either"
    both = HistoryPull({one: 7, two: 1})
    assert both.with_tags(bytes(8)) == both, "and it does not ask with tags that say two things"


_AUTHOR, _INCARNATION = bytes(32), bytes(8)


@pytest.mark.parametrize(
    "wrong",
    [
        [_AUTHOR, _INCARNATION],
        [_AUTHOR[1:], _INCARNATION, 1],
        [_AUTHOR, _INCARNATION + b"9", 1],
        ["a" * 32, _INCARNATION, 1],
        [_AUTHOR, "a" * 8, 1],
        [_AUTHOR, _INCARNATION, -1],
        [_AUTHOR, _INCARNATION, MAXIMUM_SEQUENCE + 1],
        [_AUTHOR, _INCARNATION, True],
        [bytes([1]) * 32, _INCARNATION, 2],
        7,
    ],
)
def test_a_request_with_one_wrong_log_is_refused(wrong: object) -> None:
    right = [bytes([1]) * 32, _INCARNATION, 1]
    good = HistoryPull.from_wire(cbor.encode_growing([[right, [_AUTHOR, _INCARNATION, MAXIMUM_SEQUENCE]], []]))
    assert [*good.ends.values()] == [1, MAXIMUM_SEQUENCE]
    with pytest.raises(RemoteError):
        HistoryPull.from_wire(cbor.encode_growing([[right, wrong], []]))


def test_a_request_names_a_limited_number_of_ids() -> None:
    ids = tuple(OperationId(number.to_bytes(ID_BYTES, "big")) for number in range(MAXIMUM_WANTED + 1))
    log = Log(DeviceKey(bytes(32)), Incarnation(bytes(8)))
    for make in (HistoryPull.to_wire, lambda pull: pull.with_tags(bytes(8)).to_wire()):
        assert HistoryPull.from_wire(make(HistoryPull({log: 7}, ids[1:]))).wanted == ids[1:]
        with pytest.raises(RemoteError):
            HistoryPull.from_wire(make(HistoryPull({log: 7}, ids)))


@pytest.mark.parametrize("vector", vectors("history", "bodies"))
def test_bodies(vector: dict[str, Any]) -> None:
    body, read = bytes.fromhex(vector["bytes"]), _READERS[vector["type"]]
    if vector["code"] is None:
        assert read(body).to_wire() == body
        return
    with pytest.raises(RemoteError) as caught:
        read(body)
    assert caught.value.code == vector["code"]
