"""The units as systemd itself reads them, and the agent as systemd hears it."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.limits.content import LAN_CLIENTS
from tests.integration.gateway import Gateway
from tests.waiting import GUARD_S, wait_until

UNITS = Path(__file__).parents[2] / "agent/systemd"
AGENTS = ("covey.service", "covey-collector.service")
ALL = (*AGENTS, "covey-alert.service", "covey-door.service", "covey-relay.service", "covey-tables.service")
ACTION = "covey-action@.service"


@pytest.fixture
def analyze(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run systemd-analyze on a unit whose program is one that exists here."""
    program = shutil.which("systemd-analyze")
    if program is None and "CI" not in os.environ:
        pytest.skip("no systemd-analyze here (apt-get install systemd)")
    assert program is not None

    def run(unit: str, *words: str) -> subprocess.CompletedProcess[str]:
        copy = tmp_path / unit
        text = (UNITS / unit).read_text(encoding="utf-8")
        assert "ExecStart=/usr/bin/covey " in text
        copy.write_text(text.replace("/usr/bin/covey", "/bin/true"), encoding="utf-8")
        return subprocess.run(
            [program, *words, str(copy)], capture_output=True, text=True, timeout=GUARD_S, check=False
        )

    return run


@pytest.mark.parametrize("unit", [*ALL, ACTION])
def test_a_unit_has_no_mistakes(analyze: Callable[..., subprocess.CompletedProcess[str]], unit: str) -> None:
    done = analyze(unit, "verify", "--man=no")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", [*ALL, ACTION])
def test_a_unit_is_a_tight_sandbox(analyze: Callable[..., subprocess.CompletedProcess[str]], unit: str) -> None:
    done = analyze(unit, "security", "--offline=true", "--threshold=20", "--no-pager")
    assert done.returncode == 0, done.stdout


def test_the_socket_of_actions_is_the_agents_alone(
    analyze: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    analyze(ACTION, "verify", "--man=no")  # lays it beside
    socket_unit = tmp_path / "covey-action.socket"
    shutil.copy(UNITS / socket_unit.name, socket_unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(socket_unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    settings = dict(_settings(socket_unit.name))
    assert (settings["SocketUser"], settings["SocketMode"]) == ("covey", "0600")


def _settings(unit: str) -> list[tuple[str, str]]:
    lines = (UNITS / unit).read_text(encoding="utf-8").splitlines()
    pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in pairs]


@pytest.mark.parametrize("unit", ALL)
def test_a_unit_boots_offline_and_does_not_hammer(unit: str) -> None:
    settings = _settings(unit)
    ordering = " ".join(value for name, value in settings if name in {"After", "Wants", "Requires"})
    assert "network" not in ordering
    assert "time-sync" not in ordering
    (never,) = [value for name, value in settings if name == "RestartPreventExitStatus"]
    assert "78" in never.split()


@pytest.mark.parametrize("unit", AGENTS)
def test_an_agent_may_ask_whether_the_clock_is_synchronised(unit: str) -> None:
    """glibc's adjtimex() is the call clock_adjtime; refused calls fail with EPERM and do not kill."""
    settings = _settings(unit)
    filters = [value.split() for name, value in settings if name == "SystemCallFilter"]
    assert {"adjtimex", "clock_adjtime"} <= set(filters[0])
    assert ("SystemCallErrorNumber", "EPERM") in settings
    assert "ProtectClock" not in dict(settings)
    assert ("CapabilityBoundingSet", "") in settings  # so that nobody can set it


def _restrict(families: set[int]) -> None:
    """Have the kernel refuse this process sockets of other families, as systemd's RestrictAddressFamilies does."""
    number = {"x86_64": 41, "aarch64": 198}[platform.machine()]  # of the call `socket`
    load, equal, give = 0x20, 0x15, 0x06
    allowed = [(equal, len(families) - at, 0, each) for at, each in enumerate(sorted(families), 1)]
    filters = [
        (load, 0, 0, 0),
        (equal, 0, len(families) + 2, number),
        (load, 0, 0, 16),
        *((code, skipped + 1, otherwise, value) for code, skipped, otherwise, value in allowed),
        (give, 0, 0, 0x0005_0000 | errno.EAFNOSUPPORT),
        (give, 0, 0, 0x7FFF_0000),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in filters))
    header = struct.pack("HxxxxxxP", len(filters), ctypes.addressof(program))
    prctl = ctypes.CDLL(None).prctl
    assert prctl(38, 1, 0, 0, 0) == 0, "no new privileges"
    assert prctl(22, 2, header, 0, 0) == 0, "a filter of system calls"


@pytest.mark.parametrize("unit", AGENTS)
def test_an_agent_may_learn_the_addresses_by_which_peers_of_its_network_find_it(unit: str) -> None:
    allowed = dict(_settings(unit))["RestrictAddressFamilies"].split()
    families = {int(getattr(socket, each)) for each in allowed}
    look = "from covey.adapters.own_addresses import own_addresses; print(own_addresses())"
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.integration.test_systemd import _restrict; _restrict({families}); {look}"],
        cwd=UNITS.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", AGENTS)
def test_peers_that_fetch_files_leave_an_agent_tasks_for_all_else(unit: str) -> None:
    assert int(dict(_settings(unit))["TasksMax"]) >= LAN_CLIENTS + 32


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listening:
        listening.bind(str(path))
        yield listening


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """systemd's end of the notification socket."""
    with _listening(tmp_path / "notify") as listening:
        yield listening


def _start(gateway: Gateway, manager: socket.socket) -> None:
    """Start the agent as systemd does."""
    gateway.start(
        "run", "--no-sensors", environment={"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000000"}
    )


def _receive(listening: socket.socket, received: list[str]) -> list[str]:
    while True:
        try:
            received += listening.recv(4096).decode().split("\n")
        except BlockingIOError:
            return received


@pytest.mark.broker
def test_systemd_hears_start_life_and_end(manager: socket.socket, new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    received: list[str] = []
    _start(one, manager)
    wait_until(lambda: "STATUS=relay: up" in _receive(manager, received), "the relay is up")
    wait_until(lambda: _receive(manager, received).count("WATCHDOG=1") >= 3, "signs of life come")
    assert one.end() == 0
    assert received.count("READY=1") == 1
    assert _receive(manager, received)[-1] == "STOPPING=1"


@pytest.mark.broker
def test_an_offline_boot_is_a_good_one(
    manager: socket.socket, broker: Broker, new_gateway: Callable[[str], Gateway]
) -> None:
    one = new_gateway("one")
    broker.kill()
    received: list[str] = []
    _start(one, manager)
    wait_until(lambda: _receive(manager, received).count("WATCHDOG=1") >= 3, "signs of life come without a relay")
    assert "READY=1" in received
    assert any(line.startswith("STATUS=relay: nothing listens") for line in received)


@pytest.mark.broker
def test_a_stopped_agent_is_silent(
    tmp_path: Path, manager: socket.socket, new_gateway: Callable[[str], Gateway]
) -> None:
    one, other = new_gateway("one"), new_gateway("other")
    received: list[str] = []
    with _listening(tmp_path / "clock") as clock:
        _start(one, manager)
        _start(other, clock)
        wait_until(lambda: "WATCHDOG=1" in _receive(manager, received), "a sign of life comes")
        one.signal(signal.SIGSTOP)
        wait_until(lambda: not _receive(manager, []), "what was under way has come")
        _receive(clock, [])
        meanwhile: list[str] = []
        wait_until(lambda: _receive(clock, meanwhile).count("WATCHDOG=1") >= 4, "another one lives on")
    assert _receive(manager, []) == []
    one.signal(signal.SIGCONT)
    wait_until(lambda: "WATCHDOG=1" in _receive(manager, []), "it goes on")
