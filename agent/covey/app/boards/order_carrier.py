"""Handing what operators order to the boards on this device's ports, and what they answer to whoever is to know it.

1. An order is for a board where it counts by what this device's owner has pinned; whether the board obeys is its own to
   say, by the operators that it was given when it was enrolled.
2. It is handed down until what became of it is kept here: the board deals with each once, however often it comes.
3. What the board has signed goes on as it is. Where it cannot take orders, this device says so in its stead.
4. Of settings the one that counts last for a board is handed down, of commands all, the last `RESULTS_OF_ONE`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from covey.core.actions.results import NOT_ALLOWED, CommandState, OrderResult
from covey.core.group.manifest import GroupManifest, Member
from covey.core.ids import DeviceKey, GroupId, OperationId, device_name, labelled_name
from covey.core.node import Node
from covey.core.now import Now
from covey.core.routing.forwarding import board_member
from covey.core.wire import cbor
from covey.errors import LocalError, RemoteError
from covey.limits.actions import RESULTS_OF_ONE
from covey.limits.board import MAXIMUM_BOARD_OPERATORS, MAXIMUM_BOARD_ORDER_BYTES
from covey.ports import Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


_LOOK_US = 60_000_000
_OLD_FIRMWARE = "covey-board 0.1."
_WITHOUT = "its firmware takes no orders"
_TOO_LONG = f"an order and its approvals have more than {MAXIMUM_BOARD_ORDER_BYTES} bytes"


@dataclass(frozen=True, slots=True)
class BoardOrder:
    """An order that is for a board: its bytes, then those of approvals of it; who is to know what became of it."""

    id: OperationId
    raws: tuple[bytes, ...]
    hearers: Collection[DeviceKey]
    has_deadline: bool


class JudgedOrders(Protocol):
    """What operators want of boards, by what this device knows."""

    def stamp(self, node: Node, group: GroupManifest) -> object:
        """Return another object whenever other orders may count."""

    def of_board(self, node: Node, group: GroupManifest, board: Member) -> Sequence[OperationId]:
        """Return the orders that count for a board, in the order in which they are to be done."""

    def read(self, group: GroupManifest, order: OperationId) -> BoardOrder:
        """Return one of them."""

    def pinned(self, group_id: GroupId) -> tuple[int, Sequence[DeviceKey]]:
        """Return how many operators an order needs, and whom this device's owner has pinned."""


class BoardOrders:
    """Implements `bridge.BoardOperators`."""

    def __init__(self, store: SqliteStore, judged: JudgedOrders, report: Report) -> None:
        self._store = store
        self._judged = judged
        self._report = report
        self._waiting: dict[DeviceKey, tuple[object, list[OperationId]]] = {}
        self._unread: set[DeviceKey] = set()
        """Boards of which it was told that nobody can read what they say."""
        self._lacked_at_us = 0

    def operators(self, group_id: GroupId) -> tuple[int, list[DeviceKey]]:
        """Return how many operators an order needs, and the first few of those that are pinned; nobody: (1, [])."""
        threshold, pinned = self._judged.pinned(group_id)
        if threshold > MAXIMUM_BOARD_OPERATORS:
            return 1, []
        return threshold, sorted(pinned)[:MAXIMUM_BOARD_OPERATORS]

    def next_order(self, board: DeviceKey, software: str, node: Node, now: Now) -> BoardOrder | None:
        """Return what a board is to be told next (rule 2)."""
        found = board_member(node.groups, board)
        if found is None:
            return None
        group, member = found
        self._send_lacked(node, now)
        waiting = self._of(node, group, member)
        while waiting:
            order = self._judged.read(group, waiting[0])
            short = sum(map(len, order.raws)) <= MAXIMUM_BOARD_ORDER_BYTES
            if short and not software.startswith(_OLD_FIRMWARE):
                return order
            refused = OrderResult(
                *(order.id, CommandState.REFUSED, now.wall_us, now.wall_us),
                code=NOT_ALLOWED,
                why=_WITHOUT if short else _TOO_LONG,
                board=board,
            )
            if not self._keep(group, order, refused, node, now):
                return None
            waiting.remove(order.id)
        return None

    def receive(self, board: DeviceKey, body: bytes, signature: bytes, node: Node, now: Now) -> bool:
        """Take what a board has signed of an order; return whether it has been dealt with."""
        found = board_member(node.groups, board)
        if found is None:
            return True
        try:
            result = OrderResult.from_wire(cbor.encode([body, board, signature]))
        except RemoteError as error:
            if board not in self._unread:
                self._unread.add(board)
                name = labelled_name(device_name(board), found[1].label)
                self._report("warning", f"board {name} says of an order what cannot be read: {error}")
            return True
        group, member = found
        waiting = self._of(node, group, member)
        if result.order not in waiting:
            return True
        if not self._keep(group, self._judged.read(group, result.order), result, node, now):
            return False
        waiting.remove(result.order)
        return True

    def _of(self, node: Node, group: GroupManifest, board: Member) -> list[OperationId]:
        """Return what waits for a board."""
        key, stamp = board.keys.signing_public, self._judged.stamp(node, group)
        found = self._waiting.get(key)
        if found is None or found[0] != stamp:
            results = self._store.order_results
            orders = list(self._judged.of_board(node, group, board))[-RESULTS_OF_ONE:]
            found = stamp, [each for each in orders if results.of_device(group.group_id, each, key) is None]
            self._waiting[key] = found
        return found[1]

    def _keep(self, group: GroupManifest, order: BoardOrder, result: OrderResult, node: Node, now: Now) -> bool:
        """Keep a result, and queue it for those who are to know it; False: there is no room."""
        try:
            with self._store.transaction():
                node.results.queue_of_board(group, order.hearers, result, now)
        except LocalError:
            node.discard()
            return False
        except RemoteError as error:
            node.discard()
            self._report("warning", f"what became of {order.id.hex()[:8]} on a board is not kept: {error}")
        return True

    def _send_lacked(self, node: Node, now: Now) -> None:
        if now.monotonic_us >= self._lacked_at_us:
            self._lacked_at_us = now.monotonic_us + _LOOK_US
            joined: Callable[[GroupId], GroupManifest | None] = {
                group.group_id: group for group in node.groups.joined()
            }.get
            with suppress(LocalError), self._store.transaction():
                node.results.queue_lacked_of_boards(joined, now)
