"""The orders of operators for boards on this device's ports: handed down, and their results passed on.

1. An order counts for a board by the operators that this device's owner has pinned. The board itself decides whether it
   obeys, by the operators of its enrolment.
2. An order is handed down until its result is stored here: the board executes each once, however often it arrives.
3. A result that the board signed is forwarded as it is. If a board cannot take orders, this device says so in its
   place.
4. Of settings, only the one that counts last is handed down; of commands all, up to the last `_COMMANDS`.
5. One order at a time is handed down, in the history's order. One that the board has not answered for `_TRIES` minutes
   lets those behind it pass, and has its turn again after them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.device.pins import pins
from covey.app.orders.kept_orders import KeptOrders
from covey.core.actions.given import GroupCommands
from covey.core.actions.reporting import hearers
from covey.core.actions.results import NOT_ALLOWED, CommandState, OrderResult
from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import CommandOrder, SettingOrder
from covey.core.ids import DeviceKey, GroupId, OperationId, device_name, labelled_name
from covey.core.node import Node
from covey.core.now import Now
from covey.core.routing.forwarding import board_member, board_memberships
from covey.core.settings.desired import GroupSettings
from covey.core.wire import cbor
from covey.errors import LocalError, RemoteError
from covey.limits.actions import RESULTS_OF_ONE
from covey.limits.board import MAXIMUM_BOARD_OPERATORS, MAXIMUM_BOARD_ORDER_BYTES
from covey.ports import Report
from covey_boards.bridge import BoardOrder

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device
    from covey.core.orders.authority import Pins


_LOOK_US = 60_000_000
_COMMANDS = RESULTS_OF_ONE // 2
"""Commands of one board: so the results of all of them are kept, next to those of its settings. One whose result has
gone would be handed down again, and the board has forgotten it."""
_TRIES = 5
_OLD_FIRMWARE = "covey-board 0.1."
_WITHOUT = "its firmware takes no orders"
_TOO_LONG = f"an order and its approvals have more than {MAXIMUM_BOARD_ORDER_BYTES} bytes"


class BoardOrders:
    """Implements `bridge.BoardOperators`, by orders that were judged here."""

    def __init__(self, store: SqliteStore, judged: PinnedBoardOrders, report: Report) -> None:
        self._store = store
        self._judged = judged
        self._report = report
        self._waiting: dict[tuple[GroupId, DeviceKey], tuple[object, list[OperationId]]] = {}
        self._tries: dict[DeviceKey, Counter[OperationId]] = {}
        """How many minutes an order has been the one to be handed down to a board (rule 5)."""
        self._tried_at_us: dict[DeviceKey, int] = {}
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
        self._send_lacked(node, now)
        memberships = board_memberships(node.groups, board)
        waiting = [(group, member, each) for group, member in memberships for each in self._of(node, group, member)]
        tries = self._tries.setdefault(board, Counter())
        for group, member, each in sorted(waiting, key=lambda found: tries[found[2]] // _TRIES):
            order = self._judged.read(group, each)
            short = sum(map(len, order.raws)) <= MAXIMUM_BOARD_ORDER_BYTES
            if short and not software.startswith(_OLD_FIRMWARE):
                self._count(member, order.id, now)
                return order
            refused = OrderResult(
                *(order.id, CommandState.REFUSED, now.wall_us, now.wall_us),
                code=NOT_ALLOWED,
                why=_WITHOUT if short else _TOO_LONG,
                setting=order.setting,
                board=board,
            )
            if not self._keep(group, order, refused, node, now):
                return None
            self._forget(group, board, order.id)
        return None

    def receive(self, board: DeviceKey, body: bytes, signature: bytes, node: Node, now: Now) -> bool:
        found = board_member(node.groups, board)
        if found is None:
            return True
        try:
            result = OrderResult.from_wire(cbor.encode([body, board, signature]))
        except RemoteError as error:
            if board not in self._unread:
                self._unread.add(board)
                name = labelled_name(device_name(board), found[1].label)
                self._report("warning", f"board {name} sent a malformed report on an order: {error}")
            return True
        for group, member in board_memberships(node.groups, board):
            if result.order in self._of(node, group, member):
                if not self._keep(group, self._judged.read(group, result.order), result, node, now):
                    return False
                self._forget(group, board, result.order)
        return True

    def _of(self, node: Node, group: GroupManifest, board: Member) -> list[OperationId]:
        key, stamp = board.keys.signing_public, self._judged.stamp(node, group)
        found = self._waiting.get((group.group_id, key))
        if found is None or found[0] != stamp:
            results = self._store.order_results
            orders = self._judged.of_board(node, group, board)
            found = stamp, [each for each in orders if results.of_device(group.group_id, each, key) is None]
            self._waiting[group.group_id, key] = found
        return found[1]

    def _count(self, board: Member, order: OperationId, now: Now) -> None:
        """Count a minute in which it was an order's turn (rule 5)."""
        key = board.keys.signing_public
        if now.monotonic_us < self._tried_at_us.get(key, 0):
            return
        self._tried_at_us[key] = now.monotonic_us + _LOOK_US
        self._tries[key][order] += 1
        if self._tries[key][order] == _TRIES:
            name = labelled_name(device_name(key), board.label)
            self._report("warning", f"board {name} does not answer order {order.hex()[:8]}: later ones may go first")

    def _forget(self, group: GroupManifest, board: DeviceKey, order: OperationId) -> None:
        """Note that a board has answered an order."""
        self._waiting[group.group_id, board][1].remove(order)
        self._tries.get(board, Counter()).pop(order, None)

    def _keep(self, group: GroupManifest, order: BoardOrder, result: OrderResult, node: Node, now: Now) -> bool:
        try:
            with self._store.transaction():
                node.results.queue_of_board(group, order.hearers, result, now)
        except LocalError:
            node.discard()
            return False
        except RemoteError as error:
            node.discard()
            self._report("warning", f"a board's result of order {order.id.hex()[:8]} was not stored: {error}")
        return True

    def _send_lacked(self, node: Node, now: Now) -> None:
        if now.monotonic_us >= self._lacked_at_us:
            self._lacked_at_us = now.monotonic_us + _LOOK_US
            joined: Callable[[GroupId], GroupManifest | None] = {
                group.group_id: group for group in node.groups.joined()
            }.get
            with suppress(LocalError), self._store.transaction():
                node.results.queue_lacked_of_boards(joined, now)


_KINDS = (OperationKind.OPERATOR, OperationKind.COMMAND, OperationKind.SETTING, OperationKind.APPROVAL)


def board_orders(device: Device) -> BoardOrders:
    """Return what hands operators' orders to a device's boards."""
    return BoardOrders(device.store, PinnedBoardOrders(device), report)


class _Group:
    """The orders of one group, and which of the commands are for which board."""

    def __init__(self, store: SqliteStore, group: GroupManifest, pinned: Pins, void: Collection[OperationId]) -> None:
        self.commands = GroupCommands(store.operations, store.groups.manifest, group, pinned, void)
        self.settings = GroupSettings(store.operations, group, pinned, void)
        self.known: dict[DeviceKey, dict[OperationId, bool]] = {}


class PinnedBoardOrders:
    """What a gateway's pinned operators want of boards."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._orders = KeptOrders(device.store, _KINDS, partial(pins, device), partial(_Group, device.store))

    def stamp(self, node: Node, group: GroupManifest) -> object:
        """Return another object whenever other orders may count."""
        return self._orders.stamp(node, group)

    def of_board(self, node: Node, group: GroupManifest, board: Member) -> Sequence[OperationId]:
        """Return the settings that count for a board, then its commands in the history's order."""
        found, key = self._orders.of(node, group), board.keys.signing_public
        settings = [each.operation for each in found.settings.of([board])[key].values()]
        commands = found.commands.of_board(board, found.known.setdefault(key, {}))
        return [each.id for each in sorted(settings, key=lambda each: (each.height, each.id))] + commands[-_COMMANDS:]

    def read(self, group: GroupManifest, order: OperationId) -> BoardOrder:
        """Return an order, with the approvals that it may need."""
        operations = self._device.store.operations
        raw = operations.raw(group.group_id, order)
        assert raw is not None, "it was just weighed"
        operation = read_operation(raw, verify=False)
        body = read_body(operation)
        pinned = pins(self._device, group.group_id)
        approvals: dict[DeviceKey, bytes] = {}  # one of each other operator, or some would take the place of others
        if pinned.threshold > 1:
            for node in operations.nodes(group.group_id):
                if node.kind == OperationKind.APPROVAL and node.subject == order and node.author in pinned.operators:
                    approval = operations.raw(group.group_id, node.id)
                    if approval is not None and node.author != operation.author:
                        approvals[node.author] = approval
        has_deadline = isinstance(body, CommandOrder) and body.deadline_us is not None
        hearing = hearers(group, operation.author, self._operators(group))
        setting = body.key if isinstance(body, SettingOrder) else ""
        return BoardOrder(order, (raw, *[*approvals.values()][: pinned.threshold]), hearing, has_deadline, setting)

    def _operators(self, group: GroupManifest) -> Sequence[DeviceKey]:
        found = self._orders.last(group.group_id)
        return () if found is None else tuple(found.settings.weighed.operators)

    def pinned(self, group_id: GroupId) -> tuple[int, Sequence[DeviceKey]]:
        """Return how many operators an order needs, and the operators that this device's owner has pinned."""
        pinned = pins(self._device, group_id)
        return pinned.threshold, tuple(pinned.operators)
