"""`covey_boards.serial_link` and `usb` on pseudo-terminals: opened alone, lost, found again."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import serial

from covey.ports import SerialDown, SerialMessage, SerialUp
from covey_boards.serial_link import SerialPortLink, attached_ports
from covey_boards.shared import line_orders, messages
from covey_boards.usb import KNOWN_BOARDS, UsbPort, find_port, lasting_name
from tests.board import BoardOnLine
from tests.pty_board import PtyBoard
from tests.waiting import wait_until as until

_PICO = UsbPort("/dev/ttyACM0", 0x2E8A, 0x0005, "e6614c", "Board in FS mode")


class Owner:
    """Who owns a link: takes events until one is as wanted."""

    def __init__(self, link: SerialPortLink) -> None:
        self.link = link
        self.messages: list[bytes] = []
        self.ups = 0
        self.reasons: list[str] = []

    def look(self, *, acknowledge: bool = True) -> None:
        while (event := self.link.next_event()) is not None:
            if isinstance(event, SerialMessage):
                self.messages.append(event.content)
                if acknowledge:
                    self.link.acknowledge(event)
            elif isinstance(event, SerialUp):
                self.ups += 1
            elif isinstance(event, SerialDown):
                self.reasons.append(event.reason)

    def until(self, condition: Callable[[], object]) -> None:
        def looked() -> object:
            self.look()
            return condition()

        until(looked)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[PtyBoard]:
    with PtyBoard(BoardOnLine("board"), tmp_path / "ttyACM0") as made:
        yield made


@pytest.fixture
def owner(board: PtyBoard) -> Iterator[Owner]:
    link = SerialPortLink(str(board.port), attached=list)
    link.start()
    yield Owner(link)
    link.stop()


def test_messages_go_both_ways(board: PtyBoard, owner: Owner) -> None:
    owner.until(lambda: owner.messages)
    assert line_orders.from_line(owner.messages[0])[0] == messages.IDENTIFY
    assert owner.ups == 1
    assert owner.link.send(messages.to_line(messages.TIME, 5, True))
    until(lambda: board.board.times == [(5, True)])
    statistics = owner.link.statistics()
    assert statistics["messages_received"] == 1
    assert statistics["opened"] == 1


@pytest.mark.slow
def test_a_message_is_not_released_before_it_is_acknowledged(board: PtyBoard, owner: Owner) -> None:
    until(lambda: owner.look(acknowledge=False) or owner.messages)
    until(lambda: board.board.link.statistics.busy_received)
    assert board.board.link.statistics.messages_sent == 0


def test_nothing_can_be_sent_while_nobody_is_there(tmp_path: Path) -> None:
    link = SerialPortLink(str(tmp_path / "nowhere"), attached=list)
    link.start()
    owner = Owner(link)
    owner.until(lambda: owner.reasons)
    assert "is not there" in owner.reasons[0]
    assert not link.send(b"x")
    link.stop()


def test_messages_waiting_for_a_board_are_bounded(board: PtyBoard, owner: Owner) -> None:
    owner.until(lambda: owner.ups)
    message = messages.to_line(messages.DELIVER, bytes(3_000))
    taken = [owner.link.send(message) for _ in range(200)]
    assert taken[0]
    assert not taken[-1]


@pytest.mark.slow
def test_a_board_that_is_plugged_in_again(board: PtyBoard, owner: Owner) -> None:
    owner.until(lambda: owner.messages)
    board.unplug()
    owner.until(lambda: owner.reasons)
    assert not owner.link.send(b"x")
    board.do(lambda each: each.boot())
    board.plug()
    owner.until(lambda: owner.ups == 2 and len(owner.messages) == 2)
    assert owner.link.statistics()["opened"] == 2
    assert owner.link.statistics()["messages_received"] == 2


@pytest.mark.slow
def test_an_acknowledgement_for_a_port_that_was_lost_releases_nothing(board: PtyBoard, owner: Owner) -> None:
    held: list[SerialMessage] = []

    def take() -> bool:
        event = owner.link.next_event()
        if isinstance(event, SerialMessage):
            held.append(event)
        return bool(event)

    until(lambda: take() and held)
    board.unplug()
    board.plug()
    until(lambda: take() and len(held) == 2)  # it is told again
    sent = board.board.link.statistics.messages_sent
    owner.link.acknowledge(held[0])
    until(lambda: board.board.link.statistics.busy_received)
    assert board.board.link.statistics.messages_sent == sent
    owner.link.acknowledge(held[1])
    until(lambda: board.board.link.statistics.messages_sent == sent + 1)


@pytest.mark.slow
def test_a_board_under_another_name(board: PtyBoard, tmp_path: Path) -> None:
    ports = [replace(_PICO, device=str(board.port))]
    link = SerialPortLink(str(board.port), attached=lambda: list(ports))
    link.start()
    owner = Owner(link)
    owner.until(lambda: owner.messages)
    board.unplug()
    owner.until(lambda: owner.reasons)
    ports[:] = [replace(_PICO, device=str(tmp_path / "ttyACM1"))]
    board.plug(tmp_path / "ttyACM1")
    owner.until(lambda: owner.ups == 2)
    link.stop()


def test_a_port_is_opened_alone(board: PtyBoard, owner: Owner) -> None:
    owner.until(lambda: owner.ups)
    with pytest.raises(serial.SerialException):
        serial.Serial(str(board.port), exclusive=True)
    second = Owner(SerialPortLink(str(board.port), attached=list))
    second.link.start()
    second.until(lambda: second.reasons)
    second.link.stop()


@pytest.mark.slow
def test_noise_and_damage_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(6)

    def damage(raw: bytes) -> bytes:
        kind = rng.randrange(4)
        if kind == 0:
            return b"rst:0x1 (POWERON_RESET)\r\n" + raw
        if kind == 1:
            at = rng.randrange(len(raw))
            return raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :]
        return raw

    with PtyBoard(BoardOnLine("board"), tmp_path / "ttyACM0", damage) as board:
        link = SerialPortLink(str(board.port), attached=list)
        link.start()
        owner = Owner(link)
        owner.until(lambda: owner.messages)
        wanted = [messages.to_line(messages.REPORT, [["n", number]]) for number in range(20)]
        board.do(lambda each: [each.link.send(message) for message in wanted])
        owner.until(lambda: len(owner.messages) >= 21)
        assert owner.messages[1:] == wanted
        assert link.statistics()["damaged"] > 0
        link.stop()


def test_stopping_ends_the_thread_and_may_be_done_twice(board: PtyBoard, owner: Owner) -> None:
    owner.until(lambda: owner.ups)
    owner.link.stop()
    owner.link.stop()
    assert not owner.link.send(b"x")
    with serial.Serial(str(board.port), exclusive=True):
        pass


# -- which port is meant ----------------------------------------------------------------------------------------------


def test_a_name_is_the_port_that_it_leads_to(tmp_path: Path) -> None:
    device = tmp_path / "ttyACM0"
    device.touch()
    link = tmp_path / "usb-board-if00"
    link.symlink_to(device)
    here = replace(_PICO, device=str(device))
    assert find_port(str(link), None, [here]) == here
    assert find_port(str(link), None, []).identity is None
    assert lasting_name(here, tmp_path / "nothing") == str(device)
    folder = tmp_path / "by-id"
    folder.mkdir()
    (folder / "usb-board-if00").symlink_to(device)
    assert lasting_name(here, folder) == str(folder / "usb-board-if00")


def test_another_device_under_the_name_is_left_alone(tmp_path: Path) -> None:
    device = tmp_path / "ttyACM0"
    device.touch()
    printer = UsbPort(str(device), 0x04A9, 0x1000, "printer")
    with pytest.raises(FileNotFoundError, match="another device"):
        find_port(str(device), _PICO, [printer])
    moved = replace(_PICO, device=str(tmp_path / "ttyACM7"))
    assert find_port(str(device), _PICO, [printer, moved]) == replace(moved, device=moved.device)


def test_boards_without_a_serial_number_are_known_by_their_name_alone(tmp_path: Path) -> None:
    device = tmp_path / "ttyACM0"
    device.touch()
    nameless = replace(_PICO, device=str(device), serial_number=None)
    assert nameless.identity is None
    assert find_port(str(device), nameless, [nameless]) == nameless


def test_adapters_that_anything_may_hang_on_are_no_boards() -> None:
    assert not {0x0403, 0x10C4, 0x1A86, 0x067B} & {vendor for vendor, _ in KNOWN_BOARDS}
    assert UsbPort("/dev/ttyS0").kind is None
    assert _PICO.kind == "Raspberry Pi Pico with MicroPython"


def test_the_ports_of_this_machine_can_be_listed() -> None:
    assert all(isinstance(port, UsbPort) for port in attached_ports())


def test_the_udev_rules_name_the_same_boards() -> None:
    rules = Path("firmware_bridge/covey_boards/99-covey-boards.rules").read_text()
    found = re.findall(r'idVendor}=="([0-9a-f]{4})", ATTRS{idProduct}=="([0-9a-f]{4})"', rules)
    assert {(int(vendor, 16), int(product, 16)) for vendor, product in found} == set(KNOWN_BOARDS)
