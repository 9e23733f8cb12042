"""`covey.adapters.unit_programs`: what the agent asks for, and what it makes of each answer, and of none."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.action_socket import ActionAnswer, ActionOutcome, read_request
from covey.adapters.unit_programs import UnitProgram, UnitPrograms
from covey.core.actions.definition import Invocation, ProgramBounds
from covey.core.actions.results import NOT_ALLOWED, NOT_STARTED
from covey.errors import ActionError
from covey.ports import ProgramEnd

_INVOCATION = Invocation(
    "note", {"line": "$a"}, ("/bin/note", "$a"), ProgramBounds(60_000_000), stdin=b"k", secrets={"key": "k"}
)
_LATE_US = 3_600_000_000


class Service:
    """The other side, in the test's hand."""

    def __init__(self, path: Path) -> None:
        self.programs = UnitPrograms(path)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(str(path))
        self._listening.listen()
        self.channel = self._listening  # until somebody asks

    def asked(self) -> tuple[UnitProgram, tuple[str, dict[str, str], dict[str, str]]]:
        """Have the agent ask; return its program, and for what."""
        program = self.programs.start(_INVOCATION, 0)
        self.channel, _ = self._listening.accept()
        return program, read_request(self.channel.recv(1 << 16))

    def close(self) -> None:
        """Go."""
        self.channel.close()
        self._listening.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    found = Service(tmp_path / "socket")
    yield found
    found.close()


def test_a_name_and_arguments_are_all_that_is_said(service: Service) -> None:
    program, asked = service.asked()
    assert asked == ("note", {"line": "$a"}, {"key": "k"})
    assert program.look(0) is None
    service.channel.send(ActionAnswer(ActionOutcome.ENDED, -9, b"oh", cut=True).to_wire())
    assert program.look(0) == ProgramEnd(-9, b"oh", cut=True, timed_out=False)


def test_a_timeout_is_reported(service: Service) -> None:
    program, _ = service.asked()
    service.channel.send(ActionAnswer(ActionOutcome.TIMED_OUT, -9).to_wire())
    end = program.look(0)
    assert end is not None
    assert end.timed_out


def test_a_refused_action_was_not_started(service: Service) -> None:
    program, _ = service.asked()
    service.channel.send(ActionAnswer(ActionOutcome.REFUSED, code=NOT_ALLOWED, why="no").to_wire())
    with pytest.raises(ActionError, match="no") as caught:
        program.look(0)
    assert caught.value.code == NOT_ALLOWED


@pytest.mark.parametrize("packet", [b"", b"nonsense", ActionAnswer(ActionOutcome.UNKNOWN).to_wire()])
def test_no_answer_leaves_it_unknown(service: Service, packet: bytes) -> None:
    program, _ = service.asked()
    if packet:
        service.channel.send(packet)
    service.channel.close()
    end = program.look(0)
    assert end is not None
    assert end.code is None


def test_an_unanswered_action_ends_in_time(service: Service) -> None:
    program, _ = service.asked()
    assert program.look(60_000_000) is None, "it may still be ended, and say so"
    end = program.look(_LATE_US)
    assert end is not None
    assert end.code is None
    assert service.channel.recv(1) == b"", "whose end ends it"


def test_an_agent_that_ends_asks_for_the_end_and_hears_of_it(service: Service) -> None:
    program, _ = service.asked()
    service.channel.send(ActionAnswer(ActionOutcome.ENDED, -9, b"so far").to_wire())
    assert program.stop().output == b"so far"
    assert service.channel.recv(1) == b""


def test_a_missing_service_starts_nothing(service: Service, tmp_path: Path) -> None:
    assert service.programs.answer()
    service.close()
    with pytest.raises(ActionError) as caught:
        service.programs.start(_INVOCATION, 0)
    assert caught.value.code == NOT_STARTED
    assert not UnitPrograms(tmp_path / "none").answer()
