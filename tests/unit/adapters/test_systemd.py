"""sd_notify over a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.systemd import Systemd


@pytest.fixture
def manager_socket(tmp_path: Path) -> Iterator[socket.socket]:
    """What systemd listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listening:
        listening.bind(str(tmp_path / "notify"))
        yield listening


def _received(listening: socket.socket) -> list[str]:
    received = []
    while True:
        try:
            received.append(listening.recv(4096).decode())
        except BlockingIOError:
            return received


def _environment(listening: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": listening.getsockname(), **more}


def test_ready_is_said_once(manager_socket: socket.socket) -> None:
    manager = Systemd(_environment(manager_socket))
    assert _received(manager_socket) == []
    manager.alive()
    manager.alive()
    assert _received(manager_socket) == ["READY=1"]


def test_a_start_that_moves_asks_for_more_time(manager_socket: socket.socket) -> None:
    manager = Systemd(_environment(manager_socket))
    manager.starting()
    manager.starting()
    assert _received(manager_socket) == ["EXTEND_TIMEOUT_USEC=60000000"]
    manager.alive()
    manager.starting()
    assert _received(manager_socket) == ["READY=1"]


def test_the_watchdog_hears_as_often_as_it_wants(manager_socket: socket.socket) -> None:
    eager = Systemd(_environment(manager_socket, WATCHDOG_USEC="1", WATCHDOG_PID=str(os.getpid())))
    eager.alive()
    eager.alive()
    assert _received(manager_socket) == ["READY=1\nWATCHDOG=1", "WATCHDOG=1"]
    patient = Systemd(_environment(manager_socket, WATCHDOG_USEC="60000000"))
    patient.alive()
    patient.alive()
    assert _received(manager_socket) == ["READY=1\nWATCHDOG=1"]


@pytest.mark.parametrize("watchdog", [{"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}])
def test_a_watchdog_of_somebody_else_hears_nothing(manager_socket: socket.socket, watchdog: dict[str, str]) -> None:
    manager = Systemd(_environment(manager_socket, **watchdog))
    manager.alive()
    manager.alive()
    assert _received(manager_socket) == ["READY=1"]


def test_a_status_is_one_line(manager_socket: socket.socket) -> None:
    manager = Systemd(_environment(manager_socket))
    manager.status("relay: up\nREADY=0")
    manager.stopping()
    assert _received(manager_socket) == ["STATUS=relay: up READY=0", "STOPPING=1"]


def test_an_agent_that_restarts_in_its_process_announces_no_stop(manager_socket: socket.socket) -> None:
    manager = Systemd(_environment(manager_socket))
    manager.stays()
    manager.stopping()
    assert _received(manager_socket) == []


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listening:
        listening.bind(b"\0covey-test-%d" % os.getpid())
        Systemd({"NOTIFY_SOCKET": f"@covey-test-{os.getpid()}"}).alive()
        assert _received(listening) == ["READY=1"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}, {"NOTIFY_SOCKET": "x" * 200}])
def test_without_a_manager_nothing_happens(environment: dict[str, str]) -> None:
    manager = Systemd(environment)
    manager.alive()
    manager.status("x")
    manager.stopping()
