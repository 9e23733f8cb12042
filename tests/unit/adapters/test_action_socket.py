"""`covey.adapters.action_socket`: what the agent and root's program say; neither believes what is none of it."""

from __future__ import annotations

import pytest

from covey.adapters.action_socket import (
    ANSWER_BYTES,
    REQUEST_BYTES,
    ActionAnswer,
    ActionOutcome,
    read_request,
    to_request,
)
from covey.core.wire import cbor
from covey.errors import RemoteError
from covey.limits.actions import MAXIMUM_ACTION_OUTPUT_BYTES, MAXIMUM_RESULT_CODE_BYTES, MAXIMUM_RESULT_WHY_BYTES
from covey.limits.orders import (
    MAXIMUM_ACTION_BYTES,
    MAXIMUM_ARGUMENT_BYTES,
    MAXIMUM_ARGUMENT_NAME_BYTES,
    MAXIMUM_ARGUMENTS,
)


def test_the_longest_request_fits() -> None:
    name = "n" * (MAXIMUM_ARGUMENT_NAME_BYTES - 2)
    arguments = {f"{name}{number:02}": "v" * MAXIMUM_ARGUMENT_BYTES for number in range(MAXIMUM_ARGUMENTS)}
    packet = to_request("a" * MAXIMUM_ACTION_BYTES, arguments, arguments)
    assert len(packet) <= REQUEST_BYTES
    assert read_request(packet) == ("a" * MAXIMUM_ACTION_BYTES, arguments, arguments)


def test_without_secrets_a_request_is_as_an_earlier_covey_reads_it() -> None:
    packet = to_request("note", {"line": "a"}, {})
    assert packet == cbor.encode(["note", [["line", "a"]]])
    assert read_request(packet) == ("note", {"line": "a"}, {})


def test_the_longest_answer_fits() -> None:
    answer = ActionAnswer(
        *(ActionOutcome.UNKNOWN, -255, bytes(MAXIMUM_ACTION_OUTPUT_BYTES), True),
        *("c" * MAXIMUM_RESULT_CODE_BYTES, "é" * MAXIMUM_RESULT_WHY_BYTES),
    )
    packet = answer.to_wire()
    assert len(packet) <= ANSWER_BYTES
    assert ActionAnswer.from_wire(packet).why == "é" * (MAXIMUM_RESULT_WHY_BYTES // 2)


@pytest.mark.parametrize(
    "said",
    [
        [],
        ["note"],
        ["note", [["a"]]],
        ["note", [["a", 1]]],
        ["note", [["a", "1"], ["a", "2"]]],
        ["n" * (MAXIMUM_ACTION_BYTES + 1), []],
        ["note", [[str(number), ""] for number in range(MAXIMUM_ARGUMENTS + 1)]],
        ["note", [], "/bin/sh"],
        ["note", [], [["a", "1"], ["a", "2"]]],
        ["note", [], [], "/bin/sh"],
    ],
)
def test_malformed_requests_are_refused(said: list[object]) -> None:
    with pytest.raises(RemoteError):
        read_request(cbor.encode(said))


@pytest.mark.parametrize(
    "packet", [b"", b"\xff", bytes(REQUEST_BYTES + 1), cbor.encode([4, 0, b"", False, "", ""]), cbor.encode([0])]
)
def test_malformed_answers_are_refused(packet: bytes) -> None:
    with pytest.raises(RemoteError):
        ActionAnswer.from_wire(packet)
    with pytest.raises(RemoteError):
        read_request(packet)
