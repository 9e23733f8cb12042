"""A serial port with a board behind it: `link_machine` in its own thread. The only importer of pyserial.

The thread owns port and link. It looks for the port indefinitely: an unplugged board is accepted again when it is back,
also under another name if USB identifies it (vendor, product and serial number). Another device under the same name
stays closed. Every error of the port becomes `SerialDown` and another look; the owner gets no exception. Each opened
port begins a new link: the board repeats what was not acknowledged.
"""

from __future__ import annotations

import os
import secrets
import select
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import serial
from serial.tools import list_ports

from covey.ports import SerialDown, SerialMessage, SerialUp
from covey_boards.line_queues import LineQueues
from covey_boards.shared import link_machine
from covey_boards.shared.messages import RESTART, to_line
from covey_boards.usb import UsbPort, find_port

_BOOT_ID_BYTES = 8
_MTU = 512
"""Bytes of a frame from a board: what a damaged one costs to send again, at 115,200 baud 45 ms."""

_WINDOW = 8
"""Such frames that a board may send ahead of their acknowledgement: a terminal's buffer holds them, and this thread
takes them at once. With 200 bytes in each, 115,200 baud leave a seventh of a second to a commit."""

_LOOK_S = 0.5
"""How soon a port that is back is noticed."""

_READ_S = 0.5
"""The longest wait for bytes; a request ends it at once."""

_WRITE_S = 2.0
"""A port that takes no bytes for so long is closed and opened again."""

_HELLO_S = 4.0
"""How long a board may take to answer: a prompt at once, our firmware after its first second and a half."""

_CALL = 5 * b"\x03"
_CALL_EVERY_S = 0.05
_START_S = 15.0
"""The firmware listens for five Ctrl-C in its first second and a half, which begins when its source is compiled."""

_PROMPT = b">>> "


def attached_ports() -> list[UsbPort]:
    """Return the serial ports that this machine has now."""
    return [
        UsbPort(each.device, each.vid, each.pid, each.serial_number, each.description) for each in list_ports.comports()
    ]


class SerialPortLink:
    """Implements `ports.SerialLink` for one port.

    Args:
        port: as the configuration names it, best `/dev/serial/by-id/…`.
        baud: bits a second, where the port is a UART; 8N1.
        attached: tells which ports there are.
    """

    def __init__(
        self, port: str, baud: int = 115_200, attached: Callable[[], Iterable[UsbPort]] = attached_ports
    ) -> None:
        self.port = port
        self._baud = baud
        self._attached = attached
        self._usb: UsbPort | None = None
        self._queues = LineQueues(self._wake)
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"serial {port}", daemon=True)

    # -- what the owner calls -----------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def send(self, message: bytes) -> bool:
        return self._queues.send(message)

    def next_event(self) -> SerialUp | SerialDown | SerialMessage | None:
        return self._queues.next_event()

    def acknowledge(self, message: SerialMessage) -> None:
        """Let the board forget a message; one of a port that was reopened since is ignored."""
        self._queues.acknowledge(message)

    def statistics(self) -> dict[str, int]:
        """Return counters of the line since the start."""
        return self._queues.statistics()

    def stop(self) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        with suppress(BlockingIOError):
            os.write(self._waker, b"!")
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._woken)
        os.close(self._waker)

    def _wake(self) -> None:
        if self._stopping.is_set():
            return
        with suppress(BlockingIOError):  # it has been woken often enough
            os.write(self._waker, b"!")

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        reported = (0, "")
        while not self._stopping.is_set():
            try:
                self._serve()
            except (
                OSError
            ) as error:  # pyserial's SerialException is one, and so is what in_waiting raises after unplugging
                if reported != (self._queues.opened, str(error)):
                    reported = (self._queues.opened, str(error))
                    self._queues.put(SerialDown(str(error)))
            self._stopping.wait(_LOOK_S)

    def _serve(self) -> None:
        """Open the port and speak until it is gone or somebody stops us.

        Raises:
            OSError: the port is gone, not there, or somebody else's.
        """
        found = find_port(self.port, self._usb, self._attached())
        with serial.Serial(found.device, self._baud, timeout=0, write_timeout=_WRITE_S, exclusive=True) as port:
            self._usb = found if found.identity else self._usb
            self._queues.opened += 1
            link = link_machine.Link(secrets.token_bytes(_BOOT_ID_BYTES), mtu=_MTU, window=_WINDOW)
            before = self.statistics()
            try:
                while not self._stopping.is_set():
                    self._turn(port, link, before)
            finally:
                self._queues.close()

    def _turn(self, port: serial.Serial, link: Any, before: dict[str, int]) -> None:
        now = _now_ms()
        deadline = link.next_deadline()
        if deadline is not None and now >= deadline:
            link.handle_deadline(now)
        self._queues.take_requests(link)
        while raw := link.bytes_to_send(now):
            port.write(raw)
        self._queues.note(link, before)
        deadline = link.next_deadline()
        wait_s = _READ_S if deadline is None else min(_READ_S, max(0.0, (deadline - _now_ms()) / 1000))
        ready, _, _ = select.select([port, self._woken], [], [], wait_s)
        if self._woken in ready:
            os.read(self._woken, 4_096)
        if port in ready:
            link.receive_bytes(port.read(port.in_waiting or 1), _now_ms())
            self._queues.take_events(link)


def catch_prompt(port: str, baud: int) -> bool:
    """Have a board stop at MicroPython's prompt; return whether it does.

    Without our firmware Ctrl-C is enough. With it, the board is asked to restart, and called while it starts.

    Raises:
        OSError: there is no such port.
    """
    find_port(port, None, attached_ports())
    if _call(port, baud, _HELLO_S):
        return True
    link = SerialPortLink(port, baud)
    link.start()
    if _wait(lambda: isinstance(link.next_event(), SerialUp)) and link.send(to_line(RESTART)):
        _wait(lambda: link.statistics()["messages_sent"] or isinstance(link.next_event(), SerialDown))
    link.stop()
    return _call(port, baud, _START_S)


def _call(port: str, baud: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError):  # a board that restarts takes its port away for a moment
            device = find_port(port, None, attached_ports()).device
            with serial.Serial(device, baud, timeout=_CALL_EVERY_S, write_timeout=_WRITE_S, exclusive=True) as opened:
                while time.monotonic() < deadline:
                    opened.write(_CALL)
                    if _PROMPT in opened.read(256):
                        return True
        time.sleep(_CALL_EVERY_S)
    return False


def _wait(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + _HELLO_S
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
