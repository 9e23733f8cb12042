"""The gateway's side of the boards on its ports, as a role of the agent (docs/protocol/boards.md, section 18).

1. A line belongs to the board that last identified itself on it, with a proof. The collector detects a false one,
   because it reads the board's signature.
2. A board's message is acknowledged after the commit that stores it, or after a permanent refusal. Without room it is
   held back, and the line says BUSY. The board keeps everything until its collector acknowledges.
3. A board is sent the time when it appears, every ten minutes, and as soon as this machine's clock is synchronised.
4. A board that is a member of a group without a known collector is sent its collector.
5. A message for a board goes down its line once, if the board is there. Messages in a mailbox stay there until it is.
6. Two ports with one identity are a board and its copy: both are reported, because their readings cannot be told apart.
   If it is silent on one of them, it has moved, and the row of the port that it left goes.
7. An error that a board reports remains until it restarts, even if it has not identified itself (`line`); the log has
   new errors, once a minute.
8. An order is handed to a board again each minute until the board has reported its result.
9. A board that announces sleep is sent nothing until it speaks; messages for it are kept, within the bounds of
   `forwarding`. One that does not wake in time is gone until it speaks.
10. Lines may come and go (`udp_lines`). Lines whose board is no member are not logged, their rows in the store go with
    them, and only one of them may identify itself in a second.
11. What a board calls an alarm goes ahead of other messages, within the bounds of `forwarding`.
12. An error that nobody has foreseen stops only what was done for one board, and is logged once. The message that it
    came with counts as refused; an order or a firmware is tried again a minute later.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from covey.core import crypto
from covey.core.crypto import DeviceKeys
from covey.core.group.device_labels import DeviceLabels
from covey.core.ids import DeviceKey, GroupId, NoisePublic, OperationId, printable, truncate_utf8
from covey.core.node import Node
from covey.core.now import Now
from covey.core.routing.forwarding import board_member, board_memberships
from covey.errors import LocalError, MalformedError, OutboxFullError, StorageError
from covey.limits.actions import CLOCK_SETTLES_US
from covey.limits.board import MAXIMUM_BOARD_NUMBERS, MAXIMUM_SOFTWARE_BYTES, MAXIMUM_TROUBLE_BYTES
from covey.limits.message import MAXIMUM_COUNTER
from covey.ports import UDP_PREFIX, AttachedBoard, ComingLines, Report, SerialDown, SerialLink, SerialMessage, SerialUp
from covey_boards.device import identity
from covey_boards.line import NO_COLLECTOR, Line, UnnamedBoards
from covey_boards.shared import line_orders, messages

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey_boards.updates import BoardUpdates

_TIME_US = 600_000_000
_BUSY_LINE_US = 10_000
"""How often lines on which something happens are looked at: a board waits so long for its acknowledgement."""

_QUIET_AFTER_US = 1_000_000
_LOOK_US = 250_000
_FULL_US = 1_000_000
"""How soon a message that there was no room for is tried again."""

_ENROL_US = 10_000_000
"""How soon a board that does not answer an ENROL is told again."""

_ORDER_US = 60_000_000
"""How soon a board that says nothing of an order is told it again."""

_DEFECT_US = 60_000_000
"""How soon something is done again for a board after it failed in a way that nobody has foreseen."""

_NOTE_US = 60_000_000
"""How old the line's counters in the store may be; each note is a write to the disk."""

_NOTE_REPORT_US = 5_000_000
"""...and the board's own."""

_TROUBLE_US = 60_000_000
"""How often the log has what a board says that went wrong."""

_OVERSLEPT_US = 120_000_000
"""How much later than it said a board may wake: clocks in deep sleep are some per cent off."""

_STRANGER_US = 1_000_000
"""How soon after each other boards of no group may identify themselves on lines that come and go."""

_MOVED_US = 60_000_000
"""For how long a board of a line that comes and goes counts as present after what it said last."""

_LINE_EVENTS = 32
"""Events of one line in a turn: no line holds up the others."""

_NUMBER_NAME = re.compile(r"[a-z0-9_]{1,32}")

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class BoardOrder:
    """An order for a board: its bytes, then those of its approvals; and the recipients of its result."""

    id: OperationId
    raws: tuple[bytes, ...]
    hearers: Collection[DeviceKey]
    has_deadline: bool
    """Whether the board has to know what time it is."""
    setting: str = ""
    """The key, if the order is a setting."""


class BoardOperators(Protocol):
    """What operators want of boards. The application knows, which this package may not import."""

    def operators(self, group_id: GroupId) -> tuple[int, list[DeviceKey]]:
        """Return how many operators an order needs, and the few that a board pins; nobody: (1, [])."""

    def next_order(self, board: DeviceKey, software: str, node: Node, now: Now) -> BoardOrder | None:
        """Return what a board is to be told next."""

    def receive(self, board: DeviceKey, body: bytes, signature: bytes, node: Node, now: Now) -> bool:
        """Take what a board has signed of an order; return whether it has been dealt with."""


class Bridge:
    """Implements `runtime.Role`: the lines of one gateway.

    Args:
        links: one for each configured port, not started yet.
        synchronised: says whether the wall clock is disciplined at the moment.
        orders: what operators want of boards; None: nobody is obeyed here.
        firmware: what boards are to run, where an installer brings any.
        coming: lines that come and go, where boards may speak over a network.
        urgent: called in the transaction that queues a board's alarm.
    """

    def __init__(
        self,
        links: Sequence[SerialLink],
        store: SqliteStore,
        synchronised: Callable[[], bool],
        report: Report,
        orders: BoardOperators | None = None,
        firmware: BoardUpdates | None = None,
        coming: ComingLines | None = None,
        urgent: Callable[[Now], None] = lambda _now: None,
    ) -> None:
        self._lines = [Line(link) for link in links]
        self._store = store
        self._synchronised = synchronised
        self._report = report
        self._orders = orders
        self._firmware = firmware
        self._coming = coming
        self._urgent = urgent
        self._stranger_at_us = 0
        self._unnamed = UnnamedBoards(store)
        self._started = False
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Take what boards say, and tell them what is due; return when to be called next."""
        if not self._started:
            self._start(node, now)
        self._admit(node, now)
        for line in self._lines:
            self._listen(line, node, now)
        self._deliver(node, now)
        if now.monotonic_us >= self._look_at_us:
            self._look_at_us = now.monotonic_us + _LOOK_US
            self._restart_boards()
            self._look_for_copies(node, now)
            for line in self._lines:
                self._miss_sleepers(line, now)
                self._send_due(line, node, now)
                news = line.noted is not None and line.wrong != line.noted.trouble
                if (line.up or news) and now.monotonic_us >= line.note_at_us:
                    self._note(line, now)
                self._unnamed.look(line, now)
        lively = any(now.monotonic_us < line.received_us + _QUIET_AFTER_US for line in self._lines)
        return now.monotonic_us + (_BUSY_LINE_US if lively else _LOOK_US)

    def stop(self, node: Node, now: Now) -> None:  # noqa: ARG002 - a role's
        """Close the ports; what boards were not told is theirs still."""
        for line in self._lines:
            line.link.stop()
            self._note_down(line, now)
        if self._coming is not None:
            self._coming.stop()

    def _start(self, node: Node, now: Now) -> None:
        """Open the ports; what was known of them in an earlier life holds until a board says otherwise."""
        self._started = True
        if self._coming is not None:
            self._coming.start()
        known = {board.port: board for board in self._store.boards.all()}
        for line in self._lines:
            line.link.start()
            self._remember(line, known.pop(line.link.port, None), now)
        self._unnamed.start(self._lines)
        for board in known.values():  # of lines that come and go
            if board.up and board.port.startswith(UDP_PREFIX):
                with self._store.transaction():
                    self._store.boards.note(replace(board, up=False, changed_at_us=now.wall_us))
            if board.port.startswith(UDP_PREFIX):
                self._forget_stranger(board, node)

    def _remember(self, line: Line, board: AttachedBoard | None, now: Now) -> None:
        line.board = line.noted = board
        if board is not None:
            line.trouble = board.trouble
            line.numbers = {name: n for name, n in board.statistics.items() if not name.startswith("line_")}
            self._note_down(line, now)

    # -- lines that come and go ---------------------------------------------------------------------------------------

    def _admit(self, node: Node, now: Now) -> None:
        """Rule 10."""
        if self._coming is None:
            return
        for link in self._coming.new_lines():
            self._lines.append(line := Line(link))
            line.is_strange = True
            known = {board.port: board for board in self._store.boards.all()}
            self._remember(line, known.get(link.port), now)
        for line in [each for each in self._lines if self._coming.has_ended(each.link)]:
            self._lines.remove(line)
            self._note_down(line, now)
            if line.board is not None:
                self._forget_stranger(line.board, node)

    def _forget_stranger(self, board: AttachedBoard, node: Node) -> None:
        if board_member(node.groups, board.keys.signing_public) is None:
            with self._store.transaction():
                self._store.boards.forget(board.port)

    def _is_kept_waiting(self, line: Line, key: DeviceKey, node: Node, now: Now) -> bool:
        """Say whether who identifies itself has to wait, as another stranger has just done so; members do not."""
        if self._coming is None or not _is_coming(line):
            return False
        if board_member(node.groups, key) is not None:
            line.is_strange = False
            others = [each.link for each in self._lines if each.board and each.board.keys.signing_public == key]
            self._coming.trust(line.link, [each for each in others if each is not line.link])
            return False
        line.is_strange = True
        waits = now.monotonic_us < self._stranger_at_us
        if not waits:
            self._stranger_at_us = now.monotonic_us + _STRANGER_US
        return waits

    def _apart(self, line: Line, node: Node, step: Callable[[], Done], otherwise: Done) -> Done:
        """Rule 12. The disk concerns all boards."""
        try:
            return step()
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other boards go on
            node.discard()
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
            self._warn_once(line, node, f"brings out a defect of Covey ({type(error).__name__}, {where})")
            return otherwise

    # -- what boards say ----------------------------------------------------------------------------------------------

    def _listen(self, line: Line, node: Node, now: Now) -> None:
        """Take events; one that there is no room for stays in front of all others (rule 2)."""
        for _ in range(_LINE_EVENTS):
            event = line.held or line.link.next_event()
            if event is None or (line.held is not None and now.monotonic_us < line.held_until_us):
                return
            line.received_us = now.monotonic_us
            if isinstance(event, SerialMessage):
                line.held, line.held_until_us = event, now.monotonic_us + _FULL_US
                received = partial(self._receive, line, event.content, node, now)
                if not self._apart(line, node, received, otherwise=True):
                    return
                line.held = None
                line.link.acknowledge(event)
            elif isinstance(event, SerialUp):
                line.sleeps_until_us, line.is_missed = None, False
                if event.restarted:  # what holds still is said again at once
                    line.trouble, line.note_at_us = "", now.monotonic_us + _NOTE_REPORT_US
            elif isinstance(event, SerialDown):
                line.is_missed = False
                if not line.is_strange:
                    self._report("warning", f"{line.link.port}: {printable(event.reason)}")
                self._note_down(line, now)

    def _receive(self, line: Line, content: bytes, node: Node, now: Now) -> bool:
        """Take a message; return False where there is no room for it.

        Raises:
            StorageError: the disk refused; the message is still held.
        """
        try:
            kind, *fields = line_orders.from_line(content)
        except messages.WireError:
            self._warn_once(line, node, "sent an unknown message; its firmware may be newer than this Covey")
            return True
        line.sleeps_until_us = None
        if line.is_missed and line.board is not None:
            self._take_back(line, line.board, now)
        if kind == messages.IDENTIFY:
            if self._is_kept_waiting(line, fields[0], node, now):
                return False
            self._identify(line, *fields, node=node, now=now)
        elif kind == messages.TROUBLE:
            self._take_trouble(line, fields[0], now)
        elif line.board is None:
            self._warn_once(line, node, "sent a message before it identified itself")
        elif kind == line_orders.SLEEP:
            self._take_sleep(line, fields[0], now)
        elif kind in (messages.CARRY, line_orders.ALARM):
            return self._carry(line, line.board, *fields, is_alarm=kind == line_orders.ALARM, node=node, now=now)
        elif kind == line_orders.RESULT and self._orders is not None:
            line.order_at_us = self._look_at_us = 0
            body, signature = fields
            return self._orders.receive(line.board.keys.signing_public, body, signature, node, now)
        elif kind == line_orders.PROGRESS and self._firmware is not None:
            digest, state, offset, why = fields
            self._firmware.receive(line.board.keys.signing_public, digest, state, offset, why, node, now)
            self._bring_firmware(line, node, now)
        elif kind == messages.REPORT:
            line.numbers = read_report(fields[0])
            line.note_at_us = min(line.note_at_us, line.noted_us + _NOTE_REPORT_US)
        return True

    def _identify(
        self, line: Line, signing_public: DeviceKey, noise_public: NoisePublic, proof: bytes, collector: DeviceKey,
        software: str, *, node: Node, now: Now,
    ) -> None:  # fmt: skip
        """Learn who is there (rule 1)."""
        proven = identity.noise_key_is_proven(signing_public, noise_public, proof)
        try:
            crypto.check_noise_key(noise_public)
        except MalformedError:
            proven = False
        if not proven or len(software.encode()) > MAXIMUM_SOFTWARE_BYTES:
            self._warn_once(line, node, "did not prove its identity")
            return
        board = AttachedBoard(
            line.link.port,
            DeviceKeys(signing_public, noise_public),
            software,
            collector != NO_COLLECTOR,
            True,
            now.wall_us,
            {},
        )
        if line.board is None or line.board.keys != board.keys:
            line.numbers, line.warned = {}, set()
        if not line.up and not line.is_strange:
            self._report("notice", f"board {_named(board, node)} on {line.link.port}: {printable(software)}")
            line.up_at_us = now.monotonic_us
        line.collector = collector
        line.time_at_us = line.enrol_at_us = line.order_at_us = line.handed_until_us = self._look_at_us = 0
        line.board = board
        if self._firmware is not None:
            self._firmware.begin(signing_public)
        self._note(line, now)

    def _take_trouble(self, line: Line, text: str, now: Now) -> None:
        """Rule 7. A board that cannot go on says it without saying who it is."""
        trouble = truncate_utf8(text, MAXIMUM_TROUBLE_BYTES)
        if trouble and trouble != line.trouble and not line.is_strange and now.monotonic_us >= line.trouble_at_us:
            line.trouble_at_us = now.monotonic_us + _TROUBLE_US
            self._report("warning", f"the board on {line.link.port} reports: {printable(trouble)}")
        line.trouble = trouble
        line.note_at_us = min(line.note_at_us, line.noted_us + _NOTE_REPORT_US)

    def _take_sleep(self, line: Line, milliseconds: int, now: Now) -> None:
        """Rule 9. A board that has just woken gets the time first."""
        if milliseconds:
            line.sleeps_until_us = now.monotonic_us + 1_000 * milliseconds
        else:
            line.time_at_us = line.order_at_us = line.handed_until_us = self._look_at_us = 0

    def _miss_sleepers(self, line: Line, now: Now) -> None:
        """Rule 9: report who has not woken."""
        if line.sleeps_until_us is not None and now.monotonic_us > line.sleeps_until_us + _OVERSLEPT_US:
            line.sleeps_until_us, line.is_missed = None, True
            if not line.is_strange:
                self._report("warning", f"{line.link.port}: the board did not wake from its sleep")
            self._note_down(line, now)

    def _take_back(self, line: Line, board: AttachedBoard, now: Now) -> None:
        """Rule 9: a board that wakes late is in the same session, and does not identify itself again."""
        line.is_missed = False
        line.board = replace(board, up=True)
        line.time_at_us = line.enrol_at_us = line.order_at_us = line.handed_until_us = self._look_at_us = 0
        if not line.is_strange:
            self._report("notice", f"{line.link.port}: the board woke late")
        self._note(line, now)

    def _carry(
        self, line: Line, board: AttachedBoard, recipient: DeviceKey, envelope: bytes, *, is_alarm: bool, node: Node,
        now: Now,
    ) -> bool:  # fmt: skip
        try:
            with self._store.transaction():
                if node.forward(board.keys.signing_public, recipient, envelope, now, is_alarm=is_alarm):
                    self._urgent(now)
        except OutboxFullError as error:
            node.discard()
            self._warn_once(line, node, f"must wait: {error}")
            return False
        except LocalError as error:
            node.discard()
            self._warn_once(
                line, node, f"has a message that is not forwarded: {error}" + (f" ({error.hint})" if error.hint else "")
            )
        return True

    def _warn_once(self, line: Line, node: Node, what: str) -> None:
        """Report what goes on for long, once for each board."""
        if what not in line.warned and not line.is_strange:
            line.warned.add(what)
            name = "something" if line.board is None else _named(line.board, node)
            self._report("warning", f"board {name} on {line.link.port} {what}")

    # -- what boards are told -----------------------------------------------------------------------------------------

    def _deliver(self, node: Node, now: Now) -> None:
        """Rule 5."""
        up = [line for line in self._lines if line.board and line.up]
        boards = frozenset(line.board.keys.signing_public for line in up if line.board and not line.sleeps_until_us)
        asleep = frozenset(line.board.keys.signing_public for line in up if line.board) - boards
        is_news, node.routes.on_line = not boards <= node.routes.on_line, boards
        if is_news and (mailboxes := node.mailboxes.exchange) is not None:
            mailboxes.look_once_more(now)
        node.hand_to_boards(now)
        for forward in node.routes.take(asleep):
            for line in self._lines:
                if line.board is not None and line.board.keys.signing_public == forward.to:
                    line.link.send(messages.to_line(messages.DELIVER, forward.envelope))

    def _send_due(self, line: Line, node: Node, now: Now) -> None:
        """Rules 3 and 4."""
        if line.board is None or not line.board.up or line.sleeps_until_us is not None:
            return
        synchronised = self._synchronised()
        due = now.monotonic_us >= line.time_at_us or (synchronised and not line.synchronised)
        if due and line.link.send(messages.to_line(messages.TIME, now.wall_us, synchronised)):
            line.time_at_us = now.monotonic_us + _TIME_US
            line.synchronised = synchronised
        retry_us = now.monotonic_us + _DEFECT_US
        if line.collector == NO_COLLECTOR and now.monotonic_us >= line.enrol_at_us:
            enrolled = partial(self._enrol, line, line.board, node, now)
            line.enrol_at_us = self._apart(line, node, enrolled, retry_us)
        elif self._orders is not None and now.monotonic_us >= line.order_at_us:
            handed = partial(self._hand_order, line, line.board, node, now)
            line.order_at_us = self._apart(line, node, handed, retry_us)
        if now.monotonic_us >= line.firmware_at_us:
            line.firmware_at_us = self._apart(line, node, partial(self._bring_firmware, line, node, now), retry_us)

    def _bring_firmware(self, line: Line, node: Node, now: Now) -> int:
        """Tell a board of a group that has a collector what is next of the firmware that it is to run.

        Return when to look again.
        """
        if self._firmware is None or line.board is None or not line.up or line.collector == NO_COLLECTOR:
            return 0
        key = line.board.keys.signing_public
        message = self._firmware.next_message(key, now) if board_member(node.groups, key) is not None else None
        if message is not None:
            line.link.send(message)
        return 0

    def _hand_order(self, line: Line, board: AttachedBoard, node: Node, now: Now) -> int:
        """Rule 8. One that has a deadline waits until the board knows what time it is, or nobody will tell it.

        Return when to look again.
        """
        assert self._orders is not None
        order = self._orders.next_order(board.keys.signing_public, board.software, node, now)
        if order is None:
            return 0
        if order.has_deadline and not line.synchronised and now.monotonic_us < line.up_at_us + CLOCK_SETTLES_US:
            return 0
        if order.id == line.handed and now.monotonic_us < line.handed_until_us:  # what the board said was no answer
            return line.handed_until_us
        if not line.link.send(messages.to_line(line_orders.ORDER, list(order.raws))):
            return 0
        line.handed, line.handed_until_us = order.id, now.monotonic_us + _ORDER_US
        return line.handed_until_us

    def _enrol(self, line: Line, board: AttachedBoard, node: Node, now: Now) -> int:
        """Rule 4. Return when to look again."""
        key = board.keys.signing_public
        groups = [group.group_id for group, _ in board_memberships(node.groups, key)]
        if not groups:
            self._warn_once(line, node, f"is in no group: covey mcu enrol {line.link.port}")
            return 0
        collected = ((each, node.groups.collector_of(each, key)) for each in groups)
        group_id, collector = next((each for each in collected if each[1] is not None), (groups[0], None))
        if collector is None:
            self._warn_once(line, node, "has no collector in its group: covey invite --capability collector")
            return 0
        keys = collector.keys
        threshold, operators = (1, []) if self._orders is None else self._orders.operators(group_id)
        if operators:
            line.link.send(messages.to_line(line_orders.OPERATORS, threshold, operators))
        line.link.send(messages.to_line(messages.ENROL, group_id, keys.signing_public, keys.noise_public))
        return now.monotonic_us + _ENROL_US

    def _look_for_copies(self, node: Node, now: Now) -> None:
        """Rule 6. A board with another address now was at the previous one until a moment ago, and is no copy."""
        since_us = now.monotonic_us - _MOVED_US
        present = [each for each in self._lines if each.up and (not _is_coming(each) or each.received_us > since_us)]
        for line in self._lines:
            others = [each for each in present if each is not line and line in present]
            twins = [
                each.link.port for each in others if each.board and line.board and each.board.keys == line.board.keys
            ]
            copy = f"it has the identity of the board on {twins[0]}: remove identity.key from the copy" if twins else ""
            if copy and copy != line.copy:
                self._warn_once(line, node, f"is a copy or was copied: {copy}")
            if copy != line.copy:
                line.copy, line.note_at_us = copy, 0

    def _restart_boards(self) -> None:
        """Pass on what `covey mcu reset` asks for; a board that is away keeps no wish, and one that sleeps does."""
        asleep = {line.link.port for line in self._lines if line.sleeps_until_us is not None}
        wanted = [port for port in self._store.boards.restarts_wanted() if port not in asleep]
        if not wanted:
            return
        with self._store.transaction():
            for port in wanted:
                self._store.boards.restart_done(port)
        for line in self._lines:
            if line.link.port in wanted:
                line.link.send(messages.to_line(messages.RESTART))

    def _note_down(self, line: Line, now: Now) -> None:
        if line.board is not None and line.board.up:
            line.board = replace(line.board, up=False)
            self._note(line, now)

    def _note(self, line: Line, now: Now) -> None:
        """Keep what is known of a line's board in the store, if it is news."""
        assert line.board is not None
        line.note_at_us, line.noted_us = now.monotonic_us + _NOTE_US, now.monotonic_us
        board = replace(line.board, statistics=line.statistics(), trouble=line.wrong)
        if line.noted is not None and replace(line.noted, changed_at_us=board.changed_at_us) == board:
            return
        board = replace(board, changed_at_us=now.wall_us)
        with self._store.transaction():
            self._store.boards.note(board)
            left = self._left_by(line) if board.up else []
            for each in left:
                self._store.boards.forget(each)
        line.noted = board
        for other in self._lines:
            if other.link.port in left:
                other.board = other.noted = None

    def _left_by(self, line: Line) -> list[str]:
        """Return the ports that a line's board has left: where it was last seen before, and is not now."""
        assert line.board is not None
        known = [each for each in self._store.boards.all() if each.keys == line.board.keys]
        return [each.port for each in known if each.port != line.link.port and not each.up]


def _named(board: AttachedBoard, node: Node) -> str:
    return DeviceLabels(node.groups.joined()).named(board.keys.signing_public)


def _is_coming(line: Line) -> bool:
    return line.link.port.startswith(UDP_PREFIX)


def read_report(entries: list[object]) -> dict[str, int]:
    """Return the numbers of a REPORT that are as they should be; a peer's names are words of ours or nothing."""
    numbers: dict[str, int] = {}
    for entry in entries[:MAXIMUM_BOARD_NUMBERS]:
        if isinstance(entry, list) and len(entry) == 2:
            name, number = entry
            right = isinstance(name, str) and _NUMBER_NAME.fullmatch(name) and not name.startswith("line_")
            if right and type(number) is int and 0 <= number <= MAXIMUM_COUNTER:
                numbers[name] = number
    return numbers
