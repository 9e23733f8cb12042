"""What the gateway's side of boards asks of others: the store, orders, firmware, and lines that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from covey.core.ids import DeviceKey, GroupId
from covey.core.node import Node
from covey.core.now import Now
from covey.ports import AttachedBoard, SerialLink, Transactions


class ComingLines(Protocol):
    """Lines that nobody configured one by one."""

    def start(self) -> None:
        """Begin to listen."""

    def stop(self) -> None:
        """End that."""

    def new_lines(self) -> Sequence[SerialLink]:
        """Return the lines that have come up for the first time since the last call."""

    def trust(self, line: SerialLink, others: Sequence[SerialLink]) -> None:
        """Note that a member of a group is on a line, and on none of the others any more."""

    def has_ended(self, line: SerialLink) -> bool:
        """Say whether a line is there no more."""


class BoardTable(Protocol):
    """The boards on this machine's ports."""

    def all(self) -> list[AttachedBoard]:
        """Return the boards that have been seen, by port."""

    def note(self, board: AttachedBoard) -> None:
        """Remember who is on a port."""

    def restarts_wanted(self) -> list[str]:
        """Return the ports whose boards somebody wants restarted."""

    def restart_done(self, port: str) -> None:
        """Note that the board on a port was restarted."""

    def forget(self, port: str) -> None:
        """Forget who was on a port."""


class LineConditions(Protocol):
    """What the running agent knows of lines."""

    def set(self, name: str, value: str, now_us: int) -> None:
        """Note a condition, and since when it holds."""

    def values(self) -> dict[str, tuple[str, int]]:
        """Return every condition: name to (value, since when in microseconds)."""


class BridgeStore(Transactions, Protocol):
    """The store as this role needs it."""

    @property
    def boards(self) -> BoardTable:
        """The boards on this machine's ports."""

    @property
    def conditions(self) -> LineConditions:
        """What the running agent knows of the world."""


class HandedOrder(Protocol):
    """An order for a board."""

    @property
    def raws(self) -> Sequence[bytes]:
        """Its bytes, then those of approvals of it."""

    @property
    def has_deadline(self) -> bool:
        """Whether the board has to know what time it is."""


class BoardOperators(Protocol):
    """What operators want of boards."""

    def operators(self, group_id: GroupId) -> tuple[int, list[DeviceKey]]:
        """Return how many operators an order needs, and the few that a board pins; nobody: no one."""

    def next_order(self, board: DeviceKey, software: str, node: Node, now: Now) -> HandedOrder | None:
        """Return what a board is to be told next."""

    def receive(self, board: DeviceKey, body: bytes, signature: bytes, node: Node, now: Now) -> bool:
        """Take what a board has signed of an order; return whether it has been dealt with."""


class BoardFirmware(Protocol):
    """The firmware that boards are to run."""

    def begin(self, board: DeviceKey) -> None:
        """Note that a board has started, or its line has come up."""

    def next_message(self, board: DeviceKey, now: Now) -> bytes | None:
        """Return what is to be told a board now."""

    def receive(self, board: DeviceKey, digest: bytes, state: int, offset: int, why: str, node: Node, now: Now) -> None:
        """Take what a board says of a firmware."""
